// Sums of many numbers into few places, the same bits in whatever order they come: integers, which add without rounding.
//
// A number t with |t| < 2^41 is rounded to an integer, which is split into two limbs of LIMB bits, and both are added to 32-bit
// counters in the memory of the block. After at most MOST numbers the counters are emptied into float64 sums.
// A second sum takes what is left of each number, times 2^41, in the same way: both together are as good as float64.
#pragma once
#include "lanes.cuh"

namespace reshuffle::gpu {

struct FixedPoint {
    static constexpr int LIMB = 21;                           // bits of the lower limb; as many are left for the upper one
    static constexpr int REST = 41;                           // a half, times 2^REST, is in the range of numbers
    static constexpr int MOST = 1 << 10;                      // numbers that a counter takes: 2^10 of 21 bits are below 2^31
    static constexpr double magic = 6755399441055744.0;       // 1.5 2^52: added, it leaves the nearest integer in the last bits
    static constexpr std::uint64_t magic_bits = 0x4338000000000000ull;
    static constexpr unsigned mask = (1u << LIMB) - 1;

    // counters[j] and counters[stride + j] <- + the limbs of factor * value, which is rounded once. (Limbs side by side would
    // lie in half of the banks each.)
    RESHUFFLE_KERNEL static void add(int *counters, int stride, Visit j, double factor, double value) {
        const std::uint64_t bits = bits_of(fused(factor, value, magic)) - magic_bits;
        counted(counters + j, int(unsigned(bits) & mask));
        counted(counters + stride + j, int(std::int64_t(bits) >> LIMB));
    }
    // The same of 2^41 times what `add` rounds away, which one rounding finds: fused multiplies without any.
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
