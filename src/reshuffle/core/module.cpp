// The compiled module: one list of what each file binds.
#include "bound.hpp"

namespace reshuffle {
void bind_columns(nb::module_ &m);
void bind_proxes(nb::module_ &m);
void bind_text(nb::module_ &m);
}  // namespace reshuffle

NB_MODULE(RESHUFFLE_CORE, m) {
    using namespace reshuffle;
    bind_columns(m);
    bind_proxes(m);
    bind_text(m);
}
