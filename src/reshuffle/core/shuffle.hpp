// Draws an order uniformly at random, and lays out CSR rows in an order.
//
//     for position = last, last - 1, ...:   exchange position with floor(uniform (position + 1))
#pragma once
#include <utility>

#include "arrays.hpp"

namespace reshuffle {

// Fisher and Yates' shuffle, a piece at a time, from the end of the visits on: positions last, last - 1, ... are
// exchanged with positions drawn by the given uniform numbers, which lie in [0, 1). It takes half the memory of
// numpy's permutation.
//
// The product never rounds up to position + 1. The largest uniform number is 1 - 2^-53. Its exact product with an
// integer m lies more than half a unit in the last place below m, unless m is a power of two, and then the product is a
// floating-point number itself.
inline void shuffle(Span<Visit> visits, Span<const double> uniforms, Index last) {
    const Index count = std::min(uniforms.size, last);
    for (Index k = 0; k < count; ++k) {
        const Index position = last - k, other = Index(uniforms[k] * double(position + 1));
        std::swap(visits[position], visits[other]);
    }
}

// gathered <- the entries of rows order[0], order[1], ..., one row after the other. Row i has the entries
// indptr[i] ... indptr[i + 1] - 1.
template <class T, class Pointer>
void gather(Span<const T> values, Span<const Pointer> indptr, Span<const Visit> order, Span<T> gathered) {
    T *to = gathered.data;
    for (Visit i : order) {
        const Index start = Index(indptr[i]), length = Index(indptr[Index(i) + 1]) - start;
        to = std::copy_n(values.data + start, length, to);
    }
}

// The number of entries of these rows together.
template <class Pointer>
Index stored_in(Span<const Pointer> indptr, Span<const Visit> order) {
    Index total = 0;
    for (Visit i : order) total += Index(indptr[Index(i) + 1]) - Index(indptr[i]);
    return total;
}

}  // namespace reshuffle
