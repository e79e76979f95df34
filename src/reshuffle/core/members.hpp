// Groups of coordinates that may overlap: their index lists end to end.
//
//     group g has the coordinates members[k],   k = starts[g] ... starts[g + 1] - 1
//
// A group names each of its coordinates once.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

struct Members {
    Span<const Index> members, starts;

    Index count() const { return starts.size - 1; }
    Index first(Index g) const { return starts[g]; }
    Index last(Index g) const { return starts[g + 1]; }
    Index operator[](Index k) const { return members[k]; }
};

// Whether ends is 0 = ends[0] <= ends[1] <= ... <= ends[n] = last.
inline bool rises(Span<const Index> ends, Index last) {
    if (ends.size < 1 || ends[0] != 0 || ends[ends.size - 1] != last) return false;
    bool good = true;
    for (Index i = 1; i < ends.size; ++i) good &= ends[i - 1] <= ends[i];
    return good;
}

// Whether every number lies in 0 ... size - 1. Read as unsigned, a negative number is a large one.
inline bool below(Span<const Index> numbers, Index size) {
    bool good = true;
    for (Index number : numbers) good &= std::uint64_t(number) < std::uint64_t(size);
    return good;
}

// sum_k v[members[k]]^2 over one group.
inline double group_square(const Members &groups, Index g, Span<const double> v) {
    double square = 0.0;
#pragma omp simd reduction(+ : square)
    for (Index k = groups.first(g); k < groups.last(g); ++k) square += v[groups[k]] * v[groups[k]];
    return square;
}

// sum_k parts[k]^2 over one group, where parts holds an entry for each member of each group.
inline double part_square(const Members &groups, Index g, Span<const double> parts) {
    double square = 0.0;
#pragma omp simd reduction(+ : square)
    for (Index k = groups.first(g); k < groups.last(g); ++k) square += parts[k] * parts[k];
    return square;
}

}  // namespace reshuffle
