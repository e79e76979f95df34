// Visits the rows of a client in turn, by LANES threads; the local passes of all methods use this.
//
// A visit must wait for the visit before it, but not for the memory. So a lane reads its first HELD entries of a row AHEAD
// visits before their turn; it reads where the row begins LANES visits before that, and which row it is LANES before that.
// These reads have no condition (a lane without an entry reads the first one of the row), and nothing is computed from them
// before their turn: a warp waits for a number as soon as it computes with it, even if only to discard it. The compiler would
// compute places in shared memory as early as it can; that they depend on the margin before (`turn`) prevents this.
#pragma once
#include "rows.cuh"

namespace reshuffle::gpu {

// The settings of a compiled kernel; LANES, HELD and AHEAD are explained above. WHOLE: no row has more entries than are
// held. SHARED: models lie in shared memory. BIAS, RIDGE and WEIGHTED: there is an intercept, a ridge, and weights of
// samples.
template <int LANES_, int HELD_, int AHEAD_, bool WHOLE_, bool SHARED_, bool BIAS_, bool RIDGE_, bool WEIGHTED_>
struct Setting {
    static constexpr int LANES = LANES_, HELD = HELD_, AHEAD = AHEAD_;
    static constexpr bool WHOLE = WHOLE_, SHARED = SHARED_, BIAS = BIAS_, RIDGE = RIDGE_, WEIGHTED = WEIGHTED_;
    static_assert(AHEAD <= LANES && LANES % AHEAD == 0);
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

template <class S, class Rows, class Value, class Real>
struct Turns {
    using Offset = typename Rows::Offset;
    using Row = Entries<S, Rows, Value>;
    const Rows &rows;
    int lane;
    unsigned turn = 0;  // always 0, but the compiler takes it to depend on the last margin

    // a_i^T v, where the v_j of the held entries are kept in `read`.
    RESHUFFLE_KERNEL Real dot(const Row &row, const Real *v, Real *read) const {
        Real z = 0;
#pragma unroll
        for (int k = 0; k < S::HELD; k++) {
            read[k] = v[row.column[k] + turn];
            if (row.has(k, lane)) z += Real(row.value[k]) * read[k];
        }
        if constexpr (!S::WHOLE)
            for (int p = lane + S::HELD * S::LANES; p < row.length; p += S::LANES)
                z += Real(rows.value(row.start, p)) * v[rows.column(row.start, p)];
        return summed<S::LANES>(z);
    }

    // v <- v + factor a_i, where `read` has the v_j of the held entries.
    RESHUFFLE_KERNEL void add(const Row &row, Real factor, Real *v, const Real *read) const {
#pragma unroll
        for (int k = 0; k < S::HELD; k++)
            if (row.has(k, lane)) v[row.column[k] + turn] = read[k] + factor * Real(row.value[k]);
        if constexpr (!S::WHOLE)
            for (int p = lane + S::HELD * S::LANES; p < row.length; p += S::LANES)
                v[rows.column(row.start, p)] += factor * Real(rows.value(row.start, p));
    }

    // v <- v + factor a_i, without `read`.
    RESHUFFLE_KERNEL void put(const Row &row, Real factor, Real *v) const {
        Real read[S::HELD];
#pragma unroll
        for (int k = 0; k < S::HELD; k++) read[k] = v[row.column[k] + turn];
        add(row, factor, v, read);
    }

    // step(row, meta, place, k) for the visits k = 0 ... longest - 1 of the client, of which those from `count` on have no entries.
    // visit(k) is the sample of a visit, and meta(i, k) where its row begins and ends and what else a step reads, which the
    // lane `place` has. A client that takes part has at least one visit.
    template <class Sample, class Read, class Step>
    RESHUFFLE_KERNEL void each(int count, int longest, const Sample &visit, const Read &meta, const Step &step) {
        constexpr int LANES = S::LANES, AHEAD = S::AHEAD;
        const auto within = [&](int k) { return k < count ? k : 0; };
        auto now = meta(visit(within(lane)), within(lane));
        auto next = meta(visit(within(LANES + lane)), within(LANES + lane));
        Visit soon = visit(within(2 * LANES + lane));
        Row ring[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            ring[s].load(rows, from<LANES>(now.begin, s), from<LANES>(now.end, s), s < count, lane);
        for (int first = 0; first < longest; first += LANES) {
            const auto refill = [&](Row &row, const auto &meta, int at, int k) {
                row.load(rows, from<LANES>(meta.begin, at), from<LANES>(meta.end, at), k < count, lane);
            };
            for (int part = 0; part < LANES - AHEAD && first + part < longest; part += AHEAD) {
#pragma unroll
                for (int s = 0; s < AHEAD; s++) {
                    step(ring[s], now, part + s, first + part + s);
                    refill(ring[s], now, part + s + AHEAD, first + part + s + AHEAD);
                }
            }
#pragma unroll
            for (int s = 0; s < AHEAD; s++) {  // the rows of the next visits, which `now` does not hold
                step(ring[s], now, LANES - AHEAD + s, first + LANES - AHEAD + s);
                refill(ring[s], next, s, first + LANES + s);
            }
            now = next;
            next = meta(soon, within(first + 2 * LANES + lane));
            soon = visit(within(first + 3 * LANES + lane));
        }
    }
};

// Columns that are read and written together, 16 bytes.
template <class Real>
struct alignas(16) Pack {
    static constexpr int size = 16 / int(sizeof(Real));
    Real of[size];
};

// The numbers of a model in memory, rounded up to whole packs.
template <class Real>
RESHUFFLE_KERNEL constexpr int stride_of(int width) {
    return (width + Pack<Real>::size - 1) / Pack<Real>::size * Pack<Real>::size;
}

// out_j = the sum of sums_bj over the blocks b, by four independent sums.
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
