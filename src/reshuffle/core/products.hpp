// Products of columns: T T^T for a T whose rows hold the columns of a matrix, entry beside entry.
//
// Twelve sums at a time stay in registers: three columns by four others, each a vector with as many lanes as a register.
// Compilers by themselves keep fewer sums there and take 1.6 times as long. All products are summed in the same order, so
// that equal columns have equal products and dependent columns are recognised. The order depends only on the variant of
// the core.
#pragma once
#include "lanes.hpp"

namespace reshuffle {

inline constexpr Index cached_columns = 192;  // With 256 entries each, these columns take 384 kB, a part of the second-level cache.

// The root of a scale; a curvature below zero, which no convex loss has, counts as none. NaN stays NaN.
inline double root_of(double scale) { return scale < 0.0 ? 0.0 : std::sqrt(scale); }

struct Tile {
    double sums[3][4];
};

// The products of three columns with four others, over n entries.
inline Tile tile(const double *const (&s)[3], const double *const (&t)[4], Index n) {
    Lanes sums[3][4] = {};
    Index i = 0;
    for (; i + lanes <= n; i += lanes) {
        const Lanes a = lanes_at(s[0] + i), b = lanes_at(s[1] + i), c = lanes_at(s[2] + i);
        for (int k = 0; k < 4; k++) {
            const Lanes other = lanes_at(t[k] + i);
            sums[0][k] += a * other;
            sums[1][k] += b * other;
            sums[2][k] += c * other;
        }
    }
    Tile found;
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 4; k++) {
            double total = sum_of_lanes(sums[j][k]);
            for (Index rest = i; rest < n; rest++) total += s[j][rest] * t[k][rest];
            found.sums[j][k] = total;
        }
    return found;
}

// out_jk <- out_jk + factor (row j of A)^T (row k of B), over n entries of each, for j in [first, last) and
// k in [begin, end), with k >= j if `upper`. The last row takes the place of rows that are missing in a tile.
template <class A, class B, class Out>
void add_products(A &&a, B &&b, Index n, Index first, Index last, Index begin, Index end, bool upper, double factor,
                  Out &&out) {
    for (Index k = begin; k < end; k += 4) {
        const double *const four[4] = {b(k), b(std::min(k + 1, end - 1)), b(std::min(k + 2, end - 1)),
                                       b(std::min(k + 3, end - 1))};
        const Index stop = upper ? std::min(last, k + 4) : last, wide = std::min<Index>(4, end - k);
        for (Index j = first; j < stop; j += 3) {
            const double *const three[3] = {a(j), a(std::min(j + 1, last - 1)), a(std::min(j + 2, last - 1))};
            const Tile found = tile(three, four, n);
            for (Index r = 0; r < std::min<Index>(3, last - j); r++) {
                double *to = out(j + r) + k;
                for (Index c = 0; c < wide; c++) to[c] += factor * found.sums[r][c];
            }
        }
    }
}

// Adds the upper triangle of T T^T, over the first n entries of its rows, to out. Entries below the diagonal are
// meaningless.
inline void add_upper_products(Matrix<const double> T, Index n, Matrix<double> out) {
    auto row = [&](Index j) { return T[j]; };
    for (Index j = 0; j < out.rows; j += cached_columns)
        add_products(row, row, n, j, std::min(j + cached_columns, out.rows), j, out.rows, true, 1.0,
                     [&](Index k) { return out[k]; });
}

inline void mirror(Matrix<double> M) {  // the upper triangle, below the diagonal too, in squares that stay in the nearest cache
    constexpr Index side = 32;
    for (Index a = 0; a < M.rows; a += side)
        for (Index b = 0; b <= a; b += side)
            for (Index j = a; j < std::min(a + side, M.rows); j++)
                for (Index k = b; k < std::min(b + side, j); k++) M[j][k] = M[k][j];
}

}  // namespace reshuffle
