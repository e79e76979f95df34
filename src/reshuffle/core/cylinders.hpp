// The projection onto an intersection of cylinders, by multipliers: the prox of the latent group lasso.
//
//     min_y  |y - x|^2 / 2   with  |y_g| <= bounds_g for every group g
//
// With a multiplier m_g >= 0 for each group and s_j = 1 + (the sum of the multipliers of the groups of j), y = x / s.
// The multipliers minimise the convex d(m) = sum_j x_j^2 / (2 s_j) + sum_g m_g bounds_g^2 / 2, and the parts of x - y
// are v_g = m_g y_g. 1/|y_g| is nearly linear in m, so that Newton's method on 1/|y_g| = 1/bounds_g takes few steps
// (Villa, Rosasco, Mosci, Verri, 2014, use a projected Newton method on d). `penalties.cylinder_newton` solves the
// problems on which these steps stall.
#pragma once
#include <tuple>
#include <utility>

#include "latent.hpp"

namespace reshuffle {

// The problem: x, the groups and their bounds.
struct Cylinders {
    Span<const double> x;
    Members groups;
    Span<const double> bounds;

    Index first(Index g) const { return groups.first(g); }
    Index last(Index g) const { return groups.last(g); }
};

namespace cylinders {
inline constexpr int secular = 3;     // Newton steps for one multiplier; the next pass comes back to it.
inline constexpr int products = 100;  // The most products of the conjugate gradients of one step.
inline constexpr double forced = 1e-2;  // The conjugate gradients end at this share of the residual; the passes between steps do the rest.
inline constexpr double flat = 1e-12;  // This share of the diagonal is added to it, since equal groups have one multiplier too many.
}  // namespace cylinders

// Each multiplier in turn to its root of 1/|y_g| = 1/bounds_g, or to zero, with the others as they are.
inline void cylinder_pass(const Cylinders &in, Span<double> multipliers, Span<double> s) {
    for (Index g = 0; g < in.groups.count(); ++g) {
        const double old = multipliers[g];
        double m = old;
        for (int step = 0; step < cylinders::secular; ++step) {
            double square = 0.0, slope = 0.0;
#pragma omp simd reduction(+ : square, slope)
            for (Index k = in.first(g); k < in.last(g); ++k) {
                const Index j = in.groups[k];
                const double scale = s[j] - old + m, y = in.x[j] / scale;
                square += y * y;
                slope += y * y / scale;
            }
            if (!(slope > 0.0)) {
                m = 0.0;
                break;
            }
            m = std::max(m + square * (std::sqrt(square) / in.bounds[g] - 1.0) / slope, 0.0);
        }
        multipliers[g] = m;
        for (Index k = in.first(g); k < in.last(g); ++k) s[in.groups[k]] += m - old;
    }
}

// s, y and the parts of these multipliers, and the point sum_g v_g. Returns d, and the gap of `latent_gap`.
inline std::pair<double, double> cylinder_state(const Cylinders &in, Span<const double> multipliers, Span<double> s,
                                                Span<double> y, Span<double> parts, Span<double> point) {
    std::fill(s.begin(), s.end(), 1.0);
    double d = 0.0, squares = 0.0;
    for (Index g = 0; g < in.groups.count(); ++g) {
        d += 0.5 * multipliers[g] * in.bounds[g] * in.bounds[g];
        for (Index k = in.first(g); k < in.last(g); ++k) s[in.groups[k]] += multipliers[g];
    }
#pragma omp simd reduction(+ : squares)
    for (Index j = 0; j < in.x.size; ++j) {
        y[j] = in.x[j] / s[j];
        squares += in.x[j] * y[j];
    }
    d += 0.5 * squares;
    for (Index g = 0; g < in.groups.count(); ++g)
        for (Index k = in.first(g); k < in.last(g); ++k) parts[k] = multipliers[g] * y[in.groups[k]];
    return {d, latent_gap(y, parts, in.groups, in.bounds, point)};
}

// Newton's step, by conjugate gradients on the multipliers that are positive or have to become so. The room that it
// needs is made once.
class CylinderStep {
    const Cylinders &in;
    std::vector<double> residual, diagonal, weight, step, z, product, direction, shared;

   public:
    explicit CylinderStep(const Cylinders &in)
        : in(in), residual(in.bounds.size), diagonal(in.bounds.size), weight(in.x.size), step(in.bounds.size),
          z(in.bounds.size), product(in.bounds.size), direction(in.bounds.size), shared(in.x.size) {}

