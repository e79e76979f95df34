"""Newton steps: second derivatives, Hessians, the quadratic model, hard problems, true bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

import reshuffle as rs
from reshuffle.interruption import OutOfTime
from reshuffle.losses import Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge
from reshuffle.penalties import Separable
from reshuffle.penalties.forms import Coordinates, Form, Groups, native_form
from reshuffle.solvers import second_order
from reshuffle.solvers.certificate import certificate_of
from reshuffle.solvers.exact.newton_steps import NewtonSteps, Progress, can_finish
from reshuffle.solvers.newton_model import descend
from reshuffle.solvers.second_order import RowCurvature, SecondOrder

Array = NDArray[np.float64]
LOSSES: list[Loss] = [Logistic(), Squared(), Huber(0.7), SquaredHinge(), Multinomial()]


def coordinates(
    size: int, l1: float = 0.0, l2: float = 0.0, low: float = -np.inf, high: float = np.inf
) -> Coordinates:
    return Coordinates(*(np.full(size, v) for v in (l1, l2, low, high)))


class Finished(NamedTuple):
    x: Array
    objective: float
    bound: float
    converged: bool
    steps: int


def newton(problem: rs.Problem, tol: float, most: int = 100) -> Finished:
    """Newton steps alone, from zero."""
    steps, x, progress = NewtonSteps(problem), np.zeros(problem.shape), Progress()
    at_zero = problem.value(np.zeros(problem.shape))
    target, made = tol * at_zero, 0
    while made < most:
        move = steps.run(x, progress, target, at_zero, 1)
        made += 1
        x, progress = move.at.x, move.progress
        if move.stuck or progress.bound <= target:
            break
    converged = progress.bound <= target
    return Finished(x, problem.objective(x), progress.bound, converged, made)


def value_of(form: Form, u: Array) -> float:
    """ψ(u) of a compiled form."""
    seen = u[: form.l1.size]
    total = np.sum(form.l1 * np.abs(seen)) + 0.5 * np.sum(form.l2 * seen * seen)
    if isinstance(form, Groups):
        for g, strength in enumerate(form.strengths):
            total += strength * np.linalg.norm(
                seen[form.members[form.starts[g] : form.starts[g + 1]]]
            )
    return float(total)


# --- second derivatives ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*LOSSES, Huber(20.0)], ids=repr)
def test_second_is_the_derivative_of_the_derivative(loss: Loss) -> None:
    rng, h = np.random.default_rng(0), 1e-6
    kind: Any = type(loss)
    for _ in range(50):
        y: Any = 2.0 * rng.integers(0, 2) - 1.0
        z: Any
        if loss.vector:
            z, y = 3.0 * rng.standard_normal(4), int(rng.integers(0, 4))
            p = kind.second(z.copy(), y)
            found = np.diag(p) - np.outer(p, p)
            columns = [
                kind.derivative(z + h * e, y).copy() - kind.derivative(z - h * e, y)
                for e in np.eye(4)
            ]
            np.testing.assert_allclose(found, np.array(columns) / (2 * h), atol=1e-8)
            continue
        z = 3.0 * rng.standard_normal()
        up, down = (kind.derivative(z + s * h, y, *loss.params) for s in (1, -1))
        jump = kind.second(z + h, y, *loss.params) != kind.second(z - h, y, *loss.params)
        if not (jump and isinstance(loss, Huber | SquaredHinge)):
            second = kind.second(z, y, *loss.params)
            assert second == pytest.approx((up - down) / (2 * h), abs=1e-8)


def test_second_has_all_digits_at_large_margins() -> None:
    assert Logistic.second(600.0, 1.0) == pytest.approx(np.exp(-600.0), rel=1e-12)
    assert Logistic.second(-600.0, 1.0) == pytest.approx(np.exp(-600.0), rel=1e-12)
    assert Logistic.second(1e6, 1.0) == 0.0


# --- the Hessian -----------------------------------------------------------------------------


def layouts(X: Array) -> dict[str, Any]:
    ones = sp.csr_matrix((X != 0).astype(float))
    return {"dense": X, "csr": sp.csr_matrix(X), "float32": X.astype(np.float32), "ones": ones}


@pytest.mark.parametrize("layout", ["dense", "csr", "float32", "ones"])
@pytest.mark.parametrize("loss", [Logistic(), Multinomial()], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_hessian_is_that_of_numpy(layout: str, loss: Loss, intercept: bool) -> None:
    rng = np.random.default_rng(1)
    n, d = 70, 9
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    data: Any = layouts(X)[layout]
    y = rng.integers(0, 3, n) if loss.vector else 2.0 * rng.integers(0, 2, n) - 1.0
    problem = rs.Problem(
        data, y, loss=loss, fit_intercept=intercept, sample_weight=rng.random(n) + 0.1
    )
    curves = SecondOrder(problem.datafit)
    x = 0.3 * rng.standard_normal(problem.shape)
    at = curves.linearise(x)
    assert at.value == pytest.approx(problem.value(x), rel=1e-13)
    np.testing.assert_allclose(at.gradient, problem.gradient(x), atol=1e-14)
    np.testing.assert_allclose(at.margins, problem.margins(x), atol=1e-14)

    rows = np.asarray(data if isinstance(data, np.ndarray) else data.toarray(), dtype=np.float64)
    shifted = np.hstack([rows - curves.centre, np.ones((n, 1))]) if intercept else rows
    weights = problem.weights / n

    def expected(b: Array) -> Array:
        if not loss.vector:
            return np.asarray((b * (weights * at.curvatures)[:, None]).T @ b)
        p = at.curvatures
        each = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
        whole = np.einsum("n,nkl,ni,nj->ikjl", weights, each, b, b)
        return np.asarray(whole.reshape(3 * b.shape[1], 3 * b.shape[1]))

    for active in (np.arange(d), np.array([0, 3, 4, 8]), np.arange(0)):
        columns = [*active, d] if intercept else list(active)
        H = curves.hessian(RowCurvature(at.curvatures), active.astype(np.uint32))
        np.testing.assert_allclose(H, expected(shifted[:, columns]), atol=1e-13)
    plain = np.hstack([rows, np.ones((n, 1))]) if intercept else rows
    direction = rng.standard_normal(problem.shape)
    product = curves.combine(curves.bent(RowCurvature(at.curvatures), curves.margins(direction)))
    np.testing.assert_allclose(product.ravel(), expected(plain) @ direction.ravel(), atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_column_of_ones_needs_no_dense_rows(weighted: bool) -> None:
    """With an intercept nothing is left of it, so that the other columns are multiplied entry by entry."""
    rng = np.random.default_rng(0)
    dense = (rng.random((300, 12)) < 0.2).astype(float)
    dense[:, 3] = 1.0
    weights = rng.random(300) + 0.5 if weighted else None
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    problem = rs.Problem(sp.csr_matrix(dense), y, fit_intercept=True, sample_weight=weights)
    curves = SecondOrder(problem.datafit)
    at = curves.linearise(rng.standard_normal(problem.shape))
    active = np.arange(12, dtype=np.uint32)
    assert not curves.packs(active)
    H = curves.hessian(RowCurvature(at.curvatures), active)
    rows = np.column_stack([dense - curves.centre, np.ones(300)])
    wanted = rows.T @ ((curves.weights * at.curvatures / 300)[:, None] * rows)
    assert not H[3].any()
    assert not H[:, 3].any()
    assert np.allclose(H, wanted, rtol=0.0, atol=1e-14)
    found = rs.ExactProxRR(tol=1e-10).solve(problem)
    assert found.converged


def test_a_nearly_constant_column_keeps_its_digits_in_a_sparse_matrix() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([1.7e9 + rng.standard_normal(60), np.diag(np.ones(60))[:, :30]])
    problem = rs.Problem(sp.csr_matrix(X), rng.standard_normal(60), Squared(), fit_intercept=True)
    curves = SecondOrder(problem.datafit)
    at = curves.linearise(np.zeros(32))
    H = curves.hessian(RowCurvature(at.curvatures), np.arange(31, dtype=np.uint32))
    assert H[0, 0] == pytest.approx(np.var(X[:, 0]), rel=1e-6)


# --- the quadratic model ---------------------------------------------------------------------


def proximal_gradient(prox: Callable[[Array, float], Array], H: Array, g: Array, x: Array) -> Array:
    """FISTA with restarts on g'(u - x) + (u - x)'H(u - x)/2 + ψ(u), to the last digits."""
    step = 1.0 / float(np.linalg.norm(H, 2))
    u, y, t = x.copy(), x.copy(), 1.0
    for _ in range(20000):
        new = prox(y - step * (g + H @ (y - x)), step)
        momentum = (1 + np.sqrt(1 + 4 * t * t)) / 2
        if (y - new) @ (new - u) > 0:
            t, momentum = 1.0, 1.0
        y = new + (t - 1) / momentum * (new - u)
        if np.array_equal(new, u):
            break
        u, t = new, momentum
    return u


def prox_of(form: Form) -> Callable[[Array, float], Array]:
    def prox(u: Array, step: float) -> Array:
        seen, size = u[: form.l1.size], form.l1.size
        shrunk = np.sign(seen) * np.maximum(np.abs(seen) - step * form.l1, 0.0)
        if isinstance(form, Coordinates):
            new = np.clip(shrunk / (1 + step * form.l2), form.low, form.high)
            return np.concatenate([new, u[size:]])
        for g, strength in enumerate(form.strengths):
            members = form.members[form.starts[g] : form.starts[g + 1]]
            norm = np.linalg.norm(shrunk[members])
            shrunk[members] *= max(1 - step * strength / norm, 0.0) if norm > 0 else 0.0
        return np.concatenate([shrunk / (1 + step * form.l2), u[size:]])

    return prox


def groups(size: int, l1: float, l2: float) -> Groups:
    """Three groups of two, three and one coordinates; the rest alone."""
    return Groups(
        np.full(size, l1),
        l2,
        np.array([0.5, 0.2, 0.1]),
        np.array([4, 0, 1, 2, 5, 3], dtype=np.uint32),
        np.array([0, 2, 5, 6]),
    )


FORMS: dict[str, Form] = {
    "none": coordinates(8),
    "l1": coordinates(8, l1=0.3),
    "elastic net": coordinates(8, l1=0.2, l2=0.5),
    "box": coordinates(8, low=-0.1, high=0.3),
    "non-negative": coordinates(8, l1=0.05, low=0.0),
    "groups": groups(8, 0.0, 0.0),
    "groups with l2": groups(8, 0.0, 0.3),
    "sparse groups": groups(8, 0.1, 0.0),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_the_model_is_minimised(name: str, correlation: float) -> None:
    form = FORMS[name]
    rng = np.random.default_rng(4)
    A = rng.standard_normal((30, 9)) + 5 * correlation * rng.standard_normal((30, 1))
    H, g, x = A.T @ A / 30, rng.standard_normal(9), prox_of(form)(rng.standard_normal(9), 1.0)
    u = x.copy()
    decrease, left, length, *_ = descend(form, H, g, x, u, 1e-12, 0.0)
    reference = proximal_gradient(prox_of(form), H, g, x)

    def model(u: Array) -> float:
        quadratic = g @ (u - x) + 0.5 * (u - x) @ H @ (u - x)
        return float(quadratic + value_of(form, u) - value_of(form, x))

    assert model(u) == pytest.approx(-decrease, rel=1e-9, abs=1e-12)
    assert model(u) <= model(reference) + 1e-10 * decrease
    assert left == pytest.approx(0.0, abs=1e-8 * max(decrease, 1e-3))
    assert length == 0.0
    np.testing.assert_allclose(u, reference, atol=2e-5)


@pytest.mark.parametrize("name", ["l1", "box", "groups"])
def test_columns_of_zeros_and_copies_of_columns(name: str) -> None:
    form = FORMS[name]
    rng = np.random.default_rng(5)
    A = rng.standard_normal((30, 9))
    A[:, 1], A[:, 6] = 0.0, A[:, 2]
    H, g = A.T @ A / 30, A.T @ rng.standard_normal(30) / 10
    x, u = np.zeros(9), np.zeros(9)
    decrease, left, *_ = descend(form, H, g, x, u, 1e-12, 0.0)
    reference = proximal_gradient(prox_of(form), H, g, x)
    value = g @ reference + 0.5 * reference @ H @ reference + value_of(form, reference)
    assert np.isfinite(u).all()
    assert decrease == pytest.approx(-value, rel=1e-8)
    assert left <= 1e-6 * decrease


def test_a_slope_without_curvature_is_seen() -> None:
    H, g = np.diag([1.0, 0.0]), np.array([1.0, 1.0])
    for form, finite in ((coordinates(2), False), (coordinates(2, low=-2.0, high=2.0), True)):
        u = np.zeros(2)
        decrease, *_ = descend(form, H, g, np.zeros(2), u, 1e-12, 0.0)
        assert np.isfinite(decrease) == finite
        assert np.isfinite(u).all()


# --- hard problems ---------------------------------------------------------------------------


def separable(p: rs.Problem) -> Coordinates:
    size = p.features * int(np.prod(p.shape[1:]))
    names = {"l1": 0.0, "l2": 0.0, "lower": -np.inf, "upper": np.inf}
    return coordinates(size, *(float(getattr(p.penalty, n, v)) for n, v in names.items()))


def independent(p: rs.Problem, X: Array, y: Array) -> float:
    """P by L-BFGS-B in x⁺ - x⁻ over standardised columns, for smooth losses of one output."""
    n, d = X.shape
    mean = X.mean(axis=0) if p.fit_intercept else np.zeros(d)
    scale = np.sqrt(np.mean((X - mean) ** 2, axis=0))
    Z, form, kind = (X - mean) / scale, separable(p), type(p.loss)
    slope, value = np.vectorize(kind.derivative), np.vectorize(kind.value)

    def both(v: Any) -> Any:
        w = (v[:d] - v[d : 2 * d]) / scale
        z = Z @ (w * scale) + (v[-1] if p.fit_intercept else 0.0)
        s = slope(z, y, *p.loss.params) / n
        gradient = Z.T @ s + form.l2 * w / scale
        total = np.sum(value(z, y, *p.loss.params)) / n + 0.5 * np.sum(form.l2 * w * w)
        total += np.sum(form.l1 / scale * (v[:d] + v[d : 2 * d]))
        whole = np.concatenate([gradient + form.l1 / scale, -gradient + form.l1 / scale, [0.0]])
        whole[-1] = s.sum() if p.fit_intercept else 0.0
        return float(total), whole

    bounds = [(0.0, None)] * (2 * d) + [(None, None)]
    options: Any = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
    start = np.zeros(2 * d + 1)
    found: Any = minimize(both, start, jac=True, bounds=bounds, options=options)
    return float(found.fun)


def hard() -> dict[str, tuple[rs.Problem, Array, Array]]:
    from sklearn.datasets import load_breast_cancer, load_wine

    P, rng = rs.penalties, np.random.default_rng(0)
    cases: dict[str, tuple[rs.Problem, Array, Array]] = {}

    def add(name: str, X: Array, y: Array, **more: Any) -> None:
        cases[name] = (rs.Problem(X, y, **more), X, y)

    wine, cancer = load_wine(), load_breast_cancer()
    both = P.ElasticNet(1e-3, 1e-3)
    add("wine, raw", wine.data, np.where(wine.target == 0, 1.0, -1.0), penalty=both)
    signs = np.where(cancer.target == 0, 1.0, -1.0)
    add("breast cancer, raw", cancer.data, signs, penalty=both, fit_intercept=True)
    Z = rng.standard_normal((300, 5))
    years = rng.integers(1990, 2025, 300).astype(float)
    y = np.sign(Z[:, 0] - Z[:, 1] + (years - 2007) / 10 + rng.standard_normal(300))
    add("years", np.column_stack([years, Z]), y, penalty=P.L2(1e-3), fit_intercept=True)
    stamps = 1.7e9 + 1e4 * (years - 2007)
    add("timestamps", np.column_stack([stamps, Z]), y, fit_intercept=True)
    X = rng.standard_normal((300, 10))
    y = np.sign(X @ rng.standard_normal(10) + rng.standard_normal(300))
    long = X.copy()
    long[7] *= 1e6
    add("one long row", long, y, penalty=P.L2(1e-3))
    narrow, three = np.array([[-0.0714], [0.9559], [-0.9274]]), np.array([1.0, -1.0, 1.0])
    add("3 by 1", narrow, three, penalty=P.L1(5e-4))
    square, pair = np.array([[0.0, 0.7224], [0.0122, -0.0011]]), np.array([100.0, -56.0])
    add("2 by 2", square, pair, loss=Squared(), penalty=P.L2(1.2e-4))
    apart = np.sign(X @ rng.standard_normal(10))
    apart[:2] *= -1
    add("nearly separable", X, apart, penalty=P.L1(1e-6))
    far = 100 * (X.sum(axis=1) + rng.standard_normal(300))
    add("residuals far beyond delta", X, far, loss=Huber(), penalty=P.L1(1e-2))
    add("squared hinge alone", X, y, loss=SquaredHinge(), fit_intercept=True)
    u = rng.standard_normal(300)
    t = 100 * u + Z[:, :3] @ [2.0, -1.0, 1.0] + 0.1 * rng.standard_normal(300)
    add("1e5", np.column_stack([1e5 * u, Z[:, :3]]), t, loss=Squared(), fit_intercept=True)
    copies = np.hstack([X, X[:, :3]])
    add("copies of columns", copies, y, penalty=P.L1(1e-2), fit_intercept=True)
    return cases


HARD = hard()


@pytest.mark.usefixtures("vanishing")
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_are_solved_from_zero(name: str) -> None:
    problem, X, y = HARD[name]
    finish = newton(problem, tol=1e-10)
    start = problem.value(np.zeros(problem.shape))
    assert finish.converged
    assert finish.steps <= 25
    assert finish.bound <= 1e-10 * start
    assert finish.objective == pytest.approx(problem.objective(finish.x), rel=1e-12)
    reference = independent(problem, X, y)
    assert finish.objective <= reference + 1e-10 * start
    if name != "one long row":  # where L-BFGS gives up early
        assert finish.objective >= reference - 1e-5 * start


def test_iris_as_it_is() -> None:
    from sklearn.datasets import load_iris

    iris, P = load_iris(), rs.penalties
    kwargs: dict[str, Any] = {"loss": Multinomial(), "fit_intercept": True}
    problem = rs.Problem(iris.data, iris.target, penalty=P.ElasticNet(1e-3, 1e-3), **kwargs)
    finish = newton(problem, tol=1e-10)
    assert finish.converged
    assert finish.objective == pytest.approx(0.115764623191, abs=1e-10)  # Clarabel, through cvxpy
    rows = P.GroupLasso(1e-3)  # √3 for a row of three
    finish = newton(rs.Problem(iris.data, iris.target, penalty=rows, **kwargs), tol=1e-10)
    assert finish.converged
    assert finish.objective == pytest.approx(0.0816244977796, abs=1e-10)


def test_many_features_through_working_sets() -> None:
    rng = np.random.default_rng(3)
    X: Any = sp.random(100, 5000, 0.02, random_state=1, format="csr")
    y = np.where(X[:, :40] @ rng.standard_normal(40) + 0.01 * rng.standard_normal(100) > 0, 1.0, -1)
    largest = np.abs(X.T @ (y / 2)).max() / 100
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.1 * largest))
    finish = newton(problem, tol=1e-10)
    assert finish.converged
    assert certificate_of(problem).at(finish.x) <= 1e-8
    assert np.count_nonzero(finish.x) < 100


# --- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_a_bound_is_one(seed: int) -> None:
    """P(x) - P* ≤ bound at every tolerance, over losses, penalties, scales and intercepts."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 60)), int(rng.integers(2, 9))
    scale = 10.0 ** rng.uniform(-6, 6, d)
    Z = rng.standard_normal((n, d))
    z = Z @ rng.standard_normal(d) + rng.standard_normal(n)
    loss = LOSSES[seed % 5]
    y: Any = z
    if loss.targets == "signs":
        y = np.where(z > 0, 1.0, -1.0)
    elif loss.targets == "classes":
        y = np.digitize(z, [-1.0, 1.0])
    y[:3] = [0, 1, 2] if loss.vector else [1, -1, 1]
    each = scale[:, None] if loss.vector else scale
    l1, l2 = 10.0 ** rng.uniform(-3, -1) * each, 10.0 ** rng.uniform(-4, -1) * each**2
    penalty: Any = Separable()
    if seed % 4 in (0, 2):
        penalty.l1 = l1
    if seed % 4 in (1, 3):
        penalty.l2 = l2
    if seed % 4 == 2:
        penalty.lower, penalty.upper = -0.2 / each, 0.5 / each
    if seed % 4 == 3:
        penalty.lower = 0.0
    problem = rs.Problem(Z * scale, y, loss=loss, penalty=penalty, fit_intercept=bool(seed % 2))
    best = newton(problem, tol=1e-13).objective
    start = problem.value(np.zeros(problem.shape))
    for tol in (1e-1, 1e-3, 1e-6):
        finish = newton(problem, tol=tol)
        assert finish.converged
        assert finish.objective - best <= finish.bound <= tol * start
        measure = certificate_of(problem)
        if measure.name == "gap":
            assert finish.objective - best <= (measure.at(finish.x) + 1e-15) * start


