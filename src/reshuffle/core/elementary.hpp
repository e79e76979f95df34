// exp, log and log1p for loops over rows that do not wait for each other.
//
// Those of the C library are calls, one number each. These are a dozen multiplications and no branch, so that the
// compiler turns a loop of them into vector instructions; they are off by at most two units in the last place.
// With k = round(x / log 2) and r = x - k log 2, |r| <= log(2) / 2,
//
//     exp(x) = 2^k (1 + r + r^2/2! + ... + r^13/13!),
//
// and for u = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), s = f / (2 + f),
//
//     log(u) = k log 2 + 2 (s + s^3/3 + s^5/5 + ... + s^21/21).
//
// Both series are cut off where the next term is below the rounding of the sum. What would be below exp(-707) is 0,
// and numbers below the smallest normal one count as that one. They are always compiled into the loop that calls them,
// whatever its size: a call would keep the loop from being one of vectors.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "arrays.hpp"

namespace reshuffle {

struct InRows {  // for several rows at a time
    static constexpr double least = -707.0;            // below, 2^k is no normal number
    static constexpr double most = 709.782712893384;   // beyond, exp is infinite
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
        // one power of two less, and then twice that: the largest k has no number of its own
        const std::uint64_t power = (std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(to_integer) - 1)
                                    << 52;
        double found = 2.0 * std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) + power);
        found = x >= least ? found : 0.0;
        found = x <= most ? found : infinity;
        return x == x ? found : x;
    }

    [[gnu::always_inline]] static double log_of_both(double u, double rest) {  // log(u) + rest, where the rest is small
        const double normal = u > smallest ? u : smallest;
        const std::uint64_t moved = std::bit_cast<std::uint64_t>(normal) + (one - root);
        const double k =
            (std::bit_cast<double>((moved >> 52) + std::bit_cast<std::uint64_t>(to_integer)) - to_integer) - 1023.0;
        const double f = std::bit_cast<double>((moved & mantissa) + root) - 1.0;
        const double s = f / (2.0 + f), q = s * s, q2 = q * q, q4 = q2 * q2;
        const double a = (1.0 / 3 + 1.0 / 5 * q) + q2 * (1.0 / 7 + 1.0 / 9 * q);
        const double b = (1.0 / 11 + 1.0 / 13 * q) + q2 * (1.0 / 15 + 1.0 / 17 * q);
        const double sum = 2.0 * q * (a + q4 * (b + q4 * (1.0 / 19 + 1.0 / 21 * q)));
        const double half = 0.5 * f * f;  // 2s = f - s f: most of the sum is f, which is exact
        return k * log2_high + (f - (half - (s * (half + sum) + (k * log2_low + rest))));
    }

    [[gnu::always_inline]] static double log(double x) {
        double found = log_of_both(x, 0.0);
        found = x < infinity ? found : x;
        return x > 0.0 ? found : (x == 0.0 ? -infinity : std::numeric_limits<double>::quiet_NaN());
    }

    [[gnu::always_inline]] static double log1p(double x) {
        const double u = 1.0 + x;
        double found = log_of_both(u, (x - (u - 1.0)) / u);
        found = x < infinity ? found : x;
        return x > -1.0 ? found : (x == -1.0 ? -infinity : std::numeric_limits<double>::quiet_NaN());
    }
};

struct Alone {  // for one row that others wait for: the C library answers sooner
    [[gnu::always_inline]] static double exp(double x) { return std::exp(x); }
    [[gnu::always_inline]] static double log(double x) { return std::log(x); }
    [[gnu::always_inline]] static double log1p(double x) { return std::log1p(x); }
};

}  // namespace reshuffle
