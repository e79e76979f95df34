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
// A visit waits for the one before it, and its row for the memory. So the first HELD entries a lane has of a row are read
// AHEAD visits before their turn, and where a row begins, LANES visits before that.
#pragma once
#include "lanes.cuh"
#include "losses.hpp"

namespace reshuffle::gpu {

// Row i: its entries p = 0 ... length - 1 are value(start + p) in column(start, p).
template <class Value>
struct DenseRows {
    const Value *values;
    Index width;
    RESHUFFLE_KERNEL Index start(Visit i) const { return Index(i) * width; }
    RESHUFFLE_KERNEL int length(Visit) const { return int(width); }
    RESHUFFLE_KERNEL Visit column(Index, int p) const { return Visit(p); }
    RESHUFFLE_KERNEL Value value(Index start, int p) const { return values[start + p]; }
};

template <class Value, class Start>
struct SparseRows {
    const Value *values;
    const Visit *indices;
    const Start *starts;
    RESHUFFLE_KERNEL Index start(Visit i) const { return Index(starts[i]); }
    RESHUFFLE_KERNEL int length(Visit i) const { return int(starts[i + 1] - starts[i]); }
    RESHUFFLE_KERNEL Visit column(Index start, int p) const { return indices[start + p]; }
    RESHUFFLE_KERNEL Value value(Index start, int p) const {
        if constexpr (std::is_same_v<Value, bool>)
            return true;  // all values are 1, and none is stored
        else
            return values[start + p];
    }
};

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
    int width, penalised, bias, batch;
    Real step, ridge;
    Real *models, *coefs, *sums;    // room for the models where shared memory has none, for batches, and the blocks' sums
};

template <class Real>
constexpr Real smallest_scale = Real(1e-9);  // A scale of the iterate below this is folded in before it underflows.

// What a lane knows of one visit that is to come.
template <class Real>
struct Meta {
    Index start;
    int length;
    Real y, weight;
};

// The entries of a row that a lane has, of which the first HELD are kept.
template <int LANES, int HELD, class Value>
struct Entries {
    Visit column[HELD];
    Value value[HELD];
    Index start;
    int length;

    template <class Rows>
    RESHUFFLE_KERNEL void load(const Rows &rows, Index from, int count, int lane) {
        start = from, length = count;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            const int p = lane + k * LANES;
            const bool inside = p < length;
            column[k] = inside ? rows.column(start, p) : 0;
            value[k] = inside ? rows.value(start, p) : Value(0);
        }
    }
};

template <int LANES, int HELD, int AHEAD, bool WHOLE, bool SHARED, class Rows, class Value, class Real, class Loss>
struct Pass {
    const Round<Rows, Real> &r;
    const Loss loss;
    Real *model;
    int lane, thread;
    Real scale, intercept;

    RESHUFFLE_KERNEL Meta<Real> meta(const Visit *visits, int k, int count, Real average) const {
        if (k >= count) return {0, 0, Real(0), Real(0)};
        const Visit i = visits[k];
        return {r.rows.start(i), r.rows.length(i), r.targets[i], r.weights ? average * r.weights[i] : average};
    }

    // The scale after what the ridge does in a batch of so many visits. Entries that were read before are folded too.
    RESHUFFLE_KERNEL void shrink(Real average, int visits, Real *read) {
        if (!(r.ridge > Real(0))) return;
        scale *= Real(1) - r.step * r.ridge * average * Real(visits);
        if (!(scale < smallest_scale<Real>)) return;
        for (int j = lane; j < r.penalised; j += LANES) model[j] *= scale;
        if (read)
            for (int k = 0; k < HELD; k++) read[k] *= scale;
        scale = Real(1);
        among<LANES>(thread);
    }

