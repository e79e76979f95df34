"""The source of the kernels as one text, so that a compiler's cache notices every change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
FILES = (
    HERE.parent / "core" / "platform.hpp",
    HERE.parent / "core" / "elementary.hpp",
    HERE.parent / "core" / "losses.hpp",
    HERE / "lanes.cuh",
    HERE / "orders.cuh",
    HERE / "passes.cuh",
    HERE / "entries.cuh",
)
"""The headers that the kernels are made of, each after those that it includes."""
LOSSES = {
    "logistic": "Logistic",
    "squared": "Squared",
    "huber": "Huber",
    "squared_hinge": "SquaredHinge",
    "quantile": "Quantile",
    "poisson": "Poisson",
}
"""The losses of one output that losses.hpp has, by their names in the core."""


@cache
def kernel_source() -> str:
    """The headers, one after the other, without their includes of each other."""
    own = {f'#include "{path.name}"' for path in FILES}
    lines = [
        line
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if line not in own and line != "#pragma once"
    ]
    return "\n".join(lines) + "\n"
