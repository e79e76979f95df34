// Minimises the quadratic model of a Newton step by sweeps over the columns of a sparse matrix; the Hessian is never written out.
//
//     m(u) = g^T (u - x) + sum_i h_i z_i^2 / 2 + psi(u),        z = A (u - x) + (the change of the intercept).
//
// h_i >= 0 is the curvature of row i, its weight over n included. z is kept up to date; the slope of one coordinate,
// r_j = g_j + sum_i h_i a_ij z_i, is a sum over its column. A sweep costs two visits of every stored value. After the first
// sweep only the coordinates are visited that are not zero or have just moved: those that the penalty holds come back in
// the next step, which begins with all.
#pragma once
#include "coordinate_descent.hpp"

namespace reshuffle {

// Column j has the entries p = starts[j] ... starts[j + 1] - 1, a_{rows[p], j} = values[p].
struct SparseColumns {
    Span<const double> values;
    Span<const Visit> rows;
    Span<const Index> starts;

    Index count() const { return starts.size - 1; }
};

struct Swept {
    double decrease;  // of the model
    Index sweeps, visited;  // visited: stored values, each sweep counted
};

// From u = x and z = 0, in place. Sweeps end when one gains at most `share` of what the first gained, or after `most`.
// If u has one entry more than there are columns, that is the intercept.
inline Swept sweep_columns(const Coordinates &form, const SparseColumns &A, Span<const double> h, const double *g, Span<double> u,
                           Span<double> z, Index most, double share) {
    const Index features = A.count(), n = h.size;
    std::vector<double> bends(std::size_t(features), 0.0);
    for (Index j = 0; j < features; j++)
        for (Index p = A.starts[j]; p < A.starts[j + 1]; p++) bends[std::size_t(j)] += h[A.rows[p]] * A.values[p] * A.values[p];
    double whole = 0.0;
    for (Index i = 0; i < n; i++) whole += h[i];
    std::vector<Visit> visits(static_cast<std::size_t>(features));
    for (Index j = 0; j < features; j++) visits[std::size_t(j)] = Visit(j);
    Swept found{0.0, 0, 0};
    double first = 0.0;
    while (found.sweeps < most) {
        double gain = 0.0;
        std::size_t kept = 0;
        for (const Visit j : visits) {
            const Index begin = A.starts[j], end = A.starts[j + 1];
            double r = g[j];
            for (Index p = begin; p < end; p++) r += A.values[p] * h[A.rows[p]] * z[A.rows[p]];
            const Best best = best_coordinate(bends[j], r, u[j], form.l1[j], form.l2[j], form.low[j], form.high[j]);
            const double step = best.value - u[j];
            if (step != 0.0) {
                u[j] = best.value;
                for (Index p = begin; p < end; p++) z[A.rows[p]] += A.values[p] * step;
                gain += best.gain;
            }
            if (step != 0.0 || u[j] != 0.0) visits[kept++] = j;
            found.visited += end - begin;
        }
        if (u.size > features && whole > 0.0) {
            double r = g[features];
            for (Index i = 0; i < n; i++) r += h[i] * z[i];
            const double step = -r / whole;
            u[features] += step;
            for (Index i = 0; i < n; i++) z[i] += step;
            gain += 0.5 * r * r / whole;
        }
        visits.resize(kept);
        found.decrease += gain;
        if (found.sweeps++ == 0) first = gain;
        if (!(gain > share * first)) break;
    }
    return found;
}

}  // namespace reshuffle
