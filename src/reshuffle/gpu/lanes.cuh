// The threads of a kernel: LANES of a warp share a client on a GPU; on a processor a warp has one lane.
//
//     Here          which thread of which block this is, and how many of each there are
//     summed        the sum of a number over the lanes of a client, the same bits in each of them (a fixed tree)
//     greater       the larger of two numbers, or NaN if one of them is
//     greatest      `greater` over the lanes of a client
//     from          the number that another lane of the client has
//     most          the largest number in the warp
//     together      the lanes of the warp wait for each other, and then see what the others have written
//     after         0, available only after a number is known; its argument `nothing` is 0, but the compiler cannot know this
//     among         `together` for the lanes of one client, while other clients' lanes may be elsewhere in the code
//     counted       adds to an integer of the block, atomically
//     raised        raises an integer of the block to at least another, atomically
//     fused         a b + c, rounded once
//     bits_of       the bits of a number
//     copied        begins a copy of 16 bytes into the memory of the block; `arrived` waits for all copies of the thread
#pragma once
#include "platform.hpp"

#if !defined(__CUDACC__)
#include <bit>
#endif

namespace reshuffle::gpu {

using Index = std::int64_t;
using Visit = std::uint32_t;  // the number of a sample or of a column

struct Here {
    Index block, blocks;
    int thread, threads;
    void *shared;  // memory of the block

#if defined(__CUDACC__)
    __device__ __forceinline__ static Here now(void *shared) {
        return {Index(blockIdx.x), Index(gridDim.x), int(threadIdx.x), int(blockDim.x), shared};
    }
    __device__ __forceinline__ void sync() const { __syncthreads(); }
#else
    void sync() const {}
#endif
};

template <class T>
RESHUFFLE_DEVICE T greater(T a, T b) {
    return b > a || b != b ? b : a;
}

#if defined(__CUDACC__)
constexpr unsigned everyone = 0xffffffffu;
constexpr int warp = 32;

template <int LANES, class T>
__device__ __forceinline__ T summed(T v) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) v += __shfl_xor_sync(everyone, v, step, LANES);
    return v;
}
template <int LANES, class T>
__device__ __forceinline__ T greatest(T v) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) v = greater(v, __shfl_xor_sync(everyone, v, step, LANES));
    return v;
}
template <int LANES, class T>
__device__ __forceinline__ T from(T v, int lane) {
    return __shfl_sync(everyone, v, lane, LANES);
}
__device__ __forceinline__ int most(int v) { return __reduce_max_sync(everyone, v); }
__device__ __forceinline__ void together() { __syncwarp(); }
template <int LANES>
__device__ __forceinline__ void among(int thread) {
    const unsigned own = LANES == 32 ? everyone : ((1u << (LANES % 32)) - 1) << (thread % 32 / LANES * LANES);
    __syncwarp(own);
}
__device__ __forceinline__ unsigned after(float v, unsigned nothing) { return __float_as_uint(v) & nothing; }
__device__ __forceinline__ unsigned after(double v, unsigned nothing) { return unsigned(__double2loint(v)) & nothing; }
__device__ __forceinline__ std::uint64_t high_product(std::uint64_t a, std::uint64_t b) { return __umul64hi(a, b); }
__device__ __forceinline__ void counted(int *place, int v) { atomicAdd(place, v); }
__device__ __forceinline__ void raised(int *place, int v) { atomicMax(place, v); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ std::uint64_t bits_of(double v) { return std::uint64_t(__double_as_longlong(v)); }
__device__ __forceinline__ void copied(void *to, const void *of) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unsigned(__cvta_generic_to_shared(to))), "l"(of));
}
__device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#define RESHUFFLE_KERNEL __device__ __forceinline__
#else
constexpr int warp = 1;

template <int LANES, class T>
T summed(T v) {
    return v;
}
template <int LANES, class T>
T greatest(T v) {
    return v;
}
template <int LANES, class T>
T from(T v, int) {
    return v;
}
inline int most(int v) { return v; }
inline void together() {}
template <int LANES>
void among(int) {}
template <class T>
unsigned after(T, unsigned) {
    return 0;
}
inline std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
    return std::uint64_t((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline void counted(int *place, int v) { *place += v; }
inline void raised(int *place, int v) { *place = *place < v ? v : *place; }
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }
inline std::uint64_t bits_of(double v) { return std::bit_cast<std::uint64_t>(v); }
inline void copied(void *to, const void *of) { __builtin_memcpy(to, of, 16); }
inline void arrived() {}
#define RESHUFFLE_KERNEL inline
#endif

}  // namespace reshuffle::gpu