    // a_i^T x_m of the held entries, whose x_j are kept in `read`, and of those beyond.
    RESHUFFLE_KERNEL Real dot(const Entries<LANES, HELD, Value> &row, Real *read) const {
        Real z = 0;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            read[k] = model[row.column[k]];
            z += Real(row.value[k]) * read[k];
        }
        if constexpr (!WHOLE)
            for (int p = lane + HELD * LANES; p < row.length; p += LANES)
                z += Real(r.rows.value(row.start, p)) * model[r.rows.column(row.start, p)];
        return summed<LANES>(z);
    }

    RESHUFFLE_KERNEL void add(const Entries<LANES, HELD, Value> &row, Real factor, const Real *read) {
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (lane + k * LANES < row.length) model[row.column[k]] = read[k] + factor * Real(row.value[k]);
        if constexpr (!WHOLE)
            for (int p = lane + HELD * LANES; p < row.length; p += LANES)
                model[r.rows.column(row.start, p)] += factor * Real(r.rows.value(row.start, p));
    }

    // Steps of one visit each.
    RESHUFFLE_KERNEL void one_by_one(const Visit *visits, int count, int longest, Real average) {
        static_assert(AHEAD <= LANES && LANES % AHEAD == 0);
        Meta<Real> now = meta(visits, lane, count, average), next = meta(visits, LANES + lane, count, average);
        Entries<LANES, HELD, Value> ring[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            ring[s].load(r.rows, from<LANES>(now.start, s), from<LANES>(now.length, s), lane);
        for (int first = 0; first < longest; first += LANES) {
            for (int part = 0; part < LANES && first + part < longest; part += AHEAD) {
#pragma unroll
                for (int s = 0; s < AHEAD; s++) {
                    const int place = part + s;
                    Real read[HELD];
                    Real z = scale * dot(ring[s], read);
                    if (r.bias) z += intercept;
                    const bool live = first + place < count;
                    const Real slope = loss.template slope<Library>(z, from<LANES>(now.y, place));
                    const Real coef = live ? from<LANES>(now.weight, place) * slope : Real(0);
                    if (live) shrink(average, 1, read);
                    if (live) add(ring[s], (r.ridge > Real(0) ? -r.step / scale : -r.step) * coef, read);
                    if (r.bias) intercept += -r.step * coef;
                    together();
                    const int later = place + AHEAD;
                    const bool own = later < LANES;
                    const int at = own ? later : later - LANES;
                    ring[s].load(r.rows, from<LANES>(own ? now.start : next.start, at),
                                 from<LANES>(own ? now.length : next.length, at), lane);
                }
            }
            now = next;
            next = meta(visits, first + 2 * LANES + lane, count, average);
        }
    }

    // Steps of a batch each: all slopes at the same x_m, and then all changes, one row after the other.
    RESHUFFLE_KERNEL void in_batches(const Visit *visits, int count, int longest, Real average, Real *coefs) {
        Entries<LANES, HELD, Value> row;
        Real read[HELD];
        for (int first = 0; first < longest; first += r.batch) {
            const int last = first + r.batch < longest ? first + r.batch : longest;
            for (int k = first; k < last; k++) {
                const Meta<Real> at = meta(visits, k, count, average);
                row.load(r.rows, at.start, at.length, lane);
                Real z = scale * dot(row, read);
                if (r.bias) z += intercept;
                if (lane == 0) coefs[k - first] = k < count ? at.weight * loss.template slope<Library>(z, at.y) : Real(0);
            }
            const int own = last < count ? last - first : count - first;
            if (own > 0) shrink(average, own, nullptr);
            together();
            const Real factor = -r.step / scale;
            for (int k = first; k < last; k++) {
                const Meta<Real> at = meta(visits, k, count, average);
                row.load(r.rows, at.start, at.length, lane);
                const Real coef = coefs[k - first];
#pragma unroll
                for (int e = 0; e < HELD; e++) read[e] = model[row.column[e]];
                add(row, factor * coef, read);
                if (r.bias) intercept += -r.step * coef;
                together();
            }
        }
    }
};

template <int LANES, int HELD, int AHEAD, bool WHOLE, bool SHARED, class Value, class Rows, class Real, class Loss>
RESHUFFLE_KERNEL void passes(const Round<Rows, Real> &r, const Loss &loss, const Here &here) {
    const int groups = here.threads / LANES, group = here.thread / LANES, width = r.width;
    Real *shared = static_cast<Real *>(here.shared);
    Real *scales = shared;  // one for each client of the block; negative where there is none
    Real *models = SHARED ? scales + groups : r.models + here.block * groups * Index(width);
    Real *total = SHARED ? models + groups * width : r.sums + here.block * Index(width);
    Pass<LANES, HELD, AHEAD, WHOLE, SHARED, Rows, Value, Real, Loss> pass{
        r, loss, models + group * Index(width), here.thread % LANES, here.thread, Real(1), Real(0)};
    for (int j = here.thread; j < width; j += here.threads) {
        total[j] = Real(0);
        for (int g = 0; g < groups; g++) models[g * Index(width) + j] = r.x[j];
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
            scales[group] = present ? pass.scale : Real(-1);
            if (r.bias) pass.model[width - 1] = pass.intercept;
        }
        here.sync();
        for (int j = here.thread; j < width; j += here.threads) {
            const Real x = r.x[j];
            Real changed = 0;
            for (int g = 0; g < groups; g++) {
                Real &entry = models[g * Index(width) + j];
                const Real scaled = j < r.penalised ? scales[g] * entry : entry;
                if (!(scales[g] < Real(0))) changed += scaled - x;
                entry = x;
            }
            total[j] += changed;
        }
        here.sync();
    }
    if constexpr (SHARED)
        for (int j = here.thread; j < width; j += here.threads) r.sums[here.block * Index(width) + j] = total[j];
}

// out_j = sum over the blocks of sums_bj, in four sums, each of which waits for a fourth of the others.
template <class Real>
RESHUFFLE_KERNEL void add_up(const Real *sums, Index blocks, int width, double *out, const Here &here) {
    for (Index j = here.block * here.threads + here.thread; j < width; j += here.blocks * here.threads) {
        double part[4] = {0.0, 0.0, 0.0, 0.0};
        for (Index b = 0; b < blocks; b += 4)
#pragma unroll
            for (int k = 0; k < 4; k++) part[k] += b + k < blocks ? double(sums[(b + k) * width + j]) : 0.0;
        out[j] = (part[0] + part[1]) + (part[2] + part[3]);
    }
}

}  // namespace reshuffle::gpu
