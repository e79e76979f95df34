// Computes the Hessian of f on a working set: a weighted Gram matrix of rows.
//
//     G = sum_i scales_i b_i b_i^T,    b_i = the active columns of row i less their shift, and 1 for an intercept.
//
// Either rows are laid out as dense columns, times the roots of their scales, and multiplied (`pack`); or sparse rows are
// added entry by entry (`scatter`), and the shift is corrected afterwards. Rows whose scale is zero are not read. One
// thread adds in a fixed order.
#pragma once
#include <type_traits>

#include "passes.hpp"
#include "products.hpp"

namespace reshuffle {

namespace gram {
inline constexpr Index packed = 256;      // This many rows are laid out side by side; with 500 columns they fill a second-level cache.
inline constexpr Index beside = 8;        // One entry of each of this many rows is laid out at once; together they fill a cache line.
inline constexpr Index absent = -1;       // The place of a column that is not active.
}  // namespace gram

// The active columns in increasing order, and the place of each column among them.
struct Active {
    std::vector<Index> columns;
    std::vector<Index> place;

    Index size() const { return Index(columns.size()); }
    void choose(Index features) {  // place from columns
        place.assign(std::size_t(features), gram::absent);
        for (std::size_t k = 0; k < columns.size(); k++) place[std::size_t(columns[k])] = Index(k);
    }
};

// T_jr = the active entry j of the r-th chosen row; a row of T has `stride` entries.
template <class R>
void pack(const R &rows, const Index *chosen, Index count, const Active &active, double *T, Index stride) {
    const Index size = active.size();
    if constexpr (R::dense) {
        const Index *columns = active.columns.data();
        Index r = 0;
        for (; r + gram::beside <= count; r += gram::beside) {
            const std::remove_cvref_t<decltype(*rows.row(0))> *from[gram::beside];
            for (Index k = 0; k < gram::beside; k++) from[k] = rows.row(chosen[r + k]);
            for (Index j = 0; j < size; j++)
                for (Index k = 0; k < gram::beside; k++) T[j * stride + r + k] = double(from[k][columns[j]]);
        }
        for (; r < count; r++) {
            const auto *from = rows.row(chosen[r]);
            for (Index j = 0; j < size; j++) T[j * stride + r] = double(from[columns[j]]);
        }
    } else {
        for (Index j = 0; j < size; j++) std::fill(T + j * stride, T + j * stride + count, 0.0);
        for (Index r = 0; r < count; r++)
            rows.for_each(chosen[r], [&](Index j, double a) {
                const Index to = active.place[std::size_t(j)];
                if (to != gram::absent) T[to * stride + r] = a;
            });
    }
}

// Adds the Gram matrix of the rows of the range to the upper triangle of out, rows laid out as dense columns.
// scales, one for each row of the range, are not negative. `bias` adds a column of ones at the end.
template <class R>
void add_packed_gram(const R &rows, Range range, const double *scales, const Active &active, const double *shift, bool bias,
                     Matrix<double> out) {
    const Index width = active.size() + bias;
    std::vector<double> T(std::size_t(width * gram::packed));
    Index chosen[gram::packed];
    double roots[gram::packed];
    Index i = range.begin;
    while (i < range.end) {
        Index count = 0;
        for (; i < range.end && count < gram::packed; i++) {
            const double scale = scales[i - range.begin];
            if (scale != 0.0) chosen[count] = i, roots[count] = root_of(scale), count++;
        }
        pack(rows, chosen, count, active, T.data(), gram::packed);
        for (Index j = 0; j < active.size(); j++) {
            double *column = T.data() + j * gram::packed;
            const double mean = shift[j];
#pragma omp simd
            for (Index r = 0; r < count; r++) column[r] = roots[r] * (column[r] - mean);
        }
        if (bias) std::copy(roots, roots + count, T.data() + active.size() * gram::packed);
        add_upper_products({T.data(), width, gram::packed}, count, out);
    }
}

// The Gram matrix entry by entry, without the shift: two rows of the matrix by four of its columns at a time. Zeros fill up
// the last four. The columns of a row are in increasing order; entries below the diagonal are meaningless.
template <class R>
void add_scattered_gram(const R &rows, Range range, const double *scales, const Active &active, bool bias, Matrix<double> out) {
    const Index size = active.size();
    std::vector<Index> where(std::size_t(size + 4));
    std::vector<double> what(std::size_t(size + 4));
    for (Index i = range.begin; i < range.end; i++) {
        const double scale = scales[i - range.begin];
        if (scale == 0.0) continue;
        Index count = 0;
        rows.for_each(i, [&](Index j, double a) {
            const Index to = active.place[std::size_t(j)];
            if (to == gram::absent) return;
            where[std::size_t(count)] = to, what[std::size_t(count)] = a, count++;
        });
        if (bias) where[std::size_t(count)] = size, what[std::size_t(count)] = 1.0, count++;
        const Index full = (count + 3) / 4 * 4;
        for (Index p = count; p < full; p++) where[std::size_t(p)] = where[0], what[std::size_t(p)] = 0.0;
        const Index *w = where.data();
        const double *v = what.data();
        for (Index p = 0; p < count; p += 2) {
            double *upper = out[w[p]], *lower = out[w[p + 1]];
            const double a = scale * v[p], b = scale * v[p + 1];
            for (Index q = p - p % 4; q < full; q += 4) {
                upper[w[q]] += a * v[q], upper[w[q + 1]] += a * v[q + 1];
                upper[w[q + 2]] += a * v[q + 2], upper[w[q + 3]] += a * v[q + 3];
                lower[w[q]] += b * v[q], lower[w[q + 1]] += b * v[q + 1];
                lower[w[q + 2]] += b * v[q + 2], lower[w[q + 3]] += b * v[q + 3];
            }
        }
    }
}

// Adds the upper triangle of sum_i c_i c_i^T with c_ij = b_i,feature(j) roots_i,output(j), the coupling of outputs in the
// Hessian. `feature` is a place among the active columns; their number stands for the intercept.
template <class R>
void add_gram_between(const R &rows, Range range, const double *roots, Index outputs, const Active &active,
                      const double *shift, bool bias, const Index *feature, const Index *output, Matrix<double> out) {
    const Index width = active.size() + bias;
    std::vector<double> T(std::size_t(width * gram::packed)), C(std::size_t(out.rows * gram::packed));
    std::vector<double> planes(std::size_t(outputs * gram::packed));
    Index chosen[gram::packed];
    Index i = range.begin;
    while (i < range.end) {
        Index count = 0;
        for (; i < range.end && count < gram::packed; i++) {
            const double *own = roots + (i - range.begin) * outputs;
            bool any = false;
            for (Index o = 0; o < outputs; o++) any = any || own[o] != 0.0;
            if (!any) continue;
            for (Index o = 0; o < outputs; o++) planes[std::size_t(o * gram::packed + count)] = own[o];
            chosen[count++] = i;
        }
        pack(rows, chosen, count, active, T.data(), gram::packed);
        for (Index j = 0; j < active.size(); j++)
            for (Index r = 0; r < count; r++) T[std::size_t(j * gram::packed + r)] -= shift[j];
        if (bias) std::fill_n(T.data() + active.size() * gram::packed, count, 1.0);
        for (Index j = 0; j < out.rows; j++) {
            const double *column = T.data() + feature[j] * gram::packed, *own = planes.data() + output[j] * gram::packed;
            double *to = C.data() + j * gram::packed;
#pragma omp simd
            for (Index r = 0; r < count; r++) to[r] = column[r] * own[r];
        }
        add_upper_products({C.data(), out.rows, gram::packed}, count, out);
    }
}

}  // namespace reshuffle
