"""Where a penalty is smooth at a point, for steps that stay there; and a point kept there."""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from reshuffle.kernels.faces import face, retract
from reshuffle.kernels.options import KERNEL


@cache
def face_kernel(stamp: int) -> Any:
    """``free`` and ``slopes`` of psi at u, flat."""

    @njit(**KERNEL)
    def kernel(form, u, free, slopes):
        _ = stamp
        face(form, u, free, slopes)

    return kernel


@cache
def retract_kernel(stamp: int) -> Any:
    """``to`` moved back to where psi is as smooth as at u."""

    @njit(**KERNEL)
    def kernel(form, u, to):
        _ = stamp
        retract(form, u, to, False)

    return kernel
