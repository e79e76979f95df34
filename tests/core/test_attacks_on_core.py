"""What a second hostile test found in the compiled core and its certificates, kept."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle import core

native: Any = core.native  # its signatures refuse what is tried here


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "CSR"])
@pytest.mark.parametrize(
    "loss", [rs.losses.Huber(1.0), rs.losses.Quantile(0.5, 1.0)], ids=["Huber", "quantile"]
)
def test_a_column_that_differs_where_the_loss_is_flat_is_not_constant(
    loss: rs.losses.Loss, layout: Any
) -> None:
    """At zero the rows with curvature all have the column's mean; the model took it for a second intercept."""
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.standard_normal((60, 200))
    X[:, 0] = np.repeat([2.0, 4.0, 3.0], 20)
    y = np.concatenate([np.repeat([-50.0, 50.0], 20), 0.01 * rng.standard_normal(20)])
    problem = rs.Problem(layout(X), y, loss=loss, penalty=rs.penalties.L1(1e-3), fit_intercept=True)
    better = np.zeros(201)
    better[[0, -1]] = 50.0, -150.0  # 50 times the column less its mean
    result = rs.ExactProxRR(tol=1e-6).solve(problem)
    assert result.converged
    assert problem.objective(result.x) <= problem.objective(better)


@pytest.mark.parametrize("seed", range(3))
def test_a_start_where_curvatures_overflow_leaves_nothing_behind(seed: int) -> None:
    """Every column was called constant there, and stayed so when the run began again from zero."""
    rng = np.random.default_rng(seed)
    X, y = np.exp(2.0 * rng.standard_normal((25, 300))), rng.poisson(2.0, 25).astype(float)
    problem = rs.Problem(X, y, loss=rs.losses.Poisson(), ridge=1.0, fit_intercept=True)
    best = rs.ExactProxRR(tol=1e-9).solve(problem)
    far = rs.ExactProxRR(tol=1e-6).solve(problem, rng.standard_normal(301))
    assert far.converged
    least = problem.objective(best.x)
    assert problem.objective(far.x) - least <= 1e-6 * problem.value(np.zeros(301))


def test_groups_from_a_start_where_slopes_overflow() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.poisson(2.0, 40).astype(float)
    penalty = rs.penalties.GroupLasso(0.01, [0, 0, 1])
    problem = rs.Problem(X, y, loss=rs.losses.Poisson(), penalty=penalty)
    near, far = (rs.ExactProxRR(tol=1e-9).solve(problem, np.full(3, x0)) for x0 in (0.0, 1e3))
    assert far.converged
    np.testing.assert_allclose(far.x, near.x, atol=1e-4)


@pytest.mark.parametrize("largest", [1e160, 1e200])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_column_whose_squares_overflow(largest: float, intercept: bool) -> None:
    """It was left at zero, and the rest certified."""
    X = np.array([[largest, 1.0], [1.0, 1e-200], [0.0, 1.0]])
    penalty = rs.penalties.L1(0.01)
    problem = rs.Problem(X, [1.0, -1.0, 1.0], penalty=penalty, fit_intercept=intercept)
    with pytest.raises(rs.InputError, match="squares of X overflow"):
        rs.ExactProxRR(tol=1e-6).solve(problem)


def test_batches_longer_than_any_memory() -> None:
    """2^61 rows of 8 slopes are 0 modulo 2^64: there was no room for them, and the process ended."""
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((40, 3)), np.arange(40) % 8, rs.losses.Multinomial())
    whole, longer = (
        rs.ProxRR(batch_size=size, epochs=2, seed=0).solve(problem).x for size in (40, 2**61)
    )
    np.testing.assert_array_equal(whole, longer)
    clients = rs.federated.split(problem, clients=2, seed=0)
    whole, longer = (
        rs.FedRR(batch_size=size, rounds=2, seed=0).solve(clients).x for size in (40, 2**61)
    )
    np.testing.assert_allclose(whole, longer, rtol=1e-12, atol=1e-15)


ONE, FAR = np.ones(1), 10**9
EMPTY = np.empty(0, dtype=np.uint32)


def u32(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint32)


def samples(intercept: bool = False, features: int = 3, outputs: int = 0) -> Any:
    name, y = ("multinomial", np.zeros(2, np.int32)) if outputs else ("logistic", np.ones(2))
    loss = native.built_in_loss(name, [])
    starts = np.zeros(3, dtype=np.uint32)
    return native.Samples(
        np.empty(0), EMPTY, starts, y, np.empty(0), np.empty(0), loss, intercept, features, outputs
    )


def newton_with_a_longer_penalty() -> None:
    rows = native.RowMajor(
        samples(), 0.25, 1.0, False, 0, np.zeros(3), np.zeros(3, bool), np.zeros(3, np.int64),
        np.empty(0), lambda: None,
    )  # fmt: skip
    form = native.coordinates(*(np.full(9, v) for v in (0.1, 0.0, 1.0, 2.0)))
    u, x, g = np.zeros((3, 3))
    rows.run(form, u, x, g, np.zeros(6), (1.0, 1.0, 1.0, 1.0), 1e-6, 1.0, 5)


