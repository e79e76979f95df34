// Work on rows with K margins each, in float64 whatever the rows are stored in. The losses are those of vector_losses.hpp.
//
// Margins, slopes and probabilities are n x K matrices, row by row. K threads share a row (or a stretch of a column), so that they read
// the K numbers of a row of x, or of slopes, side by side. Every sum is made in a fixed order.
#pragma once
#include "row_pass.cuh"
#include "vector_losses.hpp"

namespace reshuffle::gpu {

// z_ik = sum_j a_ij x_jk + b_k
template <class Rows>
RESHUFFLE_KERNEL void output_margins(const Rows &rows, Index n, int features, bool bias, const double *x, int outputs, double *z,
                                     const Here &here) {
    for (Index t = here.block * here.threads + here.thread; t < n * outputs; t += here.blocks * here.threads) {
        const Index i = t / outputs;
        const int k = int(t - i * outputs);
        const auto start = rows.begin(i);
        const int length = int(rows.end(i) - start);
        double total = bias ? x[Index(features) * outputs + k] : 0.0;
        for (int p = 0; p < length; p++)
            total = fused(double(rows.value(start, p)), x[Index(rows.column(start, p)) * outputs + k], total);
        z[t] = total;
    }
}

// z_i <- the gradient of l at z_i, for count rows from `first` on, whose margins begin at z; each block writes its sum_i w_i l(z_i, y_i).
template <class Loss>
RESHUFFLE_KERNEL void output_slopes(const Loss &loss, const typename Loss::Target *targets, const double *weights, Index first,
                                    Index count, int outputs, double *z, double *sums, const Here &here) {
    double total = 0.0;
    for (Index k = here.block * here.threads + here.thread; k < count; k += here.blocks * here.threads) {
        double *own = z + k * outputs;
        const double value = loss.template value<Library>(own, outputs, targets, first + k);
        total += weights ? weights[first + k] * value : value;
        loss.template slope<Library>(own, outputs, targets, first + k);
    }
    total = block_sum(total, static_cast<double *>(here.shared), here);
    if (here.thread == 0) sums[here.block] = total;
}

// z_i <- the numbers p_i that determine the Hessian of l at z_i.
template <class Loss>
RESHUFFLE_KERNEL void output_bends(const Loss &loss, Index n, int outputs, double *z, const Here &here) {
    for (Index i = here.block * here.threads + here.thread; i < n; i += here.blocks * here.threads)
        loss.template bend<Library>(z + i * outputs, outputs, nullptr, i);
}

// Each block writes its sum_i w_i l*(s_i, y_i).
template <class Loss>
RESHUFFLE_KERNEL void output_conjugates(const Loss &loss, const typename Loss::Target *targets, const double *weights, Index n,
                                        int outputs, const double *slopes, double *sums, const Here &here) {
    double total = 0.0;
    for (Index i = here.block * here.threads + here.thread; i < n; i += here.blocks * here.threads) {
        const double value = loss.template conjugate<Library>(slopes + i * outputs, outputs, targets, i);
        total += weights ? weights[i] * value : value;
    }
    total = block_sum(total, static_cast<double *>(here.shared), here);
    if (here.thread == 0) sums[here.block] = total;
}

// out_k <- (a_i, 1) for i = first + k, k < count, where out has been set to zero. A warp takes a row.
template <class Rows>
RESHUFFLE_KERNEL void whole_rows(const Rows &rows, int features, bool bias, Index first, Index count, double *out,
                                 const Here &here) {
    const int lane = here.thread % warp, width = features + bias;
    const Index each = here.threads / warp;
    for (Index k = here.block * each + here.thread / warp; k < count; k += here.blocks * each) {
        const auto start = rows.begin(first + k);
        const int length = int(rows.end(first + k) - start);
        for (int p = lane; p < length; p += warp) out[k * width + rows.column(start, p)] = double(rows.value(start, p));
        if (bias && lane == 0) out[k * width + features] = 1.0;
    }
}

// --- columns of sparse rows ------------------------------------------------------------------------------------------------------------

// keys_p <- n j + i for the entry p, of row i and column j: sorted, they are the entries column by column.
template <class Rows>
RESHUFFLE_KERNEL void entry_keys(const Rows &rows, Index n, Index *keys, const Here &here) {
    for (Index i = here.block * here.threads + here.thread; i < n; i += here.blocks * here.threads) {
        const auto start = rows.begin(i);
        const int length = int(rows.end(i) - start);
        for (int p = 0; p < length; p++) keys[Index(start) + p] = Index(rows.column(start, p)) * n + i;
    }
}

// starts_j <- the number of entries before column j, for sorted keys.
RESHUFFLE_KERNEL void starts_of_columns(const Index *keys, Index stored, Index n, int features, Index *starts, const Here &here) {
    for (Index p = here.block * here.threads + here.thread; p <= stored; p += here.blocks * here.threads) {
        const Index before = p == 0 ? -1 : keys[p - 1] / n, own = p == stored ? Index(features) : keys[p] / n;
        for (Index j = before + 1; j <= own; j++) starts[j] = p;
    }
}

// parts_uk <- the sum of a_ij s_ik over the entries bounds_u ... bounds_{u+1} - 1, column by column.
template <class Value>
RESHUFFLE_KERNEL void sums_of_stretches(const Value *values, const Visit *rows, const Index *bounds, Index stretches, int outputs,
                                        const double *slopes, double *parts, const Here &here) {
    for (Index t = here.block * here.threads + here.thread; t < stretches * outputs; t += here.blocks * here.threads) {
        const Index u = t / outputs, end = bounds[u + 1];
        const int k = int(t - u * outputs);
        double total = 0.0;
        for (Index p = bounds[u]; p < end; p++) {
            const double s = slopes[Index(rows[p]) * outputs + k];
            if constexpr (std::is_same_v<Value, bool>)
                total += s;
            else
                total = fused(double(values[p]), s, total);
        }
        parts[t] = total;
    }
}

// out_jk <- the sum of parts_uk over the stretches u = first_j ... first_{j+1} - 1 of a column.
RESHUFFLE_KERNEL void sums_of_columns(const double *parts, const Index *first, int features, int outputs, double *out,
                                      const Here &here) {
    for (Index t = here.block * here.threads + here.thread; t < Index(features) * outputs; t += here.blocks * here.threads) {
        const Index j = t / outputs, k = t - j * outputs, end = first[j + 1];
        double total = 0.0;
        for (Index u = first[j]; u < end; u++) total += parts[u * outputs + k];
        out[t] = total;
    }
}

}  // namespace reshuffle::gpu
