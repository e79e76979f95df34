"""Every penalty: its prox is the prox of its value, and behaves as the paper's lemmas say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, brentq, minimize

import reshuffle as rs
from reshuffle.core import native
from reshuffle.penalties import (
    L1,
    L2,
    Box,
    ElasticNet,
    GroupLasso,
    L1Ball,
    NonNegative,
    NuclearNorm,
    PSDCone,
    Separable,
    SparseGroupLasso,
    Sum,
    Zero,
)
from reshuffle.penalties.forms import native_form

pytestmark = pytest.mark.usefixtures("vanishing")

Array = NDArray[np.float64]

# One line adds a penalty to all tests below: an example and the shape of its unknown.
EXAMPLES: list[tuple[Any, tuple[int, ...]]] = [
    (Zero(), (3,)),
    (L1(0.7), (3,)),
    (L1(np.array([0.0, 0.5, 2.0])), (3,)),
    (L1(np.array([[0.3], [1.0]])), (2, 3)),
    (L2(0.7), (3,)),
    (L2(np.array([0.5, 0.0, 2.0])), (3,)),
    (ElasticNet(0.4, 0.9), (3,)),
    (ElasticNet(np.array([0.0, 1.0, 0.2]), np.array([1.0, 0.3, 0.8])), (3,)),
    (ElasticNet(0.4, 0.9), (2, 2)),
    (NonNegative(), (3,)),
    (NonNegative(0.5, 0.3), (3,)),
    (Box(-0.5, 2.0), (3,)),
    (Box(np.array([-np.inf, 1.0, -2.0]), np.array([0.0, np.inf, -1.0])), (3,)),
    (GroupLasso(0.8, groups=[0, 0, 1]), (3,)),
    (GroupLasso(0.8, groups=[1, -1, 0, 1]), (4,)),
    (GroupLasso(0.8, groups=[[2, 0], [3]], weights=[0.5, 2.0]), (5,)),
    (GroupLasso(0.8, groups=[0, 2], weights=[1.0, 0.0, 3.0]), (2,)),
    (GroupLasso(0.8), (2, 3)),
    (L1Ball(1.5), (3,)),
    (L1Ball(1.5), (2, 2)),
    (NuclearNorm(0.8), (2, 2)),
    (NuclearNorm(0.8), (3, 2)),
    (PSDCone(), (2, 2)),
    (PSDCone(), (9,)),
    *(
        (example, shape)
        for kind in rs.penalties.PENALTIES
        for shape in ((6,), (4, 3))
        for example in kind.examples(shape)[:1]
    ),
]
every_penalty = pytest.mark.parametrize(
    ("psi", "shape"), EXAMPLES, ids=[f"{type(p).__name__}{i}" for i, (p, _) in enumerate(EXAMPLES)]
)
steps = st.floats(1e-3, 1e3)


def convexity(psi: Any) -> float:
    """The largest μ, of either sign, for which ψ - (μ/2)‖·‖² is known to be convex."""
    return float(getattr(psi, "strong_convexity", 0.0)) - rs.penalties.weak_convexity(psi)


def points(shape: tuple[int, ...], bound: float = 1e3) -> st.SearchStrategy[Array]:
    return arrays(np.float64, shape, elements=st.floats(-bound, bound, allow_subnormal=False))


def kernel_prox(form: Any, flat: Array, step: float) -> None:
    native.prox(native_form(form), flat, step)


@pytest.mark.parametrize(
    ("psi", "shape"), [(p, s) for p, s in EXAMPLES if rs.penalties.ability(p, "compiled")]
)
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_the_kernels_prox_is_that_of_the_penalty_with_the_ridge(
    psi: Any, shape: tuple[int, ...], ridge: float
) -> None:
    """prox of s(ψ + (r/2)‖·‖²) at x is that of s/(1 + sr)·ψ at x/(1 + sr)."""
    compiled = psi.compiled
    for seed, step in enumerate((0.3, 2.0, 40.0)):
        x = 5.0 * np.random.default_rng(seed).standard_normal(shape)
        flat, shrink = x.ravel().copy(), 1.0 + step * ridge
        kernel_prox(compiled(shape, ridge), flat, step)
        wanted = psi.prox(x / shrink, step / shrink)
        np.testing.assert_allclose(flat.reshape(shape), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("psi", "kept"),
    [
        (GroupLasso(0.8, groups=[1, -1, 0, 1]), [True, False, False, True]),
        (SparseGroupLasso(0.1, 0.8, groups=[1, -1, 0, 1]), [True, False, False, True]),
        (L1(0.8), [True, False, False, False]),
    ],
)
def test_a_working_set_keeps_groups_together(psi: Any, kept: list[bool]) -> None:
    assert psi.together(np.array([True, False, False, False])).tolist() == kept
    alone = [False, True, False, False]  # in no group
    assert psi.together(np.array(alone)).tolist() == alone


def test_every_penalty_has_an_example() -> None:
    assert {type(p) for p, _ in EXAMPLES} == set(rs.penalties.PENALTIES)


@every_penalty
@examples(20)
@given(data=st.data())
def test_three_point_inequality(psi: Any, shape: tuple[int, ...], data: st.DataObject) -> None:
    """step·ψ(p) + ‖p - x‖²/2 + (1 + step·μ)/2·‖u - p‖² ≤ step·ψ(u) + ‖u - x‖²/2 for all u."""
    x, u, step = data.draw(points(shape)), data.draw(points(shape)), data.draw(steps)
    if not np.isfinite(psi.value(u)):
        u = psi.prox(u, 1.0)  # into the domain
    p, mu = psi.prox(x, step), max(convexity(psi), -1.0 / step)  # below that it only is a minimiser
    assert p.shape == shape
    assert np.isfinite(psi.value(p))
    right = step * psi.value(u) + np.sum((u - x) ** 2) / 2
    left = step * psi.value(p) + np.sum((p - x) ** 2) / 2
    left += (1 + step * mu) / 2 * np.sum((u - p) ** 2)
    assert left <= right + 1e-12 * (1.0 + abs(right) + step * np.sum(x * x))


@every_penalty
@examples(15)
@given(data=st.data())
def test_contraction(psi: Any, shape: tuple[int, ...], data: st.DataObject) -> None:
    """Firmly non-expansive, and the paper's lemma ‖p - q‖² ≤ ‖x - y‖²/(1 + 2·step·μ)."""
    x, y, step = data.draw(points(shape)), data.draw(points(shape)), data.draw(steps)
    p, q, mu = psi.prox(x, step), psi.prox(y, step), max(convexity(psi), -1.0 / step)
    moved, given_apart = np.sum((p - q) ** 2), np.sum((x - y) ** 2)
    rounding = 1e-12 * (1.0 + np.sum(x * x) + np.sum(y * y))
    assert (1 + step * mu) * moved <= np.sum((p - q) * (x - y)) + rounding
    if mu >= 0:
        assert moved <= given_apart / (1 + 2 * step * mu) + rounding


