// Tests which instructions the processor has; it is built for the base architecture, so that it runs on every processor.
//
// x86-64-v3 = AVX, AVX2, BMI1, BMI2, F16C, FMA, LZCNT, MOVBE, and an operating system that saves the wide registers
// (System V ABI for x86-64, section 3.1.1). The instruction cpuid is used directly, because
// __builtin_cpu_supports depends on the compiler and its run-time library.
#include <nanobind/nanobind.h>

#if defined(_M_X64)
#include <intrin.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

#if defined(_M_X64) || defined(__x86_64__)

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf) {
    Registers r;
#if defined(_M_X64)
    int highest[4], found[4];
    __cpuid(highest, int(leaf & 0x80000000u));
    if (unsigned(highest[0]) < leaf) return r;
    __cpuidex(found, int(leaf), 0);
    r = {unsigned(found[0]), unsigned(found[1]), unsigned(found[2]), unsigned(found[3])};
#else
    __get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d);  // leaves zeros where there is no such leaf
#endif
    return r;
}

unsigned saved_registers() {
#if defined(_M_X64)
    return unsigned(_xgetbv(0));
#else
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
#endif
}

bool all(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

constexpr unsigned bit(int i) { return 1u << i; }

bool can_run_v3() {
    constexpr unsigned fma = bit(12), movbe = bit(22), osxsave = bit(27), avx = bit(28), f16c = bit(29);
    constexpr unsigned bmi1 = bit(3), avx2 = bit(5), bmi2 = bit(8), lzcnt = bit(5);
    constexpr unsigned xmm_and_ymm = bit(1) | bit(2);
    return all(cpuid(1).c, fma | movbe | osxsave | avx | f16c) && all(saved_registers(), xmm_and_ymm) &&
           all(cpuid(7).b, bmi1 | avx2 | bmi2) && all(cpuid(0x80000001u).c, lzcnt);
}

#else

bool can_run_v3() { return false; }

#endif

}  // namespace

NB_MODULE(_probe, m) {
    m.def("can_run_v3", &can_run_v3, "Whether the processor and the system can run the variant x86-64-v3.");
}
