"""Cox's model along a path of strengths: in the core if possible, otherwise by ``ProxNewton``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.errors import held_warnings
from reshuffle.estimators.outcome import Certificate
from reshuffle.estimators.paths import Path, follow, path_of, retell_path, walk
from reshuffle.estimators.scaling import scaling
from reshuffle.estimators.solver_names import FittingSolver
from reshuffle.interruption import listen
from reshuffle.penalties.forms import native_form
from reshuffle.survival import CoxProblem

NEWTON = "newton"
A_CALL = 3_000_000
"""A call of the core gets as many strengths as make it read about this many entries of X, at about ten steps for each: some hundredths of a second, so that Ctrl-C is noticed."""
PROOF = "duality gap"


class InTheCore(NamedTuple):
    """A path from the core: for each strength x, P(x), a bound on P(x) - P* over f(0) - inf f, and the number of Newton steps."""

    points: Array
    objectives: Array
    bounds: Array
    steps: NDArray[np.int64]


def path_along(problem: CoxProblem, method: FittingSolver, model: Any, who: str) -> Path:
    """The path at the strengths of a model; ``method`` is the solver that its parameters mean."""
    strengths = model.lambdas_
    found = in_the_core(problem, strengths, model.solver, method)
    if found is None:
        return path_of(walk(problem, strengths, method, who), strengths, method, model)
    certificates = [Certificate("gap", bound, method.tol, PROOF) for bound in found.bounds.tolist()]
    missed = np.flatnonzero(~(found.bounds <= method.tol))
    if missed.size:
        with held_warnings() as held:
            results = [
                method.solve(at_strength(problem, float(strengths[k])), found.points[k])
                for k in missed
            ]
        retell_path(held, who, strengths[missed], results, method, strengths.size)
        others = path_of(results, strengths[missed], method, model)
        found.points[missed], found.objectives[missed] = others.coefs, others.objectives
        found.bounds[missed] = [each.value for each in others.certificates]
        found.steps[missed] += others.n_iters
        for k, certificate in zip(missed, others.certificates, strict=True):
            certificates[k] = certificate
    return Path(
        lambdas=strengths,
        coefs=found.points + 0.0,
        intercepts=np.zeros(strengths.size),
        objectives=found.objectives,
        certificates=certificates,
        n_iters=found.steps,
        converged=found.bounds <= method.tol,
        names=getattr(model, "feature_names_in_", None),
    )


def points_along(
    problem: CoxProblem, method: FittingSolver, model: Any, given_up: Callable[[], bool]
) -> list[Array]:
    """The minimisers alone, for the folds of a cross-validation; fewer if it was given up."""
    found = in_the_core(problem, model.lambdas_, model.solver, method, given_up)
    if found is not None and np.all(found.bounds <= method.tol):
        return list(found.points)
    path = takewhile(lambda _: not given_up(), follow(problem, model.lambdas_, method))
    return [result.x for result in path]


def at_strength(problem: CoxProblem, strength: float) -> CoxProblem:
    """The problem with λ·ψ; it has ψ at λ = 1."""
    return problem.with_penalty(scaling(problem.penalty, problem.shape)(strength))


def in_the_core(
    problem: CoxProblem,
    strengths: Array,
    name: object,
    method: FittingSolver,
    given_up: Callable[[], bool] = lambda: False,
) -> InTheCore | None:
    """The path of a dense problem with a separable penalty; None for other problems, and if it was given up."""
    rows, form = problem.in_the_core, problem.form
    if not isinstance(name, str) or name != NEWTON or rows is None or form is None:
        return None
    each = form.one_by_one
    if each is None or np.any(each.free) or not np.isfinite(problem.smoothness.L_max):
        return None
    count, reference = strengths.size, problem.reference
    strengths = np.ascontiguousarray(strengths)
    points, ends = np.zeros((count, problem.features)), np.empty((count, 4))
    together = max(1, A_CALL // (problem.n * problem.features))
    for begin in range(0, count, together):
        listen()
        if given_up():
            return None
        last = min(begin + together, count)
        rows.follow(
            native_form(form),
            strengths,
            points,
            ends,
            begin,
            last,
            method.tol * reference,
            method.epochs,
        )
    values, psi, bounds, steps = ends.T
    return InTheCore(points, values + psi, bounds / reference, steps.astype(np.int64))
