"""Sends x to the clients in fewer bytes, rounded to as many digits as the last round has found.

    x̃ = x rounded to w bytes a number,    the least w with  2^-(8w - 11)·‖x‖ ≤ 2^-6·‖x - x_before‖

The next round begins at x̃, on the server and at the clients alike. Its error is a small part of the last change, and vanishes with it: the
limit is that of the run without rounding. It needs no memory, so clients may stay away, be restarted or change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from reshuffle.engines.number_bytes import LEAST, WHOLE, rounded, rounding
from reshuffle.errors import InputError, shown
from reshuffle.objective import Array

Downlink = Literal["float64", "rounded"]
Allowed = Callable[[Array], bool]
"""A function that says whether ψ is finite at a point."""
MARGIN = 2.0**-6
"""The largest rounding of x, as a share of its last change. On mushrooms and a9a, split by label, 2^-4 costs three more rounds in forty; 2^-8 saves one."""


def check_downlink(given: object) -> None:
    """Refuse an invalid ``downlink``."""
    if not isinstance(given, str) or given not in ("float64", "rounded"):
        raise InputError(f'downlink must be "float64" or "rounded", got {shown(given)}')


def in_fewer_bytes(x: Array, before: Array, allowed: Allowed) -> Array:
    """x rounded to the fewest bytes that its change allows; x itself if ψ would be infinite at the rounded point."""
    size, change = float(np.linalg.norm(x)), float(np.linalg.norm(x - before))
    if not np.isfinite(size):
        return x
    for width in range(LEAST, WHOLE):
        if rounding(width) * size <= MARGIN * change:
            found = rounded(x, width)
            return found if allowed(found) else x
    return x
