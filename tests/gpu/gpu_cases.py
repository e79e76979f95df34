"""Cases that several tests of graphics cards have in common."""

from __future__ import annotations

from typing import Any

import pytest
from host_device import COMPILER, HostDevice

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


def devices(kind: str) -> Any:
    """The processor that stands for a card ("host"), or a card; the test is skipped where it is not there."""
    if kind == "card":
        if missing_card():
            pytest.skip(missing_card())
        return CudaDevice()
    if COMPILER is None:
        pytest.skip("g++ is not there")
    return HostDevice()
