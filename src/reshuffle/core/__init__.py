"""The compiled core: C++ headers, one concept each, in the variant that this processor can run."""

from __future__ import annotations

from reshuffle.core.variant import load

native = load()
