// The kernels that rounds of all methods start by name. The compiler is given the types THE_REAL of models, THE_VALUE of rows and
// THE_START of row starts, THE_DENSE, THE_LOSS, and the members of a Setting: THE_LANES, THE_HELD, THE_AHEAD, THE_WHOLE,
// THE_IN_SHARED, THE_BIAS, THE_RIDGE, THE_WEIGHTED.
#pragma once
#include "entry.cuh"
#include "orders.cuh"
#include "turns.cuh"

namespace reshuffle::gpu {

#define DRAWN (Drawn{first, bounds, positions, clients, {{s1, s0}, {c1, c0}}, jumps, visits})
#define DRAWN_FROM                                                                                                \
    const Index *first, const Index *bounds, const Index *positions, Index clients, std::uint64_t s1,             \
        std::uint64_t s0, std::uint64_t c1, std::uint64_t c0, const Jump *jumps, Visit *visits

RESHUFFLE_ENTRY(shuffle_shared, , shuffle_in_shared(DRAWN, here), DRAWN_FROM)
RESHUFFLE_ENTRY(shuffle_global, , shuffle(DRAWN, here), DRAWN_FROM)
RESHUFFLE_ENTRY(draw_visits, , draw(DRAWN, here), DRAWN_FROM)

#if THE_DENSE
using TheRows = DenseRows<THE_VALUE, THE_START>;
#define ROWS (TheRows{values, features})
#else
using TheRows = SparseRows<THE_VALUE, THE_START>;
#define ROWS (TheRows{values, indices, starts})
#endif

using TheSetting = Setting<THE_LANES, THE_HELD, THE_AHEAD, THE_WHOLE, THE_IN_SHARED, THE_BIAS, THE_RIDGE,
                           THE_WEIGHTED>;

RESHUFFLE_ENTRY(sum_of_blocks, , add_up(sums, blocks_added, width, out, here), const THE_REAL *sums, Index blocks_added,
                int width, double *out)

}  // namespace reshuffle::gpu
