"""Total variation, overlapping groups and polyhedra: beyond cvxpy's size, their odd inputs, and their errors."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.penalties import (
    FusedLasso,
    GraphFusedLasso,
    LatentGroupLasso,
    OverlappingGroupLasso,
    Polyhedron,
    TotalVariation2D,
)

pytestmark = pytest.mark.usefixtures("vanishing")

Array = NDArray[np.float64]
few = examples(20)
RNG = np.random.default_rng(0)


def optimal_on_edges(y: Array, u: Array, flow: Array, jumps: Array, bounds: Array) -> None:
    """u = y - Dᵀz with |z_e| ≤ bounds_e, and z_e = ±bounds_e wherever u jumps."""
    size = 1.0 + float(np.abs(y).max())
    assert np.all(np.abs(flow) <= bounds + 1e-10 * size)
    assert np.all(np.abs(bounds * np.abs(jumps) - flow * jumps) <= 1e-10 * size * size)


@pytest.mark.parametrize("n", [1, 2, 50, 5000])
@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0, 1e6])
def test_a_chain_is_optimal(n: int, strength: float) -> None:
    y = np.repeat(3.0 * RNG.standard_normal(n // 20 + 1), 20)[:n] + RNG.standard_normal(n)
    u = FusedLasso(strength).prox(y, 1.0)
    left = -np.cumsum(y - u)[:-1]  # u_j = y_j + z_j - z_{j-1} with (Du)_j = u_{j+1} - u_j
    optimal_on_edges(y, u, left, np.diff(u), np.full(n - 1, strength))
    assert abs(float(np.sum(y - u))) <= 1e-9 * n


@few
@given(y=arrays(float, 12, elements=st.floats(-1e6, 1e6)), w=arrays(float, 11, elements=st.floats(0, 1e3)))  # fmt: skip
def test_a_chain_is_a_graph(y: Array, w: Array) -> None:
    """Dynamic programming and maximum flows, two algorithms for one prox."""
    edges = [(k + 1, k) if k % 2 else (k, k + 1) for k in range(11)]
    chain, graph = FusedLasso(1.0, weights=w), GraphFusedLasso(1.0, edges, weights=w)
    np.testing.assert_allclose(
        chain.prox(y, 2.0), graph.prox(y, 2.0), atol=1e-9 * (1 + np.abs(y).max())
    )


def test_linear_time() -> None:
    """A million values; the strongest penalty leaves their mean, none leaves them as they are."""
    y = RNG.standard_normal(1_000_000)
    np.testing.assert_allclose(FusedLasso(1e9).prox(y, 1.0), y.mean(), atol=1e-12)
    np.testing.assert_array_equal(FusedLasso(0.0).prox(y, 1.0), y)
    u = FusedLasso(2.0).prox(y, 1.0)
    left = -np.cumsum(y - u)[:-1]
    optimal_on_edges(y, u, left, np.diff(u), np.full(y.size - 1, 2.0))


def test_an_image_is_optimal_by_its_neighbours() -> None:
    """No block of equal pixels gains by moving: checked on single pixels and on the blocks found."""
    psi = TotalVariation2D(0.4, (20, 30))
    x = np.kron(RNG.standard_normal((4, 5)), np.ones((5, 6))).ravel() + 0.3 * RNG.standard_normal(
        600
    )
    u = psi.prox(x, 1.0)
    best = psi.value(u) + float(np.sum((u - x) ** 2)) / 2
    assert 5 < np.unique(u).size < 400
    for level in np.unique(u):
        for move in (1e-4, -1e-4):
            other = np.where(u == level, u + move, u)
            assert psi.value(other) + float(np.sum((other - x) ** 2)) / 2 >= best
    for pixel in range(0, 600, 7):
        other = u.copy()
        other[pixel] += 1e-3
        assert psi.value(other) + float(np.sum((other - x) ** 2)) / 2 >= best


@pytest.mark.parametrize(
    "y", [np.zeros(9), np.full(9, 0.1), np.eye(9)[0] * 1e300, np.full(9, -1e-300)]
)
def test_constant_and_extreme_images(y: Array) -> None:
    u = TotalVariation2D(1.0, (3, 3)).prox(y, 1.0)
    assert np.isfinite(u).all()
    if np.ptp(y) == 0:
        np.testing.assert_allclose(u, y, rtol=1e-15)


EVERY = [
    (psi, shape)
    for kind in rs.penalties.PENALTIES
    for shape in ((9,), (4, 3))
    for psi in kind.examples(shape)[:1]
]


@pytest.mark.parametrize(
    ("psi", "shape"), EVERY, ids=lambda v: type(v).__name__ if hasattr(v, "prox") else ""
)
def test_what_is_not_finite_stays_so(psi: Any, shape: tuple[int, ...]) -> None:
    """A run that blows up is told by its iterate: no prox hangs on it, raises, or hides it."""
    for bad in (np.nan, np.inf):
        x = np.ones(shape)
        x.flat[4] = bad
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            p = psi.prox(x, 1.0)
            psi.value(x)
        assert p.shape == shape
        assert bad == np.inf or not np.isfinite(p).all()  # a bound may take infinity away


def test_nested_groups_take_one_pass() -> None:
    """The root last: group by group from the leaves is the prox (Jenatton et al., 2011)."""
    tree = [[0], [1], [0, 1], [2, 3], [0, 1, 2, 3]]
    psi, x = OverlappingGroupLasso(0.5, tree, np.ones(5)), 2.0 * RNG.standard_normal(4)
    u = x.copy()
    for group in tree:
        u[group] *= max(0.0, 1.0 - 0.5 / max(float(np.linalg.norm(u[group])), 1e-300))
    np.testing.assert_allclose(psi.prox(x, 1.0), u, atol=1e-14)


def test_the_error_of_an_iterative_prox_is_bounded() -> None:
    groups = [list(range(7 * k, 7 * k + 10)) for k in range(300)]
    x = 2.0 * RNG.standard_normal(2103)
    exact, _ = OverlappingGroupLasso(0.5, groups).prox_and_error(x, 1.0)
    for tolerance in (1e-2, 1e-4, 1e-6):
        p, error = OverlappingGroupLasso(0.5, groups, tolerance=tolerance).prox_and_error(x, 1.0)
        assert float(np.linalg.norm(p - exact)) <= error + 1e-6
        assert error <= 300 * tolerance * float(np.linalg.norm(x))


def test_a_polyhedron_of_redundant_rows() -> None:
    """Rows that repeat, that never bind, and equations that follow from others."""
    A = np.vstack([np.eye(3), np.eye(3), -np.eye(3), np.ones(3)])
    b = np.array([1.0] * 6 + [0.0] * 3 + [100.0])
    box = Polyhedron(A, b, [[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]], [1.0, 2.0])
    p = box.prox(np.array([5.0, -3.0, 9.0]), 1.0)
    np.testing.assert_allclose(p, [1.0, 0.0, 1.0], atol=1e-12)
    inside = np.array([0.25, 0.75, 0.5])
    np.testing.assert_allclose(box.prox(inside, 1.0), inside, atol=1e-14)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array])
def test_a_polyhedron_of_sparse_rows_is_that_of_dense_ones(kind: Any) -> None:
    A, b = np.eye(5) - np.eye(5, k=1), np.full(5, 0.1)
    C, d, x = np.ones((1, 5)), [1.0], RNG.standard_normal(5)
    dense, sparse = Polyhedron(A, b, C, d), Polyhedron(kind(A), b, kind(C), d)
    assert sparse == dense
    np.testing.assert_array_equal(sparse.prox(x, 1.0), dense.prox(x, 1.0))
    assert sparse.value(sparse.prox(x, 1.0)) == 0.0


@pytest.mark.parametrize("l1", [0.0, 0.1])
def test_one_pixel(l1: float) -> None:
    psi = TotalVariation2D(1.0, (1, 1), l1)
    for x in (np.array([3.0]), np.array([[3.0, -2.0]])):
        np.testing.assert_allclose(psi.prox(x, 1.0), np.sign(x) * (np.abs(x) - l1))
        assert psi.value(x) == pytest.approx(l1 * float(np.abs(x).sum()))


def test_bounds_that_are_nothing_beside_x_and_the_other_way_round() -> None:
    x = np.array([0.3, -2.0, 1.0, 0.0, 0.7, -0.2])
    psi = LatentGroupLasso(0.2, [[0, 1, 2], [2, 3, 4], [4, 5]])
    for size in (1e20, 1e95, 1e105, 1e150):
        np.testing.assert_allclose(psi.prox(size * x, 1.0), size * x, rtol=1e-15)
        assert not psi.prox(x / size, 1.0).any()
    assert not psi.prox(1e-310 * x, 1.0).any()


LATENT = [
    [[0]],
    [[0, 1, 2, 3, 4, 5]],
    [[0, 1, 2], [0, 1, 2], [3, 4, 5]],
    [[0, 1, 2, 3, 4, 5], [0], [1, 2]],
    [[k, (k + 1) % 6, (k + 2) % 6] for k in range(6)],
]


@pytest.mark.parametrize("kind", [LatentGroupLasso, OverlappingGroupLasso])
@pytest.mark.parametrize("groups", LATENT, ids=str)
@pytest.mark.parametrize("size", [1e-150, 1e-6, 1.0, 1e6, 1e150])
def test_odd_groups_and_sizes(kind: Any, groups: Any, size: float) -> None:
    """No strength, far too much of it, equal groups, one for all, and numbers of every size."""
    x = np.array([0.3, -2.0, 1.0, 0.0, 0.7, -0.2])
    covered = np.isin(np.arange(6), np.concatenate(groups))
    free, zero = (x, 0.0 * x) if kind is OverlappingGroupLasso else (covered * x, 0.0 * x)
    zero = np.where(covered, 0.0, x) if kind is OverlappingGroupLasso else zero
    np.testing.assert_allclose(kind(0.0, groups).prox(size * x, 1.0), size * free, rtol=1e-12)
    np.testing.assert_allclose(kind(10.0, groups).prox(size * x, size), size * zero, atol=0.0)
    unit = kind(0.2, groups).prox(x, 1.0)
    np.testing.assert_allclose(
        kind(0.2, groups).prox(size * x, size), size * unit, atol=1e-9 * size
    )
    assert np.isfinite(kind(0.2, groups).value(size * unit))


@pytest.mark.parametrize("groups", LATENT[1:], ids=str)
def test_parts_of_the_latent_norm(groups: Any) -> None:
    """They add up to x, and the norm is that of the dual point which proves it; a group for nothing takes all."""
    x, weights = RNG.standard_normal(6), np.linspace(1.0, 2.0, len(groups))
    psi = LatentGroupLasso(2.0, groups, weights)
    split, (members, starts, _) = psi.split(x), psi._structure(6)
    order = np.argsort([len(group) for group in groups], kind="stable")
    np.testing.assert_allclose(np.bincount(members, split.parts, 6), x, atol=1e-12)
    norms = np.sqrt(np.add.reduceat(split.parts**2, starts[:-1]))
    assert split.value == pytest.approx(float(weights[order] @ norms), rel=1e-12)
    assert split.gap <= 1e-12 * split.value
    assert psi.value(x) == pytest.approx(2.0 * split.value)
    assert LatentGroupLasso(2.0, [*groups, range(6)], [*weights, 0.0]).value(x) <= 1e-12
    assert LatentGroupLasso(2.0, [[0, 1]]).value(x) == np.inf
    assert psi.lambda_max(x) == pytest.approx(
        max(float(np.linalg.norm(x[list(g)])) / w for g, w in zip(groups, weights, strict=True)) / 2
    )


FAR_APART = [  # coordinates of very different size in shared groups: multipliers trade places by factors of a thousand
    ([0.0, 0.0, -1000.0, 1.0, 0.0, 0.0], 1.5),
    ([0.3, 0.0, 0.3, 0.0, 0.5, -1000.0], 25.3),
    ([0.33, 1e3, 1e3, 0.0, 0.0, -1.0], 1.37),
    ([7e-4, 6e-18, 0.73, -814.6, 1.6e-17, 0.65], 0.183),
    ([2.5e-7, 2.4e-7, -5e-14, -3.2, -8e-6, -4.7e-9], 0.277),
]


@pytest.mark.parametrize(("x", "step"), FAR_APART, ids=lambda v: None)
@pytest.mark.filterwarnings("error")
def test_latent_groups_with_coordinates_of_very_different_size(x: list[float], step: float) -> None:
    psi = LatentGroupLasso.examples((6,))[0]
    point, error = psi.prox_and_error(np.array(x), step)
    assert error <= 1e-12 * np.linalg.norm(x)
    for u in (np.array(x), point):
        split = psi.split(u)
        assert split.gap <= 1e-11 * split.value


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("start", [0.0, 1e-30, 1.0, 1e30, 1e99, 1e200, 1e308, np.inf, np.nan, -1.0])
def test_latent_groups_from_any_start(start: float) -> None:
    """Multipliers of another problem, or none at all: no NaN, and no proof of a point that is not the prox."""
    psi, x = LatentGroupLasso.examples((6,))[0], np.array([3.0, -1.0, 0.5, 0.0, 2.0, -7.0])
    for step in (1e-9, 1.0, 300.0):
        wanted = psi.prox(x, step)
        found = psi.prox_from(x, step, np.full(3, start), 0.0)
        np.testing.assert_allclose(found.point, wanted, atol=1e-10)
        assert found.error <= 1e-11


@pytest.mark.filterwarnings("error")
@examples(75)
@given(seed=st.integers(0, 2**32), largest=st.floats(-12.0, 3.0))
def test_latent_groups_of_every_size(seed: int, largest: float) -> None:
    """Groups at random, equal ones and ones for nothing among them: the prox is proved, and so is the value."""
    rng = np.random.default_rng(seed)
    d, count = rng.integers(2, 20, 2)
    groups = [np.flatnonzero(rng.random(d) < rng.random()) for _ in range(count)]
    groups = [group for group in groups if group.size] + [np.arange(d)]
    weights = 10.0 ** rng.uniform(-3.0, 3.0, len(groups)) * (rng.random(len(groups)) < 0.9)
    x = rng.choice([-1.0, 0.0, 1.0], d) * 10.0 ** rng.uniform(largest - 15.0, largest, d)
    psi = LatentGroupLasso(0.01, groups, weights)
    point, error = psi.prox_and_error(x, 10.0 ** rng.uniform(-4.0, 4.0))
    assert error <= 1e-12 * np.linalg.norm(x)
    for u in (x, point):
        split = psi.split(u)
        assert split.gap <= 1e-8 * split.value
        members = psi._structure(d).members
        np.testing.assert_allclose(
            np.bincount(members, split.parts, d), u, atol=1e-12 * np.abs(u).max()
        )


@pytest.mark.parametrize(
    "psi",
    [
        FusedLasso(0.1, 0.1),
        TotalVariation2D(0.1, (3, 2)),
        GraphFusedLasso(0.1, [(0, 1)]),
        OverlappingGroupLasso(0.1, [[0, 1], [1, 2]]),
        LatentGroupLasso(0.1, [[0, 1], [1, 2, 3, 4], [5]]),
        Polyhedron(np.eye(6), np.ones(6)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_they_travel_and_are_equal_by_content(psi: Any) -> None:
    x = RNG.standard_normal(6)
    p = psi.prox(x, 1.0)
    other = pickle.loads(pickle.dumps(psi))
    assert other == psi
    assert hash(other) == hash(psi)
    np.testing.assert_array_equal(other.prox(x, 1.0), p)


def test_what_is_not_a_number_ends_a_prox_and_stays_one() -> None:
    """Along a chain this once went round for ever: a value that is not a number equals no other, not even itself."""
    for psi in (FusedLasso(0.1, 0.05), TotalVariation2D(0.1, (1, 3), 0.05)):
        for k in range(3):
            x = np.array([1.0, 2.0, 4.0])
            x[k] = np.nan
            assert np.isnan(psi.prox(x, 1.0)).any()
    assert FusedLasso(0.1, 0.05).conjugate(np.array([0.0, np.nan, 0.0])) == np.inf


@pytest.mark.parametrize(
    "psi",
    [
        TotalVariation2D(0.01, (5, 6), 0.001),
        OverlappingGroupLasso(0.003, [list(range(k, k + 6)) for k in range(0, 25, 4)]),
        LatentGroupLasso(0.003, [list(range(k, k + 6)) for k in range(0, 25, 4)]),
        Polyhedron(np.eye(30), np.full(30, 0.1)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_no_state_hides_in_them(psi: Any) -> None:
    """Equal runs are equal to the last bit, and so is one that was interrupted and resumed."""
    X, y = rs.datasets.breast_cancer()
    problem = rs.Problem(X, y, penalty=psi)
    for long, short in (
        (rs.ExactProxRR(epochs=8, tol=0.0), rs.ExactProxRR(epochs=3, tol=0.0)),
        (rs.FISTA(epochs=8, tol=0.0), rs.FISTA(epochs=3, tol=0.0)),
    ):
        whole = long.solve(problem)
        assert np.array_equal(long.solve(problem).x, whole.x)
        resumed = long.solve(problem, resume=short.solve(problem))
        assert np.array_equal(resumed.x, whole.x)


def test_a_prox_that_gives_up_says_so() -> None:
    rng = np.random.default_rng(0)
    groups = [list(range(k, k + 10)) for k in range(300)]  # strengths at the edge of all or nothing
    psi, x = OverlappingGroupLasso(0.3, groups), 3.0 * rng.standard_normal(309)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _, error = psi.prox_and_error(x, 1.0)
    assert error < 1e-3
    assert not told or "did not reach its tolerance" in str(told[0].message)
