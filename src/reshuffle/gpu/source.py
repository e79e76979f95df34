"""Joins the source of the kernels into one text, so that a compiler's cache notices every change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CORE = HERE.parent / "core"
SHARED = (
    CORE / "platform.hpp",
    CORE / "elementary.hpp",
    CORE / "losses.hpp",
    HERE / "lanes.cuh",
    HERE / "rows.cuh",
    HERE / "entry.cuh",
)
CLIENTS = (*SHARED, HERE / "orders.cuh", HERE / "turns.cuh", HERE / "order_entries.cuh")
UNITS = {
    "round": (*CLIENTS, HERE / "passes.cuh", HERE / "round_entries.cuh"),
    "exact": (*CLIENTS, HERE / "exact_passes.cuh", HERE / "exact_entries.cuh"),
    "problem": (
        *SHARED,
        HERE / "fixed_point.cuh",
        HERE / "row_pass.cuh",
        HERE / "held_pass.cuh",
        HERE / "wide_pass.cuh",
        HERE / "row_work.cuh",
        HERE / "column_pass.cuh",
        HERE / "problem_entries.cuh",
    ),
    "outputs": (
        *SHARED,
        CORE / "vector_losses.hpp",
        HERE / "fixed_point.cuh",
        HERE / "row_pass.cuh",
        HERE / "output_work.cuh",
        HERE / "output_entries.cuh",
    ),
}
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
    files = UNITS[unit]
    own = {f'#include "{path.name}"' for path in files}
    lines = [
        line
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if line not in own and line != "#pragma once"
    ]
    return "\n".join(lines) + "\n"
