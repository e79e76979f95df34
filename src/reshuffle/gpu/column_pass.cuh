// Passes over rows with more columns than the memory of a block has room for: margins by rows, sums by columns.
//
//     z_i = a_i^T x + b,   s_i = l'(z_i + o_i, y_i)      LANES threads share a row, and read x from device memory
//     sum_i coef_i a_ij                                  from a copy of the rows that lies column by column, or from dense rows
//
// Every sum is made in one order, which depends on the rows alone: a column is cut into pieces of PIECE entries, a warp sums each piece,
// and one thread adds up the pieces of a column.
#pragma once
#include "row_pass.cuh"

namespace reshuffle::gpu {

// Slopes and margins of all rows, and the sums of Seen of each block. With `bends`, also the curvatures l''.
template <int LANES, class Rows, class Target, class Loss>
RESHUFFLE_KERNEL void margin_pass(const Whole<Rows, Target> &r, const Loss &loss, double *bends, const Here &here) {
    const int lane = here.thread % LANES;
    Seen seen;
    for (Index first = here.block * here.threads; first < r.n; first += here.blocks * here.threads) {
        const Index row = first + here.thread - lane, i = row + lane;  // these lanes share LANES rows from `row` on
        double z = 0.0;
        if (!r.given)
            for (int q = 0; q < LANES; q++) {
                double part = 0.0;
                if (row + q < r.n) {
                    const auto start = r.rows.begin(row + q);
                    const int count = int(r.rows.end(row + q) - start);
#pragma unroll 4
                    for (int p = lane; p < count; p += LANES)
                        part = fused(double(r.rows.value(start, p)), r.x[r.rows.column(start, p)], part);
                }
                part = summed<LANES>(part);
                if (lane == q) z = part;
            }
        if (i < r.n) {
            at_row(r, loss, i, z, seen);
            if (bends)
                bends[i] = loss.template bend<Library>(z + (r.bias ? r.x[r.features] : 0.0) + r.targets.offset(i),
                                                       double(r.targets.y[i]));
        }
    }
    seen.write(r.sums + 3 * here.block, 0, static_cast<double *>(here.shared), here);
}

// out_p <- the row of entry p. A warp takes a row.
template <class Rows>
RESHUFFLE_KERNEL void rows_of(const Rows &rows, Index n, Visit *out, const Here &here) {
    const int lane = here.thread % warp;
    const Index each = here.threads / warp;
    for (Index i = here.block * each + here.thread / warp; i < n; i += here.blocks * each)
        for (Index p = Index(rows.begin(i)) + lane; p < Index(rows.end(i)); p += warp) out[p] = Visit(i);
}

// out_j <- the place of the first of these sorted columns that is at least j, for j up to `features`.
template <class Column>
RESHUFFLE_KERNEL void first_places(const Column *sorted, Index stored, int features, Index *out, const Here &here) {
    for (Index j = here.block * here.threads + here.thread; j <= features; j += here.blocks * here.threads) {
        Index low = 0, high = stored;
        while (low < high) {
            const Index middle = low + (high - low) / 2;
            if (Index(sorted[middle]) < j)
                low = middle + 1;
            else
                high = middle;
        }
        out[j] = low;
    }
}

// out_k <- the column of piece k; those of column j are begins_j ... begins_{j+1}.
RESHUFFLE_KERNEL void owners(const Index *begins, int features, Visit *out, const Here &here) {
    for (Index j = here.block * here.threads + here.thread; j < features; j += here.blocks * here.threads)
        for (Index k = begins[j]; k < begins[j + 1]; k++) out[k] = Visit(j);
}

// parts_k <- the sum of coef_i a_ij, or with SQUARES of coef_i a_ij^2, over the entries of a piece. `columns` are the rows of the transpose.
template <bool SQUARES, class Columns>
RESHUFFLE_KERNEL void sums_of_pieces(const Columns &columns, const Index *begins, const Visit *owner, Index pieces, int piece,
                                     const double *coefs, double *parts, const Here &here) {
    const int lane = here.thread % warp;
    const Index each = here.threads / warp;
    for (Index k = here.block * each + here.thread / warp; k < pieces; k += here.blocks * each) {
        const Visit j = owner[k];
        const Index start = columns.begin(j) + (k - begins[j]) * piece, left = columns.end(j) - start;
        const int count = int(left < piece ? left : piece);
        double part[4] = {0.0, 0.0, 0.0, 0.0};  // four independent sums: no addition waits for the one before
        for (int p = lane; p < count; p += 4 * warp)
#pragma unroll
            for (int q = 0; q < 4; q++)
                if (p + q * warp < count) {
                    const double a = double(columns.value(start, p + q * warp));
                    const double coef = coefs ? coefs[columns.column(start, p + q * warp)] : 1.0;
                    part[q] = fused(SQUARES ? coef * a : coef, a, part[q]);
                }
        const double total = summed<warp>((part[0] + part[1]) + (part[2] + part[3]));
        if (lane == 0) parts[k] = total;
    }
}

// parts <- the sums over stretches of dense rows: a thread takes one column of a stretch, a block as many columns as it has threads.
template <bool SQUARES, class Rows>
RESHUFFLE_KERNEL void sums_of_stretches(const Rows &rows, Index n, int features, Index stretches, const double *coefs, double *parts,
                                        const Here &here) {
    const Index tiles = (features + here.threads - 1) / here.threads, tall = (n + stretches - 1) / stretches;
    for (Index b = here.block; b < tiles * stretches; b += here.blocks) {
        const Index j = b % tiles * here.threads + here.thread, stretch = b / tiles;
        const Index first = stretch * tall, last = first + tall < n ? first + tall : n;
        if (j >= features) continue;
        double part = 0.0;
#pragma unroll 8
        for (Index i = first; i < last; i++) {
            const double a = double(rows.value(rows.begin(i), int(j))), coef = coefs ? coefs[i] : 1.0;
            part = fused(SQUARES ? coef * a : coef, a, part);
        }
        parts[stretch * features + j] = part;
    }
}

// out_j <- the sum of parts begins_j ... begins_{j+1}; without `begins` that of parts j, j + features, ... of all stretches.
RESHUFFLE_KERNEL void sums_of_columns(const double *parts, const Index *begins, Index stretches, int features, double *out,
                                      const Here &here) {
    for (Index j = here.block * here.threads + here.thread; j < features; j += here.blocks * here.threads) {
        const Index count = begins ? begins[j + 1] - begins[j] : stretches, step = begins ? 1 : features;
        const double *own = parts + (begins ? begins[j] : j);
        double part[4] = {0.0, 0.0, 0.0, 0.0};
        for (Index k = 0; k < count; k += 4)
#pragma unroll
            for (int q = 0; q < 4; q++)
                if (k + q < count) part[q] += own[(k + q) * step];
        out[j] = (part[0] + part[1]) + (part[2] + part[3]);
    }
}

// bent_rows of row_work.cuh for the `kept` columns: column j has the place places_j, or is left out if that is negative. The intercept follows
// these columns.
template <class Rows, class Target, class Loss>
RESHUFFLE_KERNEL void bent_parts(const Whole<Rows, Target> &r, const Loss &loss, double extra, const int *places, int kept, Index first,
                                 Index count, double *out, const Here &here) {
    const int lane = here.thread % warp, width = kept + r.bias;
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
        for (int p = lane; p < length; p += warp) {
            const int place = places[r.rows.column(start, p)];
            if (place >= 0) out[k * width + place] = root * double(r.rows.value(start, p));
        }
        if (r.bias && lane == 0) out[k * width + kept] = root;
    }
}

}  // namespace reshuffle::gpu
