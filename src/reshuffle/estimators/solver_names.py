"""Solvers by name, with the words of scikit-learn for their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.solvers import FISTA, ExactProxRR, ProxRR, ProxSGD
from reshuffle.solvers.solver import Solver
from reshuffle.validation import check_positive

SOLVERS: dict[str, type[Solver]] = {
    "exact": ExactProxRR,
    "proxrr": ProxRR,
    "proxsgd": ProxSGD,
    "fista": FISTA,
}


def solver_of(given: Any, tol: Any, max_iter: Any, seed: int, *, traced: bool = True) -> Any:
    """A solver by its name, with these limits; an object keeps its own.

    Where the run need not be ``traced``, P is evaluated at its start and its end alone.
    """
    check_positive("max_iter", max_iter, integer=True)
    if isinstance(given, str):
        name = given.lower().replace("exactproxrr", "exact")
        if name not in SOLVERS:
            raise InputError(
                f"solver must be one of {', '.join(map(repr, SOLVERS))}, or an object, got {given!r}"
            )
        limits = {"tol": tol, "epochs": int(max_iter), "seed": seed}
        return SOLVERS[name](**limits if traced else limits | {"eval_every": int(max_iter)})
    if isinstance(given, type) or not callable(getattr(given, "solve", None)):
        raise InputError(f"solver must be a name or have a method solve, got {shown(given)}")
    return given


def seed_of(random_state: Any) -> int:
    """An integer is the seed; a ``RandomState`` or ``Generator`` draws one, and ``None`` takes a fresh one."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise InputError(
            "random_state must be None, an integer that is not negative, a RandomState or a Generator, "
            f"got {shown(random_state)}"
        )
    return int(random_state)
