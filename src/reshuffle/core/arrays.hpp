// Views of memory owned elsewhere: a pointer and its extents.
//
// Span<T>     x[i], i = 0 ... size - 1
// Matrix<T>   M[i] is a pointer to row i; entries of a row lie side by side
//
// An empty Span stands for an absent array (weights that are all 1, results that are not wanted).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace reshuffle {

using Index = std::int64_t;
using Visit = std::uint32_t;  // the number of a sample or of a column

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double epsilon = std::numeric_limits<double>::epsilon();

template <class T>
struct Span {
    T *data = nullptr;
    Index size = 0;

    T &operator[](Index i) const { return data[i]; }
    T *begin() const { return data; }
    T *end() const { return data + size; }
    explicit operator bool() const { return size > 0; }
    Span part(Index first, Index last) const { return {data + first, last - first}; }
    operator Span<const T>() const { return {data, size}; }
};

template <class T>
struct Matrix {
    T *data = nullptr;
    Index rows = 0, columns = 0;

    T *operator[](Index i) const { return data + i * columns; }
    Span<T> row(Index i) const { return {data + i * columns, columns}; }
    Span<T> flat() const { return {data, rows * columns}; }
    Matrix part(Index first, Index last) const { return {data + first * columns, last - first, columns}; }
    operator Matrix<const T>() const { return {data, rows, columns}; }
};

template <class T>
Span<T> span(std::vector<T> &v) {
    return {v.data(), Index(v.size())};
}

template <class T>
Span<const T> span(const std::vector<T> &v) {
    return {v.data(), Index(v.size())};
}

}  // namespace reshuffle
