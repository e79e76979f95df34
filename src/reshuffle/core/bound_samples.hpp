// Samples and penalties as Python objects: checked when they are made, with the arrays kept alive.
#pragma once
#include "bound.hpp"
#include "samples.hpp"

namespace reshuffle {

struct BoundLoss {
    AnyLoss loss;
    nb::object kept;  // the owner of the addresses of a user's loss
};

struct BoundSamples {
    Samples samples;
    nb::tuple kept;  // the arrays
};

struct BoundForm {
    Form form;
    nb::tuple kept;
};

// x of these samples: float64, C order, with as many entries as the unknown has.
using Flat = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using FlatIn = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

inline double *unknowns(const Samples &s, const Flat &x) {
    require(Index(x.size()) == s.unknowns(), "x has not as many entries as there are unknowns");
    return x.data();
}

inline const double *unknowns(const Samples &s, const FlatIn &x) {
    require(Index(x.size()) == s.unknowns(), "x has not as many entries as there are unknowns");
    return x.data();
}

inline void check_range(const Samples &s, Index begin, Index end) {
    require(0 <= begin && begin <= end && end <= s.n, "the range of rows lies outside the samples");
}

template <class A>
void check_rows(const Samples &s, const A &a, Index begin, Index end) {
    require(Index(a.size()) == (end - begin) * s.margins(), "an array has not one entry per row and output");
}

}  // namespace reshuffle
