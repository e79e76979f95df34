// Orders: a permutation drawn by Fisher and Yates, a piece at a time.
#pragma once
#include <utility>

#include "arrays.hpp"

namespace reshuffle {

// Exchanges positions last, last - 1, ... with positions drawn by the given uniform numbers.
inline void shuffle(Span<Visit> visits, Span<const double> uniforms, Index last) {
    const Index count = std::min(uniforms.size, last);
    for (Index k = 0; k < count; k++) {
        const Index position = last - k;
        std::swap(visits[position], visits[Index(uniforms[k] * double(position + 1))]);
    }
}

}  // namespace reshuffle
