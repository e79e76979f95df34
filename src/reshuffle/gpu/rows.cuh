// Rows of a matrix on a device, dense or CSR. The values of CSR rows may all be 1, and are not stored then.
//
// Row i: its entries are value(start, p) in column(start, p), for start = begin(i) and p up to end(i) - start.
#pragma once
#include "lanes.cuh"

namespace reshuffle::gpu {

template <class Value, class Start>
struct DenseRows {
    using Offset = Start;
    static constexpr bool dense = true;
    const Value *values;
    int width;
    template <class I>
    RESHUFFLE_KERNEL Offset begin(I i) const { return Offset(i) * Offset(width); }
    template <class I>
    RESHUFFLE_KERNEL Offset end(I i) const { return begin(i) + Offset(width); }
    RESHUFFLE_KERNEL Visit column(Offset, int p) const { return Visit(p); }
    RESHUFFLE_KERNEL Value value(Offset start, int p) const { return values[start + Offset(p)]; }
};

template <class Value, class Start, class Column = Visit>
struct SparseRows {
    using Offset = Start;
    static constexpr bool dense = false;
    const Value *values;
    const Column *indices;
    const Start *starts;
    template <class I>
    RESHUFFLE_KERNEL Offset begin(I i) const { return starts[i]; }
    template <class I>
    RESHUFFLE_KERNEL Offset end(I i) const { return starts[i + 1]; }
    RESHUFFLE_KERNEL Visit column(Offset start, int p) const { return indices[start + Offset(p)]; }
    RESHUFFLE_KERNEL Value value(Offset start, int p) const {
        if constexpr (std::is_same_v<Value, bool>)
            return true;  // all values are 1, and none is stored
        else
            return values[start + Offset(p)];
    }
};

}  // namespace reshuffle::gpu
