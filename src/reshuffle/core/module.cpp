// The compiled module: one list of what each file binds.
#include "bound.hpp"

namespace reshuffle {
void bind_samples(nb::module_ &m);
void bind_passes(nb::module_ &m);
void bind_sweep(nb::module_ &m);
void bind_private(nb::module_ &m);
void bind_exact(nb::module_ &m);
void bind_newton(nb::module_ &m);
void bind_columns(nb::module_ &m);
void bind_proxes(nb::module_ &m);
void bind_text(nb::module_ &m);
void bind_cox(nb::module_ &m);
}  // namespace reshuffle

NB_MODULE(RESHUFFLE_CORE, m) {
    using namespace reshuffle;
    nb::set_leak_warnings(false);  // losses stay in a cache until the process ends
    bind_samples(m);
    bind_passes(m);
    bind_sweep(m);
    bind_private(m);
    bind_exact(m);
    bind_newton(m);
    bind_columns(m);
    bind_proxes(m);
    bind_text(m);
    bind_cox(m);
}
