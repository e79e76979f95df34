// Cox's model along a path of strengths, on dense columns: proximal Newton steps until a duality gap proves the accuracy.
//
//     P(x) = f(x) + lambda psi(x),    f(x) = -(1/n) sum_s log L_s(X_s x),    psi(x) = sum_j l1_j |x_j| + (l2_j / 2) x_j^2
//
// within bounds. Each model has the features that are not zero and those that the sequential strong rule admits; the gap
// checks all features, so that the next step admits one that was left out by mistake. Cases that need more (damping, other
// penalties, sparse rows, other proofs) are left to ProxNewton: the strength is then reported as not proved.
#pragma once
#include "line_search.hpp"
#include "newton.hpp"
#include "risk_sets.hpp"

namespace reshuffle {

namespace cox {
inline constexpr double below = 1.0 - 0x1p-51;  // This factor keeps a scaled dual point feasible in spite of the rounding of its scale.
inline constexpr double weakest = 0.5;     // No feature is admitted whose slope is below this share of its strength.
inline constexpr double usual = 0.9;       // The share for the first strength, for which the strong rule has no previous strength.
inline constexpr Index few = 200;          // At least this many features may be admitted besides those that are not zero.
inline constexpr double shrinks = 1e-4;    // Steps too small to show in P must decrease the model by less than this share of the last decrease.
}  // namespace cox

struct CoxRows {
    Matrix<const double> columns;     // a row for each feature
    std::vector<RiskSets> strata;     // of rows that follow each other
    double rows = 1.0;                // n, with rows of weight zero
    double least = 0.0;               // a bound below f

    Index n() const { return columns.columns; }
    Index features() const { return columns.rows; }
};

// f at a point.
struct CoxPoint {
    std::vector<double> margins, slopes, gradient;
    std::vector<Hazards> hazards;
    double value = 0.0;

    explicit CoxPoint(const CoxRows &own)
        : margins(std::size_t(own.n())), slopes(std::size_t(own.n())), gradient(std::size_t(own.features())),
          hazards(own.strata.size()) {
        for (std::size_t s = 0; s < hazards.size(); s++) hazards[s].fit(own.strata[s]);
    }
};

inline double cox_value(const CoxRows &own, const double *z, bool slopes, std::vector<Hazards> &at) {
    double total = 0.0;
    for (std::size_t s = 0; s < own.strata.size(); z += own.strata[s].rows(), s++) {
        partial_likelihood(own.strata[s], z, slopes, at[s]);
        total += at[s].value;
    }
    return total / own.rows;
}

// out <- out + scale X d, for a d with many zeros.
inline void add_margins(const CoxRows &own, const double *d, double *out) {
    const Index n = own.n();
    for (Index j = 0; j < own.features(); j++) {
        if (d[j] == 0.0) continue;
        const double c = d[j], *a = own.columns[j];
#pragma omp simd
        for (Index i = 0; i < n; i++) out[i] += c * a[i];
    }
}

inline void cox_linearise(const CoxRows &own, const double *x, CoxPoint &at) {
    const Index n = own.n();
    std::fill(at.margins.begin(), at.margins.end(), 0.0);
    add_margins(own, x, at.margins.data());
    at.value = cox_value(own, at.margins.data(), true, at.hazards);
    double *slope = at.slopes.data();
    for (std::size_t s = 0; s < own.strata.size(); s++) {
        const RiskSets &sets = own.strata[s];
        std::copy(at.hazards[s].expected.begin(), at.hazards[s].expected.end(), slope);
        for (Index k = 0; k < sets.times(); k++)
            for (Index i = sets.begins[k]; i < sets.ends[k]; i++) slope[i] -= sets.weights[i];
        slope += sets.rows();
    }
    for (Index j = 0; j < own.features(); j++) {
        const double *a = own.columns[j], *s = at.slopes.data();
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (Index i = 0; i < n; i++) total += s[i] * a[i];
        at.gradient[std::size_t(j)] = total / own.rows;
    }
}

// An upper bound on P(x) - P*; solvers/newton_proof.py has the proof.
inline double cox_gap(const CoxRows &own, const Coordinates &form, const double *x, const CoxPoint &at, double psi) {
    double scale = 1.0, along = 0.0, conjugate = 0.0;
    for (Index j = 0; j < form.size(); j++) {
        const double g = -at.gradient[std::size_t(j)];
        const bool open = form.l2[j] == 0.0 && !(std::fabs(g > 0.0 ? form.high[j] : form.low[j]) < infinity);
        if (open && std::fabs(g) > form.l1[j]) scale = std::min(scale, cox::below * form.l1[j] / std::fabs(g));
        along -= g * x[j];
        if (!(std::fabs(g) < infinity)) return infinity;
    }
    for (Index j = 0; j < form.size(); j++) {
        const double g = -scale * at.gradient[std::size_t(j)], beyond = std::fabs(g) - form.l1[j];
        double best = 0.0;
        if (beyond > 0.0) best = form.l2[j] > 0.0 ? beyond / form.l2[j] : infinity;
        best = g > 0.0 ? best : -best;
        best = best < form.low[j] ? form.low[j] : best > form.high[j] ? form.high[j] : best;
        if (best != 0.0) conjugate += g * best - form.l1[j] * std::fabs(best) - 0.5 * form.l2[j] * best * best;
    }
    const double gap = psi + conjugate + scale * along + (1.0 - scale) * (at.value - own.least);
    return gap == gap ? std::max(gap, 0.0) + search::rounding * (std::fabs(at.value) + psi) : infinity;
}

// Numbers per coordinate, times a strength, and those of some coordinates.
struct Scaled {
    std::vector<double> l1, l2, low, high;

