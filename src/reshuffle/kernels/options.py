"""How every kernel is compiled."""

from __future__ import annotations

from typing import Any

from reshuffle.kernels.cache import can_keep

CACHE = can_keep()
"""Whether compiled kernels can be kept."""
FAST: Any = {"reassoc", "contract", "nsz", "arcp"}  # NaN and infinity keep their meaning
INSIDE: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Of what kernels call and Python does not: a tenth of the time to compile is saved."""
OPTIONS: Any = {"fastmath": FAST, "error_model": "numpy", "forceinline": True, **INSIDE}
"""Of the operations. A call instead would pass some thirty words that describe its arrays."""
LOOP: Any = {"fastmath": FAST, "error_model": "numpy", **INSIDE}
"""Of loops that several kernels have."""
KERNEL: Any = {"cache": CACHE, "nogil": True, "fastmath": FAST, "error_model": "numpy"}
"""Of the loops that Python calls."""
