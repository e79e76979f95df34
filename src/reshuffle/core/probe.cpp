// What the processor can do; built for every processor, so that it can be asked anywhere.
#include <nanobind/nanobind.h>

static bool can_run_v3() {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

NB_MODULE(_probe, m) {
    m.def("can_run_v3", &can_run_v3, "Whether AVX2, FMA and BMI2 are there: the variant x86-64-v3.");
}
