// Hides the differences between the compilers of the shared headers, for processors and for graphics cards (nvcc, NVRTC).
//
// RESHUFFLE_DEVICE marks a function that both compile, always into the loop that calls it. NVRTC has no standard library,
// so the few names that the shared headers take from it are declared here.
#pragma once

#if defined(__CUDACC__)
#define RESHUFFLE_DEVICE __host__ __device__ __forceinline__
#else
#define RESHUFFLE_DEVICE [[gnu::always_inline]] inline
#endif

#if defined(__CUDACC_RTC__)
namespace std {
using int32_t = int;
using int64_t = long long;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using ::exp, ::fabs, ::log, ::log1p, ::sqrt;

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class A, class B>
concept same_as = is_same_v<A, B>;
}  // namespace std
#else
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>
#endif
