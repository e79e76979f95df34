// Compiled penalties: numbers per coordinate, or per coordinate and group.
//
//     Coordinates   sum_j l1_j |x_j| + (l2_j / 2) x_j^2 + indicator(low_j <= x_j <= high_j)
//     Groups        sum_j l1_j |x_j| + (l2 / 2) ||x||^2 + sum_g strengths_g ||x_g||_2 over disjoint groups
//
// The coordinates are those of x without its intercept, flat (row after row where x is a matrix). Coordinates from
// `size()` on are not penalised. Group g has the coordinates members[starts[g]] ... members[starts[g + 1] - 1].
#pragma once
#include <variant>

#include "arrays.hpp"

namespace reshuffle {

struct Coordinates {
    Span<const double> l1, l2, low, high;
    Index size() const { return l1.size; }
};

struct Groups {
    Span<const double> l1;
    double l2 = 0.0;
    Span<const double> strengths;
    Span<const Visit> members;
    Span<const Index> starts;
    Index size() const { return l1.size; }
    Index count() const { return strengths.size; }
    Span<const Visit> group(Index g) const { return members.part(starts[g], starts[g + 1]); }
};

// prox:  x <- argmin_u  psi(u) + ||u - x||^2 / (2 step), in place on the penalised coordinates.

// argmin_u  l1 |u| + (l2 / 2) u^2 + indicator[low, high](u) + (u - value)^2 / (2 step); NaN stays NaN.
inline double separable_prox(double value, double step, double l1, double l2, double low, double high) {
    const double shrunk = std::fabs(value) - step * l1;
    double u = (shrunk <= 0.0 ? 0.0 : shrunk) / (1.0 + step * l2);
    u = value > 0.0 ? u : -u;
    return u < low ? low : u > high ? high : u;
}

inline void prox(const Coordinates &form, double *x, double step) {
    const double *l1 = form.l1.data, *l2 = form.l2.data, *low = form.low.data, *high = form.high.data;
    const Index size = form.size();
#pragma omp simd
    for (Index j = 0; j < size; j++) x[j] = separable_prox(x[j], step, l1[j], l2[j], low[j], high[j]);
}

inline void prox(const Groups &form, double *x, double step) {
    const double shrink = 1.0 / (1.0 + step * form.l2);
    for (Index j = 0; j < form.size(); j++) {
        const double left = std::fabs(x[j]) - step * form.l1[j], u = (left <= 0.0 ? 0.0 : left) * shrink;
        x[j] = x[j] > 0.0 ? u : -u;
    }
    for (Index g = 0; g < form.count(); g++) {
        const Span<const Visit> members = form.group(g);
        const double threshold = step * form.strengths[g] * shrink;
        double square = 0.0;
        for (Visit j : members) square += x[j] * x[j];
        const double norm = std::sqrt(square);
        const double factor = norm <= threshold ? 0.0 : 1.0 - threshold / norm;  // NaN stays NaN
        for (Visit j : members) x[j] *= factor;
    }
}

using Form = std::variant<Coordinates, Groups>;

inline void prox(const Form &form, double *x, double step) {
    std::visit([&](const auto &psi) { prox(psi, x, step); }, form);
}

inline Index size_of(const Form &form) {
    return std::visit([](const auto &psi) { return psi.size(); }, form);
}

}  // namespace reshuffle
