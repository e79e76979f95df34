// Products of columns: T T^T for a T whose rows hold the columns of a matrix, entry beside entry.
//
// Eight sums at a time stay in registers: two columns by four others. All products are sums in the same order, so that
// columns that are equal have equal products, and columns that depend on each other are seen to. The order depends on
// the variant of the core alone.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

inline constexpr Index cached_columns = 64;  // with 256 entries each they are 128 kB: a part of the second-level cache

// The root of a scale; a curvature below zero, which no convex loss has, counts as none. NaN stays NaN.
inline double root_of(double scale) { return scale < 0.0 ? 0.0 : std::sqrt(scale); }

struct Tile {
    double sums[2][4];
};

// The products of s and t with p, q, r and v, over n entries.
inline Tile tile(const double *s, const double *t, const double *p, const double *q, const double *r, const double *v,
                 Index n) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0, e = 0.0, f = 0.0, g = 0.0, h = 0.0;
#pragma omp simd reduction(+ : a, b, c, d, e, f, g, h)
    for (Index i = 0; i < n; i++) {
        a += s[i] * p[i];
        b += s[i] * q[i];
        c += s[i] * r[i];
        d += s[i] * v[i];
        e += t[i] * p[i];
        f += t[i] * q[i];
        g += t[i] * r[i];
        h += t[i] * v[i];
    }
    return {{{a, b, c, d}, {e, f, g, h}}};
}

// out_jk <- out_jk + factor (row j of A)^T (row k of B), over n entries of each, for j in [first, last) and
// k in [begin, end) with k >= j where `upper`. Rows that are missing in a tile are stood in for by the last one.
template <class A, class B, class Out>
void add_products(A &&a, B &&b, Index n, Index first, Index last, Index begin, Index end, bool upper, double factor,
                  Out &&out) {
    for (Index k = begin; k < end; k += 4) {
        const double *p = b(k), *q = b(std::min(k + 1, end - 1)), *r = b(std::min(k + 2, end - 1)),
                     *v = b(std::min(k + 3, end - 1));
        const Index stop = upper ? std::min(last, k + 4) : last, wide = std::min<Index>(4, end - k);
        for (Index j = first; j < stop; j += 2) {
            const Index other = std::min(j + 1, last - 1);
            const Tile found = tile(a(j), a(other), p, q, r, v, n);
            double *to = out(j) + k;
            for (Index c = 0; c < wide; c++) to[c] += factor * found.sums[0][c];
            if (other > j) {
                to = out(other) + k;
                for (Index c = 0; c < wide; c++) to[c] += factor * found.sums[1][c];
            }
        }
    }
}

// The upper triangle of T T^T over the first n entries of its rows, added to out. What is written below the diagonal has
// no meaning.
inline void add_upper_products(Matrix<const double> T, Index n, Matrix<double> out) {
    auto row = [&](Index j) { return T[j]; };
    for (Index j = 0; j < out.rows; j += cached_columns)
        add_products(row, row, n, j, std::min(j + cached_columns, out.rows), j, out.rows, true, 1.0,
                     [&](Index k) { return out[k]; });
}

inline void mirror(Matrix<double> M) {  // the upper triangle, below the diagonal too
    for (Index j = 0; j < M.rows; j++)
        for (Index k = 0; k < j; k++) M[j][k] = M[k][j];
}

}  // namespace reshuffle
