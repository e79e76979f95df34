// The inner loops of the exact method: steps along gradient differences, a prox after each block.
//
// The functions are F_c, c = 0 ... N-1, with f = (1/N) sum_c F_c; F_c = w_c f_i belongs to sample i = owner[c]. A table
// keeps the last slope of each F_c, and g = (1/N) sum_c w_c table[c] a_i their mean gradient. Inside a block of m visits,
// with q fixed,
//
//     x <- x - step * (w_c (l'(a_i^T x) - table[c]) a_i + q),    table[c] <- l'(a_i^T x).
//
// The drift along q is not applied in each step: y is x without the drift, and step k of the block computes a_i^T x as
// a_i^T (y - step k q). At the end of the block, with tau = step * m,
//
//     x = prox_{tau psi}(y - tau g),
//     q = (y_start - y) / (step N) + (y - x) / tau,      g <- g + (y_start - y) / (step N).
//
// This is x^ = y - tau q, x = prox(x^ - tau h), h <- h + (x - x^) / tau, q = g - h with h eliminated.
#pragma once
#include "loss_sums.hpp"
#include "penalties.hpp"
#include "rows.hpp"
#include "vector_losses.hpp"

namespace reshuffle {

struct Copies {
    Span<const Visit> owner;       // the sample of each copy; empty if every sample is its own only copy
    Span<const double> weights;    // the factor of each copy; empty if all are 1

    Index sample(Index c) const { return owner ? Index(owner[c]) : c; }
    double weight(Index c) const { return weights ? weights[c] : 1.0; }
};

template <class R, class T>
RESHUFFLE_INLINE void fetch_later(const R &rows, const Copies &copies, Span<const Visit> visits, Index k, Index ahead,
                        const T *targets, Index width, const double *table, Index outputs) {
    if (copies.owner && k + 3 * ahead < visits.size) fetch_entry(copies.owner.data + visits[k + 3 * ahead]);
    if (k + 2 * ahead < visits.size) {
        const Index later = visits[k + 2 * ahead];
        fetch_entry(table + later * outputs);
        if (copies.weights) fetch_entry(copies.weights.data + later);
        const Index sample = copies.sample(later);
        rows.fetch_pointer(sample);
        fetch_entry(targets + sample * width);
        rows.fetch(copies.sample(visits[k + ahead]));
    }
}

// Steps first ... last - 1 of the visits, in a block that begins at `origin`. They change y and the table; the drift is
// applied at the end of the block.
template <class R, Loss L>
[[gnu::noinline]] void block(const R &rows, const L &loss, const double *targets, Span<const double> offsets, bool bias, const Copies &copies,
           Span<const Visit> visits, Index origin, Index first, Index last, double *table, Span<double> y, const double *q, double step, Index ahead,
           double *) {
    const Index end = y.size - 1;
    for (Index k = first; k < last; k++) {
        const Index c = visits[k], i = copies.sample(c);
        fetch_later(rows, copies, visits, k, ahead, targets, 1, table, 1);
        const double drift = step * double(k - origin);
        double z = rows.drifted(i, y.data, q, drift);
        if (bias) z += y[end] - drift * q[end];
        if (offsets) z += offsets[i];
        const double slope = loss.template slope<Alone>(z, targets[i]);
        const double change = -step * (copies.weight(c) * (slope - table[c]));
        table[c] = slope;
        rows.add(i, change, y.data);
        if (bias) y[end] += change;
    }
}

template <class R, VectorLoss L>
[[gnu::noinline]] void block(const R &rows, const L &loss, const typename L::Target *targets, Span<const double>, bool bias,
           const Copies &copies, Span<const Visit> visits, Index origin, Index first, Index last, double *table, Matrix<double> y, const double *q,
           double step, Index ahead, double *coefs) {
    const Index outputs = y.columns, width = std::is_same_v<typename L::Target, double> ? outputs : 1;
    double *intercept = y[y.rows - 1];
    const double *along = q + (y.rows - 1) * outputs;
    for (Index k = first; k < last; k++) {
        const Index c = visits[k], i = copies.sample(c);
        fetch_later(rows, copies, visits, k, ahead, targets, width, table, outputs);
        const double drift = step * double(k - origin), weight = copies.weight(c);
        for (Index o = 0; o < outputs; o++) coefs[o] = bias ? intercept[o] - drift * along[o] : 0.0;
        rows.drifted_dots(i, y.data, q, drift, outputs, coefs);
        loss.slope(coefs, outputs, targets, i);
        double *old = table + c * outputs;
        for (Index o = 0; o < outputs; o++) {
            const double slope = coefs[o];
            coefs[o] = weight * (slope - old[o]);
            old[o] = slope;
        }
        rows.add_outer(i, -step, coefs, outputs, y.data);
        if (bias)
            for (Index o = 0; o < outputs; o++) intercept[o] += -step * coefs[o];
    }
}

struct EpochState {
    double *y, *q, *start, *g;   // each with as many entries as x has
    Index size;
};

// The end of a block, see above. With `corrected` = 0 and an empty table the epoch is one of ProxRR; otherwise it is 1.
inline void end_block(const Form &form, const EpochState &s, double step, Index visits, Index count, double corrected) {
    const double tau = step * double(visits), share = 1.0 / (step * double(count));
    const Index penalised = size_of(form);
    double *y = s.y, *q = s.q, *start = s.start, *g = s.g;
#pragma omp simd
    for (Index j = 0; j < penalised; j++) q[j] = y[j] - corrected * tau * g[j];  // q is free now: the prox works in it
    prox(form, q, tau);
    const auto settle = [&](Index j, double x) {
        const double change = (start[j] - y[j]) * share;
        q[j] = corrected * (change + (y[j] - x) / tau);
        g[j] += change;
        y[j] = start[j] = x;
    };
#pragma omp simd
    for (Index j = 0; j < penalised; j++) settle(j, q[j]);
    for (Index j = penalised; j < s.size; j++) settle(j, y[j] - corrected * tau * g[j]);
}

// Visits begin ... end - 1 of an epoch with one block for each step. An epoch may be divided into several calls; the bits are
// the same.
template <class R, class L, class T, class X>
void epoch(const R &rows, const L &loss, const T *targets, Span<const double> offsets, bool bias, const Copies &copies, Span<const Visit> visits,
           Index begin, Index end, Span<const double> steps, double corrected, double *table, Index count, X y,
           const EpochState &state, const Form &form, Index ahead, double *coefs) {
    const Index total = visits.size, blocks = steps.size;
    for (Index b = 0; b < blocks; b++) {
        const Index first = b * total / blocks, last = (b + 1) * total / blocks;
        if (last <= begin) continue;
        block(rows, loss, targets, offsets, bias, copies, visits, first, std::max(first, begin), std::min(last, end), table, y,
              state.q, steps[b], ahead, coefs);
        if (end < last) return;
        end_block(form, state, steps[b], last - first, count, corrected);
    }
}

}  // namespace reshuffle
