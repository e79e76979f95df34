"""Solvers by name, with scikit-learn's parameters for their limits."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.estimators.private_fit import refuse_private
from reshuffle.objective import Objective
from reshuffle.problem import Problem
from reshuffle.solvers import FISTA, ExactProxRR, ProxRR, ProxSGD
from reshuffle.solvers.exact.newton_compiled import is_small
from reshuffle.solvers.exact.newton_steps import can_step
from reshuffle.solvers.solver import Solver
from reshuffle.trace import Result
from reshuffle.validation import check_positive


class FittingSolver(Protocol):
    """The attributes of a solver that estimators and paths use; it may be a user's own."""

    @property
    def tol(self) -> float: ...
    @property
    def epochs(self) -> int: ...
    @property
    def limit(self) -> int: ...
    def check_problem(self, problem: Objective, /) -> None: ...
    def solve(self, problem: Objective, x0: Array, /) -> Result: ...


SOLVERS: dict[str, type[Solver]] = {
    "exact": ExactProxRR,
    "proxrr": ProxRR,
    "proxsgd": ProxSGD,
    "fista": FISTA,
}

TIGHT = 1e-13
"""``tol=None`` if Newton steps end the run: one or two more steps give 1e-6 or better in the coefficients."""
ALONG_A_PATH = 1e-8
"""``tol=None`` for each model of a path, of which one is chosen."""
MANY_CLASSES = 1e-8
"""``tol=None`` for softmax on sets that are not small: L-BFGS reaches it, whereas the Newton step to 1e-13 over all classes
would cost several times as much as the whole run before it."""
ON_DEVICE = 1e-8
"""``tol=None`` on a graphics card, where only the duality gap gives a proof, and each digit takes a step with a pass over all rows."""
LOOSE = 1e-4
"""``tol=None`` otherwise, when each further digit costs as many epochs as the last; scikit-learn's usual tolerance."""


def tol_of(
    given: float | None,
    solver: object,
    problem: Problem,
    tight: float = TIGHT,
    device: object = None,
) -> float:
    """The relative accuracy to reach: the given one, or one that the method reaches at moderate cost."""
    if given is not None:
        return given
    if device is not None:
        return ON_DEVICE
    if not (_name(solver) == "exact" and can_step(problem) and problem.loss.convex):
        return LOOSE
    coupled = problem.loss.vector and not problem.loss.quadratic and not is_small(problem)
    return max(tight, MANY_CLASSES) if coupled else tight


def _name(given: object) -> str:
    return given.lower().replace("exactproxrr", "exact") if isinstance(given, str) else ""


def solver_of(
    given: object,
    tol: float,
    max_iter: int,
    seed: int,
    *,
    traced: bool = True,
    device: str | None = None,
) -> Any:
    """A solver by its name, with these limits; a solver object keeps its own.

    Unless the run is to be ``traced``, P is evaluated only at its start and at its end.
    """
    check_positive("max_iter", max_iter, integer=True)
    if isinstance(given, str):
        name = _name(given)
        if name not in SOLVERS:
            raise InputError(
                f"solver must be one of {', '.join(map(repr, SOLVERS))}, or an object, got {given!r}"
            )
        limits: dict[str, Any] = {"tol": tol, "epochs": int(max_iter), "seed": seed}
        if device is not None:
            if name != "exact":
                raise InputError(f'device needs solver="exact", got solver={given!r}')
            return ExactProxRR(**limits, device=device)
        return SOLVERS[name](**limits, **({} if traced else {"eval_every": int(max_iter)}))
    if isinstance(given, type) or not callable(getattr(given, "solve", None)):
        raise InputError(f"solver must be a name or have a method solve, got {shown(given)}")
    if device is not None:
        raise InputError(
            "device is for a solver by name: give it to the solver, ExactProxRR(device=...)"
        )
    if not traced:
        refuse_private(given, "a path of models or a cross-validation")
    return given


def seed_of(random_state: Any) -> int:
    """The seed: an integer itself, a number drawn from a ``RandomState`` or ``Generator``, or a fresh one for ``None``."""
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
