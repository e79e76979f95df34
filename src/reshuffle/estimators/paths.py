"""Minimisers along a sequence of strengths, each found from the previous ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array
from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import Held, InputError, held_warnings, not_converged, shown, warn_user
from reshuffle.estimators.outcome import Certificate, certificate_of, pass_on, stalled
from reshuffle.estimators.penalty_names import by_columns, penalty_of
from reshuffle.estimators.scaling import scaling
from reshuffle.estimators.solver_names import FittingSolver
from reshuffle.estimators.strengths import check_ratio
from reshuffle.html_tables import ends, html_table
from reshuffle.penalties import Penalty, ability
from reshuffle.problem import Problem
from reshuffle.solvers.exact.device_checks import device_of
from reshuffle.survival import CoxProblem
from reshuffle.trace import Result
from reshuffle.validation import as_array, check_finite, check_positive

Walkable = Problem | CoxProblem
"""Problems for which there are paths, because their penalty can be exchanged."""


@dataclass(frozen=True, eq=False)
class Path:
    """Models along a path: one entry per λ, from the largest down.

    ``coefs`` and ``intercepts`` hold, for each λ, what an estimator has as ``coef_`` and ``intercept_``.
    """

    lambdas: Array
    coefs: Array
    intercepts: Array
    objectives: Array
    certificates: list[Certificate]
    n_iters: NDArray[np.int64]
    converged: NDArray[np.bool_]
    names: AnyArray | None = None
    classes: AnyArray | None = None

    @property
    def nonzeros(self) -> NDArray[np.int64]:
        """How many features have a coefficient that is not zero."""
        apart = self.coefs != 0
        used = apart if apart.ndim == 2 else apart.any(axis=1)
        return np.asarray(np.count_nonzero(used, axis=1))

    def __len__(self) -> int:
        return self.lambdas.size

    def __repr__(self) -> str:
        first, last = self.lambdas[0], self.lambdas[-1]
        return (
            f"<Path: {len(self)} strengths from {first:.3g} to {last:.3g}, "
            f"{self.nonzeros[0]} to {self.nonzeros[-1]} features>"
        )

    def _repr_html_(self) -> str:
        """A table of some of the strengths, for notebooks."""
        some, note = ends(len(self))
        words = {True: "yes", False: "no"}
        rows = [
            (f"{self.lambdas[k]:.4g}", f"{self.nonzeros[k]:,}", f"{self.objectives[k]:.6g}",
             f"{self.n_iters[k]:,}", words[bool(self.converged[k])])
            for k in some
        ]  # fmt: skip
        columns = ("λ", "features", "objective", "epochs", "proved")
        return html_table(f"Path of {len(self)} strengths", columns, rows, note)


def unit_penalty(model: Any, shape: tuple[int, ...]) -> Penalty:
    """ψ at λ = 1: l1_ratio·‖x‖₁ + (1 - l1_ratio)/2·‖x‖² for the elastic net, or the user's own."""
    given, ratio = by_columns(model.penalty, model), model.l1_ratio
    check_ratio(ratio)
    if given is None or given == "none":
        raise InputError(f"a path needs a penalty, got penalty={given!r}")
    strengths = {"l1": (1.0, None), "l2": (None, 1.0), "elasticnet": (ratio, 1.0 - ratio)}
    l1, l2 = strengths.get(given, (None, None)) if isinstance(given, str) else (None, None)
    return penalty_of(given, l1, l2, model.penalty_factors, model.positive, shape)


def strengths_of(problem: Walkable, lambdas: object, smallest: object) -> Array:
    """The λ's of a path: the given ones, or the given number of them from λ_max to ``smallest``·λ_max."""
    if isinstance(lambdas, (int, np.integer)) and not isinstance(lambdas, bool):
        check_positive("lambdas", lambdas, integer=True)
        if not (isinstance(smallest, (float, np.floating)) and 0 < smallest < 1):
            raise InputError(f"smallest must lie between 0 and 1, got {shown(smallest)}")
        if ability(problem.penalty, "lambda_max") is None:
            raise InputError(f"penalty {problem.penalty!r} cannot tell its λ_max: give lambdas")
        largest = problem.lambda_max()
        if largest == 0:
            raise InputError(
                "y does not vary with any feature of X: there is no path from λ_max = 0"
            )
        if largest == np.inf:
            raise InputError(
                f"penalty {problem.penalty!r} holds no feature at zero (λ_max is infinite): give lambdas"
            )
        return largest * float(smallest) ** np.linspace(0.0, 1.0, int(lambdas))
    given = as_array("lambdas", lambdas)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "fiu":
        raise InputError(f"lambdas must be their number or a list of them, got {shown(lambdas)}")
    check_finite("lambdas", given)
    if given.min() <= 0:
        raise InputError(f"lambdas must be positive, got {given.min():g}")
    return np.sort(given.astype(np.float64))[::-1]


