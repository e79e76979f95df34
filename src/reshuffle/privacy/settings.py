"""Refuses settings of a solver that would leak what the noise hides, before any data is touched."""

from __future__ import annotations

from typing import Any

import numpy as np

from reshuffle.digests import Fingerprint, digest
from reshuffle.errors import InputError, shown
from reshuffle.privacy.epsilon import require_accountant
from reshuffle.privacy.levels import Level, SampleLevel
from reshuffle.steps import Setting


def check_private(solver: Any, *levels: type[Level]) -> None:
    """Refuse a solver whose ``privacy`` is none of these levels, or whose other settings are incompatible with it."""
    level, name = solver.privacy, type(solver).__name__
    allocates = hasattr(getattr(solver, "order", None), "allocate")
    if level is None and not allocates:
        return
    if allocates and type(level) is not SampleLevel:
        raise InputError(
            "order Allocation() is for privacy=SampleLevel(...), whose batches may differ in length; without it use "
            "Reshuffle()"
        )
    wanted = " or ".join(f"privacy.{kind.__name__}(...)" for kind in levels)
    if type(level) not in levels:
        raise InputError(f"privacy of {name} must be {wanted}, or None, got {shown(level)}")
    if solver.tol > 0:
        raise InputError(
            f"tol must be 0 with privacy, got {solver.tol:g}: to stop by a certificate that was computed on the data "
            f"would tell of it; give a number of {solver.counted}"
        )
    if getattr(solver, "importance", False):
        raise InputError(
            "importance must be False with privacy: copies are made by the size of rows"
        )
    if allocates and level.noise is None:
        raise InputError(
            "SampleLevel needs noise= where the order is Allocation(): its account takes seconds for each noise that "
            "is tried; privacy.epsilon_of_allocations tells ε"
        )
    _check_step(solver, name)
    require_accountant()


def _check_step(solver: Any, name: str) -> None:
    """Refuse a step that is computed from L_max, which reveals the largest row of the data."""
    try:
        without_data = Setting(np.nan, 1.0, 2.0, 1.0, solver.limit, np.nan)
        first = float(solver.step.bind(without_data)(0))
    except InputError:
        first = np.nan
    if not np.isfinite(first):
        raise InputError(
            f"step must be given in numbers with privacy, got {solver.step!r}: the default of {name} is found from L_max, "
            "the largest row of the data; try step=0.1 with rows of norm 1, or steps.InverseTime(0.1, rate=0.1)"
        )


def public_fingerprint(problem: Any) -> Fingerprint:
    """The facts about a problem that may be published: its shape, penalty and ridge. A digest of the data would reveal who is in it."""
    return Fingerprint(
        {
            "shape": digest(tuple(problem.shape), int(problem.n)),
            "penalty": digest(problem.penalty),
            "ridge": digest(float(problem.ridge)),
        }
    )