BEYOND: dict[str, Any] = {
    "counts of columns": lambda: native.count_columns(u32(FAR), np.zeros(3, np.int64)),
    "squares of columns": lambda: native.add_squares(ONE, u32(FAR), u32(0, 1), ONE, np.zeros(2)),
    "squares, pointers fall": lambda: native.add_squares(
        ONE, u32(0), u32(0, FAR, 1), np.ones(2), np.zeros(2)
    ),
    "entries": lambda: native.add_entries(ONE, u32(FAR), u32(0, 1), np.zeros((2, 1))),
    "gathered rows": lambda: native.gather(ONE, u32(FAR, FAR + 1, 1), u32(0), np.zeros(1)),
    "norms of rows": lambda: native.csr_squared_norms(ONE, u32(0, FAR, 1), np.zeros(2)),
    "kept columns": lambda: native.count_kept(u32(FAR), u32(0, 1), u32(0), u32(0, 0)),
    "columns that move": lambda: native.keep_columns(
        ONE, u32(FAR), u32(0, 1), u32(0), np.zeros(2), u32(0, 0), u32(0, 1)
    ),
    "centred columns": lambda: native.ColumnMajor(samples(True), None, 0.25, 1.0, False).inner(
        np.zeros((1, 1))
    ),
    "a penalty of more coordinates": newton_with_a_longer_penalty,
    "a product that overflows": lambda: samples(features=2**60, outputs=16),
}


@pytest.mark.parametrize("name", BEYOND)
def test_the_core_does_not_read_or_write_beyond_its_arrays(name: str) -> None:
    """Each of these ended the process."""
    with pytest.raises(ValueError, match=r"beyond|rise|within|entries|too many|not that of"):
        BEYOND[name]()


# --- losses of one's own ----------------------------------------------------------------------------


def own(derivative: Any, **parts: Any) -> rs.losses.Loss:
    """Least squares, with this derivative."""
    given = parts | {"derivative": derivative, "curvature": 1.0}
    given.setdefault("value", staticmethod(half_a_square))
    return type("Own", (rs.losses.Loss,), given)()  # type: ignore[no-any-return]


def half_a_square(z: float, y: float) -> float:
    return 0.5 * (z - y) * (z - y)


def difference(z: float, y: float) -> float:
    return z - y


def solved(loss: rs.losses.Loss) -> rs.Result:
    X = np.random.default_rng(0).standard_normal((60, 3))
    problem = rs.Problem(X, X @ [1.0, 2.0, 3.0], loss=loss)
    return rs.ExactProxRR(tol=1e-8, epochs=100).solve(problem)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_compiled_loss_that_raises_does_not_converge(capfd: pytest.CaptureFixture[str]) -> None:
    """Numba prints and returns 0: a slope of 0 at every sample was 'stationary'."""
    pytest.importorskip("numba")

    def raises(z: float, y: float) -> float:
        if z < 1e3:
            raise ValueError("too small")
        return z - y

    with np.errstate(all="ignore"):
        result = solved(own(staticmethod(raises)))
    assert not result.converged
    assert "too small" not in capfd.readouterr().err


def test_functions_that_numba_has_compiled() -> None:
    numba: Any = pytest.importorskip("numba")
    derivative = numba.njit(difference)
    result = solved(own(staticmethod(derivative), value=staticmethod(numba.njit(half_a_square))))
    np.testing.assert_allclose(result.x, [1.0, 2.0, 3.0], atol=1e-6)


def test_addresses_of_functions_of_another_type() -> None:
    """One of float(float, float) read a slope of 0 everywhere, and was 'stationary' at 0."""
    numba: Any = pytest.importorskip("numba")
    whole = numba.cfunc("float64(float64, float64)")(difference)
    np.testing.assert_allclose(solved(own(whole)).x, [1.0, 2.0, 3.0], atol=1e-6)
    with pytest.raises(rs.InputError, match=r"double\(double, double\), got float\(float, float\)"):
        solved(own(numba.cfunc("float32(float32, float32)")(difference)))
    integers = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda z: z)
    with pytest.raises(rs.InputError, match=r"got int\(int\)"):
        solved(own(integers))


def test_ctrl_c_inside_a_loss_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was printed as an exception that is ignored, and the run went on."""
    monkeypatch.setattr("reshuffle.losses.native.has_numba", lambda: False)
    monkeypatch.setattr("reshuffle.losses.native.warn_slow", lambda name: None)
    calls = iter(range(10**9))

    def interrupted(z: float, y: float) -> float:
        if next(calls) == 300:
            raise KeyboardInterrupt
        return z - y

    assert "interrupted" in solved(own(staticmethod(interrupted))).message


def test_what_a_small_problem_raises_first_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reshuffle.losses.native.has_numba", lambda: False)
    monkeypatch.setattr("reshuffle.losses.native.warn_slow", lambda name: None)

    def raises(z: float, y: float) -> float:
        raise ZeroDivisionError("mine")

    def one(z: float, y: float) -> float:
        return 1.0

    parts = {"value": staticmethod(raises), "second": staticmethod(one)}
    with pytest.raises(ZeroDivisionError, match="mine"):
        solved(own(staticmethod(difference), **parts))


@pytest.mark.parametrize("offset", [5.0, 500.0])
def test_a_federation_that_begins_where_slopes_are_flat(offset: float) -> None:
    """Rounds are translations there, and extrapolating from them led to infinity."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = 0.1 * X[:, 0] + rng.standard_normal(200) + offset
    penalty = rs.penalties.L1(1e-4)
    problem = rs.Problem(X, y, rs.losses.Huber(0.01), penalty, fit_intercept=True)
    clients = rs.federated.split(problem, clients=3, seed=0)
    result = rs.ExactFedRR(tol=0.0, rounds=30, seed=0).solve(clients)
    assert problem.objective(result.x) < problem.value(np.zeros(4))
