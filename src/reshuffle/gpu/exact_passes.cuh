// The local passes of ExactFedRR over very many clients, and the sum of the residuals of the round.
//
// What a client remembers is z_m, with h_m = (x - z_m) / tau_m. Each of `passes` passes over its n rows adds up, whatever
// the order, to the sum of its slopes, and so the image of z_m is, for g = step * factor_m and tau_m = g n passes,
//
//     T_m(z) = x - tau_m h_m + tau_m h_m - g sum_p sum_i w_i s_i^p a_i = x + A_m^T c_m,     c_i = -g w_i sum_p s_i^p,
//
// where s_i^p is the slope of row i when pass p visits it. So a client has to remember only one number for each row:
// z_m = anchor + A_m^T kappa_m, for an anchor that clients share. The residual T_m(z) - z_m = x - anchor + A_m^T (c - kappa)
// is how far the passes move the client's model from x. Visit k of a pass is made at y - g k q, where q is nabla f_m(x) - h_m
// plus the changes of the earlier passes; a_i^T q is computed for every row before a pass. So the memory of a block has only
// one vector v for each client, which holds first q, then the changes of a pass, and at the end the residual.
//
// Passes cancel each other if they move the model by less than BLIND of a step along q. That step replaces them: the
// residual is -g q, and the client has an anchor of its own from then on (`blind`, see exact_rounds.py).
#pragma once
#include "losses.hpp"
#include "turns.cuh"

namespace reshuffle::gpu {

template <class Rows, class Real>
struct ExactRound {
    Rows rows;
    const Real *targets, *weights;  // no weights where all are 1
    const Index *first;             // client c has the rows first[c] ... first[c + 1] - 1
    const Visit *visits;            // those of pass p are the `samples` from p * samples on, by clients as in `first`
    Index samples;
    const Real *factors;            // of each client
    const Index *chosen;            // the clients that take part; null if all do
    Index count;                    // the number of clients that take part
    const Real *x, *anchors;
    const int *anchor_of;           // the anchor of each client; null if all have the first
    const Real *kappa;
    int width, penalised, passes;
    bool products;                  // whether a_i^T (T_m(z) - z_m) is wanted
    unsigned nothing;               // 0: see `after` in lanes.cuh
    Real step;
    Real *slopes, *offsets, *margins, *coefs;  // for each row: two for intermediate numbers, a_i^T times the residual, and c
    int *blind;                     // 1 for clients whose passes cancel each other
    Real *models, *sums;            // v if shared memory is too small for it, and the blocks' sums
};

constexpr double smallest_move = 0.01;  // BLIND in federated/local.py

// What a later visit reads: where its row lies, and the other numbers of the row.
template <class Offset, class Real>
struct Seen {
    Offset begin, end;
    Index row;
    Real y, weight, old, base;
};

template <class S, class Rows, class Value, class Real, class Loss>
struct ExactPass : Turns<S, Rows, Value, Real> {
    using Base = Turns<S, Rows, Value, Real>;
    using Offset = typename Base::Offset;
    using Row = typename Base::Row;
    using Base::lane, Base::turn;
    using At = Seen<Offset, Real>;
    const ExactRound<Rows, Real> &r;
    const Loss loss;
    Real *v;
    Real intercept;  // of v
    Index begin;
    int count, longest;
    Real step, tau;
    const Real *anchor;

    RESHUFFLE_KERNEL Real weight(Index i) const {
        if constexpr (S::WEIGHTED) return r.weights[i];
        return Real(1);
    }

    // step(row, at, place, k) for the first `rows` rows of the client in their order, with old(i) of each.
    template <class Old, class Step>
    RESHUFFLE_KERNEL void each_row(int rows, const Old &old, const Step &step) {
        const auto read = [&](Visit i, int) {
            return At{r.rows.begin(i), r.rows.end(i), Index(i), r.targets[i], weight(i), old(Index(i)), Real(0)};
        };
        this->each(rows, longest, [&](int k) { return Visit(begin + k); }, read, step);
        together();
    }