def follow(problem: Walkable, lambdas: Array, solver: FittingSolver) -> Iterator[Result]:
    """The result at each λ. Each run starts at the extrapolation of the last two results; the first has an intercept only.

    ``problem`` has ψ at λ = 1.
    """
    x, placed = problem.without_features(), _placed(problem, solver)
    shape = (problem.features, *problem.shape[1:])
    before, begin, times = x, x, scaling(problem.penalty, shape)
    for k, strength in enumerate(lambdas):
        result = solver.solve(placed.with_penalty(times(float(strength))), begin)
        if result.interrupted:
            raise KeyboardInterrupt  # A single run takes Ctrl-C as its own end; here it has to end the whole path.
        before, x = x, result.x
        begin = _ahead(problem, before, x, lambdas[max(k - 1, 0) : k + 2])
        yield result


def _placed(problem: Walkable, solver: FittingSolver) -> Walkable | DeviceProblem:
    """The problem on the device of the solver: rows are copied to a graphics card once for all strengths."""
    device = getattr(solver, "device", None)
    if device is None:
        return problem
    solver.check_problem(problem)
    return DeviceProblem.of(cast(Problem, problem), device_of(device))


def _ahead(problem: Walkable, before: Array, x: Array, lambdas: Array) -> Array:
    """The linear extrapolation in λ of the last two minimisers to the next λ, by at most the length of the last step.

    Minimisers are nearly linear in λ as long as the same features are used: features at zero stay
    there, and those that would change their sign are set to zero.
    """
    if len(lambdas) < 3 or not lambdas[0] > lambdas[1]:
        return x
    share = min((lambdas[1] - lambdas[2]) / (lambdas[0] - lambdas[1]), 1.0)
    ahead = x + share * (x - before)
    used = slice(problem.features)
    ahead[used][(x[used] == 0) | (ahead[used] * x[used] < 0)] = 0.0
    return ahead if np.isfinite(problem.penalty.value(ahead[used])) else x


def walk(problem: Walkable, lambdas: Array, solver: FittingSolver, name: str) -> list[Result]:
    """The results of a path, with one warning for all strengths that did not converge."""
    with held_warnings() as held:
        results = list(follow(problem, lambdas, solver))
    retell_path(held, name, lambdas, results, solver, len(results))
    return results


def path_of(results: list[Result], lambdas: Array, solver: FittingSolver, model: Any) -> Path:
    """Results as a path; ``attributes_of`` of the model turns a solution into coefficients."""
    found = [model.attributes_of(result.x) for result in results]
    return Path(
        lambdas=lambdas,
        coefs=np.array([each["coef_"] for each in found]),
        intercepts=np.array([each["intercept_"] for each in found]),
        objectives=np.array([result.trace.last()["objective"] for result in results]),
        certificates=[certificate_of(result, solver.tol) for result in results],
        n_iters=np.array([result.epoch for result in results]),
        converged=np.array([result.converged for result in results]),
        names=getattr(model, "feature_names_in_", None),
        classes=getattr(model, "classes_", None),
    )


def retell_path(
    held: Held, name: str, lambdas: Array, results: list[Result], solver: FittingSolver, count: int
) -> None:
    """Give the warnings of these runs again as one, for a path of ``count`` strengths."""
    missed = [k for k, result in enumerate(results) if not result.reached]
    if pass_on(dict.fromkeys(held)) and missed:
        worst = max(certificate_of(results[k], solver.tol).value for k in missed)
        limit = f"a larger max_iter than {solver.limit}, "
        more = "" if all(stalled(results[k]) for k in missed) else limit
        warn_user(
            f"{name} did not converge at {len(missed)} of {count} strengths (the largest: "
            f"{lambdas[missed[0]]:.3g}): tol={solver.tol:g} was not reached (at worst {worst:.3g}); "
            f"give {more}a larger tol or larger lambdas",
            not_converged(),
        )
