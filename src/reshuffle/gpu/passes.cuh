// The local passes of a round over very many clients, and the sum of the clients' changes.
//
//     client m:   x_m = x;  x_m <- x_m - step * average_m * (sum over a batch of w_i l'(a_i^T x_m + b, y_i) a_i + ridge x_m)
//     all:        sum_m (x_m - x)
//
// as `sweep` does on the processor (core/sweep.hpp); the ridge acts by a scale of the iterate. LANES threads share a client.
// The models of a block's clients lie in its shared memory if they fit. When all clients of a block are done, its
// threads add up the changes, each thread its own columns, in the order of the clients; the blocks' sums are added in
// the order of the blocks. No sum depends on which thread comes first, so that a round gives the same bits each time.
#pragma once
#include "losses.hpp"
#include "turns.cuh"

namespace reshuffle::gpu {

template <class Rows, class Real>
struct Round {
    Rows rows;
    const Real *targets, *weights;  // no weights where all are 1
    const Visit *visits;            // of client c: bounds[c] ... bounds[c + 1] - 1
    const Index *bounds;
    const Real *averages;           // of each client
    const Index *chosen;            // the clients that take part; null if all do
    Index count;                    // the number of clients that take part
    const Real *x;
    int width, penalised, batch;
    unsigned nothing;               // 0: see `after` in lanes.cuh
    Real step, ridge;
    Real *models, *coefs, *sums;    // models that do not fit into shared memory, slopes of a batch, and the blocks' sums
};

template <class Real>
constexpr Real smallest_scale = Real(1e-9);  // A scale of the iterate below this is folded in before it underflows.

// What a later visit reads: where its row lies, its target and its weight, as stored.
template <class Offset, class Real>
struct Meta {
    Offset begin, end;
    Real y, weight;
};

template <class S, class Rows, class Value, class Real, class Loss>
struct Pass : Turns<S, Rows, Value, Real> {
    using Base = Turns<S, Rows, Value, Real>;
    using Offset = typename Base::Offset;
    using Row = typename Base::Row;
    using Base::lane, Base::turn;
    const Round<Rows, Real> &r;
    const Loss loss;
    Real *model;
    int thread;
    Real scale, intercept;

    RESHUFFLE_KERNEL Meta<Offset, Real> meta(Visit i) const {
        Real weight = 1;
        if constexpr (S::WEIGHTED) weight = r.weights[i];
        return {r.rows.begin(i), r.rows.end(i), r.targets[i], weight};
    }

    // Shrinks the scale as the ridge does in a batch of `visits` visits. If it is folded in, so are the entries already in `read`.
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
        Real z = this->dot(row, model, read);
        if constexpr (S::RIDGE) z *= scale;
        return S::BIAS ? z + intercept : z;
    }

    // x_m <- x_m + factor a_i, and the same for the intercept, which no ridge shrinks.
    RESHUFFLE_KERNEL void add(const Row &row, Real coef, const Real *read) {
        const Real change = -r.step * coef, factor = S::RIDGE ? change / scale : change;
        Base::add(row, factor, model, read);
        if constexpr (S::BIAS) intercept += change;
    }

    // Steps of one visit each. A client has at least one visit.
    RESHUFFLE_KERNEL void one_by_one(const Visit *visits, int count, int longest, Real average) {
        const auto step = [&](Row &row, const Meta<Offset, Real> &at, int place, int k) {
            const bool live = !(S::BIAS || S::RIDGE) || k < count;  // else no entries are enough
            Real read[S::HELD];
            const Real z = margin(row, read);
            const Real y = from<S::LANES>(at.y, place);
            const unsigned later = after(z, r.nothing);
            const Real weight = S::WEIGHTED ? average * from<S::LANES>(at.weight, place) : average;
            const Real coef = live ? weight * loss.template slope<Library>(z, y) : Real(0);
            if constexpr (S::RIDGE)
                if (live) shrink(average, 1, read);
            add(row, coef, read);
            turn = later;
            together();
        };
        this->each(count, longest, [&](int k) { return visits[k]; }, [&](Visit i, int) { return meta(i); }, step);
    }

    // Steps of one batch each: first all slopes at the same x_m, then all changes, one row after the other.
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
    Real *shared = static_cast<Real *>(here.shared);  // for the models and their sum, if they fit, and for the scales
    Real *models = S::SHARED ? shared : r.models + here.block * groups * Index(stride);
    Real *total = S::SHARED ? models + groups * stride : r.sums + here.block * Index(stride);
    Real *scales = S::SHARED ? total + stride : shared;
    Pass<S, Rows, Value, Real, Loss> pass{
        {r.rows, here.thread % S::LANES}, r, loss, models + group * Index(stride), here.thread, Real(1), Real(0)};
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

}  // namespace reshuffle::gpu
