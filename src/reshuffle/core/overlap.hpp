// The prox of norms of overlapping groups, by passes over the groups:
//
//     min_u  |u - x|^2 / 2 + sum_g bounds_g |u_g|,        u = x - sum_g v_g,    |v_g| <= bounds_g
//
// The dual has one vector v_g on each group. With the others fixed, v_g is the projection of rest_g + v_g onto its
// ball, rest = x - sum_g v_g. Passes over all groups converge to the solution; for groups that are nested or disjoint,
// smallest first, one pass is enough (Jenatton et al., 2011).
#pragma once
#include <array>

#include "members.hpp"

namespace reshuffle {

namespace overlap {

// A vector longer than this share of its ball's radius counts as on the boundary: rounding moves it no further.
inline constexpr double inside = 1.0 - 1e-9;
// The number of passes from which the next point is extrapolated; ten were no better.
inline constexpr Index depth = 5;
// This share of the largest entry is added to the diagonal of the Gram matrix of the last passes, which become parallel.
inline constexpr double ridge = 1e-14;

using Gram = std::array<std::array<double, depth>, depth>;

// One pass, which maintains rest = x - (sum of the parts). Returns the squared change of the parts.
inline double pass(Span<double> rest, Span<double> parts, const Members &groups, Span<const double> bounds) {
    double moved = 0.0;
    for (Index g = 0; g < groups.count(); ++g) {
        double square = 0.0;
#pragma omp simd reduction(+ : square)
        for (Index k = groups.first(g); k < groups.last(g); ++k) {
            const double whole = rest[groups[k]] + parts[k];
            square += whole * whole;
        }
        const double norm = std::sqrt(square), share = norm <= bounds[g] ? 1.0 : bounds[g] / norm;
        for (Index k = groups.first(g); k < groups.last(g); ++k) {
            const Index j = groups[k];
            const double next = share * (rest[j] + parts[k]), change = parts[k] - next;
            moved += change * change;
            rest[j] += change;
            parts[k] = next;
        }
    }
    return moved;
}

}  // namespace overlap

// rest <- x - (sum of the parts), recomputed to remove the rounding errors of passes.
inline void renew_rest(Span<const double> x, Span<const double> parts, Span<const Index> members, Span<double> rest) {
    std::copy(x.begin(), x.end(), rest.begin());
    for (Index k = 0; k < members.size; ++k) rest[members[k]] -= parts[k];
}

namespace overlap {

// The objective of the passes, |x - sum of the parts|^2 / 2, after the parts are scaled into their balls. Recomputes `rest`.
inline double objective(Span<const double> x, Span<double> parts, const Members &groups, Span<const double> bounds,
                        Span<double> rest) {
    for (Index g = 0; g < groups.count(); ++g) {
        const double norm = std::sqrt(part_square(groups, g, parts));
        if (norm > bounds[g])
            for (Index k = groups.first(g); k < groups.last(g); ++k) parts[k] *= bounds[g] / norm;
    }
    renew_rest(x, parts, groups.members, rest);
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (Index j = 0; j < x.size; ++j) total += rest[j] * rest[j];
    return 0.5 * total;
}

// c with gram c = 1, by elimination: the matrix is positive definite and small.
inline std::array<double, depth> solve_for_ones(Gram &gram) {
    std::array<double, depth> c;
    c.fill(1.0);
    for (Index i = 0; i < depth; ++i)
        for (Index j = i + 1; j < depth; ++j) {
            const double factor = gram[j][i] / gram[i][i];
            for (Index k = i; k < depth; ++k) gram[j][k] -= factor * gram[i][k];
            c[j] -= factor * c[i];
        }
    for (Index i = depth - 1; i >= 0; --i) {
        for (Index k = i + 1; k < depth; ++k) c[i] -= gram[i][k] * c[k];
        c[i] /= gram[i][i];
    }
    return c;
}

// trial <- sum_i c_i kept_{i+1} with sum_i c_i = 1 and the least |sum_i c_i (kept_{i+1} - kept_i)|. Returns whether
// there is such a combination.
inline bool extrapolate(Matrix<const double> kept, Span<double> trial) {
    Gram gram;
    double largest = 0.0;
    for (Index i = 0; i < depth; ++i) {
        for (Index j = 0; j <= i; ++j) {
            double total = 0.0;
#pragma omp simd reduction(+ : total)
            for (Index k = 0; k < trial.size; ++k)
                total += (kept[i + 1][k] - kept[i][k]) * (kept[j + 1][k] - kept[j][k]);
            gram[i][j] = gram[j][i] = total;
        }
        largest = std::max(largest, gram[i][i]);
    }
    if (!(largest > 0.0)) return false;
    for (Index i = 0; i < depth; ++i) gram[i][i] += ridge * largest;
    const std::array<double, depth> c = solve_for_ones(gram);
    double total = 0.0;
    for (double share : c) total += share;
    if (!(std::abs(total) > 0.0)) return false;
    std::fill(trial.begin(), trial.end(), 0.0);
    for (Index i = 0; i < depth; ++i) {
        const double share = c[i] / total;
        for (Index k = 0; k < trial.size; ++k) trial[k] += share * kept[i + 1][k];
    }
    return true;
}

}  // namespace overlap

// A bound on Phi(u) - min Phi, Phi(u) = |u - x|^2 / 2 + sum_g bounds_g |u_g|: the smaller of two.
//
// At u = rest it is the duality gap sum_g bounds_g |u_g| - <v_g, u_g>, which rounding keeps above some 1e-16. `clean`
// is u with zeros in every group whose v_g lies inside its ball, as at the solution. There r = u - x + sum_g w_g is a
// subgradient of Phi, with w_g = bounds_g u_g / |u_g|, and v_g where u_g = 0, so that Phi(u) - min Phi <= |r|^2 / 2.
// Where this bound is the smaller, it belongs to `clean`; otherwise `clean` becomes u = rest.
inline double overlap_gap(Span<const double> x, Span<const double> rest, Span<const double> parts,
                          const Members &groups, Span<const double> bounds, Span<double> clean) {
    double gap = 0.0;
    std::copy(rest.begin(), rest.end(), clean.begin());
    for (Index g = 0; g < groups.count(); ++g) {
        double square = 0.0, inner = 0.0, size = 0.0;
#pragma omp simd reduction(+ : square, inner, size)
        for (Index k = groups.first(g); k < groups.last(g); ++k) {
            const double u = rest[groups[k]];
            square += u * u;
            inner += parts[k] * u;
            size += parts[k] * parts[k];
        }
        gap += std::max(bounds[g] * std::sqrt(square) - inner, 0.0);
        if (std::sqrt(size) < overlap::inside * bounds[g])
            for (Index k = groups.first(g); k < groups.last(g); ++k) clean[groups[k]] = 0.0;
    }
    std::vector<double> residual(x.size);
    for (Index j = 0; j < x.size; ++j) residual[j] = clean[j] - x[j];
    for (Index g = 0; g < groups.count(); ++g) {
        const double square = group_square(groups, g, clean), share = bounds[g] / std::sqrt(square);
        for (Index k = groups.first(g); k < groups.last(g); ++k)
            residual[groups[k]] += square > 0.0 ? share * clean[groups[k]] : parts[k];
    }
    double left = 0.0;
#pragma omp simd reduction(+ : left)
    for (Index j = 0; j < x.size; ++j) left += residual[j] * residual[j];
    left *= 0.5;
    if (left < gap) return left;
    std::copy(rest.begin(), rest.end(), clean.begin());
    return gap;
}

// Passes until one moves the parts by no more than `tolerance`, or until `overlap_gap` is at most `gap`.
//
// Returns the number of passes, negative if `most` are not enough. After every `depth` passes, Anderson's extrapolation is
// accepted if it lowers the objective. The gap is computed after each of the first two passes, since a warm start may need no
// more, and then whenever an extrapolation begins.
inline Index overlap_solve(Span<const double> x, const Members &groups, Span<const double> bounds, double tolerance,
                           double gap, Index most, Span<double> rest, Span<double> parts) {
    using overlap::depth;
    overlap::objective(x, parts, groups, bounds, rest);  // a start may lie outside the balls
    std::vector<double> room((depth + 1) * parts.size), trial(parts.size), trial_rest(x.size);
    const Matrix<double> kept{room.data(), depth + 1, parts.size};
    std::copy(parts.begin(), parts.end(), kept[0]);
    for (Index k = 0; k < most; ++k) {
        const double moved = overlap::pass(rest, parts, groups, bounds);
        const bool last = k % depth == depth - 1;  // of those from which the next point is extrapolated
        bool done = !(moved > tolerance * tolerance);
        if (gap > 0.0 && !done && (k < 2 || last))
            done = overlap_gap(x, rest, parts, groups, bounds, span(trial_rest)) <= gap;
        if (done) {
            renew_rest(x, parts, groups.members, rest);
            return k + 1;
        }
        std::copy(parts.begin(), parts.end(), kept[k % depth + 1]);
        if (!last) continue;
        if (overlap::extrapolate(kept, span(trial))) {
            const double now = overlap::objective(x, span(trial), groups, bounds, span(trial_rest));
            if (now < overlap::objective(x, parts, groups, bounds, rest)) {
                std::copy(trial.begin(), trial.end(), parts.begin());
                std::copy(trial_rest.begin(), trial_rest.end(), rest.begin());
            }
        }
        std::copy(parts.begin(), parts.end(), kept[0]);
    }
    return -most;
}

}  // namespace reshuffle
