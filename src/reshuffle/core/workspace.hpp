// Work arrays for the quadratic model of a Newton step, kept from one model to the next.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

struct Workspace {
    std::vector<Index> where, place;     // the coordinates of a face, and the place of each coordinate among them
    std::vector<unsigned char> free;     // whether the penalty is smooth along a coordinate
    std::vector<double> slopes, r, step, to, bent, scales, b, v, w;
    std::vector<double> null;            // a direction without curvature
    std::vector<double> factor;          // a square matrix: the Cholesky factor of a face, or of a group

    void fit(Index size) {
        if (Index(where.size()) == size) return;
        const auto n = static_cast<std::size_t>(size);
        where.resize(n), place.resize(n), free.resize(n);
        for (std::vector<double> *a : {&slopes, &r, &step, &to, &bent, &scales, &b, &v, &w, &null}) a->resize(n);
        factor.clear(), factor.shrink_to_fit(), factor.resize(n * n);
    }
    Matrix<double> matrix() { return {factor.data(), Index(where.size()), Index(where.size())}; }
};

}  // namespace reshuffle