@every_penalty
@examples(15)
@given(data=st.data())
def test_scaling(psi: Any, shape: tuple[int, ...], data: st.DataObject) -> None:
    """The prox of c·ψ with step s is the prox of ψ with step c·s."""
    x, step, c = data.draw(points(shape)), data.draw(steps), data.draw(st.floats(0.01, 100.0))
    if rs.penalties.weak_convexity(psi) or isinstance(psi, Sum):
        return  # their parameters do not scale them
    names = [f.name for f in fields(psi) if f.init and f.name in ("l1", "l2", "strength")]
    scaled = replace(psi, **{name: c * getattr(psi, name) for name in names})
    u = psi.prox(x, 1.0)
    assert scaled.value(u) == pytest.approx(c * psi.value(u), rel=1e-12)
    p = psi.prox(x, c * step)
    np.testing.assert_allclose(scaled.prox(x, step), p, rtol=1e-10, atol=1e-10)


def minimised(psi: Any, x: Array, step: float) -> Array:
    """argmin_u step·ψ(u) + ‖u - x‖²/2, found without the prox."""
    options: Any
    if isinstance(
        psi, PSDCone
    ):  # u = vvᵀ + λ·wwᵀ, from the eigenvalues of the symmetric part by hand
        half = (x + x.T) / 2
        middle, radius = np.trace(half) / 2, np.hypot((half[0, 0] - half[1, 1]) / 2, half[0, 1])
        high, low = middle + radius, middle - radius
        if low >= 0:
            return half
        return np.asarray(np.maximum(high, 0.0) * (half - low * np.eye(2)) / (high - low))
    if isinstance(psi, L1Ball):  # u = a - b with a, b ≥ 0 and Σ(a + b) ≤ radius
        options = {"ftol": 1e-14, "maxiter": 500}

        def distance(parts: Array) -> float:
            return float(np.sum((parts[: x.size] - parts[x.size :] - x.ravel()) ** 2) / 2)

        start = np.zeros(2 * x.size)
        positive, mass = Bounds(0.0, np.inf), LinearConstraint(start + 1.0, -np.inf, psi.radius)
        parts = minimize(
            distance, start, method="SLSQP", bounds=positive, constraints=mass, options=options
        ).x
        return np.asarray(parts[: x.size] - parts[x.size :]).reshape(x.shape)

    def objective(flat: Array) -> float:
        u = flat.reshape(x.shape)
        return float(step * psi.value(u) + np.sum((u - x) ** 2) / 2)

    low = np.broadcast_to(getattr(psi, "lower", -np.inf), x.shape).ravel()
    high = np.broadcast_to(getattr(psi, "upper", np.inf), x.shape).ravel()
    found = np.clip(x.ravel(), low, high)
    options = {"maxiter": 4000, "maxfev": 4000, "xatol": 1e-8, "fatol": 1e-13}
    for _ in range(3):  # a restart frees a simplex that collapsed on an edge
        found = minimize(
            objective, found, method="Nelder-Mead", bounds=Bounds(low, high), options=options
        ).x
    return found.reshape(x.shape)


