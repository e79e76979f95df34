// A pass over all rows at x, in float64 whatever the rows are stored in:
//
//     z_i = a_i^T x + b,   s_i = l'(z_i + o_i, y_i),   sum_i w_i l(z_i + o_i, y_i),   sum_i w_i s_i a_i,   sum_i w_i s_i.
//
// A block takes tiles of as many rows as it has threads. LANES threads share a row. The entries of a tile are copied into the
// memory of the block if they fit (CAPACITY), so that they are read from the device once and in storage order.
// The sum over the columns is made of integers (fixed_point.cuh): threads add to it in any order, and its bits are the same.
// Thread t begins with entry t of its row, not with the first, so that the threads add to different columns.
//
// Other passes share this code: with `given` slopes no margins are computed, and `Sum` chooses what is summed.
#pragma once
#include "fixed_point.cuh"
#include "losses.hpp"
#include "rows.cuh"

namespace reshuffle::gpu {

// What a pass sums by columns: w_i s_i a_ij, w_i a_ij^2, or 2^41 times the errors of rounding the first to integers.
enum class Sum { gradient, squares, rest };

template <class Target>
struct Targets {
    const Target *y;
    const double *weights, *offsets;  // null if all weights are 1, and if all offsets are 0
    RESHUFFLE_KERNEL double weight(Index i) const { return weights ? weights[i] : 1.0; }
    RESHUFFLE_KERNEL double offset(Index i) const { return offsets ? offsets[i] : 0.0; }
};

template <class Rows, class Target>
struct Whole {
    Rows rows;
    Targets<Target> targets;
    Index n;
    const double *x;
    int features;
    bool bias;
    const double *scales;   // of columns, powers of two; null if all are 1
    double up;              // a power of two: |up w_i s_i a_ij scale_j| < 2^41
    const double *given;    // slopes that replace those at x, or null
    double *slopes, *margins, *sums;  // sums: for each block, the `sums_of` numbers
};

// How many numbers a block writes to `sums`: one for each column, the intercept's, the loss, and the largest |w_i s_i|.
RESHUFFLE_KERNEL int sums_of(int features) { return features + 3; }

// The sum of v over the threads of a block, by a tree. Their number is a power of two; `room` has one number for each.
RESHUFFLE_KERNEL double block_sum(double v, double *room, const Here &here) {
    here.sync();
    room[here.thread] = v;
    for (int half = here.threads / 2; half > 0; half /= 2) {
        here.sync();
        if (here.thread < half) room[here.thread] += room[here.thread + half];
    }
    here.sync();
    return room[0];
}
RESHUFFLE_KERNEL double block_most(double v, double *room, const Here &here) {
    here.sync();
    room[here.thread] = v;
    for (int half = here.threads / 2; half > 0; half /= 2) {
        here.sync();
        if (here.thread < half) room[here.thread] = larger(room[here.thread], room[here.thread + half]);
    }
    here.sync();
    return room[0];
}

// A thread's sums over the rows that it has worked on.
struct Seen {
    double loss = 0.0, slopes = 0.0, most = 0.0;
    RESHUFFLE_KERNEL void add(double value, double coef) {
        loss += value, slopes += coef;
        const double size = std::fabs(coef);
        most = size <= most ? most : (size == size ? size : 1.0 / 0.0);  // NaN counts as infinite
    }
    RESHUFFLE_KERNEL void write(double *sums, int features, double *room, const Here &here) const {
        const double a = block_sum(slopes, room, here), b = block_sum(loss, room, here), c = block_most(most, room, here);
        if (here.thread == 0) sums[features] = a, sums[features + 1] = b, sums[features + 2] = c;
    }
};

// The loss of a row at its margin: returns w_i s_i, and stores the slope and margin if the pass wants them.
template <class Rows, class Target, class Loss>
RESHUFFLE_KERNEL double at_row(const Whole<Rows, Target> &r, const Loss &loss, Index i, double z, Seen &seen) {
    const double weight = r.targets.weight(i), y = double(r.targets.y[i]);
    double slope, value = 0.0;
    if (r.given)
        slope = r.given[i];
    else {
        if (r.bias) z += r.x[r.features];
        if (r.margins) r.margins[i] = z;
        z += r.targets.offset(i);
        slope = loss.template slope<Library>(z, y);
        value = loss.template value<Library>(z, y);
        if (r.slopes) r.slopes[i] = slope;
    }
    const double coef = weight * slope;
    seen.add(weight * value, coef);
    return coef;
}

constexpr int packed = 16;  // bytes that are copied at a time

// A part of an array in the memory of the block, whose first entry is `first`.
template <class T>
struct Staged {
    T *room;
    Index first;

