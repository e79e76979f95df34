"""The compiled core: C++ headers, one concept each, in the variant that this processor can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reshuffle.core.variant import load

if TYPE_CHECKING:
    from reshuffle.core import native  # the signatures, in native.pyi
else:
    native = load()

__all__ = ["native"]
