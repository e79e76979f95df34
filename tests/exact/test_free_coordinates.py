"""Intercepts and features without a penalty are at their own minimum wherever a run says that it converged.

Around λ_max no feature that the penalty holds is used, so that the free coordinates are all there is: scipy
minimises their problem, from the plain formulas of the losses and by finite differences.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import reshuffle as rs
from reshuffle.losses import (
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from reshuffle.penalties import L1, GroupLasso, SparseGroupLasso
from reshuffle.solvers import certificate
from reshuffle.solvers.certificate import Gap, certificate_of

ROWS, WIDE, NARROW, CLASSES, FREE = 230, 160, 12, 3, 2
TOL = 1e-6
LOSSES: dict[str, Loss] = {
    "logistic": Logistic(), "squared": Squared(), "huber": Huber(0.7), "hinge": SquaredHinge(),
    "quantile": Quantile(0.3), "poisson": Poisson(), "softmax": Multinomial(), "outputs": Squared(),
}  # fmt: skip
LAYOUTS = ("dense", "csr", "unit", "float32")
CASES = [(name, "dense") for name in LOSSES]
CASES += [(name, layout) for name in ("logistic", "softmax", "outputs") for layout in LAYOUTS[1:]]
FACTORS = (2.0, 1.0, 0.999)
"""Of λ_max."""


@pytest.fixture(autouse=True)
def _refuted_bounds_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "STRICT", True)


def drawn(name: str, layout: str, width: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows in this layout, and targets of which one kind is rare."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (ROWS, width)).astype(float)
    if layout == "unit":
        X = (X > 1).astype(float)
    z = 0.3 * (X[:, 0] - X[:, 1]) + rng.standard_normal(ROWS)
    rare = np.sort(z)[ROWS // 10]
    y: Any = {
        "squared": 3.0 + z, "huber": 3.0 + z, "quantile": 3.0 + z, "poisson": rng.poisson(np.exp(0.3 * z + 1.0)),
        "softmax": np.where(z < rare, 0, np.where(z < 1.0, 1, 2)),
        "outputs": np.stack([z + 5.0, 100.0 * z, rng.standard_normal(ROWS) - 1.0], axis=1),
    }.get(name, np.where(z < rare, -1.0, 1.0))  # fmt: skip
    if layout == "float32":
        return X.astype(np.float32), y
    return (X if layout == "dense" else sp.csr_matrix(X)), y


def penalties(width: int, outputs: int) -> dict[str, Any]:
    """Of strength 1; the coordinates that each leaves free are the first two features, the last two, or none."""
    first = np.ones(width)
    first[:FREE] = 0.0
    labels = np.arange(width - FREE) // 4
    weights = first[:, None] if outputs > 1 else first
    found: dict[str, Any] = {"l1": L1(1.0), "l1, two free": L1(weights)}
    if outputs == 1:
        ends = np.append(labels, [-1] * FREE)
        found |= {
            "groups, labels short": GroupLasso(1.0, labels),
            "groups, two of -1": GroupLasso(1.0, ends),
            "sparse groups, two of -1": SparseGroupLasso(0.5, 0.5, ends),
        }
    else:
        found |= {"rows as groups": GroupLasso(1.0)}
    return found


def free_features(name: str, width: int) -> list[int]:
    if "two free" in name:
        return list(range(FREE))
    return list(range(width - FREE, width)) if "short" in name or "-1" in name else []


def strength(penalty: Any, factor: float) -> Any:
    """The penalty times a factor."""
    if isinstance(penalty, L1):
        return L1(factor * np.asarray(penalty.l1))
    if isinstance(penalty, GroupLasso):
        return GroupLasso(factor, penalty.groups)
    return SparseGroupLasso(0.5 * factor, 0.5 * factor, penalty.groups)


def free_minimum(problem: rs.Problem, columns: np.ndarray) -> tuple[float, np.ndarray]:
    """min f over the free coordinates alone, by scipy, and the gradient of f with all others at zero there."""
    loss, y, n = problem.loss, problem.targets, problem.n
    w = problem.weights if problem.weights.size else np.ones(n)
    outputs = problem.shape[1] if len(problem.shape) > 1 else 1

    def value(u: np.ndarray) -> float:
        z = columns @ u.reshape(columns.shape[1], outputs)
        z = z if outputs > 1 else z[:, 0]
        return float(w @ type(loss).oracle(z, y, *loss.params)) / n  # type: ignore[misc]

    best = np.zeros(columns.shape[1] * outputs)
    if best.size:
        for _ in range(3):  # anew from where it stopped, with a fresh metric
            found = minimize(value, best, method="BFGS", options={"gtol": 1e-9})
            best = found.x if found.fun <= value(best) else best
    return value(best), best.reshape(columns.shape[1], outputs)


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize(("name", "layout"), CASES)
def test_free_coordinates_are_at_their_minimum(name: str, layout: str, width: int) -> None:
    X, y = drawn(name, layout, width)
    rows: Any = X
    dense = np.asarray(rows.todense() if hasattr(rows, "todense") else rows, dtype=np.float64)
    outputs = CLASSES if name in ("softmax", "outputs") else 1
    weights = np.random.default_rng(1).pareto(1.5, ROWS) + 0.01
    false, minima = [], {}  # penalties that leave the same coordinates free share their minimum
    for (kind, unit), given, intercept in product(
        penalties(width, outputs).items(), (None, weights), (True, False)
    ):
        free = free_features(kind, width)
        if not (free or intercept):
            continue
        make: dict[str, Any] = {
            "loss": LOSSES[name],
            "sample_weight": given,
            "fit_intercept": intercept,
        }
        columns = np.hstack([dense[:, free], np.ones((ROWS, int(intercept)))])
        case = (*free, given is not None, intercept)
        if case not in minima:
            minima[case] = free_minimum(rs.Problem(X, y, **make), columns)
        least, best = minima[case]
        x = np.zeros(rs.Problem(X, y, **make).shape)
        x[free + [width] * intercept] = best if outputs > 1 else best[:, 0]
        plain = rs.Problem(X, y, penalty=unit, **make)
        g = plain.gradient(x)[:width]
        g[free] = 0.0
        largest = float(unit.lambda_max(g))
        for factor in FACTORS:
            problem = rs.Problem(X, y, penalty=strength(unit, factor * largest), **make)
            result = rs.ExactProxRR(tol=TOL).solve(problem)
            above = (problem.objective(result.x) - least) / problem.datafit.at_zero
            # scipy's is a minimum as well; just below λ_max a held feature may lower P a little
            below = -TOL if factor >= 1.0 else -1e-4
            if not (result.converged and below <= above <= TOL):
                false.append((kind, given is not None, intercept, factor, above, result.message))
    assert not false, false


@pytest.mark.parametrize("name", ["logistic", "softmax", "outputs", "hinge"])
@pytest.mark.parametrize("solver", [rs.FISTA(tol=TOL), rs.ProxRR(tol=TOL, epochs=30, step=1e-3),
                                    rs.ExactProxRR(tol=TOL, finish=False)], ids=repr)  # fmt: skip
def test_other_solvers_never_certify_an_intercept_that_is_elsewhere(name: str, solver: Any) -> None:
    X, y = drawn(name, "dense", WIDE)
    make: dict[str, Any] = {"loss": LOSSES[name], "fit_intercept": True}
    plain = rs.Problem(X, y, penalty=L1(1.0), **make)
    least, _ = free_minimum(plain, np.ones((ROWS, 1)))
    problem = rs.Problem(X, y, penalty=L1(2.0 * plain.lambda_max()), **make)
    with warnings.catch_warnings():  # of limits that end a run, and of a step that is too long
        warnings.simplefilter("ignore")
        result = solver.solve(problem)
    above = (problem.objective(result.x) - least) / problem.datafit.at_zero
    assert above <= TOL or not result.converged
    assert above <= result.trace["gap"][-1] + 1e-12


def test_the_intercept_of_rare_events_with_a_strong_penalty() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.poisson(3, (100, 160)).astype(float), np.ones(100)
    y[:10] = -1
    problem = rs.Problem(X, y, penalty=L1(1e3), fit_intercept=True)
    result = rs.ExactProxRR(tol=TOL).solve(problem)
    assert result.converged
    assert result.x[-1] == pytest.approx(np.log(9.0), abs=1e-2)
    assert rs.RRClassifier(penalty="l1", l1=1e3).fit(X, y).intercept_[0] == pytest.approx(
        np.log(9.0), abs=1e-2
    )


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_dual_point_satisfies_the_equations_of_the_intercept(name: str) -> None:
    X, y = drawn(name, "dense", NARROW)
    rng, weights = np.random.default_rng(2), np.random.default_rng(1).pareto(1.5, ROWS)
    for given in (None, weights):
        problem = rs.Problem(
            X, y, loss=LOSSES[name], penalty=L1(0.1), sample_weight=given, fit_intercept=True
        )
        measure = certificate_of(problem)
        assert isinstance(measure, Gap)
        for scale in (0.0, 0.1, 1.0):
            slopes, _ = problem.slopes(scale * rng.standard_normal(problem.shape))
            moved = measure._balanced(slopes)
            w = problem.weights if problem.weights.size else np.ones(ROWS)
            total, most = w @ moved, w @ np.abs(moved)
            assert np.all(np.abs(total) <= 1e-12 * most + 1e-300)
            conjugates = problem.datafit.conjugates(moved, 1.0)
            assert np.isfinite(conjugates)


def test_a_bound_that_a_free_coordinate_refutes_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn("logistic", "dense", NARROW)
    for penalty, intercept in (
        (L1(1e3), True),
        (L1(np.r_[0.0, 0.0, np.full(NARROW - 2, 1e3)]), False),
    ):
        problem = rs.Problem(X, y, penalty=penalty, fit_intercept=intercept)
        slopes, g = problem.slopes(np.zeros(problem.shape))
        free = certificate.FreeCoordinates(problem)
        fall = free.fall(slopes, g) / problem.datafit.at_zero
        assert 1e-3 < fall < 1.0
        with pytest.raises(AssertionError, match="free coordinate"):
            free.believed(0.5 * fall, slopes, g)
        monkeypatch.setattr(certificate, "STRICT", False)
        assert free.believed(0.5 * fall, slopes, g) == np.inf
        assert free.believed(2.0 * fall, slopes, g) == 2.0 * fall
        monkeypatch.setattr(certificate, "STRICT", True)
