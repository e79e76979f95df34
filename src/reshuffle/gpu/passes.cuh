// The local passes of a round over very many clients, and the sum of what they change.
//
//     client m:   x_m = x;  x_m <- x_m - step * average_m * (sum over a batch of w_i l'(a_i^T x_m + b, y_i) a_i + ridge x_m)
//     all:        sum_m (x_m - x)
//
// as `sweep` does it on the processor (core/sweep.hpp), the ridge by a scale of the iterate. LANES threads share a client.
// The models of a block's clients lie in its shared memory where they fit. When all clients of a block are done, its
// threads add up what changed, each thread its own columns, in the order of the clients; the blocks' sums are added in
// the order of the blocks. No sum depends on which thread comes first, so that a round gives the same bits each time.
//
// A visit waits for the one before it, and its row for the memory. So the first HELD entries that a lane has of a row are
// read AHEAD visits before their turn, where a row begins LANES visits before that, and which row it is LANES before that.
// What is read ahead is read without a condition (a lane without an entry reads the first one of the row), and nothing is
// computed from it before its turn: a warp waits for a number as soon as it computes with it, if only to leave it out. The
// compiler would compute places in shared memory as soon as it can, and so they depend on the margin before (`turn`).
#pragma once
#include "losses.hpp"
#include "rows.cuh"

namespace reshuffle::gpu {

template <class Rows, class Real>
struct Round {
    Rows rows;
    const Real *targets, *weights;  // no weights where all are 1
    const Visit *visits;            // of client c: bounds[c] ... bounds[c + 1] - 1
    const Index *bounds;
    const Real *averages;           // of each client
    const Index *chosen;            // the clients that take part; nothing where all do
    Index count;                    // how many take part
    const Real *x;
    int width, penalised, batch;
    unsigned nothing;               // 0: see `after` in lanes.cuh
    Real step, ridge;
    Real *models, *coefs, *sums;    // room for the models where shared memory has none, for batches, and the blocks' sums
};

template <class Real>
constexpr Real smallest_scale = Real(1e-9);  // A scale of the iterate below this is folded in before it underflows.

// What is fixed when a kernel is compiled: see the beginning of this file. WHOLE says that no row has more entries than
// are held, SHARED that models lie in shared memory, BIAS, RIDGE and WEIGHTED that there are an intercept, a ridge and
// weights of samples.
template <int LANES_, int HELD_, int AHEAD_, bool WHOLE_, bool SHARED_, bool BIAS_, bool RIDGE_, bool WEIGHTED_>
struct Setting {
    static constexpr int LANES = LANES_, HELD = HELD_, AHEAD = AHEAD_;
    static constexpr bool WHOLE = WHOLE_, SHARED = SHARED_, BIAS = BIAS_, RIDGE = RIDGE_, WEIGHTED = WEIGHTED_;
    static_assert(AHEAD <= LANES && LANES % AHEAD == 0);
};

// Where a visit to come finds its row, and with which target and weight, as they lie in memory.
template <class Offset, class Real>
struct Meta {
    Offset begin, end;
    Real y, weight;
};

// The entries of a row that a lane has, of which the first HELD are kept.
template <class S, class Rows, class Value>
struct Entries {
    Visit column[S::HELD];
    Value value[S::HELD];
    typename Rows::Offset start;
    int length;

    RESHUFFLE_KERNEL void load(const Rows &rows, typename Rows::Offset begin, typename Rows::Offset end, bool live, int lane) {
        length = live ? int(end - begin) : 0;
        start = length ? begin : 0;
#pragma unroll
        for (int k = 0; k < S::HELD; k++) {
            const int p = has(k, lane) ? lane + k * S::LANES : 0;
            column[k] = rows.column(start, p);
            value[k] = rows.value(start, p);
        }
    }
    RESHUFFLE_KERNEL bool has(int k, int lane) const { return lane + k * S::LANES < length; }
};

template <class S, class Rows, class Value, class Real, class Loss>
struct Pass {
    using Offset = typename Rows::Offset;
    using Row = Entries<S, Rows, Value>;
    const Round<Rows, Real> &r;
    const Loss loss;
    Real *model;
    int lane, thread;
    Real scale, intercept;
    unsigned turn = 0;  // 0, from when the last margin is known

    RESHUFFLE_KERNEL Meta<Offset, Real> meta(Visit i) const {
        Real weight = 1;
        if constexpr (S::WEIGHTED) weight = r.weights[i];
        return {r.rows.begin(i), r.rows.end(i), r.targets[i], weight};
    }

    // The scale after what the ridge does in a batch of so many visits. Entries that were read before are folded too.
    RESHUFFLE_KERNEL void shrink(Real average, int visits, Real *read) {
        scale *= Real(1) - r.step * r.ridge * average * Real(visits);
        if (!(scale < smallest_scale<Real>)) return;
        for (int j = lane; j < r.penalised; j += S::LANES) model[j] *= scale;
        if (read)
            for (int k = 0; k < S::HELD; k++) read[k] *= scale;
        scale = Real(1);
        among<S::LANES>(thread);
    }

