// The line search of a Newton step, which needs only the margins and not the rows.
//
//     P(x + t d) = (1/n) sum_i w_i l(z_i + t dz_i) + psi(x + t d).
#pragma once
#include "passes.hpp"
#include "penalty_ops.hpp"
#include "samples.hpp"

namespace reshuffle {

namespace search {
inline constexpr double rounding = 16.0 * epsilon;  // The error of one evaluation, as a share of P, with room for sums over many rows.
inline constexpr double armijo = 0.1;     // A step must achieve this share of the promised decrease.
inline constexpr double straight = 0.9;   // If a step achieves this share of the promise, P is nearly straight along the line, and longer steps are tried.
inline constexpr int trials = 60;         // The most halvings of a step.
}  // namespace search

// (1/n) sum_i w_i l(z_i + t dz_i): no row is read.
inline double value_along(const Samples &s, const double *z, const double *dz, double t) {
    const Index width = s.margins();
    std::vector<double> to(std::size_t(std::min(together, s.n) * width));
    double total = 0.0;
    in_blocks({0, s.n}, [&](Range r) {
        const double *from = z + r.begin * width, *by = dz + r.begin * width;
        for (Index k = 0; k < r.size() * width; k++) to[std::size_t(k)] = from[k] + t * by[k];
        total += sum_of_values(s, r, to.data());
    });
    return total / double(s.n);
}

// The length t of the step along d from x (0 if none lowers P as promised); writes x + t d to `to`.
//
// `slope` is <grad f(x), d>, `value` f(x), `psi` psi(x), and value_at(t) is f(x + t d).
template <class Form, class Along>
double search_along(const Form &form, Index size, const double *x, const double *d, double slope, double value, double psi,
                    double *to, Along &&value_at) {
    double rise = 0.0;
    // f(x + td), and psi(x + td) - psi(x) in `rise`; t <= 1 stays within bounds, up to rounding
    auto evaluate = [&](double t) {
        for (Index j = 0; j < size; j++) to[j] = x[j] + t * d[j];
        rise = 0.0;
        if (t <= 1.0)
            clip(form, to);
        else if (!contains(form, to))
            return infinity;
        rise = penalty_change(form, x, to);
        return value_at(t);
    };
    const double objective = value + psi;
    double here = evaluate(1.0);
    here += psi + rise;
    const double promised = slope + rise;
    if (!(promised < 0.0 && promised > -infinity)) return 0.0;
    double t = 1.0, best = 0.0, reached = objective;
    for (int trial = 0; trial < search::trials; trial++) {
        if (trial > 0) here = evaluate(t), here += psi + rise;
        if (best > 0.0 && !(here < reached)) break;
        if (here <= objective + search::armijo * t * promised) {
            best = t, reached = here;
            if (t == 1.0) break;
        } else if (t == 1.0 && -promised <= search::rounding * std::fabs(objective) && here <= objective) {
            return t;
        }
        t *= 0.5;
        if (-t * promised < epsilon * std::fabs(objective)) break;
    }
    // the step met almost no curvature (on a parabola it would achieve half of the promise)
    if (best == 1.0 && objective - reached > search::straight * -promised)
        for (int trial = 0; trial < search::trials; trial++) {
            here = evaluate(2.0 * best), here += psi + rise;
            if (!(here < reached)) break;
            best *= 2.0, reached = here;
        }
    if (best > 0.0) {
        for (Index j = 0; j < size; j++) to[j] = x[j] + best * d[j];
        if (best <= 1.0) clip(form, to);
    }
    return best;
}

}  // namespace reshuffle
