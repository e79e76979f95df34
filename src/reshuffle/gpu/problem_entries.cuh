// The kernels of one large problem by name. The compiler is given THE_VALUE, THE_COLUMN and THE_START of rows, THE_DENSE, THE_TARGET,
// THE_LOSS, THE_BIAS, and for
//     rows that lanes share           THE_LANES, THE_CAPACITY                     (row_pass.cuh)
//     short rows                      THE_HELD                                    (held_pass.cuh)
//     long dense rows                 THE_WIDE, THE_HELD, THE_PACK, THE_HEIGHT    (wide_pass.cuh)
//     rows with very many columns     THE_APART, THE_LANES                        (column_pass.cuh)
#pragma once
#include "column_pass.cuh"
#include "entry.cuh"
#include "held_pass.cuh"
#include "row_work.cuh"
#include "wide_pass.cuh"

namespace reshuffle::gpu {

#if THE_DENSE
using TheRows = DenseRows<THE_VALUE, THE_START>;
#define ROWS (TheRows{values, features})
#else
using TheRows = SparseRows<THE_VALUE, THE_START, THE_COLUMN>;
#define ROWS (TheRows{values, indices, starts})
#endif

#define SAMPLES                                                                                                       \
    const THE_VALUE *values, const THE_COLUMN *indices, const THE_START *starts, const THE_TARGET *targets,           \
        const double *weights, const double *offsets, Index n, int features
#define WHOLE(x, scales, up, given, slopes, margins, sums)                                                             \
    (Whole<TheRows, THE_TARGET>{ROWS, {targets, weights, offsets}, n, x, features, THE_BIAS, scales, up, given, slopes, \
                                margins, sums})
#if THE_WIDE
#define PASS(sum) wide_pass<THE_HELD, THE_PACK, THE_HEIGHT, Sum::sum, THE_VALUE>
#elif THE_HELD
#define PASS(sum) held_pass<THE_CAPACITY, THE_HELD, Sum::sum, THE_VALUE, THE_COLUMN>
#else
#define PASS(sum) row_pass<THE_LANES, THE_CAPACITY, Sum::sum, THE_VALUE, THE_COLUMN>
#endif

#if THE_APART
RESHUFFLE_ENTRY(rows_pass, RESHUFFLE_BOUNDS,
                (margin_pass<THE_LANES>(WHOLE(x, nullptr, 1.0, given, slopes, margins, sums), reshuffle::THE_LOSS, bends, here)), SAMPLES,
                const double *x, const double *given, double *slopes, double *margins, double *bends, double *sums)
RESHUFFLE_ENTRY(sum_of_columns, , sums_of_columns(parts, begins, stretches, features, out, here), const double *parts,
                const Index *begins, Index stretches, int features, double *out)
RESHUFFLE_ENTRY(parts_of_hessian, ,
                (bent_parts(WHOLE(x, nullptr, 1.0, nullptr, nullptr, nullptr, nullptr), reshuffle::THE_LOSS, extra, places, kept, first,
                            count, out, here)),
                SAMPLES, const double *x, double extra, const int *places, int kept, Index first, Index count, double *out)
#if THE_DENSE
#define COLUMNS(name, squares)                                                                                                  \
    RESHUFFLE_ENTRY(name, , (sums_of_stretches<squares>(ROWS, n, features, stretches, coefs, parts, here)),                     \
                    const THE_VALUE *values, Index n, int features, Index stretches, const double *coefs, double *parts)
#else
RESHUFFLE_ENTRY(rows_of_entries, , (rows_of(ROWS, n, out, here)), const THE_VALUE *values, const THE_COLUMN *indices,
                const THE_START *starts, Index n, Visit *out)
RESHUFFLE_ENTRY(first_of_columns, , (first_places(sorted, stored, features, out, here)), const THE_COLUMN *sorted, Index stored,
                int features, Index *out)
RESHUFFLE_ENTRY(owners_of_pieces, , owners(begins, features, out, here), const Index *begins, int features, Visit *out)
#define COLUMNS(name, squares)                                                                                                  \
    RESHUFFLE_ENTRY(name, ,                                                                                                     \
                    (sums_of_pieces<squares>(SparseRows<THE_VALUE, Index>{values, rows, starts}, begins, owner, pieces, piece,  \
                                             coefs, parts, here)),                                                              \
                    const THE_VALUE *values, const Visit *rows, const Index *starts, const Index *begins, const Visit *owner,   \
                    Index pieces, int piece, const double *coefs, double *parts)
#endif
COLUMNS(columns_pass, false)
COLUMNS(column_squares_pass, true)
#else
#define SUMS(name, sum)                                                                                                         \
    RESHUFFLE_ENTRY(name, RESHUFFLE_BOUNDS,                                                                                     \
                    PASS(sum)(WHOLE(x, scales, up, given, slopes, margins, sums), reshuffle::THE_LOSS, here), SAMPLES,          \
                    const double *x, const double *scales, double up, const double *given, double *slopes, double *margins,     \
                    double *sums)
SUMS(whole_pass, gradient)
#if !THE_WIDE
SUMS(rest_pass, rest)
#endif
RESHUFFLE_ENTRY(squares_pass, RESHUFFLE_BOUNDS,
                PASS(squares)(WHOLE(nullptr, scales, up, nullptr, nullptr, nullptr, sums), reshuffle::THE_LOSS, here), SAMPLES,
                const double *scales, double up, double *sums)
#endif
RESHUFFLE_ENTRY(sum_of_blocks, , finish(sums, blocks_added, count, out, here), const double *sums, Index blocks_added,
                int count, double *out)
RESHUFFLE_ENTRY(rows_of_hessian, ,
                (bent_rows(WHOLE(x, nullptr, 1.0, nullptr, nullptr, nullptr, nullptr), reshuffle::THE_LOSS, extra, first, count, out,
                           here)),
                SAMPLES, const double *x, double extra, Index first, Index count, double *out)
RESHUFFLE_ENTRY(conjugates_of_slopes, ,
                (conjugates(Targets<THE_TARGET>{targets, weights, offsets}, reshuffle::THE_LOSS, slopes, scale, n, sums, here)),
                const THE_TARGET *targets, const double *weights, const double *offsets, const double *slopes, double scale,
                Index n, double *sums)
RESHUFFLE_ENTRY(exponents_of_columns, , (exponents_of(ROWS, n, exponents, here)), const THE_VALUE *values,
                const THE_COLUMN *indices, const THE_START *starts, Index n, int features, int *exponents)
RESHUFFLE_ENTRY(spread_rows, , (spread(key, n, count, out, here)), std::uint64_t key, Index n, Index count, Index *out)
#if !THE_DENSE
RESHUFFLE_ENTRY(choice_of_rows, , (take_rows(ROWS, chosen, count, new_starts, new_values, new_columns, here)),
                const THE_VALUE *values, const THE_COLUMN *indices, const THE_START *starts, const Index *chosen, Index count,
                const THE_START *new_starts, THE_VALUE *new_values, THE_COLUMN *new_columns)
#endif

}  // namespace reshuffle::gpu
