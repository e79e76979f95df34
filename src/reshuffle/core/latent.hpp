// Latent group norms Omega(u) = min { sum_g bounds_g |v_g| : sum_g v_g = u }: a point of the dual ball near a given
// one, and how far a prox is from its minimum.
#pragma once
#include "members.hpp"

namespace reshuffle {

namespace latent {
// A sphere counts as met if it is met up to this share of the bound and of |v_g|, about a hundred roundings of one operation:
// the answer is exact for an x that differs by no more.
inline constexpr double rounded = 1e-14;
}  // namespace latent

// inside <- y, shrunk so that |inside_g| <= bounds_g for every g: each coordinate by the tightest of its groups.
inline void into_balls(Span<const double> y, const Members &groups, Span<const double> bounds, Span<double> inside) {
    std::fill(inside.begin(), inside.end(), 1.0);
    for (Index g = 0; g < groups.count(); ++g) {
        const double norm = std::sqrt(group_square(groups, g, y));
        if (norm > bounds[g])
            for (Index k = groups.first(g); k < groups.last(g); ++k)
                inside[groups[k]] = std::min(inside[groups[k]], bounds[g] / norm);
    }
    for (Index j = 0; j < y.size; ++j) inside[j] *= y[j];
}

// sum_g bounds_g |v_g| - <y, v_g> for a y in the balls. It is not negative, and 0 where each v_g is a multiple of a
// y_g on its sphere.
//
// With z = bounds_g v_g / |v_g|, a summand is |v_g| (|y_g - z|^2 + bounds_g^2 - |y_g|^2) / (2 bounds_g), which rounding
// keeps much smaller than the difference.
inline double apart_from_support(Span<const double> y, Span<const double> parts, const Members &groups,
                                 Span<const double> bounds) {
    double total = 0.0;
    for (Index g = 0; g < groups.count(); ++g) {
        const double bound = bounds[g], size = part_square(groups, g, parts);
        if (!(size > 0.0) || !(bound > 0.0)) continue;  // where the bound is 0, so is y_g
        const double norm = std::sqrt(size), length = std::sqrt(group_square(groups, g, y));
        double away = 0.0;
#pragma omp simd reduction(+ : away)
        for (Index k = groups.first(g); k < groups.last(g); ++k) {
            const double difference = y[groups[k]] - bound * parts[k] / norm;
            away += difference * difference;
        }
        const double slack = std::max(bound - length - latent::rounded * (bound + norm), 0.0);
        total += norm * (away + slack * (bound + length)) / (2.0 * bound);
    }
    return total;
}

// A bound on Phi(u) - min Phi, Phi(u) = |u - x|^2 / 2 + Omega(u), at u = sum_g v_g, which is written to `point`.
//
// Omega(u) <= sum_g bounds_g |v_g|. Let y be `rest` brought into the balls. Omega(w) >= <y, w> for every w, so that y is
// an epsilon-subgradient of Omega at u, with the epsilon of `apart_from_support`, and r = y - rest is one of Phi.
// Therefore Phi(u) - min Phi <= epsilon + |r|^2 / 2.
inline double latent_gap(Span<const double> rest, Span<const double> parts, const Members &groups,
                         Span<const double> bounds, Span<double> point) {
    into_balls(rest, groups, bounds, point);
    double gap = apart_from_support(point, parts, groups, bounds), squares = 0.0;
#pragma omp simd reduction(+ : squares)
    for (Index j = 0; j < rest.size; ++j) squares += (point[j] - rest[j]) * (point[j] - rest[j]);
    gap += 0.5 * squares;
    std::fill(point.begin(), point.end(), 0.0);
    for (Index k = 0; k < parts.size; ++k) point[groups[k]] += parts[k];
    return gap;
}

}  // namespace reshuffle