def test_a_loss_without_a_second_derivative_has_no_newton_steps() -> None:
    class Plain(Loss):
        curvature = 1.0

        @staticmethod
        def value(z: float, y: float) -> float:
            return 0.5 * (z - y) ** 2

        @staticmethod
        def derivative(z: float, y: float) -> float:
            return z - y

    problem = rs.Problem(np.eye(2), np.ones(2), loss=Plain())
    assert not can_finish(problem)
    result = rs.ExactProxRR().solve(problem)  # by epochs alone
    assert result.reached
    assert "newton" not in result.trace


def test_equal_columns_have_equal_products() -> None:
    """Dependent columns stay exactly dependent, to the last bit and in any position; otherwise steps drift along them."""
    rng = np.random.default_rng(0)
    for width, rows in ((2, 1), (3, 5), (5, 40), (6, 17), (8, 256), (11, 255)):
        T = rng.standard_normal((width, rows)) * 10.0 ** rng.uniform(-6, 6, rows)
        for a in range(width):
            for b in range(a):
                same = T.copy()
                same[a] = same[b]
                fit = rs.Problem(same.T, np.ones(rows), loss=Squared()).datafit
                H = SecondOrder(fit).gram(np.ones(rows), np.arange(width, dtype=np.uint32))
                assert np.array_equal(H[a], H[b])
                np.testing.assert_allclose(H, same @ same.T, rtol=1e-11, atol=0.0)


