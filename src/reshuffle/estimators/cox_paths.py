"""Cox's model along a path of strengths: in the core if possible, otherwise by ``ProxNewton``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.errors import held_warnings
from reshuffle.estimators.column_penalties import by_columns
from reshuffle.estimators.cox import RRCox, solver_for
from reshuffle.estimators.outcome import Certificate
from reshuffle.estimators.paths import (
    Path,
    follow,
    path_of,
    retell_path,
    strengths_of,
    unit_penalty,
    walk,
)
from reshuffle.estimators.scaling import scaling
from reshuffle.estimators.solver_names import ALONG_A_PATH, FittingSolver
from reshuffle.interruption import listen
from reshuffle.penalties.forms import native_form
from reshuffle.survival import CoxProblem
from reshuffle.trace import Result

NEWTON = "newton"
A_CALL = 3_000_000
"""A call of the core gets as many strengths as make it read about this many entries of X, at about ten steps for each: some hundredths of a second, so that Ctrl-C is noticed."""
PROOF = "duality gap"


def cox_path(
    X: object,
    y: object,
    *,
    penalty: object = "l1",
    l1_ratio: float = 0.5,
    lambdas: object = 100,
    smallest: float = 0.01,
    sample_weight: object = None,
    strata: object = None,
    penalty_factors: object = None,
    positive: bool = False,
    ties: str = "efron",
    solver: object = NEWTON,
    tol: float | None = None,
    max_iter: int = 200,
) -> Path:
    """The minimisers of -(1/n) log L + λ·ψ for λ from λ_max down, each begun at the one before.

    The parameters are those of ``RRCoxCV``; ``plotting.plot_path`` draws the path.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = rs.survival.outcome(rng.exponential(np.exp(-X[:, 0])), rng.random(200) < 0.8)
    >>> path = rs.cox_path(X, y, lambdas=10)
    >>> path.nonzeros[0], path.nonzeros[-1], bool(path.converged.all())
    (np.int64(0), np.int64(5), True)
    """
    model = RRCox()
    data = model.prepared(X, y, sample_weight, strata)
    unit = unit_penalty(
        by_columns(penalty, model), l1_ratio, penalty_factors, positive, data.X.shape[1:]
    )
    problem = data.problem(unit, ties)
    strengths = strengths_of(problem, lambdas, smallest)
    method = solver_for(problem, solver, tol, max_iter, ALONG_A_PATH)
    return path_along(problem, strengths, solver, method, model, "cox_path")


class InTheCore(NamedTuple):
    """A path from the core: for each strength x, P(x), a bound on P(x) - P* over f(0) - inf f, and the number of Newton steps."""

    points: Array
    objectives: Array
    bounds: Array
    steps: NDArray[np.int64]


def path_along(
    problem: CoxProblem,
    strengths: Array,
    name: object,
    method: FittingSolver,
    model: object,
    who: str,
) -> Path:
    """The path at these strengths; ``name`` is the solver as it was given, and ``method`` the solver that this means."""
    found = in_the_core(problem, strengths, name, method)
    if found is None:
        results = walk(problem, strengths, method, who)
        return path_of(results, strengths, method, model, _attributes)
    certificates = [Certificate("gap", bound, method.tol, PROOF) for bound in found.bounds.tolist()]
    missed = np.flatnonzero(~(found.bounds <= method.tol))
    if missed.size:
        times = scaling(problem.penalty, problem.shape)
        with held_warnings() as held:
            results = [
                method.solve(problem.with_penalty(times(float(strengths[k]))), found.points[k])
                for k in missed
            ]
        retell_path(held, who, strengths[missed], results, method, strengths.size)
        others = path_of(results, strengths[missed], method, model, _attributes)
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
    problem: CoxProblem,
    strengths: Array,
    name: object,
    method: FittingSolver,
    given_up: Callable[[], bool],
) -> list[Array]:
    """The minimisers alone, for the folds of a cross-validation; fewer if it was given up."""
    found = in_the_core(problem, strengths, name, method, given_up)
    if found is not None and np.all(found.bounds <= method.tol):
        return list(found.points)
    points: list[Array] = []
    for result in follow(problem, strengths, method):
        if given_up():
            break
        points.append(result.x)
    return points


def result_at(
    problem: CoxProblem, strength: float, method: FittingSolver, x: Array
) -> tuple[CoxProblem, Result]:
    """The run at one strength, from its minimiser."""
    own = problem.with_penalty(scaling(problem.penalty, problem.shape)(strength))
    with held_warnings():  # warnings are given for the whole path
        return own, method.solve(own, x)


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


def _attributes(x: Array) -> dict[str, object]:
    return {"coef_": x + 0.0, "intercept_": 0.0}
