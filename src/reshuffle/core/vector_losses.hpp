// Losses l(z, y) of K margins z = x^T a + b.
//
//     value       l(z, y)
//     slope       z <- the gradient of l at z, in place
//     bend        z <- numbers p >= 0 that sum to 1 and stand for the Hessian diag(p) - p p^T, in place
//     separate    whether the Hessian is diagonal instead: bend then leaves its diagonal
//     expand      of a block of rows: slopes, p, and sum_i w_i l_i, which have most of their work in common
//     conjugate   l*(s, y)
//
// A target is a class, or a row of K numbers; `Target` is the element type of an array of targets. Both losses compile for a GPU too,
// with the elementary functions of its library; blocks of rows and users' losses are for processors only.
#pragma once
#include "elementary.hpp"

namespace reshuffle {

#if defined(__CUDACC__)
using Index = std::int64_t;
#else
template <class L>
concept VectorLoss = requires(const L l, double *z, Index outputs, const typename L::Target *y) {
    { l.value(z, outputs, y, Index(0)) } -> std::same_as<double>;
    { l.slope(z, outputs, y, Index(0)) };
    { l.conjugate(z, outputs, y, Index(0)) } -> std::same_as<double>;
};
#endif

// l = log sum_k exp(z_k) - z_y for a class y = 0 ... K - 1. Its Hessian is diag(p) - p p^T.
struct Multinomial {
    using Target = std::int32_t;
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    RESHUFFLE_DEVICE static constexpr bool bends() { return true; }
    static constexpr bool separate = false;

    RESHUFFLE_DEVICE static double largest(const double *z, Index outputs) {
        double top = z[0];
        for (Index k = 1; k < outputs; k++) top = z[k] > top ? z[k] : top;
        return top;
    }
    // z <- exp(z - max z), and their sum
    template <class M = InRows>
    RESHUFFLE_DEVICE static double raise(double *z, Index outputs) {
        const double top = largest(z, outputs);
#pragma omp simd
        for (Index k = 0; k < outputs; k++) z[k] = M::exp(z[k] - top);
        double total = 0.0;
        for (Index k = 0; k < outputs; k++) total += z[k];
        return total;
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE double value(const double *z, Index outputs, const Target *y, Index i) const {
        const double top = largest(z, outputs);
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (Index k = 0; k < outputs; k++) total += M::exp(z[k] - top);
        return M::log(total) + (top - z[y[i]]);
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE void bend(double *z, Index outputs, const Target *, Index) const {
        const double total = raise<M>(z, outputs);
        for (Index k = 0; k < outputs; k++) z[k] /= total;
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE void slope(double *z, Index outputs, const Target *y, Index i) const {
        bend<M>(z, outputs, y, i);
        z[y[i]] -= 1.0;
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE double conjugate(const double *s, Index outputs, const Target *y, Index i) const {
        double total = 0.0;
        for (Index k = 0; k < outputs; k++) {
            const double p = s[k] + (k == y[i] ? 1.0 : 0.0);
            total += p > 0.0 ? p * M::log(p) : 0.0;
        }
        return total;
    }
#if !defined(__CUDACC__)
    double expand(Matrix<const double> z, const Target *y, Span<const double> w, double *slopes, double *p) const {
        const Index outputs = z.columns;
        for (Index i = 0; i < z.rows; i++) {
            const double top = largest(z[i], outputs);
            for (Index k = 0; k < outputs; k++) slopes[i * outputs + k] = z[i][k] - top;
        }
        const Index all = z.rows * outputs;
#pragma omp simd
        for (Index k = 0; k < all; k++) p[k] = InRows::exp(slopes[k]);  // one long loop: several at a time
        double loss = 0.0;
        for (Index i = 0; i < z.rows; i++) {
            double *own = p + i * outputs, *slope = slopes + i * outputs, total = 0.0;
            for (Index k = 0; k < outputs; k++) total += own[k];
            const double value = InRows::log(total) - slope[y[i]];
            loss += w ? w[i] * value : value;
            for (Index k = 0; k < outputs; k++) slope[k] = own[k] /= total;
            slope[y[i]] -= 1.0;
        }
        return loss;
    }
#endif
};

// l = ||z - y||^2 / 2. Its Hessian is the identity.
struct SquaredOutputs {
    using Target = double;
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    RESHUFFLE_DEVICE static constexpr bool bends() { return true; }
    static constexpr bool separate = true;

    template <class M = InRows>
    RESHUFFLE_DEVICE void bend(double *z, Index outputs, const Target *, Index) const {
        for (Index k = 0; k < outputs; k++) z[k] = 1.0;
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE double value(const double *z, Index outputs, const Target *y, Index i) const {
        const double *to = y + i * outputs;
        double total = 0.0;
        for (Index k = 0; k < outputs; k++) total += (z[k] - to[k]) * (z[k] - to[k]);
        return 0.5 * total;
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE void slope(double *z, Index outputs, const Target *y, Index i) const {
        for (Index k = 0; k < outputs; k++) z[k] -= y[i * outputs + k];
    }
    template <class M = InRows>
    RESHUFFLE_DEVICE double conjugate(const double *s, Index outputs, const Target *y, Index i) const {
        double total = 0.0;
        for (Index k = 0; k < outputs; k++) total += 0.5 * s[k] * s[k] + s[k] * y[i * outputs + k];
        return total;
    }
};

#if !defined(__CUDACC__)
// A user's loss, given by the addresses of its functions: (margins, K, class or row of targets).
template <class T>
struct GivenOutputs {
    using Target = T;
    using Function = double (*)(double *, std::int64_t, const T *);
    Function f = nullptr, df = nullptr, d2f = nullptr, fstar = nullptr;
    bool has_conjugate() const { return fstar != nullptr; }
    bool bends() const { return d2f != nullptr; }
    static constexpr bool separate = false;

    static const T *target(const T *y, Index i, Index outputs) { return std::is_same_v<T, double> ? y + i * outputs : y + i; }
    double value(double *z, Index outputs, const T *y, Index i) const { return f(z, outputs, target(y, i, outputs)); }
    void slope(double *z, Index outputs, const T *y, Index i) const { df(z, outputs, target(y, i, outputs)); }
    void bend(double *z, Index outputs, const T *y, Index i) const { d2f(z, outputs, target(y, i, outputs)); }
    double conjugate(double *s, Index outputs, const T *y, Index i) const { return fstar(s, outputs, target(y, i, outputs)); }
};
#endif

}  // namespace reshuffle
