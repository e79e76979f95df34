// Vectors with as many doubles as a register of the variant, if the compiler has vector types.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

#if defined(__GNUC__)
#if defined(__AVX__)
inline constexpr Index lanes = 4;
#else
inline constexpr Index lanes = 2;
#endif
typedef double Lanes __attribute__((vector_size(lanes * 8)));
typedef double Unaligned __attribute__((vector_size(lanes * 8), aligned(8), may_alias));
typedef float UnalignedFloats __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

inline Lanes lanes_at(const double *p) { return *reinterpret_cast<const Unaligned *>(p); }
inline Lanes lanes_at(const float *p) {
    return __builtin_convertvector(*reinterpret_cast<const UnalignedFloats *>(p), Lanes);
}

inline double sum_of_lanes(Lanes x) {
    double total = 0.0;
    for (Index k = 0; k < lanes; k++) total += x[k];
    return total;
}
#else  // a compiler without such vectors
inline constexpr Index lanes = 1;
using Lanes = double;
inline Lanes lanes_at(const double *p) { return *p; }
inline Lanes lanes_at(const float *p) { return double(*p); }
inline double sum_of_lanes(Lanes x) { return x; }
#endif

}  // namespace reshuffle
