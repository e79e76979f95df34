// Operations of one row a_i of the data matrix on the unknown x, for every layout of rows and shape of x.
//
//     dot              a_i^T x
//     drifted          a_i^T (x - drift q), without forming the difference
//     add              x <- x + c a_i
//     several_dots     a_k^T x for k = i, ..., i + several - 1, of dense rows: x is read once for all of them
//     add_several      x <- x + sum_k c_k a_k over `several` given rows k, of dense rows: x is read and written once
//     dots             out_o <- out_o + scale sum_j a_ij x_jo          (x has one column per output)
//     drifted_dots     out_o <- out_o + sum_j a_ij (x_jo - drift q_jo)
//     add_outer        x_jo <- x_jo + factor a_ij coefs_o
//     for_each         calls f(j, a_ij) for every stored entry
//     fetch, fetch_pointer   prefetch the row, or the pointer, that a shuffled pass reads next
//
// A layout is dense (C order), CSR, or CSR whose values are all 1 and are not stored. Values are float64 or float32;
// sums run in float64. Row pointers are unsigned, of 32 or 64 bits; column indices are unsigned, of 32 bits.
#pragma once
#include <utility>
#include <variant>

#include "lanes.hpp"

namespace reshuffle {

inline constexpr Index line = 64;        // The bytes of a cache line.
inline constexpr Index several = 4;      // A pass works on this many dense rows at a time; eight were no faster.
inline constexpr Index narrow = 64;      // Rows with fewer values than this are taken one at a time, as adding up the lanes would cost more than it saves.
inline constexpr Index fetched = 8;      // This many lines of a row are prefetched; the hardware follows a longer row by itself.

// Functions that only prefetch must be inlined: GCC considers a function that does nothing else to be without effect and
// drops its calls.
#if defined(__GNUC__)
#define RESHUFFLE_INLINE [[gnu::always_inline]] inline
#else
#define RESHUFFLE_INLINE inline
#endif

template <class T>
RESHUFFLE_INLINE void fetch_entry(const T *p) {
#if defined(__GNUC__)
    __builtin_prefetch(p);
#else
    (void)p;
#endif
}

template <class T>
RESHUFFLE_INLINE void fetch_span(const T *data, Index first, Index last) {
    constexpr Index step = line / Index(sizeof(T));
    for (Index p = first; p < std::min(last, first + fetched * step); p += step) fetch_entry(data + p);
    fetch_entry(data + last - 1);  // a row may begin in the middle of a line
}

template <class T>
struct Dense {
    const T *values;
    Index width;
    static constexpr bool dense = true, unit = false;

    const T *row(Index i) const { return values + i * width; }
    Index length(Index) const { return width; }

    double dot(Index i, const double *x) const {
        const T *a = row(i);
        double z = 0.0;
#pragma omp simd reduction(+ : z)
        for (Index j = 0; j < width; j++) z += a[j] * x[j];
        return z;
    }
    void several_dots(Index i, const double *x, double *out) const {
        const T *a = row(i);
        Lanes sums[several] = {};
        Index j = 0;
        for (; j + lanes <= width; j += lanes) {
            const Lanes v = lanes_at(x + j);
            for (Index k = 0; k < several; k++) sums[k] += lanes_at(a + k * width + j) * v;
        }
        for (Index k = 0; k < several; k++) {
            double z = sum_of_lanes(sums[k]);
            for (Index rest = j; rest < width; rest++) z += a[k * width + rest] * x[rest];
            out[k] = z;
        }
    }
    double drifted(Index i, const double *x, const double *q, double drift) const {
        const T *a = row(i);
        double z = 0.0;
#pragma omp simd reduction(+ : z)
        for (Index j = 0; j < width; j++) z += a[j] * (x[j] - drift * q[j]);
        return z;
    }
    void add(Index i, double c, double *x) const {
        const T *a = row(i);
#pragma omp simd
        for (Index j = 0; j < width; j++) x[j] += c * a[j];
    }
    void add_several(const Index (&which)[several], const double (&c)[several], double *x) const {
        const T *a[several];
        for (Index k = 0; k < several; k++) a[k] = row(which[k]);
#pragma omp simd
        for (Index j = 0; j < width; j++) {
            double z = x[j];
            for (Index k = 0; k < several; k++) z += c[k] * a[k][j];
            x[j] = z;
        }
    }
    void dots(Index i, const double *x, Index outputs, double scale, double *out) const {
        const T *a = row(i);
        const Index fours = width - width % 4;
        for (Index j = 0; j < fours; j += 4) {  // four features each time out is read and written
            const double b = scale * a[j], c = scale * a[j + 1], d = scale * a[j + 2], e = scale * a[j + 3];
            const double *u = x + j * outputs;
#pragma omp simd
            for (Index o = 0; o < outputs; o++)
                out[o] += b * u[o] + c * u[outputs + o] + d * u[2 * outputs + o] + e * u[3 * outputs + o];
        }
        for (Index j = fours; j < width; j++) {
            const double b = scale * a[j];
            for (Index o = 0; o < outputs; o++) out[o] += b * x[j * outputs + o];
        }
    }
    void drifted_dots(Index i, const double *x, const double *q, double drift, Index outputs, double *out) const {
        const T *a = row(i);
        const Index fours = width - width % 4;
        for (Index j = 0; j < fours; j += 4) {
            const double b = a[j], c = a[j + 1], d = a[j + 2], e = a[j + 3];
            const double *u = x + j * outputs, *v = q + j * outputs;
#pragma omp simd
            for (Index o = 0; o < outputs; o++) {
                const double here = b * u[o] + c * u[outputs + o] + d * u[2 * outputs + o] + e * u[3 * outputs + o];
                const double along = b * v[o] + c * v[outputs + o] + d * v[2 * outputs + o] + e * v[3 * outputs + o];
                out[o] += here - drift * along;
            }
        }
        for (Index j = fours; j < width; j++)
            for (Index o = 0; o < outputs; o++) out[o] += a[j] * (x[j * outputs + o] - drift * q[j * outputs + o]);
    }
    void add_outer(Index i, double factor, const double *coefs, Index outputs, double *x) const {
        const T *a = row(i);
        for (Index j = 0; j < width; j++) {
            const double c = factor * a[j];
            double *u = x + j * outputs;
#pragma omp simd
            for (Index o = 0; o < outputs; o++) u[o] += c * coefs[o];
        }
    }
    template <class F>
    void for_each(Index i, F &&f) const {
        const T *a = row(i);
        for (Index j = 0; j < width; j++) f(j, double(a[j]));
    }
    RESHUFFLE_INLINE void fetch(Index i) const { fetch_span(values, i * width, (i + 1) * width); }
    RESHUFFLE_INLINE void fetch_pointer(Index) const {}
};

// The starts of the rows of a CSR matrix: 32-bit numbers, or 64-bit ones if there are too many values.
struct Starts {
    const std::uint32_t *narrow = nullptr;
    const std::uint64_t *wide = nullptr;

