// The pass of row_pass.cuh over dense rows that are long: all threads of a block share a row.
//
// A thread keeps x and the sums of its HELD columns in registers, and of HEIGHT rows at a time the entries in these columns,
// which are read once, PACK at a time. No two threads add to the same sum.
#pragma once
#include "row_pass.cuh"

namespace reshuffle::gpu {

template <class T, int PACK>
struct alignas(PACK * sizeof(T)) Several {
    T of[PACK];
};

template <int HELD, int PACK, int HEIGHT, Sum SUM, class Value, class Rows, class Target, class Loss>
RESHUFFLE_KERNEL void wide_pass(const Whole<Rows, Target> &r, const Loss &loss, const Here &here) {
    static_assert(HELD % PACK == 0);
    constexpr bool SQUARES = SUM == Sum::squares;
    using Read = Several<Value, PACK>;
    const int features = r.features, warps = (here.threads + warp - 1) / warp;
    double *room = static_cast<double *>(here.shared), *coefs = room + here.threads, *parts = coefs + HEIGHT;
    const auto column = [&](int h) { return (h / PACK * here.threads + here.thread) * PACK + h % PACK; };
    double x[HELD], total[HELD];
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        x[h] = !SQUARES && !r.given && column(h) < features ? r.x[column(h)] : 0.0;
        total[h] = 0.0;
    }
    Seen seen;
    for (Index first = here.block * HEIGHT; first < r.n; first += here.blocks * HEIGHT) {
        const Index last = first + HEIGHT < r.n ? first + HEIGHT : r.n;
        Read rows[HEIGHT][HELD / PACK];
#pragma unroll
        for (int k = 0; k < HEIGHT; k++)
#pragma unroll
            for (int p = 0; p < HELD / PACK; p++) {
                if (first + k < last && column(p * PACK) < features)
                    rows[k][p] = *reinterpret_cast<const Read *>(r.rows.values + r.rows.begin(first + k) + column(p * PACK));
                else
                    rows[k][p] = Read{};
            }
        if (!SQUARES && !r.given) {
#pragma unroll
            for (int k = 0; k < HEIGHT; k++) {
                double part = 0.0;
#pragma unroll
                for (int h = 0; h < HELD; h++) part = fused(double(rows[k][h / PACK].of[h % PACK]), x[h], part);
                part = summed<warp>(part);
                if (here.thread % warp == 0) parts[k * warps + here.thread / warp] = part;
            }
        }
        here.sync();
        for (int k = here.thread; k < HEIGHT; k += here.threads) {
            double z = 0.0, coef = 0.0;
            if (!SQUARES && !r.given)
                for (int w = 0; w < warps; w++) z += parts[k * warps + w];
            if (first + k < last) {
                if constexpr (SQUARES)
                    coef = r.targets.weight(first + k);
                else
                    coef = at_row(r, loss, first + k, z, seen);
            }
            coefs[k] = coef;
        }
        here.sync();
#pragma unroll
        for (int k = 0; k < HEIGHT; k++) {
            const double coef = coefs[k];
#pragma unroll
            for (int h = 0; h < HELD; h++) {
                const double a = double(rows[k][h / PACK].of[h % PACK]);
                total[h] = fused(SQUARES ? coef * a : coef, a, total[h]);
            }
        }
    }
    double *sums = r.sums + here.block * Index(sums_of(features));
#pragma unroll
    for (int h = 0; h < HELD; h++)
        if (column(h) < features) sums[column(h)] = total[h];
    seen.write(sums, features, room, here);
}

}  // namespace reshuffle::gpu