@pytest.mark.parametrize("step", [0.2, 1.0])
@pytest.mark.parametrize(
    ("psi", "shape"),
    [(p, s) for p, s in EXAMPLES if np.prod(s) <= 4],
    ids=lambda v: type(v).__name__,
)  # more unknowns are too many for a simplex search
def test_prox_against_a_numeric_minimiser(psi: Any, shape: tuple[int, ...], step: float) -> None:
    for x in np.random.default_rng(0).uniform(-3.0, 3.0, (2, *shape)):
        np.testing.assert_allclose(psi.prox(x, step), minimised(psi, x, step), atol=1e-4)


# --- Moreau's identity: x = prox_{sψ}(x) + s·prox_{ψ*/s}(x/s) -------------------------------------


def linf_prox(v: Array, t: float) -> Array:
    """prox of t‖·‖_∞: clip at the height τ above which |v| has the mass t."""
    if np.abs(v).sum() <= t:
        return np.zeros_like(v)
    mass: Callable[[float], float] = lambda tau: float(np.maximum(np.abs(v) - tau, 0.0).sum() - t)  # noqa: E731
    tau = brentq(mass, 0.0, np.abs(v).max(), xtol=1e-14, rtol=1e-15)
    return np.clip(v, -tau, tau)


def group_ball(v: Array, _: float) -> Array:
    """Onto ‖v_g‖ ≤ 0.8·√|g| for the groups {0, 1} and {2}."""
    out = v.copy()
    for group, size in (([0, 1], 2), ([2], 1)):
        out[group] /= max(1.0, float(np.linalg.norm(v[group])) / (0.8 * np.sqrt(size)))
    return out


CONJUGATES: list[tuple[Any, Callable[[Array, float], Array]]] = [
    (Zero(), lambda v, t: np.zeros_like(v)),
    (L1(0.7), lambda v, t: np.clip(v, -0.7, 0.7)),
    (L2(0.7), lambda v, t: v / (1 + t / 0.7)),
    (NonNegative(), lambda v, t: np.minimum(v, 0.0)),
    (Box(-0.5, 2.0), lambda v, t: np.maximum(v - 2.0 * t, 0.0) + np.minimum(v + 0.5 * t, 0.0)),
    (L1Ball(1.5), lambda v, t: linf_prox(v, 1.5 * t)),
    (GroupLasso(0.8, groups=[0, 0, 1]), group_ball),
]


@pytest.mark.parametrize(("psi", "conjugate"), CONJUGATES, ids=lambda p: type(p).__name__)
@given(x=points((3,)), step=st.floats(1e-2, 1e2))
def test_moreau_identity(
    psi: Any, conjugate: Callable[[Array, float], Array], x: Array, step: float
) -> None:
    """``conjugate(v, t)`` is the prox of t·ψ*, written down independently."""
    rebuilt = psi.prox(x, step) + step * conjugate(x / step, 1.0 / step)
    np.testing.assert_allclose(rebuilt, x, rtol=1e-11, atol=1e-10)


# --- constraints, kernels, parameters -------------------------------------------------------------


