// The pass of row_pass.cuh over short sparse rows: one thread takes a row and keeps its HELD entries in registers.
//
// While a block works on one tile of rows, the next tile is copied into its memory.
#pragma once
#include "row_pass.cuh"

namespace reshuffle::gpu {

// The entries of a row that one thread keeps; those that the row does not have are zero. Rows of ones store no values.
template <int HELD, class Value, class Column>
struct Held {
    static constexpr bool UNIT = std::is_same_v<Value, bool>;
    Value value[HELD];
    Column column[HELD];

    RESHUFFLE_KERNEL void load(const Value *values, const Column *columns, int length, int begin) {
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            const int turned = begin + k, p = k >= length ? 0 : turned < length ? turned : turned - length;
            column[k] = columns[p];
            if constexpr (UNIT)
                value[k] = k < length;
            else
                value[k] = k < length ? values[p] : Value(0);
        }
    }
    RESHUFFLE_KERNEL double margin(const double *x) const {
        double part[4] = {0.0, 0.0, 0.0, 0.0};  // four independent sums: no addition waits for the one before
#pragma unroll
        for (int k = 0; k < HELD; k++) part[k % 4] = fused(double(value[k]), x[column[k]], part[k % 4]);
        return (part[0] + part[1]) + (part[2] + part[3]);
    }
};

template <int CAPACITY, int HELD, Sum SUM, class Value, class Column, class Rows, class Target, class Loss>
RESHUFFLE_KERNEL void held_pass(const Whole<Rows, Target> &r, const Loss &loss, const Here &here) {
    using Offset = typename Rows::Offset;
    constexpr bool SQUARES = SUM == Sum::squares;
    const bool at_x = !SQUARES && !r.given;
    const Sums own(r, at_x, here);
    Staged<Value> values{reinterpret_cast<Value *>(own.rest(here)), 0};
    constexpr bool UNIT = Held<HELD, Value, Column>::UNIT;
    Staged<Column> columns{reinterpret_cast<Column *>(values.room + (UNIT ? 0 : CAPACITY + packed)), 0};
    const Index stride = here.blocks * here.threads;
    Offset begin = 0, end = 0;  // of the row of this thread
    const auto fetch = [&](Index first) {
        if (first >= r.n) return;
        const Index last = (first + here.threads < r.n ? first + here.threads : r.n) - 1, i = first + here.thread;
        const Index from = Index(r.rows.begin(first)), to = Index(r.rows.end(last));
        if constexpr (!UNIT) values.fill(r.rows.values, from, to, here);
        columns.fill(r.rows.indices, from, to, here);
        begin = i <= last ? r.rows.begin(i) : 0, end = i <= last ? r.rows.end(i) : 0;
    };
    Seen seen;
    int filled = 0;
    Index first = here.block * here.threads;
    fetch(first);
    for (; first < r.n; first += stride) {
        const Index i = first + here.thread;
        const int length = int(end - begin);
        const bool live = i < r.n;
        arrived();
        here.sync();
        Held<HELD, Value, Column> held;
        if (length > 0)
            held.load(values.room + (Index(begin) - values.first), columns.room + (Index(begin) - columns.first), length,
                      here.thread % length);
        here.sync();
        fetch(first + stride);
        double coef = 0.0;
        if (live) {
            if constexpr (SQUARES)
                coef = r.targets.weight(i);
            else
                coef = at_row(r, loss, i, at_x && length > 0 ? held.margin(own.x) : 0.0, seen);
        }
        coef *= r.up;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < length) {
                const double a = double(held.value[k]);
                own.add<SUM>(held.column[k], coef, a);
            }
        if ((filled += here.threads) >= FixedPoint::MOST) own.empty(here), filled = 0;
    }
    own.write(r, seen, here);
}

}  // namespace reshuffle::gpu
