"""Every penalty against cvxpy: its prox, fits with it, and a federation that reaches the pooled solution."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle import penalties as P

cp: Any = pytest.importorskip("cvxpy")
Array = NDArray[np.float64]
Build = Callable[[Any], Any]
SIZE, CLASSES = 9, 3
RING = [(k, (k + 1) % SIZE) for k in range(SIZE)]
CHAIN = [[0, 1, 2, 3], [2, 3, 4], [4, 5, 6, 7], [7, 8, 0]]
W = np.linspace(2.0, 0.5, SIZE)
RISING = (np.eye(SIZE) - np.eye(SIZE, k=1))[:5]
PLANE = np.ones((1, SIZE))


def solve(problem: Any) -> None:
    """As accurately as Clarabel can: tighter tolerances than it reaches would end with a worse point."""
    for tol in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an answer that may be inaccurate is not taken
            problem.solve(solver="CLARABEL", tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        if problem.status == "optimal":
            return
    raise AssertionError(problem.status)


def tv(x: Any, edges: Any = None, weights: Any = 1.0) -> Any:
    pairs = np.array(RING[:-1] if edges is None else edges)
    return cp.sum(cp.multiply(weights, cp.abs(x[pairs[:, 0]] - x[pairs[:, 1]])))


def slope(x: Any, weights: Array) -> Any:
    """Σ_j w_j|x|_(j) = Σ_k (w_k - w_{k+1})·(the k largest magnitudes)."""
    steps = -np.diff(np.append(weights, 0.0))
    return sum(s * cp.sum_largest(cp.abs(x), k + 1) for k, s in enumerate(steps))


def norms(x: Any, groups: Any, weights: Any = None) -> Any:
    sizes = [np.sqrt(len(g)) for g in groups] if weights is None else weights
    return sum(w * cp.norm(x[g]) for w, g in zip(sizes, groups, strict=True))


def latent(x: Any, groups: Any, weights: Any = None) -> Any:
    """The parts as variables, whose sum is x."""
    sizes = [np.sqrt(len(g)) for g in groups] if weights is None else weights
    parts = [cp.Variable(len(g)) for g in groups]
    whole = sum(np.eye(x.size)[:, g] @ v for g, v in zip(groups, parts, strict=True))
    return sum(w * cp.norm(v) for w, v in zip(sizes, parts, strict=True)), [whole == x]


def psd(x: Any) -> Any:
    matrix = cp.reshape(x, (3, 3), order="C")
    return 0, [matrix >> 0, matrix == matrix.T]


def _scaled(strength: float, built: Any) -> Any:
    return strength * built[0], built[1]


# One line adds a penalty: it, and the same as a cvxpy expression, or an expression and constraints.
CASES: list[tuple[Any, Build]] = [
    (P.L1(0.05 * W), lambda x: cp.sum(cp.multiply(0.05 * W, cp.abs(x)))),
    (
        P.ElasticNet(0.05 * W, 0.1),
        lambda x: cp.sum(cp.multiply(0.05 * W, cp.abs(x))) + 0.05 * cp.sum_squares(x),
    ),
    (P.L1(0.05) + P.Box(-0.1, 0.3), lambda x: (0.05 * cp.norm1(x), [x >= -0.1, x <= 0.3])),
    (P.NonNegative(0.05), lambda x: (0.05 * cp.sum(x), [x >= 0])),
    (P.GroupLasso(0.05, [0, 0, 0, 1, 1, 1, 2, 2, -1]), lambda x: norms(x, ([0, 1, 2], [3, 4, 5], [6, 7])) * 0.05),
    (P.L1Ball(0.5), lambda x: (0, [cp.norm1(x) <= 0.5])),
    (P.L2Ball(0.4), lambda x: (0, [cp.norm(x) <= 0.4])),
    (P.LInfBall(0.2), lambda x: (0, [cp.norm_inf(x) <= 0.2])),
    (P.Simplex(0.7), lambda x: (0, [x >= 0, cp.sum(x) == 0.7])),
    (P.SLOPE(0.04, W), lambda x: 0.04 * slope(x, W)),
    (P.Monotone(), lambda x: (0, [cp.diff(x) >= 0])),
    (P.Monotone(decreasing=True), lambda x: (0, [cp.diff(x) <= 0])),
    (P.Sum(P.Monotone(), P.ElasticNet(0.02, 0.1) + P.Box(-0.1, 0.2)), lambda x: (0.02 * cp.norm1(x) + 0.05 * cp.sum_squares(x), [cp.diff(x) >= 0, x >= -0.1, x <= 0.2])),
    (P.Sum(P.SLOPE(0.04, W), P.L2Ball(0.2)), lambda x: (0.04 * slope(x, W), [cp.norm(x) <= 0.2])),
    (P.Sum(P.GroupLasso(0.05, [0, 0, 0, 1, 1, 1, 2, 2, 2]), P.L2(0.3)), lambda x: 0.05 * norms(x, ([0, 1, 2], [3, 4, 5], [6, 7, 8])) + 0.15 * cp.sum_squares(x)),
    (P.FusedLasso(0.05), lambda x: 0.05 * tv(x)),
    (P.FusedLasso(0.05, 0.02, W[:-1]), lambda x: 0.05 * tv(x, None, W[:-1]) + 0.02 * cp.norm1(x)),
    (P.Sum(P.FusedLasso(0.05), P.NonNegative(0.01)), lambda x: (0.05 * tv(x) + 0.01 * cp.sum(x), [x >= 0])),
    (P.GraphFusedLasso(0.04, [*RING, (0, 4)], 0.01), lambda x: 0.04 * tv(x, [*RING, (0, 4)]) + 0.01 * cp.norm1(x)),
    (P.TotalVariation2D(0.04, (3, 3)), lambda x: 0.04 * cp.sum(cp.abs(cp.diff(cp.reshape(x, (3, 3), order="C"), axis=0))) + 0.04 * cp.sum(cp.abs(cp.diff(cp.reshape(x, (3, 3), order="C"), axis=1)))),
    (P.OverlappingGroupLasso(0.03, CHAIN), lambda x: 0.03 * norms(x, CHAIN)),
    (P.OverlappingGroupLasso(0.03, [[0, 1, 2, 3, 4], [0, 1], [3]]), lambda x: 0.03 * norms(x, ([0, 1, 2, 3, 4], [0, 1], [3]))),
    (P.LatentGroupLasso(0.03, CHAIN), lambda x: _scaled(0.03, latent(x, CHAIN))),
    (P.LatentGroupLasso(0.05, CHAIN[:3], [1.0, 2.0, 0.5]), lambda x: _scaled(0.05, latent(x, CHAIN[:3], [1.0, 2.0, 0.5]))),
    (P.Polyhedron(RISING, np.zeros(5), PLANE, [0.4]), lambda x: (0, [RISING @ x <= 0, PLANE @ x == 0.4])),
    (P.PSDCone(), psd),
]  # fmt: skip
NAMES = [f"{type(psi).__name__}{k}" for k, (psi, _) in enumerate(CASES)]
every_case = pytest.mark.parametrize(("psi", "build"), CASES, ids=NAMES)


def minimised(f: Callable[[Any], Any], build: Build, scale: float = 1.0) -> Array:
    x = cp.Variable(SIZE)
    built = build(x)
    value, constraints = built if isinstance(built, tuple) else (built, [])
    solve(cp.Problem(cp.Minimize(f(x) + scale * value), constraints))
    return np.asarray(x.value, dtype=np.float64)


def data(loss: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, SIZE))
    z = X @ np.array([0.5, 0.5, 0.4, 0.0, 0.0, -0.3, 0.0, 0.6, 0.6]) + 0.3 * rng.standard_normal(40)
    return X, z if loss == "squared" else np.where(z > 0, 1.0, -1.0)


LOSSES: dict[str, tuple[rs.losses.Loss, Callable[[Array, Array], Build]]] = {
    "squared": (rs.losses.Squared(), lambda X, y: lambda x: cp.sum_squares(X @ x - y) / (2 * len(y))),
    "logistic": (rs.losses.Logistic(), lambda X, y: lambda x: cp.sum(cp.logistic(-cp.multiply(y, X @ x))) / len(y)),
}  # fmt: skip


def distance(y: Array, x: Any) -> Any:
    return cp.sum_squares(x - y) / 2


@every_case
def test_value_and_prox(psi: Any, build: Build) -> None:
    for seed, step in enumerate((0.3, 4.0)):
        y = np.random.default_rng(seed).standard_normal(SIZE)
        p = psi.prox(y, step)
        wanted = minimised(partial(distance, y), build, step)
        np.testing.assert_allclose(p, wanted, atol=1e-6)
        built = build(cp.Constant(p))
        value, constraints = built if isinstance(built, tuple) else (built, [])
        found = value.value if hasattr(value, "value") else value
        if isinstance(psi, P.LatentGroupLasso):  # a minimum itself
            solve(problem := cp.Problem(cp.Minimize(value), constraints))
            assert psi.value(p) == pytest.approx(problem.value, rel=1e-7)
            continue
        assert psi.value(p) == pytest.approx(float(found), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@every_case
def test_fits_and_a_federation(psi: Any, build: Build, loss: str) -> None:
    """ExactProxRR on all rows, and ExactFedRR on clients that have one label (or one half) each."""
    X, y = data(loss)
    kind, function = LOSSES[loss]
    wanted = minimised(function(X, y), build)
    problem = rs.Problem(X, y, kind, psi)
    result = rs.ExactProxRR(tol=1e-11, epochs=5000).solve(problem)
    assert result.reached, result.message
    np.testing.assert_allclose(result.x, wanted, atol=1e-5)
    by: Any = "label" if loss == "logistic" else [np.flatnonzero(y <= 0), np.flatnonzero(y > 0)]
    clients = rs.federated.split(problem, clients=2, by=by)
    pooled = rs.ExactFedRR(tol=1e-9, rounds=3000).solve(clients)
    assert pooled.reached, pooled.message
    np.testing.assert_allclose(pooled.x, wanted, atol=1e-5)


MATRICES: list[tuple[Any, Build]] = [
    (P.L2Ball(0.4), lambda x: (0, [cp.norm(x, "fro") <= 0.4])),
    (P.Simplex(0.7), lambda x: (0, [x >= 0, cp.sum(x) == 0.7])),
    (P.Monotone(), lambda x: (0, [cp.diff(x, axis=0) >= 0])),
    (P.SLOPE(0.03, np.linspace(2, 1, SIZE * CLASSES)), lambda x: 0.03 * slope(cp.vec(x, order="C"), np.linspace(2, 1, SIZE * CLASSES))),
    (P.FusedLasso(0.05, 0.01), lambda x: 0.05 * cp.sum(cp.abs(cp.diff(x, axis=0))) + 0.01 * cp.sum(cp.abs(x))),
    (P.GraphFusedLasso(0.05, [(0, 3), (3, 8)]), lambda x: 0.05 * cp.sum(cp.abs(x[[0, 3]] - x[[3, 8]]))),
    (P.TotalVariation2D(0.05, (3, 3)), lambda x: 0.05 * cp.sum(cp.abs(x[[0, 1, 3, 4, 6, 7]] - x[[1, 2, 4, 5, 7, 8]])) + 0.05 * cp.sum(cp.abs(x[:6] - x[3:]))),
    (P.OverlappingGroupLasso(0.05, [[0, 1, 2], [2, 3, 4, 5]]), lambda x: 0.05 * norms(cp.vec(x, order="C"), [[0, 1, 2], [2, 3, 4, 5]])),
    (P.LatentGroupLasso(0.05, [range(12), range(8, 27)]), lambda x: _scaled(0.05, latent(cp.vec(x, order="C"), [range(12), range(8, 27)]))),
    (P.NuclearNorm(0.05), lambda x: 0.05 * cp.normNuc(x)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("psi", "build"), MATRICES, ids=lambda v: type(v).__name__ if hasattr(v, "prox") else ""
)
def test_prox_of_a_matrix(psi: Any, build: Build) -> None:
    y = np.random.default_rng(5).standard_normal((SIZE, CLASSES))
    x = cp.Variable(y.shape)
    built = build(x)
    value, constraints = built if isinstance(built, tuple) else (built, [])
    solve(cp.Problem(cp.Minimize(cp.sum_squares(x - y) / 2 + 2.0 * value), constraints))
    np.testing.assert_allclose(psi.prox(y, 2.0), x.value, atol=1e-6)


def test_the_latent_form_is_the_group_lasso_on_columns_side_by_side() -> None:
    X, y = data("squared")
    columns = np.concatenate(CHAIN)
    labels = np.repeat(np.arange(len(CHAIN)), [len(g) for g in CHAIN])
    wide = rs.Problem(
        np.ascontiguousarray(X[:, columns]), y, rs.losses.Squared(), P.GroupLasso(0.05, labels)
    )
    x = np.bincount(columns, rs.ExactProxRR(tol=1e-12).solve(wide).x, SIZE)
    parts = [cp.Variable(len(g)) for g in CHAIN]
    whole = sum(np.eye(SIZE)[:, g] @ u for g, u in zip(CHAIN, parts, strict=True))
    penalty = sum(np.sqrt(len(g)) * cp.norm(u) for g, u in zip(CHAIN, parts, strict=True))
    loss = cp.sum_squares(X @ whole - y) / (2 * len(y))
    solve(cp.Problem(cp.Minimize(loss + 0.05 * penalty)))
    np.testing.assert_allclose(x, whole.value, atol=1e-5)


@pytest.mark.parametrize("weights", [None, [1.0, 0.5, 2.0]])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_latent_groups(weights: list[float] | None, sparse_rows: bool) -> None:
    """Against the sum over the groups of free vectors, stated as such."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(5)
    groups, size = [[0, 1, 2, 3], [2, 3, 4, 5], [5, 6, 7]], 9  # the last feature is in no group
    X = rng.standard_normal((60, size))
    y = np.where(X[:, 0] - X[:, 3] + rng.standard_normal(60) > 0, 1.0, -1.0)
    latent = rs.penalties.LatentGroupLasso(0.04, groups, weights)
    rows = latent.columns(csr_array(X) if sparse_rows else X)
    problem = rs.Problem(rows, y, penalty=latent.penalty, fit_intercept=True)
    found = latent.coefficients(rs.ExactProxRR(tol=1e-12).solve(problem).x, size)

    parts, b = [cp.Variable(len(g)) for g in groups], cp.Variable()
    z = sum(X[:, g] @ v for g, v in zip(groups, parts, strict=True)) + b
    used = weights or [np.sqrt(len(g)) for g in groups]
    norms = sum(w * cp.norm(v) for w, v in zip(used, parts, strict=True))
    cp.Problem(cp.Minimize(cp.sum(cp.logistic(cp.multiply(-y, z))) / 60 + 0.04 * norms)).solve(
        solver="CLARABEL"
    )
    expected = np.zeros(size + 1)
    for g, v in zip(groups, parts, strict=True):
        expected[g] += v.value
    expected[-1] = b.value
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found[8] == 0.0