    // trial <- the multipliers after the step.
    void take(Span<const double> multipliers, Span<const double> s, Span<const double> y, Span<double> trial) {
        begin(multipliers, s, y);
        conjugate_gradients();
        for (Index g = 0; g < count(); ++g) trial[g] = std::max(multipliers[g] + step[g], 0.0);
    }

   private:
    Index count() const { return in.bounds.size; }

    // The right-hand side, and the diagonal: 0 for a multiplier that stays where it is.
    void begin(Span<const double> multipliers, Span<const double> s, Span<const double> y) {
        for (Index j = 0; j < y.size; ++j) weight[j] = y[j] * y[j] / s[j];
        for (Index g = 0; g < count(); ++g) {
            const double square = group_square(in.groups, g, y), bound = in.bounds[g];
            double total = 0.0;
#pragma omp simd reduction(+ : total)
            for (Index k = in.first(g); k < in.last(g); ++k) total += weight[in.groups[k]];
            const bool moves = total > 0.0 && (multipliers[g] > 0.0 || std::sqrt(square) > bound);
            residual[g] = moves ? square * (std::sqrt(square) / bound - 1.0) : 0.0;
            diagonal[g] = moves ? total * (1.0 + cylinders::flat) : 0.0;
            z[g] = diagonal[g] > 0.0 ? residual[g] / diagonal[g] : 0.0;
            direction[g] = z[g];
            step[g] = 0.0;
        }
    }

    void conjugate_gradients() {
        double size = dot(residual, z);
        const double enough = cylinders::forced * cylinders::forced * size;
        for (int k = 0; k < cylinders::products && size > enough; ++k) {
            multiply();
            const double length = size / dot(direction, product), old = size;
            size = 0.0;
            for (Index g = 0; g < count(); ++g) {
                if (!(diagonal[g] > 0.0)) continue;
                step[g] += length * direction[g];
                residual[g] -= length * product[g];
                z[g] = residual[g] / diagonal[g];
                size += residual[g] * z[g];
            }
            for (Index g = 0; g < count(); ++g) direction[g] = z[g] + size / old * direction[g];
        }
    }

    // product <- the matrix of the step times the direction; an entry counts the weights that two groups share.
    void multiply() {
        std::fill(shared.begin(), shared.end(), 0.0);
        for (Index g = 0; g < count(); ++g)
            if (diagonal[g] > 0.0)
                for (Index k = in.first(g); k < in.last(g); ++k) shared[in.groups[k]] += direction[g];
        for (Index g = 0; g < count(); ++g) {
            double total = 0.0;
            if (diagonal[g] > 0.0) {
#pragma omp simd reduction(+ : total)
                for (Index k = in.first(g); k < in.last(g); ++k) total += weight[in.groups[k]] * shared[in.groups[k]];
                total += cylinders::flat * diagonal[g] * direction[g];
            }
            product[g] = total;
        }
    }

    double dot(const std::vector<double> &a, const std::vector<double> &b) const {
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (Index g = 0; g < count(); ++g) total += a[g] * b[g];
        return total;
    }
};

// Passes and Newton steps until the gap is at most `gap`. Returns the number of rounds, negative if `most` are not
// enough, and the final gap.
//
// A step is kept if it lowers d or halves the gap. `y` is the projection, `point` the prox, x - y, and `parts` are the
// parts of the prox.
inline std::pair<Index, double> cylinder_solve(const Cylinders &in, double gap, Index most, Span<double> multipliers,
                                               Span<double> parts, Span<double> point, Span<double> y) {
    const Index size = in.x.size;
    std::vector<double> s(size), trial(in.bounds.size), trial_s(size), trial_y(size), trial_parts(parts.size),
        trial_point(size);
    CylinderStep step(in);
    auto [d, left] = cylinder_state(in, multipliers, span(s), y, parts, point);
    for (Index k = 0; k < most; ++k) {
        if (!(left > gap)) return {k, left};  // also where x is not finite
        cylinder_pass(in, multipliers, span(s));
        std::tie(d, left) = cylinder_state(in, multipliers, span(s), y, parts, point);
        if (!(left > gap)) return {k + 1, left};
        step.take(multipliers, span(s), y, span(trial));
        const auto [new_d, now] =
            cylinder_state(in, span(trial), span(trial_s), span(trial_y), span(trial_parts), span(trial_point));
        if (new_d < d || now < 0.5 * left) {
            std::copy(trial.begin(), trial.end(), multipliers.begin());
            std::copy(trial_y.begin(), trial_y.end(), y.begin());
            std::copy(trial_parts.begin(), trial_parts.end(), parts.begin());
            std::copy(trial_point.begin(), trial_point.end(), point.begin());
            s.swap(trial_s);
            left = now;
        }
    }
    return {-most, left};
}

}  // namespace reshuffle
