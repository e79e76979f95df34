// Steps along clipped gradients with noise: the local pass of differential privacy at the level of samples.
//
//     x <- x - step * average * ( sum over the batch of  clip_C( w_i l'(a_i^T x, y_i) a_i )  +  sigma * noise )
//     clip_C(g) = g min(1, C / |g|),    |g| over all unknowns, the intercept with the others
//
// The gradient of one sample is an outer product of its row (with a 1 for the intercept) and its slopes, so that clipping
// it scales the slopes. `ends` has the ends of batches. A batch may be empty; its noise is added nevertheless. The ridge is
// that of a whole step; it does not depend on data and is neither clipped nor noised. A prox (`prox_step`) comes after the noise.
#pragma once
#include "sweep.hpp"

namespace reshuffle {

struct Clipping {
    double bound;             // C
    double sigma;             // the standard deviation of the noise on the sum of a batch
    Span<const Index> ends;   // the visit after the last one of each batch
    const double *noise;      // standard normal numbers, a row of all unknowns for each batch
};

inline constexpr double squares_underflow = 1e-140;  // The squares of norms below this, or above its inverse, may underflow or overflow.

// |(a_i, 1)|, or |a_i| without an intercept; infinite only if it exceeds the range of float64.
template <class R>
double length_with_intercept(const R &rows, Index i, bool bias) {
    double sum = bias ? 1.0 : 0.0;
    rows.for_each(i, [&](Index, double a) { sum += a * a; });
    const double plain = std::sqrt(sum);
    if (plain > squares_underflow && plain < 1.0 / squares_underflow) return plain;
    double largest = bias ? 1.0 : 0.0;
    rows.for_each(i, [&](Index, double a) { largest = std::max(largest, std::fabs(a)); });
    if (!(largest > 0.0)) return 0.0;
    sum = bias ? (1.0 / largest) * (1.0 / largest) : 0.0;
    rows.for_each(i, [&](Index, double a) { sum += (a / largest) * (a / largest); });
    return largest * std::sqrt(sum);
}

// Scales the slopes of a sample so that slopes x row is no longer than the bound. NaN counts as zero, since otherwise a
// single sample could make the model NaN. An infinite slope counts by its sign.
inline void clip(double *slopes, Index outputs, double length, double bound) {
    double largest = 0.0;
    for (Index o = 0; o < outputs; o++) {
        if (std::isnan(slopes[o])) slopes[o] = 0.0;
        largest = std::max(largest, std::fabs(slopes[o]));
    }
    if (largest == 0.0 || length == 0.0) return;
    if (std::isinf(largest)) {
        for (Index o = 0; o < outputs; o++) slopes[o] = std::isinf(slopes[o]) ? std::copysign(1.0, slopes[o]) : 0.0;
        largest = infinity;
    }
    const double unit = std::isinf(largest) ? 1.0 : largest;
    double sum = 0.0;
    for (Index o = 0; o < outputs; o++) sum += (slopes[o] / unit) * (slopes[o] / unit);
    const double norm = std::sqrt(sum);                       // of the slopes over `unit`
    if (!std::isinf(largest) && largest * norm * length <= bound) return;
    const double factor = bound / length / norm;
    for (Index o = 0; o < outputs; o++) slopes[o] = slopes[o] / unit * factor;
}

// x <- x + factor noise, where the penalised part of x is kept as scale x.
inline void disturb(const double *noise, double factor, double scale, double *x, Index penalised, Index unknowns) {
    const double inner = factor / scale;
    for (Index j = 0; j < penalised; j++) x[j] += inner * noise[j];
    for (Index j = penalised; j < unknowns; j++) x[j] += factor * noise[j];
}

// `slopes_of(i, scale, out)` are the slopes of sample i at scale x, with its weight; `add(i, factor, coefs)` and the
// intercept's part are those of the sweep. Returns the scale of the iterate at the end.
template <class R, class Slopes>
double clipped_batches(const R &rows, const Sweep &s, const Clipping &c, const Form &form, bool bias, Index outputs, double *x,
                       Index penalised, Index unknowns, double scale, double *coefs, Slopes &&slopes_of) {
    double *intercept = x + penalised;
    Index start = 0;
    for (Index k = 0; k < c.ends.size; k++) {
        const Index stop = c.ends[k];
        for (Index v = start; v < stop; v++) {
            double *own = coefs + (v - start) * outputs;
            slopes_of(s.visits[v], scale, own);
            clip(own, outputs, length_with_intercept(rows, s.visits[v], bias), c.bound);
        }
        scale = shrunk(s, 1, x, penalised, scale);  // the same in every step, because the length of a batch may be secret
        const double factor = -s.step * s.average;
        for (Index v = start; v < stop; v++) {
            const double *own = coefs + (v - start) * outputs;
            rows.add_outer(s.visits[v], factor / scale, own, outputs, x);
            if (bias)
                for (Index o = 0; o < outputs; o++) intercept[o] += factor * own[o];
        }
        disturb(c.noise + k * unknowns, factor * c.sigma, scale, x, penalised, unknowns);
        if (s.prox_step > 0.0) scale = take_prox(s, form, x, penalised, scale);
        start = stop;
    }
    return scale;
}

template <class R, Loss L>
[[gnu::noinline]] double clipped_sweep(const R &rows, const L &loss, const double *targets, Span<const double> weights,
                                       Span<const double> offsets, bool bias, const Sweep s, const Clipping c, const Form &form,
                                       Span<double> x, Index penalised, double scale, double *coefs) {
    const auto slopes_of = [&](Index i, double scale_now, double *out) {
        double z = scale_now * rows.dot(i, x.data);
        if (bias) z += x[x.size - 1];
        if (offsets) z += offsets[i];
        *out = (weights ? weights[i] : 1.0) * loss.template slope<Alone>(z, targets[i]);
    };
    return clipped_batches(rows, s, c, form, bias, 1, x.data, penalised, x.size, scale, coefs, slopes_of);
}

template <class R, VectorLoss L>
[[gnu::noinline]] double clipped_sweep(const R &rows, const L &loss, const typename L::Target *targets, Span<const double> weights,
                                       Span<const double>, bool bias, const Sweep s, const Clipping c, const Form &form, Matrix<double> x,
                                       Index penalised, double scale, double *coefs) {
    const Index outputs = x.columns;
    const double *intercept = x[x.rows - 1];
    const auto slopes_of = [&](Index i, double scale_now, double *out) {
        for (Index o = 0; o < outputs; o++) out[o] = bias ? intercept[o] : 0.0;
        rows.dots(i, x.data, outputs, scale_now, out);
        loss.slope(out, outputs, targets, i);
        for (Index o = 0; o < outputs; o++) out[o] *= weights ? weights[i] : 1.0;
    };
    return clipped_batches(rows, s, c, form, bias, outputs, x.data, penalised, x.rows * outputs, scale, coefs, slopes_of);
}

}  // namespace reshuffle