    void fit(Index size) {
        for (std::vector<double> *a : {&l1, &l2, &low, &high}) a->resize(std::size_t(size));
    }
    void put(Index to, const Coordinates &from, Index j, double factor) {
        const auto k = std::size_t(to);
        l1[k] = factor * from.l1[j], l2[k] = factor * from.l2[j], low[k] = from.low[j], high[k] = from.high[j];
    }
    Coordinates form() const { return {span(l1), span(l2), span(low), span(high)}; }
};

struct CoxEnd {
    double value, psi, bound;  // f, lambda psi, and a bound on P(x) - P*
    Index steps;
};

class CoxPath {
  public:
    CoxPath(const CoxRows &rows) : own(rows), at(rows), trial(at.hazards), moved(std::size_t(rows.n())), ahead(moved) {
        whole.fit(rows.features()), pressing.resize(std::size_t(rows.features()));
    }

    // At most `most` steps from x, in place, until P(x) - P* <= target is proved. Features whose slope exceeds `share` of their
    // strength are admitted from the first step.
    CoxEnd minimise_at(const Coordinates &psi, double strength, double share, double target, Index most, double *x) {
        const Index d = own.features();
        for (Index j = 0; j < d; j++) whole.put(j, psi, j, strength);
        const Coordinates form = whole.form();
        clip(form, x);
        cox_linearise(own, x, at);
        CoxEnd end{at.value, penalty_value(form, x), infinity, 0};
        double last = infinity;
        while (true) {
            end.value = at.value;
            end.bound = cox_gap(own, form, x, at, end.psi);
            if (end.bound <= target || end.steps == most || !(std::fabs(at.value) < infinity)) return end;
            choose(form, x, share);
            if (kept.empty() || Index(kept.size()) > model::largest) return end;
            const double objective = at.value + end.psi, decrease = solve_model(form, x, objective);
            if (!(decrease < infinity)) return end;
            to.assign(x, x + d);
            for (std::size_t k = 0; k < kept.size(); k++) to[std::size_t(kept[k])] = u[k];
            if (decrease <= search::rounding * std::fabs(objective)) {  // too small to show in P, but slopes show it
                if (!(decrease < cox::shrinks * last)) return end;
            } else if (!search_line(form, x, end.psi)) {
                return end;
            }
            last = decrease;
            std::copy(to.begin(), to.end(), x);
            cox_linearise(own, x, at);
            end.psi = penalty_value(form, x);
            end.steps++;
        }
    }

