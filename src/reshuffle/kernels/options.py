"""How every kernel is compiled."""

from __future__ import annotations

from typing import Any

FAST: Any = {"reassoc", "contract", "nsz", "arcp"}  # NaN and infinity keep their meaning
OPTIONS: Any = {"fastmath": FAST, "error_model": "numpy", "forceinline": True}
"""Of the operations. A call instead would pass some thirty words that describe its arrays."""
LOOP: Any = {"fastmath": FAST, "error_model": "numpy"}
"""Of loops over all rows, that several kernels have."""
KERNEL: Any = {"cache": True, "nogil": True, "fastmath": FAST, "error_model": "numpy"}
"""Of the loops that Python calls."""