# --- calls of the core ---------------------------------------------------------------------------


def test_steps_one_by_one_lead_where_one_call_leads() -> None:
    """To the last bit: what one call hands to the next is all that a step needs."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 200))
    y = np.sign(X[:, 0] - X[:, 1] + rng.standard_normal(60))
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.02), fit_intercept=True)
    at_zero = problem.value(np.zeros(problem.shape))
    start = np.zeros(problem.shape)
    end = NewtonSteps(problem).run(start, Progress(), 1e-10 * at_zero, at_zero, 100)
    assert end.steps > 2
    assert end.progress.bound <= 1e-10 * at_zero
    x, progress, made = start, Progress(), 0
    while not progress.bound <= 1e-10 * at_zero:
        step = NewtonSteps(problem).run(x, progress, 1e-10 * at_zero, at_zero, 1)
        x, progress, made = step.at.x, step.progress, made + step.steps
    assert made == end.steps
    assert x.tobytes() == end.at.x.tobytes()
    assert progress == end.progress


def test_time_is_looked_at_inside_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def listen() -> None:
        asked.append(1)
        if len(asked) == 2:  # first by Python, before the call
            raise OutOfTime

    monkeypatch.setattr(second_order, "listen", listen)
    rng = np.random.default_rng(4)
    n, d = 6000, 120  # forty million products
    problem = rs.Problem(rng.standard_normal((n, d)), np.sign(rng.standard_normal(n)))
    curves, active = SecondOrder(problem.datafit), np.arange(d, dtype=np.uint32)
    with pytest.raises(OutOfTime):
        curves.gram(np.ones(n), active)
    asked[:] = [1, 1]
    A = problem.datafit.rows.values
    np.testing.assert_allclose(curves.gram(np.ones(n), active), A.T @ A, atol=1e-9)
    assert len(asked) == 4


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), Multinomial()], ids=repr)
def test_threads_change_no_bit_of_a_step(layout: str, loss: Loss) -> None:
    rng = np.random.default_rng(5)
    n, d = 20_000, 12
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    y = rng.integers(0, 3, n) if loss.vector else np.sign(rng.standard_normal(n))
    problem = rs.Problem(layouts(X)[layout], y, loss, rs.penalties.L1(1e-3), fit_intercept=True)
    found = []
    for threads in (1, 2, 3):
        own = problem.with_datafit(replace(problem.datafit, threads=threads))
        end = NewtonSteps(own).run(np.zeros(own.shape), Progress(), 0.0, 1.0, 2)
        found.append((end.at.x.tobytes(), end.at.gradient.tobytes(), end.progress))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("wrong", ["u", "at", "form", "active", "order", "kept", "scales"])
def test_the_core_refuses_what_does_not_fit(wrong: str) -> None:
    y = np.array([1.0, -1.0, 1.0, -1.0])
    problem = rs.Problem(np.eye(4), y, penalty=rs.penalties.L1(0.1), fit_intercept=True)
    system, rows = SecondOrder(problem.datafit).system, np.arange(4, dtype=np.uint32)
    form = native_form(coordinates(3 if wrong == "form" else 4))
    u, x, g = np.zeros(4 if wrong == "u" else 5), np.zeros(5), np.zeros(5)
    at = np.zeros((2 if wrong == "at" else 3, 4))
    active = {"active": rows + 1, "order": rows[::-1].copy()}.get(wrong, rows)
    scales, out = np.ones(3 if wrong == "scales" else 4), np.empty((5, 5))
    calls: dict[str, Callable[[], object]] = {
        "kept": lambda: system.hessian(
            np.ones(4), np.ones(4), 0.0, rows, np.arange(4), np.empty((4, 4))
        )
    }
    for name in ("u", "at", "form"):
        calls[name] = lambda: system.run(form, u, x, g, at, Progress(), 1.0, 1.0, 1)
    call = calls.get(wrong, lambda: system.gram(scales, active, out))
    with pytest.raises(ValueError, match=r"entries|room|penalty|beyond|order|kept|scales"):
        call()