def test_latent_groups_of_a_matrix_unknown_and_bad_ones() -> None:
    latent = rs.penalties.LatentGroupLasso(0.1, [[0, 1], [1, 2]])
    parts = np.arange(10.0).reshape(5, 2)
    np.testing.assert_array_equal(
        latent.coefficients(parts, 3), [[0.0, 1.0], [6.0, 8.0], [6.0, 7.0], [8.0, 9.0]]
    )
    assert latent == rs.penalties.LatentGroupLasso(0.1, [[0, 1], [1, 2]])
    for make, message in (
        (lambda: rs.penalties.LatentGroupLasso(-1.0, [[0]]), "strength must be"),
        (lambda: rs.penalties.LatentGroupLasso(1.0, [[0], []]), "group 1"),
        (lambda: rs.penalties.LatentGroupLasso(1.0, [[0, 1]], [1.0, 2.0]), "weights must hold 1"),
        (lambda: rs.penalties.LatentGroupLasso(1.0, [[0, 1]], [-1.0]), "weights must be"),
        (lambda: latent.columns(np.ones((4, 2))), "groups name feature 2, but there are 2"),
        (lambda: latent.columns(np.ones(4)), "X must be a matrix"),
        (lambda: latent.coefficients(np.ones(3), 3), "parts must have 4 rows"),
        (
            lambda: rs.ExactProxRR().solve(rs.Problem(np.eye(2), [1, -1], penalty=latent)),
            "groups name coordinate 2, but x has 2",
        ),
    ):
        with pytest.raises(rs.InputError, match=message):
            make()
