// Bindings of the proxes by iterations.
#include "bound.hpp"

namespace reshuffle {

void bind_proxes(nb::module_ &m) { (void)m; }

}  // namespace reshuffle
