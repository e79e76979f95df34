// CSR rows seen by columns: counts, sums of squares, norms of rows, and some columns as a smaller CSR matrix.
//
//     row i has the entries p = indptr[i] ... indptr[i + 1] - 1,   a_{i, indices[p]} = values[p]
//
// Values of type bool are never read: they stand for ones. Pointers need not begin at 0, so that a stretch of a larger
// matrix is read through a part of its indptr.
#pragma once
#include <type_traits>

#include "arrays.hpp"

namespace reshuffle {

// The place of a column that is not kept: the largest number of 32 bits, which no column has.
inline constexpr Visit absent = std::numeric_limits<Visit>::max();

template <class Value, class Column, class Pointer>
struct Rows {
    Span<const Value> values;
    Span<const Column> indices;
    Span<const Pointer> indptr;

    Index count() const { return indptr.size - 1; }
    Index first(Index i) const { return Index(indptr[i]); }
    Index last(Index i) const { return Index(indptr[i + 1]); }
    double value(Index p) const {
        if constexpr (std::is_same_v<Value, bool>)
            return 1.0;
        else
            return double(values[p]);
    }
};

// counts_j += the number of entries of column j.
template <class Column>
void count_columns(Span<const Column> indices, Span<Index> counts) {
    for (Column j : indices) ++counts[Index(j)];
}

// out_j += sum_i w_i a_ij^2.
template <class Value, class Column, class Pointer>
void add_squares(const Rows<Value, Column, Pointer> &rows, Span<const double> weights, Span<double> out) {
    for (Index i = 0; i < weights.size; ++i)
        for (Index p = rows.first(i); p < rows.last(i); ++p) {
            const double a = rows.value(p);
            out[Index(rows.indices[p])] += weights[i] * a * a;
        }
}

// columns_ji += a_ij: a dense matrix that lies column by column.
template <class Value, class Column, class Pointer>
void add_entries(const Rows<Value, Column, Pointer> &rows, Matrix<double> columns) {
    for (Index i = 0; i < columns.columns; ++i)
        for (Index p = rows.first(i); p < rows.last(i); ++p) columns[Index(rows.indices[p])][i] += rows.value(p);
}

// lengths[i + 1] = the number of entries of row i whose column has a place.
template <class Column, class Pointer>
void count_kept(const Rows<bool, Column, Pointer> &rows, Span<const Visit> place, Span<Pointer> lengths) {
    for (Index i = 0; i < rows.count(); ++i) {
        Index count = 0;
        for (Index p = rows.first(i); p < rows.last(i); ++p) count += place[Index(rows.indices[p])] != absent;
        lengths[i + 1] = Pointer(count);
    }
}

// Copy the entries whose column has a place, into the columns that `place` names; new_indptr says where each row
// begins, and new_values are not written where values are ones.
//
// Every entry is written; if it is not kept, the next one overwrites it, so that no branch is mispredicted. The new arrays
// need room for one more entry.
template <class Value, class Column, class Pointer>
void keep_columns(const Rows<Value, Column, Pointer> &rows, Span<const Visit> place, Span<Value> new_values,
                  Span<Column> new_indices, Span<const Pointer> new_indptr) {
    for (Index i = 0; i < rows.count(); ++i) {
        Index to = Index(new_indptr[i]);
        for (Index p = rows.first(i); p < rows.last(i); ++p) {
            const Visit j = place[Index(rows.indices[p])];
            if constexpr (!std::is_same_v<Value, bool>) new_values[to] = rows.values[p];
            new_indices[to] = Column(j);
            to += j != absent;
        }
    }
}

// The sum of the squares of some values.
template <class Value>
double square_of(const Value *values, Index size) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (Index p = 0; p < size; ++p) total += double(values[p]) * double(values[p]);
    return total;
}

// out_i = |a_i|^2 of dense rows.
template <class Value>
void dense_squared_norms(Matrix<const Value> values, Span<double> out) {
    for (Index i = 0; i < out.size; ++i) out[i] = square_of(values[i], values.columns);
}

// out_i = |a_i|^2 of CSR rows.
template <class Value, class Pointer>
void csr_squared_norms(Span<const Value> values, Span<const Pointer> indptr, Span<double> out) {
    for (Index i = 0; i < out.size; ++i)
        out[i] = square_of(values.data + Index(indptr[i]), Index(indptr[i + 1]) - Index(indptr[i]));
}

}  // namespace reshuffle
