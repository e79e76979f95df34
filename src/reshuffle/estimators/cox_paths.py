"""Cox's model along a path of strengths: in the core if possible, otherwise by ``ProxNewton``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

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


def path_along(problem: CoxProblem, method: FittingSolver, model: Any, who: str) -> Path:
    """The path at the strengths of a model; ``method`` is the solver that its parameters mean."""
    strengths = model.lambdas_
    path = in_the_core(problem, strengths, model.solver, method)
    if path is None:
        return path_of(walk(problem, strengths, method, who), strengths, method, model)
    missed = np.flatnonzero(~path.converged)
    if missed.size:
        starts = [(at_strength(problem, float(strengths[k])), path.coefs[k]) for k in missed]
        with held_warnings() as held:
            results = [method.solve(*start) for start in starts]
        retell_path(held, who, strengths[missed], results, method, strengths.size)
        others = path_of(results, strengths[missed], method, model)
        path.coefs[missed], path.objectives[missed] = others.coefs, others.objectives
        path.n_iters[missed] += others.n_iters
        for k, certificate in zip(missed, others.certificates, strict=True):
            path.certificates[k], path.converged[k] = certificate, certificate.value <= method.tol
    return replace(path, names=getattr(model, "feature_names_in_", None))


def points_along(
    problem: CoxProblem, method: FittingSolver, model: Any, given_up: Callable[[], bool]
) -> list[Array]:
    """The minimisers alone, for the folds of a cross-validation; fewer if it was given up."""
    path = in_the_core(problem, model.lambdas_, model.solver, method, given_up)
    if path is not None and path.converged.all():
        return list(path.coefs)
    found = takewhile(lambda _: not given_up(), follow(problem, model.lambdas_, method))
    return [result.x for result in found]


def at_strength(problem: CoxProblem, strength: float) -> CoxProblem:
    """The problem with λ·ψ; it has ψ at λ = 1."""
    return problem.with_penalty(scaling(problem.penalty, problem.shape)(strength))


def in_the_core(
    problem: CoxProblem,
    strengths: Array,
    name: object,
    method: FittingSolver,
    given_up: Callable[[], bool] = lambda: False,
) -> Path | None:
    """The path of a dense problem with a separable penalty; None for other problems, and if it was given up."""
    rows, form = problem.in_the_core, problem.form
    if not isinstance(name, str) or name != NEWTON or rows is None or form is None:
        return None
    each = form.one_by_one
    if each is None or np.any(each.free) or not np.isfinite(problem.smoothness.L_max):
        return None
    count, reference, packed = strengths.size, problem.reference, native_form(form)
    given, accuracy = np.ascontiguousarray(strengths), method.tol * reference
    points, ends = np.zeros((count, problem.features)), np.empty((count, 4))
    together = max(1, A_CALL // (problem.n * problem.features))
    for begin in range(0, count, together):
        listen()
        if given_up():
            return None
        last = min(begin + together, count)
        rows.follow(packed, given, points, ends, begin, last, accuracy, method.epochs)
    values, psi, bounds, steps = ends.T
    bounds = bounds / reference
    return Path(
        lambdas=strengths,
        coefs=points + 0.0,
        intercepts=np.zeros(count),
        objectives=values + psi,
        certificates=[Certificate("gap", b, method.tol, PROOF) for b in bounds.tolist()],
        n_iters=steps.astype(np.int64),
        converged=bounds <= method.tol,
    )
