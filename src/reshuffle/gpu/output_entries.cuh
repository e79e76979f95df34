// The kernels of losses with several outputs by name. The compiler is given THE_VALUE, THE_COLUMN and THE_START of rows, THE_DENSE,
// THE_LOSS and THE_BIAS.
#pragma once
#include "entry.cuh"
#include "output_work.cuh"

namespace reshuffle::gpu {

using TheLoss = reshuffle::THE_LOSS;
#if THE_DENSE
using TheRows = DenseRows<THE_VALUE, THE_START>;
#define ROWS (TheRows{values, features})
#else
using TheRows = SparseRows<THE_VALUE, THE_START, THE_COLUMN>;
#define ROWS (TheRows{values, indices, starts})
#endif
#define ROW_ARRAYS const THE_VALUE *values, const THE_COLUMN *indices, const THE_START *starts

RESHUFFLE_ENTRY(slopes_of_outputs, , (output_slopes(TheLoss{}, targets, weights, first, count, outputs, z, sums, here)),
                const TheLoss::Target *targets, const double *weights, Index first, Index count, int outputs, double *z,
                double *sums)
RESHUFFLE_ENTRY(bends_of_outputs, , (output_bends(TheLoss{}, n, outputs, z, here)), Index n, int outputs, double *z)
RESHUFFLE_ENTRY(conjugates_of_outputs, , (output_conjugates(TheLoss{}, targets, weights, n, outputs, slopes, sums, here)),
                const TheLoss::Target *targets, const double *weights, Index n, int outputs, const double *slopes, double *sums)
RESHUFFLE_ENTRY(rows_as_doubles, , (whole_rows(ROWS, features, THE_BIAS, first, count, out, here)), ROW_ARRAYS, int features,
                Index first, Index count, double *out)
#if !THE_DENSE
RESHUFFLE_ENTRY(margins_of_outputs, , (output_margins(ROWS, n, features, THE_BIAS, x, outputs, z, here)), ROW_ARRAYS, Index n,
                int features, const double *x, int outputs, double *z)
RESHUFFLE_ENTRY(keys_of_entries, , (entry_keys(ROWS, n, keys, here)), ROW_ARRAYS, Index n, Index *keys)
RESHUFFLE_ENTRY(column_starts, , (starts_of_columns(keys, stored, n, features, out, here)), const Index *keys, Index stored,
                Index n, int features, Index *out)
RESHUFFLE_ENTRY(stretch_sums, , (sums_of_stretches(values, rows, bounds, stretches, outputs, slopes, parts, here)),
                const THE_VALUE *values, const Visit *rows, const Index *bounds, Index stretches, int outputs,
                const double *slopes, double *parts)
RESHUFFLE_ENTRY(column_sums, , (sums_of_columns(parts, first, features, outputs, out, here)), const double *parts,
                const Index *first, int features, int outputs, double *out)
#endif

}  // namespace reshuffle::gpu
