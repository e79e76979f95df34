"""Joins the source of the kernels into one text, so that a compiler's cache notices every change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CORE = HERE.parent / "core"
SHARED = ("platform.hpp", "elementary.hpp", "losses.hpp", "lanes.cuh", "rows.cuh", "entry.cuh")
CLIENTS = (*SHARED, "orders.cuh", "turns.cuh", "order_entries.cuh")
UNITS = {
    "round": (*CLIENTS, "passes.cuh", "round_entries.cuh"),
    "exact": (*CLIENTS, "exact_passes.cuh", "exact_entries.cuh"),
    "problem": (
        *SHARED, "fixed_point.cuh", "row_pass.cuh", "held_pass.cuh", "wide_pass.cuh", "row_work.cuh", "column_pass.cuh",
        "problem_entries.cuh",
    ),
    "outputs": (
        *SHARED, "vector_losses.hpp", "fixed_point.cuh", "row_pass.cuh", "output_work.cuh", "output_entries.cuh"
    ),
}  # fmt: skip
"""The headers of each unit (a round over clients, a round with control variates, one large problem, several outputs), each after those that it includes."""
LOSSES = {
    "logistic": "Logistic",
    "squared": "Squared",
    "huber": "Huber",
    "squared_hinge": "SquaredHinge",
    "quantile": "Quantile",
    "poisson": "Poisson",
}
"""The names in losses.hpp of the losses of one output, by their names in the core."""
VECTOR_LOSSES = {"multinomial": "Multinomial", "squared_outputs": "SquaredOutputs"}
"""The names in vector_losses.hpp of the losses of several outputs."""


@cache
def kernel_source(unit: str = "round") -> str:
    """The headers of a unit, one after the other, without their includes of each other."""
    files = [(CORE if name.endswith(".hpp") else HERE) / name for name in UNITS[unit]]
    own = {f'#include "{name}"' for name in UNITS[unit]}
    lines = [
        line
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if line not in own and line != "#pragma once"
    ]
    return "\n".join(lines) + "\n"