    // a_i^T x_m + b, where the x_j of the held entries are kept in `read`.
    RESHUFFLE_KERNEL Real margin(const Row &row, Real *read) {
        Real z = 0;
#pragma unroll
        for (int k = 0; k < S::HELD; k++) {
            read[k] = model[row.column[k] + turn];
            if (row.has(k, lane)) z += Real(row.value[k]) * read[k];
        }
        if constexpr (!S::WHOLE)
            for (int p = lane + S::HELD * S::LANES; p < row.length; p += S::LANES)
                z += Real(r.rows.value(row.start, p)) * model[r.rows.column(row.start, p)];
        z = summed<S::LANES>(z);
        if constexpr (S::RIDGE) z *= scale;
        return S::BIAS ? z + intercept : z;
    }

    // x_m <- x_m + factor a_i, and the same for the intercept, which no ridge shrinks.
    RESHUFFLE_KERNEL void add(const Row &row, Real coef, const Real *read) {
        const Real change = -r.step * coef, factor = S::RIDGE ? change / scale : change;
#pragma unroll
        for (int k = 0; k < S::HELD; k++)
            if (row.has(k, lane)) model[row.column[k] + turn] = read[k] + factor * Real(row.value[k]);
        if constexpr (!S::WHOLE)
            for (int p = lane + S::HELD * S::LANES; p < row.length; p += S::LANES)
                model[r.rows.column(row.start, p)] += factor * Real(r.rows.value(row.start, p));
        if constexpr (S::BIAS) intercept += change;
    }