    // v <- factor (x - anchor) where `mine`.
    RESHUFFLE_KERNEL void start(bool mine, Real factor) {
        const int last = r.width - 1;
        if (mine) {
            for (int j = lane; j < r.penalised; j += S::LANES) v[j] = factor * (r.x[j] - anchor[j]);
            intercept = S::BIAS ? factor * (r.x[last] - anchor[last]) : Real(0);
        }
        together();
    }

    // max_j |v_j|
    RESHUFFLE_KERNEL Real largest() const {
        Real found = S::BIAS ? Real(std::fabs(intercept)) : Real(0);
        for (int j = lane; j < r.penalised; j += S::LANES) found = greater(found, Real(std::fabs(v[j])));
        return greatest<S::LANES>(found);
    }

    // v <- scale (nabla f_m(x) - h_m) over the first `rows` rows; `keep` is given the row, its margin, slope and change.
    template <class Keep>
    RESHUFFLE_KERNEL void along_q(int rows, Real scale, const Keep &keep) {
        start(rows > 0, -scale / tau);
        const Real share = scale / Real(count);
        const auto add = [&](Row &row, const At &at, int place, int k) {
            Real read[S::HELD];
            Real z = this->dot(row, r.x, read);
            if constexpr (S::BIAS) z += r.x[r.width - 1];
            const Real slope = loss.template slope<Library>(z, from<S::LANES>(at.y, place));
            const Real w = S::WEIGHTED ? from<S::LANES>(at.weight, place) : Real(1);
            const Real old = from<S::LANES>(at.old, place);
            const Real change = k < rows ? share * w * slope + scale / tau * old : Real(0);
            this->put(row, change, v);
            if constexpr (S::BIAS) intercept += change;
            if (k < rows && lane == place) keep(at.row, z, slope, change);
            together();
        };
        each_row(rows, [&](Index i) { return r.kappa[i]; }, add);
    }

    // margins_i <- a_i^T v + b for every row; `keep` is given the row, this and old(i).
    template <class Old, class Keep>
    RESHUFFLE_KERNEL void products(const Old &old, const Keep &keep) {
        const auto read = [&](Row &row, const At &at, int place, int k) {
            Real entries[S::HELD];
            const Real z = this->dot(row, v, entries) + intercept;
            if (k < count && lane == place) keep(at.row, z, at.old);
        };
        each_row(count, old, read);
    }

    // One pass: v begins at zero, and a visit k of row i finds y - g k q at offsets_i - g k a_i^T q + a_i^T v.
    RESHUFFLE_KERNEL void pass(const Visit *visits, bool again) {
        for (int j = lane; j < r.penalised; j += S::LANES) v[j] = Real(0);
        intercept = Real(0);
        together();
        const auto read = [&](Visit i, int k) {
            const Real base = r.offsets[i] - step * Real(k) * r.margins[i];
            return At{r.rows.begin(i), r.rows.end(i), Index(i), r.targets[i], weight(i), r.slopes[i], base};
        };
        const auto visit = [&](Row &row, const At &at, int place, int k) {
            Real entries[S::HELD];
            const Real z = this->dot(row, v, entries) + intercept + from<S::LANES>(at.base, place);
            const unsigned later = after(z, r.nothing);
            const Real slope = loss.template slope<Library>(z, from<S::LANES>(at.y, place));
            const Real w = S::WEIGHTED ? from<S::LANES>(at.weight, place) : Real(1);
            const Real old = from<S::LANES>(at.old, place);
            const Real change = k < count ? -step * w * (slope - old) : Real(0);
            this->add(row, change, v, entries);
            if constexpr (S::BIAS) intercept += change;
            if (k < count && lane == place) r.slopes[at.row] = slope;
            turn = later;
            together();
        };
        this->each(count, longest, [&](int k) { return visits[k]; }, read, visit);
        together();
        for (Index i = begin + lane; i < begin + count; i += S::LANES)
            r.coefs[i] = (again ? r.coefs[i] : Real(0)) - step * weight(i) * r.slopes[i];
        together();
    }