@pytest.mark.parametrize(
    ("psi", "inside", "outside"),
    [
        (Box(-0.5, 2.0), [-0.5, 2.0], [0.0, 2.1]),
        (Box(np.array([-1.0, 0.0]), np.inf), [-1.0, 9.0], [-1.1, 9.0]),
        (NonNegative(1.0), [0.0, 3.0], [1.0, -1e-9]),
        (L1Ball(1.0), [0.5, -0.5], [0.5, -0.51]),
    ],
)
def test_value_is_infinite_outside_the_constraint(
    psi: Any, inside: list[float], outside: list[float]
) -> None:
    assert np.isfinite(psi.value(np.array(inside)))
    assert psi.value(np.array(outside)) == np.inf


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e6, 1e12, 1e20])
def test_l1_ball_holds_points_of_every_size(size: float) -> None:
    """Far-away and nearly equal magnitudes: the projection is on the sphere, not beside it."""
    ball, rng = L1Ball(1.0), np.random.default_rng(0)
    for spread in (0.0, 1e-9, 1.0):
        x = size * (1.0 + spread * rng.random(7)) * rng.choice([-1.0, 1.0], 7)
        p = ball.prox(x, 1.0)
        assert ball.value(p) == 0.0
        assert np.abs(p).sum() == pytest.approx(min(np.abs(x).sum(), 1.0), rel=1e-9)


def test_group_lasso_of_a_zero_group_is_silent(recwarn: pytest.WarningsRecorder) -> None:
    assert not GroupLasso(10.0, groups=[0, 0]).prox(np.zeros(2), 1.0).any()
    assert not recwarn.list


@pytest.mark.parametrize("psi", [p for p, _ in EXAMPLES if isinstance(p, Separable)], ids=repr)
@given(data=st.data())
@examples(30)
def test_compiled_prox_is_the_numpy_prox(psi: Separable, data: st.DataObject) -> None:
    shape = next(shape for p, shape in EXAMPLES if p is psi)
    x, step = data.draw(points(shape)), data.draw(steps)
    compiled = x.ravel().copy()
    kernel_prox(psi.compiled(shape), compiled, step)
    own = psi.prox(x, step).ravel()
    # at a kink |x| - step·l1 cancels, and the core rounds once where numpy rounds twice
    rounding = np.finfo(np.float64).eps * np.abs(x.ravel())
    assert np.all(np.abs(compiled - own) <= 1e-14 * np.abs(own) + rounding + 1e-300)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_compiled_prox_hides_no_divergence(special: float) -> None:
    psi, compiled = ElasticNet(0.5, 0.5), np.array([special])
    kernel_prox(psi.compiled((1,)), compiled, 1.0)
    np.testing.assert_equal(compiled, psi.prox(np.array([special]), 1.0))


@pytest.mark.parametrize(
    "psi",
    [ElasticNet(np.array([0.1, 0.5, 0.0, 1.0]), 0.2), Box(-1.0, np.array([0.5, 1.0, 2.0, 0.1]))],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("intercept", [False, True])
def test_sweep_takes_the_same_prox(psi: Separable, intercept: bool) -> None:
    """On zero rows with zero residuals a step moves nothing, and only the prox is left."""
    problem = rs.Problem(
        np.zeros((2, 4)), np.zeros(2), rs.losses.Squared(), psi, fit_intercept=intercept
    )
    x = np.append(np.array([3.0, -2.0, 0.3, 1.0]), [0.0] * intercept)
    expected = psi.prox(psi.prox(x[:4], 0.7), 0.7)
    problem.sweep(x, np.arange(2, dtype=np.uint32), 1.0, prox_step=0.7)
    np.testing.assert_allclose(x[:4], expected, rtol=1e-15)


def test_coefficients_that_do_not_fit_the_unknown() -> None:
    with pytest.raises(rs.InputError, match=r"do not fit coordinates of shape \(2,\)"):
        L1(np.ones(3)).compiled((2,))


def test_separable_penalties_add_up() -> None:
    both = L1(np.array([0.1, 0.2])) + Box(-1.0, np.array([0.5, 2.0])) + L2(0.3)
    assert both.strong_convexity == 0.3
    assert both.compiled((2,)).high.tolist() == [0.5, 2.0]
    x = np.array([3.0, -0.7])
    np.testing.assert_allclose(both.prox(x, 1.0), [0.5, -0.5 / 1.3])
    assert both.value(np.array([0.0, 3.0])) == np.inf
    np.testing.assert_allclose(Sum(L1(0.1), Box(-1.0, 0.5)).prox(x, 1.0), [0.5, -0.6])
