// Work on single rows: scaled rows for Hessians, drawing and copying of rows, sizes of columns, and conjugates of losses.
#pragma once
#include "row_pass.cuh"

namespace reshuffle::gpu {

// out_k <- sqrt(w_i (l''(z_i + o_i, y_i) + extra)) (a_i, 1) for i = first + k, k < count, where out has been set to zero: the Hessian is the sum of
// out_k out_k^T. A warp takes a row.
template <class Rows, class Target, class Loss>
RESHUFFLE_KERNEL void bent_rows(const Whole<Rows, Target> &r, const Loss &loss, double extra, Index first, Index count,
                                double *out, const Here &here) {
    const int lane = here.thread % warp, width = r.features + r.bias;
    const Index each = here.threads / warp;
    for (Index k = here.block * each + here.thread / warp; k < count; k += here.blocks * each) {
        const Index i = first + k;
        const auto start = r.rows.begin(i);
        const int length = int(r.rows.end(i) - start);
        double z = 0.0;
        for (int p = lane; p < length; p += warp) z = fused(double(r.rows.value(start, p)), r.x[r.rows.column(start, p)], z);
        z = summed<warp>(z) + (r.bias ? r.x[r.features] : 0.0) + r.targets.offset(i);
        const double bend = loss.template bend<Library>(z, double(r.targets.y[i])) + extra;
        const double root = std::sqrt(r.targets.weight(i) * bend);
        for (int p = lane; p < length; p += warp) out[k * width + r.rows.column(start, p)] = root * double(r.rows.value(start, p));
        if (r.bias && lane == 0) out[k * width + r.features] = root;
    }
}

// out_k <- a row drawn at random from the k-th of `count` equal stretches of the n rows. The random number is a hash of the key and k, mixed
// as in SplitMix64.
RESHUFFLE_KERNEL void spread(std::uint64_t key, Index n, Index count, Index *out, const Here &here) {
    for (Index k = here.block * here.threads + here.thread; k < count; k += here.blocks * here.threads) {
        std::uint64_t h = key + std::uint64_t(k + 1) * 0x9e3779b97f4a7c15ull;
        h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
        h = (h ^ h >> 27) * 0x94d049bb133111ebull;
        h ^= h >> 31;
        const double place = (double(k) + double(h >> 11) * 0x1p-53) * (double(n) / double(count));
        out[k] = Index(place) < n ? Index(place) : n - 1;
    }
}

// Copies the entries of the chosen rows, one row after the other; row k begins at starts_k.
template <class Value, class Column, class Rows>
RESHUFFLE_KERNEL void take_rows(const Rows &rows, const Index *chosen, Index count, const typename Rows::Offset *starts,
                                Value *values, Column *columns, const Here &here) {
    const int lane = here.thread % warp;
    const Index each = here.threads / warp;
    for (Index k = here.block * each + here.thread / warp; k < count; k += here.blocks * each) {
        const auto start = rows.begin(chosen[k]), to = starts[k];
        const int length = int(rows.end(chosen[k]) - start);
        for (int p = lane; p < length; p += warp) {
            columns[to + p] = Column(rows.column(start, p));
            if (values) values[to + p] = rows.value(start, p);
        }
    }
}

// exponents_j <- the larger of exponents_j and the least e with |a_ij| < 2^e for every row i.
template <class Rows>
RESHUFFLE_KERNEL void exponents_of(const Rows &rows, Index n, int *exponents, const Here &here) {
    for (Index i = here.block * here.threads + here.thread; i < n; i += here.blocks * here.threads) {
        const auto start = rows.begin(i);
        const int length = int(rows.end(i) - start);
        for (int p = 0; p < length; p++) {
            const double a = double(rows.value(start, p));
            const int e = int(bits_of(a) >> 52 & 0x7ff) - 1022;
            int *place = exponents + rows.column(start, p);
            if (a != 0.0 && e > *place) raised(place, e);
        }
    }
}

// Each block writes its sum_i w_i (l*(t_i, y_i) - t_i o_i) for t_i = scale s_i, the conjugate of l(z + o_i, y_i), and 0 in place of the largest.
template <class Target, class Loss>
RESHUFFLE_KERNEL void conjugates(const Targets<Target> &targets, const Loss &loss, const double *slopes, double scale, Index n,
                                 double *sums, const Here &here) {
    double total = 0.0;
    for (Index i = here.block * here.threads + here.thread; i < n; i += here.blocks * here.threads) {
        const double t = scale * slopes[i];
        total += targets.weight(i) * (loss.template conjugate<Library>(t, double(targets.y[i])) - t * targets.offset(i));
    }
    total = block_sum(total, static_cast<double *>(here.shared), here);
    if (here.thread == 0) sums[2 * here.block] = total, sums[2 * here.block + 1] = 0.0;
}

}  // namespace reshuffle::gpu