    // v <- T_m(z) - z_m; returns whether the passes cancelled each other.
    RESHUFFLE_KERNEL bool residual(Real least) {
        start(count > 0, Real(1));
        const auto add = [&](Row &row, const At &at, int place, int k) {
            const Real old = from<S::LANES>(at.old, place), change = k < count ? old : Real(0);
            this->put(row, change, v);
            if constexpr (S::BIAS) intercept += change;
            together();
        };
        each_row(count, [&](Index i) { return r.coefs[i] - r.kappa[i]; }, add);
        const Real moved = largest();  // All lanes of a warp take part, those without a client too.
        const bool blind = count > 0 && moved < least;
        if (most(blind))
            along_q(blind ? count : 0, -step,
                    [&](Index i, Real, Real, Real change) { r.coefs[i] = r.kappa[i] + change; });
        return blind;
    }

    RESHUFFLE_KERNEL bool round() {
        along_q(count, Real(1), [&](Index i, Real z, Real slope, Real) { r.offsets[i] = z, r.slopes[i] = slope; });
        const Real least = Real(smallest_move) * step * largest();
        const Real length = step * Real(count);
        const auto none = [](Index) { return Real(0); };
        const auto keep = [&](Index i, Real z, Real) { r.margins[i] = z; };
        products(none, keep);
        for (int p = 0; p < r.passes; p++) {
            pass(r.visits + p * r.samples + begin, p > 0);
            if (p + 1 == r.passes) break;
            products([&](Index i) { return r.margins[i]; }, [&](Index i, Real moved, Real along) {
                r.offsets[i] += moved - length * along;
                r.margins[i] = along - moved / length;
            });
        }
        const bool blind = residual(least);
        if (r.products) products(none, keep);
        return blind;
    }
};

template <class S, class Value, class Rows, class Real, class Loss>
RESHUFFLE_KERNEL void exact_passes(const ExactRound<Rows, Real> &r, const Loss &loss, const Here &here) {
    const int groups = here.threads / S::LANES, group = here.thread / S::LANES, width = r.width;
    const int stride = stride_of<Real>(width);
    Real *shared = static_cast<Real *>(here.shared);  // for the vectors and their sum, if they fit
    Real *vectors = S::SHARED ? shared : r.models + here.block * groups * Index(stride);
    Real *total = S::SHARED ? vectors + groups * stride : r.sums + here.block * Index(stride);
    ExactPass<S, Rows, Value, Real, Loss> pass{
        {r.rows, here.thread % S::LANES}, r, loss, vectors + group * Index(stride)};
    for (int j = here.thread; j < stride; j += here.threads) total[j] = Real(0);
    for (Index at = here.block * groups; at < r.count; at += here.blocks * groups) {
        const bool present = at + group < r.count;
        const Index client = !present ? 0 : r.chosen ? r.chosen[at + group] : at + group;
        pass.begin = r.first[client];
        pass.count = present ? int(r.first[client + 1] - pass.begin) : 0;
        pass.longest = most(pass.count);
        pass.step = r.step * r.factors[client];
        pass.tau = pass.step * Real(present ? pass.count : 1) * Real(r.passes);
        pass.anchor = r.anchors + Index(r.anchor_of ? r.anchor_of[client] : 0) * width;
        pass.intercept = Real(0);
        const bool blind = pass.round();
        if (pass.lane == 0 && present) {
            r.blind[client] = blind;
            if (S::BIAS) pass.v[width - 1] = pass.intercept;
        }
        here.sync();
        const int left = r.count - at < groups ? int(r.count - at) : groups;
        for (int j = here.thread; j < width; j += here.threads) {
            Real sum = 0;
            for (int g = 0; g < left; g++) sum += vectors[g * Index(stride) + j];
            total[j] += sum;
        }
        here.sync();
    }
    if constexpr (S::SHARED)
        for (int j = here.thread; j < stride; j += here.threads) r.sums[here.block * Index(stride) + j] = total[j];
}

}  // namespace reshuffle::gpu