    // Steps of one visit each. The visits of a client are at least one.
    RESHUFFLE_KERNEL void one_by_one(const Visit *visits, int count, int longest, Real average) {
        constexpr int LANES = S::LANES, AHEAD = S::AHEAD;
        const auto visit = [&](int k) { return visits[k < count ? k : 0]; };
        Meta<Offset, Real> now = meta(visit(lane)), next = meta(visit(LANES + lane));
        Visit soon = visit(2 * LANES + lane);
        Row ring[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            ring[s].load(r.rows, from<LANES>(now.begin, s), from<LANES>(now.end, s), s < count, lane);
        for (int first = 0; first < longest; first += LANES) {
            const auto step = [&](Row &row, int place) {
                const bool live = !(S::BIAS || S::RIDGE) || first + place < count;  // else no entries are enough
                Real read[S::HELD];
                const Real z = margin(row, read);
                const Real y = from<LANES>(now.y, place);
                const unsigned later = after(z, r.nothing);
                const Real weight = S::WEIGHTED ? average * from<LANES>(now.weight, place) : average;
                const Real coef = live ? weight * loss.template slope<Library>(z, y) : Real(0);
                if constexpr (S::RIDGE)
                    if (live) shrink(average, 1, read);
                add(row, coef, read);
                turn = later;
                together();
            };
            const auto refill = [&](Row &row, const Meta<Offset, Real> &meta, int at, int k) {
                row.load(r.rows, from<LANES>(meta.begin, at), from<LANES>(meta.end, at), k < count, lane);
            };
            for (int part = 0; part < LANES - AHEAD && first + part < longest; part += AHEAD) {
#pragma unroll
                for (int s = 0; s < AHEAD; s++) {
                    step(ring[s], part + s);
                    refill(ring[s], now, part + s + AHEAD, first + part + s + AHEAD);
                }
            }
#pragma unroll
            for (int s = 0; s < AHEAD; s++) {  // the rows of the next visits, of which `now` does not know
                step(ring[s], LANES - AHEAD + s);
                refill(ring[s], next, s, first + LANES + s);
            }
            now = next;
            next = meta(soon);
            soon = visit(first + 3 * LANES + lane);
        }
    }

    // Steps of a batch each: all slopes at the same x_m, and then all changes, one row after the other.
    RESHUFFLE_KERNEL void in_batches(const Visit *visits, int count, int longest, Real average, Real *coefs) {
        Row row;
        Real read[S::HELD];
        for (int first = 0; first < longest; first += r.batch) {
            const int last = first + r.batch < longest ? first + r.batch : longest;
            for (int k = first; k < last; k++) {
                const Meta<Offset, Real> at = meta(visits[k < count ? k : 0]);
                row.load(r.rows, at.begin, at.end, k < count, lane);
                const Real z = margin(row, read), weight = average * at.weight;
                if (lane == 0) coefs[k - first] = k < count ? weight * loss.template slope<Library>(z, at.y) : Real(0);
            }
            const int visited = last < count ? last - first : count - first;
            if constexpr (S::RIDGE)
                if (visited > 0) shrink(average, visited, nullptr);
            together();
            for (int k = first; k < last; k++) {
                const Meta<Offset, Real> at = meta(visits[k < count ? k : 0]);
                row.load(r.rows, at.begin, at.end, k < count, lane);
#pragma unroll
                for (int e = 0; e < S::HELD; e++) read[e] = model[row.column[e]];
                add(row, coefs[k - first], read);
                together();
            }
        }
    }
};

// Columns that are read and written together, 16 bytes.
template <class Real>
struct alignas(16) Pack {
    static constexpr int size = 16 / int(sizeof(Real));
    Real of[size];
};

// The numbers of a model in memory: whole packs.
template <class Real>
RESHUFFLE_KERNEL constexpr int stride_of(int width) {
    return (width + Pack<Real>::size - 1) / Pack<Real>::size * Pack<Real>::size;
}

// total_j <- total_j + sum over the first `count` models of (scale_g x_gj - x_j), and x_gj <- x_j.
template <class S, class Rows, class Real>
RESHUFFLE_KERNEL void collect(const Round<Rows, Real> &r, Real *models, const Real *scales, int count, Real *total,
                              const Here &here) {
    using Numbers = Pack<Real>;
    const int stride = stride_of<Real>(r.width);
    for (int j = Numbers::size * here.thread; j < stride; j += Numbers::size * here.threads) {
        Numbers x, changed = {};
#pragma unroll
        for (int v = 0; v < Numbers::size; v++) x.of[v] = j + v < r.width ? r.x[j + v] : Real(0);
        Numbers *place = reinterpret_cast<Numbers *>(models + j);
        for (int g = 0; g < count; g++, place += stride / Numbers::size) {
            Numbers found = *place;
            *place = x;
#pragma unroll
            for (int v = 0; v < Numbers::size; v++) {
                if constexpr (S::RIDGE) found.of[v] *= j + v < r.penalised ? scales[g] : Real(1);
                changed.of[v] += found.of[v] - x.of[v];
            }
        }
#pragma unroll
        for (int v = 0; v < Numbers::size; v++) total[j + v] += changed.of[v];
    }
}

template <class S, class Value, class Rows, class Real, class Loss>
RESHUFFLE_KERNEL void passes(const Round<Rows, Real> &r, const Loss &loss, const Here &here) {
    const int groups = here.threads / S::LANES, group = here.thread / S::LANES, width = r.width;
    const int stride = stride_of<Real>(width);
    Real *shared = static_cast<Real *>(here.shared);  // of the models and their sum where they fit, and of the scales
    Real *models = S::SHARED ? shared : r.models + here.block * groups * Index(stride);
    Real *total = S::SHARED ? models + groups * stride : r.sums + here.block * Index(stride);
    Real *scales = S::SHARED ? total + stride : shared;
    Pass<S, Rows, Value, Real, Loss> pass{
        r, loss, models + group * Index(stride), here.thread % S::LANES, here.thread, Real(1), Real(0), 0};
    for (int j = here.thread; j < stride; j += here.threads) {
        total[j] = Real(0);
        for (int g = 0; g < groups; g++) models[g * Index(stride) + j] = j < width ? r.x[j] : Real(0);
    }
    here.sync();
    for (Index begin = here.block * groups; begin < r.count; begin += here.blocks * groups) {
        const bool present = begin + group < r.count;
        const Index client = !present ? 0 : r.chosen ? r.chosen[begin + group] : begin + group;
        const Index first = r.bounds[client];
        const int count = present ? int(r.bounds[client + 1] - first) : 0, longest = most(count);
        const Real average = r.averages[client];
        pass.scale = Real(1), pass.intercept = r.x[width - 1];
        if (r.batch == 1)
            pass.one_by_one(r.visits + first, count, longest, average);
        else
            pass.in_batches(r.visits + first, count, longest, average,
                            r.coefs + (here.block * groups + group) * Index(r.batch));
        if (pass.lane == 0) {
            scales[group] = pass.scale;
            if (S::BIAS && present) pass.model[width - 1] = pass.intercept;
        }
        here.sync();
        const Index left = r.count - begin;
        collect<S>(r, models, scales, left < groups ? int(left) : groups, total, here);
        here.sync();
    }
    if constexpr (S::SHARED)
        for (int j = here.thread; j < stride; j += here.threads) r.sums[here.block * Index(stride) + j] = total[j];
}

// out_j = sum over the blocks of sums_bj, in four sums, each of which waits for a fourth of the others.
template <class Real>
RESHUFFLE_KERNEL void add_up(const Real *sums, Index blocks, int width, double *out, const Here &here) {
    const int stride = stride_of<Real>(width);
    for (Index j = here.block * here.threads + here.thread; j < width; j += here.blocks * here.threads) {
        double part[4] = {0.0, 0.0, 0.0, 0.0};
        for (Index b = 0; b < blocks; b += 4)
#pragma unroll
            for (int k = 0; k < 4; k++) part[k] += b + k < blocks ? double(sums[(b + k) * stride + j]) : 0.0;
        out[j] = (part[0] + part[1]) + (part[2] + part[3]);
    }
}

}  // namespace reshuffle::gpu
