// The incremental pass of all shuffled methods of the package.
//
//     x <- x - step * (sum over the batch of  w_i l'(a_i^T x, y_i) a_i  + ridge x) * average
//
// over a given list of visits, in their order. The ridge costs nothing on sparse rows: the iterate is kept as
// scale * x, and shrinking touches the scale alone. A long list comes in several calls, which hand the scale on.
// A positive prox_step adds the prox of a compiled penalty after every step (the baselines of the paper): O(d) by
// nature. The unknown x has an entry per feature (times the outputs) and its last row is the intercept if there is one.
#pragma once
#include "loss_sums.hpp"
#include "penalties.hpp"
#include "rows.hpp"
#include "vector_losses.hpp"

namespace reshuffle {

struct Sweep {
    Span<const Visit> visits;
    Index batch;
    double average;       // the factor of a batch: 1 / batch, or 1
    double step, ridge, prox_step;
    Index ahead;          // rows that are prefetched before their turn
};

inline constexpr double smallest_scale = 1e-9;  // A scale of the iterate below this is folded in before it underflows.

inline double folded(double *x, Index penalised, double scale) {
    for (Index j = 0; j < penalised; j++) x[j] *= scale;
    return 1.0;
}

inline double take_prox(const Sweep &s, const Form &form, double *x, Index penalised, double scale) {
    if (scale != 1.0) scale = folded(x, penalised, scale);
    prox(form, x, s.prox_step);
    return scale;
}

// The scale after the ridge has shrunk the iterate in a batch of `visits` visits.
inline double shrunk(const Sweep &s, Index visits, double *x, Index penalised, double scale) {
    if (!(s.ridge > 0.0)) return scale;
    scale *= 1.0 - s.step * s.ridge * s.average * double(visits);
    return scale < smallest_scale ? folded(x, penalised, scale) : scale;
}

template <class R, class T>
RESHUFFLE_INLINE void fetch_later(const R &rows, const Sweep &s, Index k, const T *targets, Index width, Span<const double> weights) {
    // rows that lie in the order of the visits need no prefetch
    if (k + 2 * s.ahead < s.visits.size && s.visits[k + s.ahead] != s.visits[k] + s.ahead) {
        const Index later = s.visits[k + 2 * s.ahead];
        rows.fetch_pointer(later);
        fetch_entry(targets + later * width);
        if (weights) fetch_entry(weights.data + later);
        rows.fetch(s.visits[k + s.ahead]);
    }
}

// Visits of a loss with one output; returns the scale of the iterate at the end. coefs has room for a batch.
template <class R, Loss L>
[[gnu::noinline]] double sweep(const R &rows, const L &loss, const double *targets, Span<const double> weights,
             Span<const double> offsets, bool bias, const Sweep s, const Form &form, Span<double> x, Index penalised, double scale, double *coefs) {
    const Index total = s.visits.size;
    double *intercept = x.data + x.size - 1;
    const auto slope = [&](Index k) {
        const Index i = s.visits[k];
        fetch_later(rows, s, k, targets, 1, weights);
        double z = scale * rows.dot(i, x.data);
        if (bias) z += *intercept;
        if (offsets) z += offsets[i];
        const double weight = weights ? s.average * weights[i] : s.average;
        return weight * loss.template slope<Alone>(z, targets[i]);
    };
    const auto add = [&](Index k, double factor, double coef) {
        rows.add(s.visits[k], factor * coef, x.data);
        if (bias) *intercept += -s.step * coef;
    };
    for (Index start = 0; start < total; start += s.batch) {
        const Index stop = std::min(start + s.batch, total);
        if (stop == start + 1) {  // the slope of a single visit need not be stored before the step
            const double coef = slope(start);
            scale = shrunk(s, 1, x.data, penalised, scale);
            add(start, -s.step / scale, coef);
        } else {
            for (Index k = start; k < stop; k++) coefs[k - start] = slope(k);
            scale = shrunk(s, stop - start, x.data, penalised, scale);
            const double factor = -s.step / scale;
            for (Index k = start; k < stop; k++) add(k, factor, coefs[k - start]);
        }
        if (s.prox_step > 0.0) scale = take_prox(s, form, x.data, penalised, scale);
    }
    return scale;
}

// The same for a loss with several outputs; coefs has a row for each visit of a batch.
template <class R, VectorLoss L>
[[gnu::noinline]] double sweep(const R &rows, const L &loss, const typename L::Target *targets, Span<const double> weights,
             Span<const double>, bool bias, const Sweep s, const Form &form, Matrix<double> x, Index penalised, double scale, double *coefs) {
    const Index total = s.visits.size, outputs = x.columns;
    const Index width = std::is_same_v<typename L::Target, double> ? outputs : 1;
    double *intercept = x[x.rows - 1];
    for (Index start = 0; start < total; start += s.batch) {
        const Index stop = std::min(start + s.batch, total);
        for (Index k = start; k < stop; k++) {
            const Index i = s.visits[k];
            double *own = coefs + (k - start) * outputs;
            fetch_later(rows, s, k, targets, width, weights);
            for (Index o = 0; o < outputs; o++) own[o] = bias ? intercept[o] : 0.0;
            rows.dots(i, x.data, outputs, scale, own);
            loss.slope(own, outputs, targets, i);
            const double weight = weights ? s.average * weights[i] : s.average;
            for (Index o = 0; o < outputs; o++) own[o] *= weight;
        }
        scale = shrunk(s, stop - start, x.data, penalised, scale);
        const double factor = -s.step / scale;
        for (Index k = start; k < stop; k++) {
            const double *own = coefs + (k - start) * outputs;
            rows.add_outer(s.visits[k], factor, own, outputs, x.data);
            if (bias)
                for (Index o = 0; o < outputs; o++) intercept[o] += -s.step * own[o];
        }
        if (s.prox_step > 0.0) scale = take_prox(s, form, x.data, penalised, scale);
    }
    return scale;
}

}  // namespace reshuffle
