"""Cases that several tests of graphics cards have in common."""

from __future__ import annotations

import reshuffle as rs
from reshuffle.gpu import CudaDevice

LOSSES = (
    rs.losses.Squared(),
    rs.losses.Huber(0.7),
    rs.losses.SquaredHinge(),
    rs.losses.Quantile(0.3, 0.5),
    rs.losses.Poisson(),
)
"""The losses of one output that the kernels have, besides the logistic one."""


def missing_card() -> str:
    """Why there is no card to test on; empty if there is one."""
    try:
        CudaDevice()
    except rs.InputError as error:
        return str(error)
    return ""
