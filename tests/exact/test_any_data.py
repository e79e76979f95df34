"""ExactProxRR on data as people have it: raw columns, tiny sets, residuals far out, odd numbers."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs
from reshuffle.solvers.certificate import certificate_of
from reshuffle.solvers.exact import PHASES, Newton

P, L = rs.penalties, rs.losses
Array = NDArray[np.float64]


def noisy(n: int = 300, d: int = 20, seed: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d) * (rng.random(d) < 0.4)
    return X, np.sign(X @ w + rng.standard_normal(n))


# --- the minimiser is not left again -----------------------------------------------------------


@pytest.mark.parametrize("finish", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_finished_run_stays_at_the_minimiser(seed: int, finish: bool) -> None:
    """No safeguard acts on differences at rounding level, and the best point seen is returned."""
    problem = rs.Problem(*noisy())
    best = problem.objective(rs.theory.solve(problem))
    result = rs.ExactProxRR(tol=0, epochs=1000, seed=seed, finish=finish, eval_every=50).solve(
        problem
    )
    assert problem.objective(result.x) - best <= 1e-13
    known = result.trace["objective"][-1]  # sums in another order may differ in the last bits
    assert known == pytest.approx(problem.objective(result.x), rel=1e-14, abs=0.0)


def test_a_run_that_cannot_get_further_says_so() -> None:
    problem = rs.Problem(*noisy())
    result = rs.ExactProxRR(tol=0.0).solve(problem)
    assert not result.converged
    assert result.epoch < 100
    assert result.message.startswith("no step lowers P(x) any further")
    with pytest.warns(ConvergenceWarning, match="beyond what rounding allows"):
        result = rs.ExactProxRR(tol=1e-30).solve(problem)
    assert problem.gradient_mapping(result.x) < 1e-10
    assert result.trace["gap"][-1] <= 1e-13


def test_a_run_that_ends_at_its_limit_warns() -> None:
    X, y = noisy()
    problem = rs.Problem(X, y, penalty=P.L1(1e-3))
    with pytest.warns(
        ConvergenceWarning, match=r"tol=1e-09 was not reached \(gap = .* give more epochs"
    ) as caught:
        rs.ExactProxRR(tol=1e-9, epochs=2, finish=False).solve(problem)
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="time limit"):
        rs.ProxRR(tol=1e-9, time_limit=0.01, epochs=10**6, step=1e-3).solve(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rs.ExactProxRR(tol=1e-9).solve(problem)
        rs.ExactProxRR(tol=0.0, epochs=3).solve(problem)
        rs.ExactProxRR(tol=1e-9).solve(problem, callbacks=[lambda result: True])


# --- problems that epochs alone do not solve ---------------------------------------------------


def hard() -> dict[str, rs.Problem]:
    rng = np.random.default_rng(0)
    both = P.ElasticNet(1e-3, 1e-3)
    wine, cancer, iris = load_wine(), load_breast_cancer(), load_iris()
    diabetes = load_diabetes(scaled=False)
    X = rng.standard_normal((300, 5))
    far = 100 * (X.sum(1) + rng.standard_normal(300))
    Z, y = noisy(300, 5, 1)
    years = rng.integers(1990, 2025, 300).astype(float)
    long = Z.copy()
    long[3] *= 1e6
    u, W = rng.standard_normal(500), rng.standard_normal((500, 3))
    t = 100 * u + W @ [2.0, -1.0, 1.0] + 0.1 * rng.standard_normal(500)
    wide: Any = sp.random(100, 5000, density=0.02, random_state=0, format="csr")
    signs = np.where(rng.random(100) < 0.5, 1.0, -1.0)
    largest = rs.Problem(wide, signs, penalty=P.L1(1.0)).lambda_max()
    standardised = (cancer.data - cancer.data.mean(0)) / cancer.data.std(0)
    return {
        "residuals far beyond delta": rs.Problem(X, far, L.Huber(), P.L1(1e-2)),
        "3 x 1": rs.Problem(
            np.array([[-0.0714], [0.9559], [-0.9274]]), [1.0, -1.0, 1.0], penalty=P.L1(5e-4)
        ),
        "2 x 2": rs.Problem(
            np.array([[0, 0.7224], [0.0122, -0.0011]]), [100.0, -56.0], L.Squared(), P.L2(1.2e-4)
        ),
        "wide and sparse": rs.Problem(wide, signs, penalty=P.L1(0.1 * largest)),
        "iris, raw": rs.Problem(iris.data, iris.target, L.Multinomial(), both, fit_intercept=True),
        "wine, raw": rs.Problem(wine.data, wine.target, L.Multinomial(), both),
        "breast cancer, raw": rs.Problem(cancer.data, cancer.target, penalty=both),
        "breast cancer": rs.Problem(standardised, cancer.target, penalty=P.L1(1e-3)),
        "diabetes, raw": rs.Problem(diabetes.data, diabetes.target, L.Squared(), P.L1(1.0)),
        "years": rs.Problem(np.column_stack([years, Z]), y, penalty=P.L2(1e-3), fit_intercept=True),
        "one long row": rs.Problem(long, y, penalty=P.L2(1e-3)),
        "a column of 1e5": rs.Problem(
            np.column_stack([1e5 * u, W]), t, L.Squared(), fit_intercept=True
        ),
        "squared hinge, no penalty": rs.Problem(
            (wine.data - wine.data.mean(0)) / wine.data.std(0), wine.target == 1, L.SquaredHinge()
        ),
        "group lasso with a free coordinate": rs.Problem(
            Z, y, penalty=P.GroupLasso(0.01, [0, 0, 1, 1, -1])
        ),
        "quantile": rs.Problem(X, far, L.Quantile(0.9, 1e-3), P.L2(1e-4), fit_intercept=True),
    }  # fmt: skip


HARD = hard()


@cache
def lowest(name: str) -> float:
    """P where no step lowers it any further."""
    return HARD[name].objective(rs.ExactProxRR(tol=0.0).solve(HARD[name]).x)


@pytest.mark.parametrize("at_once", [True, False], ids=["one call", "step by step"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_are_solved_and_the_certificate_is_true(
    name: str, tol: float, at_once: bool
) -> None:
    """Against the objective at rounding level, which nothing can lower any further."""
    problem = HARD[name]
    phases = [Newton(at_once), *PHASES[1:]]
    result = rs.ExactProxRR(tol=tol, phases=phases).solve(problem)
    assert result.converged, result.message
    best = lowest(name)
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - best <= tol * scale
    reached = result.trace["gap"][-1] * scale
    assert problem.objective(result.x) - best <= reached + 1e-14 * scale


@pytest.mark.parametrize(
    "loss", [L.Logistic(), L.Squared(), L.Huber(), L.SquaredHinge(), L.Quantile()]
)
@pytest.mark.parametrize(
    "psi", [P.L1(0.02), P.L2(0.05), P.ElasticNet(0.01, 0.02), P.Box(-0.3, 0.2)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_with_an_intercept_is_a_bound_that_closes(
    loss: Any, psi: Any, weighted: bool
) -> None:
    X, y = noisy(80, 6)
    y = y if loss.targets == "signs" else y + X[:, 0] + 3.0
    y[:20] = y[0]  # so that an intercept matters
    weights = np.linspace(0.5, 2.0, 80) if weighted else None
    problem = rs.Problem(X, y, loss, psi, 0.01, weights, fit_intercept=True)
    measure, best = certificate_of(problem), problem.objective(rs.theory.solve(problem))
    assert measure.name == "gap"
    rng, scale = np.random.default_rng(0), problem.value(np.zeros(7))
    minimiser = rs.theory.solve(problem)
    for size in (1.0, 0.1, 1e-3, 0.0):
        x = minimiser + size * rng.standard_normal(7)
        x[:-1] = psi.prox(x[:-1], 1e-12)  # into the box
        assert measure.at(x) >= (problem.objective(x) - best) / scale - 1e-13
    assert measure.at(minimiser) <= 1e-9


# --- odd input ---------------------------------------------------------------------------------


def test_rows_of_zeros_with_a_ridge() -> None:
    problem = rs.Problem(np.zeros((5, 3)), [1, -1, 1, -1, 1], ridge=0.1, fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-9).solve(problem)
    assert result.converged
    assert not result.x[:3].any()
    assert result.x[3] == pytest.approx(np.log(1.5), abs=1e-4)


def test_squares_that_overflow_are_refused_with_advice() -> None:
    X, y = noisy()
    with pytest.raises(rs.InputError, match=r"squares of X overflow.*divide X"):
        rs.ExactProxRR().solve(rs.Problem(1e155 * X, y))


def test_a_prox_that_returns_nan_is_named() -> None:
    class Broken:
        def value(self, x: Array) -> float:
            return 0.0

        def prox(self, x: Array, step: float) -> Array:
            return np.full_like(x, np.nan)

    for solver in (rs.ExactProxRR(), rs.FISTA(), rs.ProxRR()):
        with pytest.raises(
            rs.InputError, match=r"prox\(x, step\) of penalty Broken must be finite"
        ):
            solver.solve(rs.Problem(*noisy(), penalty=Broken()))


def test_missing_labels_are_no_class() -> None:
    with pytest.raises(rs.InputError, match="labels must not be missing"):
        rs.encode_labels([np.nan, -1.0])


def test_nullable_columns_and_masks() -> None:
    pd = pytest.importorskip("pandas")
    X, y = noisy(50, 3)
    table = pd.DataFrame(X).astype("Float64")
    assert np.array_equal(rs.Problem(table, y).rows.values, X)
    table.iloc[3, 1] = pd.NA
    with pytest.raises(rs.InputError, match="X must be finite, got NaN"):
        rs.Problem(table, y)
    with pytest.raises(rs.InputError, match="X has masked values"):
        rs.Problem(np.ma.masked_array(X, X > 2.0), y)


def test_a_penalty_of_the_wrong_length_is_told_before_any_work() -> None:
    X, y = noisy()
    with pytest.raises(rs.InputError, match=r"L1 has arrays of shape \{'l1': \(7,\)\}.*\(20,\)"):
        rs.Problem(X, y, penalty=P.L1(np.ones(7)))


def test_three_classes_with_the_default_loss_point_to_multinomial() -> None:
    iris = load_iris()
    with pytest.raises(rs.InputError, match=r"Multinomial\(\) with the classes 0 … 2"):
        rs.Problem(iris.data, iris.target)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_labels_that_a_number_cannot_tell_apart_are_refused(kind: Any) -> None:
    most = int(2 / np.finfo(kind).eps)
    with pytest.raises(rs.InputError, match=f"labels must be below {most}, got {most}"):
        rs.encode_labels(np.array([most, 1.0, 1.0], dtype=kind))
    with pytest.raises(rs.InputError, match="got -inf"):
        rs.encode_labels(np.array([-np.inf, 1.0], dtype=kind))
    assert rs.encode_labels(np.array([most - 1, -most + 1], dtype=kind))[1].size == 2
    assert rs.encode_labels([2**53, 2**53 + 1])[1].tolist() == [2**53, 2**53 + 1]
    X, y = np.ones((4, 1)), np.array([2**53, 2**53 + 1] * 2)
    with pytest.raises(rs.ClientError, match="labels must be below 9007199254740992"):
        rs.FedRR(rounds=1).solve(rs.federated.Sites([(X, y), (X, y)]))


def test_coordinates_beyond_the_group_labels_are_free_and_certified() -> None:
    """Labels that are shorter than x leave the coordinates at the end without a penalty, like a label of -1."""
    X, y = noisy()
    short = np.repeat(np.arange(X.shape[1] // 4), 3)
    whole = np.append(short, np.full(X.shape[1] - short.size, -1))
    penalties = [rs.penalties.GroupLasso(0.02, labels) for labels in (short, whole)]
    found = [rs.ExactProxRR(tol=1e-9).solve(rs.Problem(X, y, penalty=p)) for p in penalties]
    assert all(result.converged for result in found)
    np.testing.assert_array_equal(found[0].x, found[1].x)
    assert np.all(found[0].x[short.size :] != 0.0)
