// RESHUFFLE_ENTRY(name, bounds, call, arguments...) is a kernel that can be started by its name. The compiler is given
// THE_THREADS of a block and THE_RESIDENT, the blocks that a processor works on at a time.
//
// On a processor a kernel is a function that does the work of all blocks in turn, each of one thread.
#pragma once
#include "lanes.cuh"

#if defined(__CUDACC__)
#define RESHUFFLE_BOUNDS __launch_bounds__(THE_THREADS, THE_RESIDENT)  // so that the registers of all threads fit
#define RESHUFFLE_ENTRY(name, bounds, call, ...)             \
    extern "C" __global__ void bounds name(__VA_ARGS__) {    \
        extern __shared__ __align__(16) double memory[]; \
        const Here here = Here::now(memory);          \
        call;                                         \
    }
#else
#define RESHUFFLE_BOUNDS
#define RESHUFFLE_ENTRY(name, bounds, call, ...)                               \
    extern "C" void name(Index blocks, void *memory, __VA_ARGS__) {            \
        for (Index block = 0; block < blocks; block++) {                       \
            const Here here{block, blocks, 0, 1, memory};                      \
            call;                                                              \
        }                                                                      \
    }
#endif