    // All threads copy the entries begin ... end of an array, rounded outwards to multiples of 16 bytes.
    RESHUFFLE_KERNEL void fill(const T *array, Index begin, Index end, const Here &here) {
#if defined(__CUDACC__)
        constexpr Index each = packed / int(sizeof(T));
        const Index from = begin / each * each, packs = (end - from + each - 1) / each;
        for (Index k = here.thread; k < packs; k += here.threads) copied(room + k * each, array + from + k * each);
#else
        const Index from = begin;
        for (Index k = from; k < end; k++) room[k - from] = array[k];
#endif
        first = from;
    }
    RESHUFFLE_KERNEL T at(Index place) const { return room[place - first]; }
};

// The sums of a block, in its memory.
struct Sums {
    double *x, *total, *scales;  // no scales where all are 1
    int *counters;
    double *room;
    int features, stride;

    template <class Rows, class Target>
    RESHUFFLE_KERNEL Sums(const Whole<Rows, Target> &r, bool at_x, const Here &here)
        : features(r.features), stride((r.features + 1) / 2 * 2) {
        x = static_cast<double *>(here.shared), total = x + stride;
        scales = r.scales ? total + stride : nullptr;
        counters = reinterpret_cast<int *>(total + (r.scales ? 2 : 1) * stride);
        room = reinterpret_cast<double *>(counters + 2 * stride);
        for (int j = here.thread; j < features; j += here.threads) {
            x[j] = at_x ? r.x[j] : 0.0;
            total[j] = 0.0, counters[j] = counters[stride + j] = 0;
            if (scales) scales[j] = r.scales[j];
        }
    }
    // The memory behind the sums.
    RESHUFFLE_KERNEL double *rest(const Here &here) const { return room + (here.threads + 1) / 2 * 2; }
    template <Sum SUM>
    RESHUFFLE_KERNEL void add(Visit j, double coef, double value) const {
        const double own = SUM == Sum::squares ? coef * value : coef, factor = scales ? own * scales[j] : own;
        if constexpr (SUM == Sum::rest)
            FixedPoint::add_rest(counters, stride, j, factor, value);
        else
            FixedPoint::add(counters, stride, j, factor, value);
    }
    RESHUFFLE_KERNEL void empty(const Here &here) const {
        here.sync();
        for (int j = here.thread; j < features; j += here.threads) total[j] += FixedPoint::emptied(counters, stride, j);
    }
    template <class Rows, class Target>
    RESHUFFLE_KERNEL void write(const Whole<Rows, Target> &r, const Seen &seen, const Here &here) const {
        empty(here);
        double *sums = r.sums + here.block * Index(sums_of(features));
        for (int j = here.thread; j < features; j += here.threads)
            sums[j] = total[j] / r.up / (scales ? scales[j] : 1.0);
        seen.write(sums, features, room, here);
    }
};

template <int LANES, int CAPACITY, Sum SUM, class Value, class Column, class Rows, class Target, class Loss>
RESHUFFLE_KERNEL void row_pass(const Whole<Rows, Target> &r, const Loss &loss, const Here &here) {
    using Offset = typename Rows::Offset;
    constexpr bool UNIT = std::is_same_v<Value, bool>;
    constexpr bool SQUARES = SUM == Sum::squares;
    const int features = r.features, lane = here.thread % LANES;
    const Sums own(r, !SQUARES && !r.given, here);
    double *x = own.x;
    Staged<Value> values{reinterpret_cast<Value *>(own.rest(here)), 0};
    Staged<Column> columns{reinterpret_cast<Column *>(values.room + (UNIT ? 0 : CAPACITY + packed)), 0};
    Seen seen;
    int filled = 0;
    for (Index first = here.block * here.threads; first < r.n; first += here.blocks * here.threads) {
        const Index last = first + here.threads < r.n ? first + here.threads : r.n;
        bool staged = false;
        if constexpr (CAPACITY > 0) {
            const Offset begin = r.rows.begin(first), end = r.rows.end(last - 1);
            staged = Index(end - begin) <= CAPACITY;
            if (staged) {
                if constexpr (!UNIT) values.fill(r.rows.values, Index(begin), Index(end), here);
                if constexpr (!Rows::dense) columns.fill(r.rows.indices, Index(begin), Index(end), here);
                arrived();
            }
        }
        here.sync();
        const auto entry = [&](Offset start, int p, Visit &column) -> double {
            if constexpr (CAPACITY > 0)
                if (staged) {
                    column = Rows::dense ? Visit(p) : Visit(columns.at(Index(start) + p));
                    if constexpr (UNIT)
                        return 1.0;
                    else
                        return double(values.at(Index(start) + p));
                }
            column = r.rows.column(start, p);
            return double(r.rows.value(start, p));
        };
        const auto each = [&](Index i, const auto &work) {
            if (i >= last) return;
            const Offset start = r.rows.begin(i);
            const int count = int(r.rows.end(i) - start), begin = LANES == 1 && count > 0 ? here.thread % count : lane;
            for (int p = begin; p < count; p += LANES) work(start, p);
            if constexpr (LANES == 1)
                for (int p = 0; p < begin; p++) work(start, p);
        };
        const Index row = first + here.thread - lane;  // the first of the LANES rows that these lanes share
        double z = 0.0;
        if (!r.given && !SQUARES)
            for (int q = 0; q < LANES; q++) {
                double part = 0.0;
                each(row + q, [&](Offset start, int p) {
                    Visit j;
                    const double a = entry(start, p, j);
                    part = fused(a, x[j], part);
                });
                part = summed<LANES>(part);
                if (lane == q) z = part;
            }
        double coef = 0.0;
        if (row + lane < last) {
            if constexpr (SQUARES)
                coef = r.targets.weight(row + lane);
            else
                coef = at_row(r, loss, row + lane, z, seen);
        }
        coef *= r.up;
        for (int q = 0; q < LANES; q++) {
            const double coefs = from<LANES>(coef, q);
            each(row + q, [&](Offset start, int p) {
                Visit j;
                const double a = entry(start, p, j);
                own.add<SUM>(j, coefs, a);
            });
        }
        if ((filled += here.threads) >= FixedPoint::MOST) own.empty(here), filled = 0;
        here.sync();
    }
    own.write(r, seen, here);
}

// out_j = the sum over the blocks; for the last j, the largest instead.
RESHUFFLE_KERNEL void finish(const double *sums, Index blocks, int count, double *out, const Here &here) {
    for (Index j = here.block * here.threads + here.thread; j < count; j += here.blocks * here.threads) {
        double part[4] = {0.0, 0.0, 0.0, 0.0};
        for (Index b = 0; b < blocks; b += 4)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const double v = b + k < blocks ? sums[(b + k) * count + j] : 0.0;
                part[k] = j < count - 1 ? part[k] + v : larger(part[k], v);
            }
        out[j] = j < count - 1 ? (part[0] + part[1]) + (part[2] + part[3])
                               : larger(larger(part[0], part[1]), larger(part[2], part[3]));
    }
}

}  // namespace reshuffle::gpu