    Index operator[](Index i) const { return wide ? Index(wide[i]) : Index(narrow[i]); }
};

// CSR rows; V is float64, float32, or bool where all values are 1 and none is stored.
template <class V>
struct Sparse {
    const V *values;
    const Visit *indices;
    Starts starts;
    static constexpr bool dense = false, unit = std::is_same_v<V, bool>;

    double value(Index p) const {
        if constexpr (unit)
            return 1.0;
        else
            return values[p];
    }
    Index length(Index i) const { return starts[i + 1] - starts[i]; }

    // the sum of term(p) over the entries p of row i, by four independent sums
    template <class F>
    double summed(Index i, F &&term) const {
        Index p = starts[i];
        const Index last = starts[i + 1];
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
        for (; p + 4 <= last; p += 4) {
            a += term(p);
            b += term(p + 1);
            c += term(p + 2);
            d += term(p + 3);
        }
        for (; p < last; p++) a += term(p);
        return (a + b) + (c + d);
    }
    double dot(Index i, const double *x) const {
        return summed(i, [&](Index p) { return value(p) * x[indices[p]]; });
    }
    double drifted(Index i, const double *x, const double *q, double drift) const {
        return summed(i, [&](Index p) { return value(p) * (x[indices[p]] - drift * q[indices[p]]); });
    }
    void add(Index i, double c, double *x) const {
        const Index last = starts[i + 1];
        for (Index p = starts[i]; p < last; p++) x[indices[p]] += c * value(p);
    }
    void dots(Index i, const double *x, Index outputs, double scale, double *out) const {
        const Index last = starts[i + 1];
        for (Index p = starts[i]; p < last; p++) {
            const double a = scale * value(p), *u = x + Index(indices[p]) * outputs;
#pragma omp simd
            for (Index o = 0; o < outputs; o++) out[o] += a * u[o];
        }
    }
    void drifted_dots(Index i, const double *x, const double *q, double drift, Index outputs, double *out) const {
        const Index last = starts[i + 1];
        for (Index p = starts[i]; p < last; p++) {
            const double a = value(p);
            const double *u = x + Index(indices[p]) * outputs, *v = q + Index(indices[p]) * outputs;
#pragma omp simd
            for (Index o = 0; o < outputs; o++) out[o] += a * (u[o] - drift * v[o]);
        }
    }
    void add_outer(Index i, double factor, const double *coefs, Index outputs, double *x) const {
        const Index last = starts[i + 1];
        for (Index p = starts[i]; p < last; p++) {
            const double a = factor * value(p);
            double *u = x + Index(indices[p]) * outputs;
#pragma omp simd
            for (Index o = 0; o < outputs; o++) u[o] += a * coefs[o];
        }
    }
    template <class F>
    void for_each(Index i, F &&f) const {
        const Index last = starts[i + 1];
        for (Index p = starts[i]; p < last; p++) f(Index(indices[p]), value(p));
    }
    RESHUFFLE_INLINE void fetch(Index i) const {
        const Index first = starts[i], last = starts[i + 1];
        if constexpr (!unit) fetch_span(values, first, last);
        fetch_span(indices, first, last);
    }
    RESHUFFLE_INLINE void fetch_pointer(Index i) const {
        if (starts.wide)
            fetch_entry(starts.wide + i);
        else
            fetch_entry(starts.narrow + i);
    }
};

using Rows = std::variant<Dense<double>, Dense<float>, Sparse<double>, Sparse<float>, Sparse<bool>>;

}  // namespace reshuffle
