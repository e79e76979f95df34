// Sums of many numbers whose bits do not depend on the order of addition: integers are added, without rounding.
//
// A number t with |t| < 2^41 is rounded to an integer, which is split into two limbs of LIMB bits, and both are added to 32-bit
// counters in the memory of the block. After at most MOST numbers the counters are emptied into float64 sums.
// A second sum adds the rounding errors of the first, times 2^41, in the same way: both together are as good as float64.
#pragma once
#include "lanes.cuh"

namespace reshuffle::gpu {

struct FixedPoint {
    static constexpr int LIMB = 21;                           // bits of the lower limb; as many are left for the upper one
    static constexpr int REST = 41;                           // a half, times 2^REST, is in the range of numbers
    static constexpr int MOST = 1 << 10;                      // numbers that a counter can add up: 2^10 numbers of 21 bits stay below 2^31
    static constexpr double magic = 6755399441055744.0;       // 1.5 2^52: added, it leaves the nearest integer in the last bits
    static constexpr std::uint64_t magic_bits = 0x4338000000000000ull;
    static constexpr unsigned mask = (1u << LIMB) - 1;

    // Adds the limbs of factor * value, rounded once, to counters[j] and counters[stride + j]. (Limbs side by side would use
    // only half of the banks.)
    RESHUFFLE_KERNEL static void add(int *counters, int stride, Visit j, double factor, double value) {
        const std::uint64_t bits = bits_of(fused(factor, value, magic)) - magic_bits;
        counted(counters + j, int(unsigned(bits) & mask));
        counted(counters + stride + j, int(std::int64_t(bits) >> LIMB));
    }
    // As `add`, for 2^41 times the rounding error of `add`, which a fused multiplication finds exactly.
    RESHUFFLE_KERNEL static void add_rest(int *counters, int stride, Visit j, double factor, double value) {
        const double rounded = fused(factor, value, magic) - magic;
        add(counters, stride, j, fused(factor, value, -rounded), double(1ull << REST));
    }
    // The number that the counters stand for; they are zero afterwards.
    RESHUFFLE_KERNEL static double emptied(int *counters, int stride, Visit j) {
        const double total = double(counters[j]) + double(counters[stride + j]) * double(1 << LIMB);
        counters[j] = counters[stride + j] = 0;
        return total;
    }
};

}  // namespace reshuffle::gpu
