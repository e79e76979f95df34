// Common parts of the bindings: views of numpy's arrays. There is no mathematics here.
//
// nanobind refuses an array of another type, number of dimensions or order before our function is called.
// Nothing is converted (`.noconvert()`), so that a kernel never silently works on a copy.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <string>

#include "arrays.hpp"

namespace reshuffle {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
Span<T> view(const Array<T> &a) {
    return {a.data(), Index(a.size())};
}

template <class T>
Matrix<T> view(const Array2<T> &a) {
    return {a.data(), Index(a.shape(0)), Index(a.shape(1))};
}

using Free = nb::gil_scoped_release;  // while one is alive, other Python threads run

inline void require(bool good, const char *what) {
    if (!good) throw nb::value_error(what);
}

}  // namespace reshuffle
