// The kernel of local passes by name, besides those of order_entries.cuh.
#pragma once
#include "order_entries.cuh"
#include "passes.cuh"

namespace reshuffle::gpu {

#define ROUND                                                                                                      \
    (Round<TheRows, THE_REAL>{ROWS, targets, weights, visits, bounds, averages, chosen, count, x,                  \
                              features + THE_BIAS, features, batch, nothing, step, ridge, models, coefs, sums})

RESHUFFLE_ENTRY(local_passes, RESHUFFLE_BOUNDS,
                (passes<TheSetting, THE_VALUE>(ROUND, reshuffle::THE_LOSS, here)), const THE_VALUE *values, const Visit *indices, const THE_START *starts, const THE_REAL *targets,
                const THE_REAL *weights, const Visit *visits, const Index *bounds, const THE_REAL *averages,
                const Index *chosen, Index count, const THE_REAL *x, int features, int batch, unsigned nothing,
                THE_REAL step, THE_REAL ridge, THE_REAL *models, THE_REAL *coefs, THE_REAL *sums)

}  // namespace reshuffle::gpu