  private:
    const CoxRows &own;
    CoxPoint at;
    std::vector<Hazards> trial;
    std::vector<double> moved, ahead, pressing, g, u, start, d, to, matrix;
    std::vector<Index> kept;
    Scaled whole, part;
    Workspace room;

    // The features that are not zero, or whose slope exceeds a share of their strength; if there are too many, those with the
    // largest slopes.
    void choose(const Coordinates &form, const double *x, double share) {
        const Index d = own.features();
        g.resize(std::size_t(d));
        for (Index j = 0; j < d; j++) g[std::size_t(j)] = at.gradient[std::size_t(j)] / share;
        excess(form, x, g.data(), pressing.data());
        kept.clear();
        Index held = 0;
        for (Index j = 0; j < d; j++)
            if (pressing[std::size_t(j)] > 0.0) kept.push_back(j), held += pressing[std::size_t(j)] == infinity;
        const Index most = held + std::max(cox::few, held);
        if (Index(kept.size()) > most) {
            std::nth_element(kept.begin(), kept.begin() + most, kept.end(), [&](Index a, Index b) {
                const double one = pressing[std::size_t(a)], other = pressing[std::size_t(b)];
                return one != other ? one > other : a < b;
            });
            kept.resize(std::size_t(most));
            std::sort(kept.begin(), kept.end());
        }
    }

    // u <- the minimiser of the model in the chosen features; returns the decrease of the model from x.
    double solve_model(const Coordinates &form, const double *x, double objective) {
        const Index size = Index(kept.size());
        matrix.assign(std::size_t(size * size), 0.0);
        const Matrix<double> H{matrix.data(), size, size};
        Index first = 0;
        for (std::size_t s = 0; s < own.strata.size(); first += own.strata[s].rows(), s++)
            add_covariances(own.strata[s], at.hazards[s], [&](Index c) { return own.columns[kept[std::size_t(c)]] + first; },
                            1.0 / own.rows, H);
        mirror(H);
        part.fit(size), start.resize(std::size_t(size)), g.resize(std::size_t(size));
        for (Index k = 0; k < size; k++) {
            const Index j = kept[std::size_t(k)];
            part.put(k, form, j, 1.0), start[std::size_t(k)] = x[j];
            g[std::size_t(k)] = H[k][k] > 0.0 ? at.gradient[std::size_t(j)] : 0.0;  // f is bounded: no curvature, no slope
        }
        u = start;
        const double floor = newton::trace * epsilon * std::fabs(objective);
        return minimise(part.form(), Matrix<const double>(H), g.data(), start.data(), u.data(), newton::fine, floor, room).decrease;
    }

    // Whether some part of the step to `to` lowers P as promised; `to` is then its end.
    bool search_line(const Coordinates &form, const double *x, double psi) {
        const Index size = own.features();
        d.resize(std::size_t(size));
        double slope = 0.0;
        for (Index j = 0; j < size; j++) {
            d[std::size_t(j)] = to[std::size_t(j)] - x[j];
            slope += at.gradient[std::size_t(j)] * d[std::size_t(j)];
        }
        std::fill(moved.begin(), moved.end(), 0.0);
        add_margins(own, d.data(), moved.data());
        return search_along(form, size, x, d.data(), slope, at.value, psi, to.data(), [&](double t) {
                   for (std::size_t i = 0; i < moved.size(); i++) ahead[i] = at.margins[i] + t * moved[i];
                   return cox_value(own, ahead.data(), false, trial);
               }) > 0.0;
    }
};

// The start at the next strength: the last two minimisers extrapolated in lambda, by at most the length of the last step.
// Minimisers are nearly linear in lambda while the set of nonzero features is the same: features at zero stay there, and those
// that would change their sign are set to zero.
inline void extrapolate(const Coordinates &form, const double *before, const double *x, double share, double *to) {
    for (Index j = 0; j < form.size(); j++) {
        const double next = x[j] + share * (x[j] - before[j]);
        to[j] = x[j] == 0.0 || next * x[j] < 0.0 ? 0.0 : next;
    }
    clip(form, to);
}

}  // namespace reshuffle
