// The kernel of ExactFedRR's local passes by name, besides those of order_entries.cuh.
#pragma once
#include "exact_passes.cuh"
#include "order_entries.cuh"

namespace reshuffle::gpu {

#define EXACT_ROUND                                                                                                \
    (ExactRound<TheRows, THE_REAL>{ROWS, targets, weights, first, visits, samples, factors, chosen, count, x,      \
                                   anchors, anchor_of, kappa, features + THE_BIAS, features, passes, products != 0, \
                                   nothing, step, slopes, offsets, margins, coefs, blind, models, sums})

RESHUFFLE_ENTRY(exact_local_passes, RESHUFFLE_BOUNDS,
                (exact_passes<TheSetting, THE_VALUE>(EXACT_ROUND, reshuffle::THE_LOSS, here)), const THE_VALUE *values,
                const Visit *indices, const THE_START *starts, const THE_REAL *targets, const THE_REAL *weights,
                const Index *first, const Visit *visits, Index samples, const THE_REAL *factors, const Index *chosen,
                Index count, const THE_REAL *x, const THE_REAL *anchors, const int *anchor_of, const THE_REAL *kappa,
                int features, int passes, int products, unsigned nothing, THE_REAL step, THE_REAL *slopes,
                THE_REAL *offsets, THE_REAL *margins, THE_REAL *coefs, int *blind, THE_REAL *models, THE_REAL *sums)

}  // namespace reshuffle::gpu
