// exp and log: the library's, and our own for loops over independent rows.
//
// The functions of the C library are calls for one number each. Ours are a dozen multiplications without a branch, so that
// the compiler turns a loop of them into vector instructions; their error is at most two units in the last place.
// With k = round(x / log 2) and r = x - k log 2, |r| <= log(2) / 2,
//
//     exp(x) = 2^k (1 + r + r^2/2! + ... + r^13/13!),
//
// and for u = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), s = f / (2 + f),
//
//     log(u) = k log 2 + 2 (s + s^3/3 + s^5/5 + ... + s^21/21).
//
// Both series are truncated when the next term is below the rounding of the sum. Results below exp(-707) are 0,
// and arguments of log below the smallest normal number count as that number. The functions are always inlined, since a
// call would keep the compiler from vectorising the loop.
#pragma once
#include "platform.hpp"

#if !defined(__CUDACC__)
#include <bit>

#include "arrays.hpp"
#endif

namespace reshuffle {

// The compiler's own functions, of float64 and float32: for a GPU, on which they are inlined. There exp of float32 is an
// instruction with an error of 2 + 1.16 |x| units in the last place.
struct Library {
    template <class T>
    RESHUFFLE_DEVICE static T exp(T x) { return std::exp(x); }
#if defined(__CUDA_ARCH__)
    __device__ __forceinline__ static float exp(float x) { return __expf(x); }
#endif
    template <class T>
    RESHUFFLE_DEVICE static T log(T x) { return std::log(x); }
    template <class T>
    RESHUFFLE_DEVICE static T log1p(T x) { return std::log1p(x); }
};

#if defined(__CUDACC__)
struct InRows;  // for processors alone
#else

struct InRows {  // for several rows at a time
    static constexpr double least = -707.0;            // Below this, 2^k is not a normal number.
    static constexpr double most = 709.782712893384;   // Beyond this, exp is infinite.
    static constexpr double smallest = 2.2250738585072014e-308;  // the smallest normal number
    static constexpr double per_log2 = 1.4426950408889634;
    static constexpr double log2_high = 6.93147180369123816490e-01;  // 32 bits: its product with k is exact
    static constexpr double log2_low = 1.90821492927058770002e-10;
    static constexpr double to_integer = 6755399441055744.0;  // 1.5 2^52: added, it leaves the nearest integer in the last bits
    static constexpr std::uint64_t one = 0x3FF0000000000000;        // the bits of 1
    static constexpr std::uint64_t root = 0x3FE6A09E667F3BCD;       // the bits of sqrt(1/2)
    static constexpr std::uint64_t mantissa = (std::uint64_t(1) << 52) - 1;

    [[gnu::always_inline]] static double exp(double x) {
        const double inside = x > least ? (x < most ? x : most) : least;
        const double shifted = inside * per_log2 + to_integer;
        const double k = shifted - to_integer;
        const double r = (inside - k * log2_high) - k * log2_low;
        const double r2 = r * r, r4 = r2 * r2;
        const double a = (1.0 / 2 + 1.0 / 6 * r) + r2 * (1.0 / 24 + 1.0 / 120 * r);
        const double b = (1.0 / 720 + 1.0 / 5040 * r) + r2 * (1.0 / 40320 + 1.0 / 362880 * r);
        const double c = (1.0 / 3628800 + 1.0 / 39916800 * r) + r2 * (1.0 / 479001600 + 1.0 / 6227020800 * r);
        const double sum = 1.0 + (r + r2 * (a + r4 * (b + r4 * c)));
        // 2^(k-1), doubled afterwards, because 2^k is not finite for the largest k
        const std::uint64_t power = (std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(to_integer) - 1)
                                    << 52;
        double found = 2.0 * std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) + power);
        found = x >= least ? found : 0.0;
        found = x <= most ? found : infinity;
        return x == x ? found : x;
    }

    // log(1 + f) - f + rest, by 2s = f - s f: most of the sum is f, which is exact
    [[gnu::always_inline]] static double series(double f, double rest) {
        const double s = f / (2.0 + f), q = s * s, q2 = q * q, q4 = q2 * q2;
        const double a = (1.0 / 3 + 1.0 / 5 * q) + q2 * (1.0 / 7 + 1.0 / 9 * q);
        const double b = (1.0 / 11 + 1.0 / 13 * q) + q2 * (1.0 / 15 + 1.0 / 17 * q);
        const double sum = 2.0 * q * (a + q4 * (b + q4 * (1.0 / 19 + 1.0 / 21 * q)));
        const double half = 0.5 * f * f;
        return (s * (half + sum) + rest) - half;
    }

    [[gnu::always_inline]] static double log(double x) {
        const double normal = x > smallest ? x : smallest;
        const std::uint64_t moved = std::bit_cast<std::uint64_t>(normal) + (one - root);
        const double k =
            (std::bit_cast<double>((moved >> 52) + std::bit_cast<std::uint64_t>(to_integer)) - to_integer) - 1023.0;
        const double f = std::bit_cast<double>((moved & mantissa) + root) - 1.0;
        double found = k * log2_high + (f + series(f, k * log2_low));
        found = x < infinity ? found : x;
        return x > 0.0 ? found : (x == 0.0 ? -infinity : std::numeric_limits<double>::quiet_NaN());
    }

    // log(1 + x) for 0 <= x <= 1: f is x, or (x - 1) / 2 where 1 + x is twice 1 + f
    [[gnu::always_inline]] static double log1p(double x) {
        const bool half = x > 0.41421356237309505;  // sqrt(2) - 1
        const double f = half ? 0.5 * x - 0.5 : x, k = half ? 1.0 : 0.0;
        return k * log2_high + (f + series(f, k * log2_low));
    }
};

// 2^(j/128) for j = 0 ... 127, by the series of exp in the longest numbers that the compiler has.
struct Powers {
    static constexpr int count = 128;
    double of[count];

    constexpr Powers() : of{} {
        for (int j = 0; j < count; j++) {
            const long double r = 0.693147180559945309417232121458176568L * j / count;
            long double term = 1.0L, sum = 1.0L;
            for (int k = 1; k < 30; k++) sum += term *= r / k;
            of[j] = double(sum);
        }
    }
};
inline constexpr Powers powers;

// For a single row on which the next ones depend. With k = round(128 x / log 2), k = 128 q + j and r = x - k log(2) / 128,
//
//     exp(x) = 2^q 2^(j/128) (1 + r + r^2/2! + ... + r^5/5!),
//
// which is a shorter chain of operations than the series above; the power is read from a table at the same time.
struct Alone {
    static constexpr double per_log2 = Powers::count * InRows::per_log2;
    static constexpr double log2_high = InRows::log2_high / Powers::count, log2_low = InRows::log2_low / Powers::count;

    [[gnu::always_inline]] static double exp(double x) {
        if (!(std::fabs(x) < -InRows::least)) return std::exp(x);
        const double shifted = x * per_log2 + InRows::to_integer;
        const double k = shifted - InRows::to_integer;
        const std::uint64_t whole = std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(InRows::to_integer);
        const double r = (x - k * log2_high) - k * log2_low, r2 = r * r;
        const double sum = r + r2 * ((1.0 / 2 + 1.0 / 6 * r) + r2 * (1.0 / 24 + 1.0 / 120 * r));
        const double power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(powers.of[whole % Powers::count]) +
                                                   (whole / Powers::count << 52));
        return power + power * sum;
    }
};
#endif

}  // namespace reshuffle
