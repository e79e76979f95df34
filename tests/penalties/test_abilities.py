"""Every ability of every registered penalty is what its definition says; losses against their oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from oracles import LOSSES

import reshuffle as rs
from reshuffle.core import native
from reshuffle.penalties import ability
from reshuffle.penalties.forms import native_form

pytestmark = pytest.mark.usefixtures("vanishing")

Array = NDArray[np.float64]
EXAMPLES = [
    (example, shape)
    for kind in rs.penalties.PENALTIES
    for shape in ((6,), (4, 3))
    for example in kind.examples(shape)
]
few = examples(15)
numbers = st.floats(-3, 3, allow_subnormal=False)


def able(*names: str) -> pytest.MarkDecorator:
    """Parametrised by the examples that have all these abilities."""
    chosen = [(p, s) for p, s in EXAMPLES if all(ability(p, n) is not None for n in names)]
    ids = [f"{type(p).__name__}{k}" for k, (p, _) in enumerate(chosen)]
    return pytest.mark.parametrize(("psi", "shape"), chosen, ids=ids)


def in_kernel(form: Any, flat: Any, step: float) -> None:
    native.prox(native_form(form), flat, step)


@able("compiled")
@few
@given(data=st.data())
def test_the_compiled_prox_is_the_prox(psi: Any, shape: Any, data: st.DataObject) -> None:
    """Of ψ + (ridge/2)‖·‖²: the prox of ψ at x/(1 + step·ridge) with step/(1 + step·ridge)."""
    x, step = data.draw(arrays(float, shape, elements=numbers)), data.draw(st.floats(0.01, 50))
    ridge = data.draw(st.sampled_from([0.0, 0.7]))
    flat = x.ravel().copy()
    in_kernel(psi.compiled(shape, ridge), flat, step)
    shrink = 1.0 + step * ridge
    expected = psi.prox(x / shrink, step / shrink)
    np.testing.assert_allclose(flat, expected.ravel(), rtol=1e-12, atol=1e-13)


@able("has_dual", "conjugate", "dual_scale")
@few
@given(data=st.data())
def test_conjugates(psi: Any, shape: Any, data: st.DataObject) -> None:
    """ψ(x) + (ridge/2)‖x‖² + Ψ*(αg) ≥ α⟨g, x⟩, with equality at a subgradient; α is the largest."""
    ridge = data.draw(st.sampled_from([0.0, 0.3]))
    if not psi.has_dual(shape, ridge):
        return
    g, u = (data.draw(arrays(float, shape, elements=numbers)) for _ in range(2))
    x = psi.prox(u, 1.0)
    value = psi.value(x) + 0.5 * ridge * float(np.vdot(x, x))
    scale = psi.dual_scale(g, ridge)
    assert 0 < scale <= 1
    conjugate = psi.conjugate(scale * g, ridge)
    assert np.isfinite(conjugate)
    assert value + conjugate >= scale * float(np.vdot(g, x)) - 1e-9
    if scale < 1.0:
        assert psi.conjugate(min(1.0, 1.001 * scale) * g, ridge) == np.inf
    subgradient = (u - x) + ridge * x
    reached = psi.conjugate(subgradient * (1 - 1e-9), ridge)
    assert value + reached == pytest.approx(float(np.vdot(subgradient, x)), abs=1e-6)


@able("holds_at_zero", "excess", "together", "part")
@few
@given(data=st.data())
def test_what_rests_at_zero(psi: Any, shape: Any, data: st.DataObject) -> None:
    """x_j = 0 stays under a proximal step along g if and only if it is held; the same by the excess."""
    g = 0.1 * data.draw(arrays(float, shape, elements=numbers))
    moved = psi.prox(-0.01 * g, 0.01) != 0
    held = np.broadcast_to(psi.holds_at_zero(g), shape)
    beyond = psi.excess(np.zeros(shape), g)
    assert not np.any(moved & held)
    np.testing.assert_array_equal(held, beyond == 0.0)
    drift = 0.05 * np.abs(data.draw(arrays(float, shape, elements=numbers)))
    safe = np.broadcast_to(psi.holds_at_zero(g, drift=drift), shape)
    for sign in (1.0, -1.0, 0.3):
        assert not np.any(safe & (psi.prox(-0.01 * (g + sign * drift), 0.01) != 0))
    assert np.all(np.broadcast_to(psi.holds_at_zero(g, slack=0.5), shape) <= held)
    assert np.all(np.isinf(psi.excess(np.ones(shape), g)))


@able("part", "together")
@few
@given(data=st.data())
def test_parts(psi: Any, shape: Any, data: st.DataObject) -> None:
    """Where features are kept together, the prox of the part is that of the whole, on the part."""
    from reshuffle.penalties.abilities import closed

    some = data.draw(arrays(bool, shape[0]))
    matter = np.broadcast_to(some.reshape(-1, *[1] * (len(shape) - 1)), shape)
    kept = np.flatnonzero(closed(psi, matter)).astype(np.uint32)
    x = np.zeros(shape)
    x[kept] = data.draw(arrays(float, (kept.size, *shape[1:]), elements=numbers))
    part = psi.part(kept, shape)
    np.testing.assert_allclose(part.prox(x[kept], 0.7), psi.prox(x, 0.7)[kept], atol=1e-14)
    if np.isfinite(psi.value(x)):
        assert part.value(x[kept]) == pytest.approx(psi.value(x), abs=1e-12)


@able("curvature_product")
def test_curvature_away_from_the_kinks(psi: Any, shape: Any) -> None:
    rng, h = np.random.default_rng(0), 1e-4
    x = psi.prox(0.05 + 0.02 * rng.random(shape), 1e-9)
    v = rng.standard_normal(shape)
    values = [psi.value(x + t * h * v) for t in (-1, 0, 1)]
    if not np.isfinite(values).all():
        v, values = 0.0 * v, [psi.value(x)] * 3
    second = (values[0] - 2 * values[1] + values[2]) / h**2
    assert float(np.vdot(v, psi.curvature_product(x, v))) == pytest.approx(second, abs=1e-4)


@able("lambda_max")
def test_lambda_max_is_where_zero_becomes_the_answer(psi: Any, shape: Any) -> None:
    g = np.random.default_rng(1).standard_normal(shape)
    largest = psi.lambda_max(g)
    if not 0 < largest < np.inf:
        return
    assert not psi.prox(-1e-3 * g, 1e-3 * 1.001 * largest).any()
    assert psi.prox(-1e-3 * g, 1e-3 * 0.999 * largest).any()


def test_lambda_max_of_a_problem() -> None:
    X, y = rs.datasets.breast_cancer()
    for intercept in (False, True):
        plain = rs.Problem(X, y, penalty=rs.penalties.L1(1.0), fit_intercept=intercept)
        largest = plain.lambda_max()
        for factor, zero in ((1.001, True), (0.99, False)):
            task = rs.Problem(
                X, y, penalty=rs.penalties.L1(factor * largest), fit_intercept=intercept
            )
            x = rs.ExactProxRR(tol=1e-10).solve(task).x
            assert (not x[:30].any()) is zero


def test_penalties_are_equal_by_content() -> None:
    P = rs.penalties
    assert P.L1(np.ones(3)) == P.L1(np.ones(3)) != P.L1(np.zeros(3))
    assert P.L1(0.1) != P.L2(0.1)
    assert hash(P.L1(np.ones(3))) == hash(P.L1(np.ones(3)))
    assert P.GroupLasso(1.0, [0, 0, 1]) == P.GroupLasso(1.0, np.array([0, 0, 1]))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_their_oracles(name: str) -> None:
    loss, rng = LOSSES[name], np.random.default_rng(0)
    z = 3.0 * rng.standard_normal((50, 3) if loss.vector else 50)
    y = loss.kind.check(loss.kind.sample(50, rng), loss)
    assert loss.oracle is not None
    found = [type(loss).value(z[i].copy(), y[i], *loss.params) for i in range(50)]
    np.testing.assert_allclose(found, loss.oracle(z, y, *loss.params), rtol=1e-12, atol=1e-14)
    task = rs.Problem(np.eye(50), y, loss)
    expected = np.mean(loss.oracle(z, y, *loss.params))
    assert task.value(np.ascontiguousarray(z)) == pytest.approx(expected, rel=1e-12)
