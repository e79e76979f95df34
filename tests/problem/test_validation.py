"""Bad input: each kind has its own error, which names the argument and what is wanted."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.losses import Multinomial, Squared

Array = NDArray[np.float64]

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0], [0.0, 6.0, 7.0]])
Y = np.array([1.0, -1.0, 1.0, -1.0])


def with_entry(entry: Any) -> Array:
    changed = X.copy()
    changed[1, 1] = entry
    return changed


def csr(**changes: list[float]) -> sp.csr_matrix:
    """X as CSR, with some of its arrays replaced behind scipy's back."""
    matrix = sp.csr_matrix(X)
    for name, values in changes.items():
        setattr(matrix, name, np.array(values, dtype=getattr(matrix, name).dtype))
    return matrix


BAD_X: list[tuple[Any, str]] = [
    (with_entry(np.nan), "X must be finite, got NaN"),
    (with_entry(-np.inf), "X must be finite, got infinity"),
    (with_entry(np.nan).astype(np.float32), "X must be finite, got NaN"),
    (sp.csr_matrix(with_entry(np.nan)), "X must be finite, got NaN"),
    (sp.csr_matrix(with_entry(np.inf)), "X must be finite, got infinity"),
    (np.empty((0, 3)), "X must have at least one row and one column"),
    (np.empty((4, 0)), "X must have at least one row and one column"),
    (sp.csr_matrix((0, 3)), "X must have at least one row and one column"),
    (X.ravel(), r"X must be a matrix \(rows are samples\), got shape \(12,\)"),
    (X[None], r"X must be a matrix \(rows are samples\), got shape \(1, 4, 3\)"),
    (sp.coo_array(X[0]), r"X must be a matrix \(rows are samples\), got shape \(3,\)"),
    (X.astype(object), "X must hold numbers, got an array of dtype object"),
    (X.astype(str), "X must hold numbers"),
    (X * 1j, "X must hold numbers"),
    (sp.csr_matrix(X * 1j), "X must hold numbers"),
    (None, "X must hold numbers"),
    ([[1.0, 2.0], [3.0]], "X must"),
    (csr(indices=[0, 2, 1, 0, 2, 1, 3]), "X is not a valid CSR matrix"),
    (csr(indices=[0, 2, 1, 0, 2, -1, 2]), "X is not a valid CSR matrix"),
    (csr(indptr=[0, 2, 1, 5, 7]), "X is not a valid CSR matrix"),
    (csr(indptr=[0, 2, 3, 5, 9]), "X is not a valid CSR matrix"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_X)
def test_bad_rows(bad: Any, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        rs.Problem(bad, Y)


def test_a_broken_csc_matrix_is_refused_before_it_is_converted() -> None:
    """In its own process: scipy converts without looking, and writes where the indices point."""
    code = """if True:
        import numpy as np, scipy.sparse as sp, reshuffle as rs
        X = sp.csc_matrix(np.ones((4, 4)))
        X.indices[3] = 10**8
        try:
            rs.Problem(X, [1.0, -1.0, 1.0, -1.0])
        except rs.InputError as error:
            print(error)
    """
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}"
    assert done.stdout.startswith("X is not a valid CSC matrix")


BAD_Y: list[tuple[Any, rs.losses.Loss | None, str]] = [
    (Y[:3], None, r"y must have shape \(4,\), one target per row of X, got \(3,\)"),
    (Y[:, None], None, r"y must have shape \(4,\)"),
    (1.0, None, r"y must have shape \(4,\)"),
    ([[1.0, 2.0], 1.0, 1.0, 1.0], None, "y must"),
    ([1.0, np.nan, 1.0, -1.0], None, "y must be finite, got NaN"),
    ([1.0, np.inf, 1.0, -1.0], Squared(), "y must be finite, got infinity"),
    ([1, 2, 1, 2], None, r"y must hold -1 and \+1 \(or 0 and 1\).*got values such as 1, 2.*encode_labels"),
    ([-1, 0, 1, 1], None, r"y must hold -1 and \+1.*encode_labels"),
    (["a", "b", "a", "b"], None, "y must hold numbers.*encode_labels"),
    (["a", "b", "a", "b"], Multinomial(), "y must hold numbers.*encode_labels"),
    (np.array([1, -1, 1, -1], dtype=object), None, "y must hold numbers"),
    ([1, 1, 1, 1], None, r"y holds one class only \(.*1.*\)"),
    ([0, 0, 0, 0], None, r"y holds one class only \(.*0.*\)"),
    ([0, 0, 0, 0], Multinomial(), "y holds one class only"),
    ([0, 2, 0, 2], Multinomial(), "y must hold the classes 0 … K-1, each at least once.*encode_labels"),
    ([1, 2, 3, 1], Multinomial(), "y must hold the classes 0 … K-1"),
    ([-1, 0, 1, 0], Multinomial(), "y must hold the classes 0 … K-1"),
    ([0.0, 0.5, 1.0, 0.0], Multinomial(), "y must hold the classes 0 … K-1"),
    ([0.0, np.nan, 1.0, 0.0], Multinomial(), "y must"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "loss", "message"), BAD_Y)
def test_bad_targets(bad: Any, loss: rs.losses.Loss | None, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        rs.Problem(X, bad, loss=loss)


BAD_WEIGHTS: list[tuple[Any, str]] = [
    ([1.0, 2.0], r"sample_weight must be 4 numbers, one per row of X, got shape \(2,\)"),
    (np.ones((4, 1)), "sample_weight must be 4 numbers"),
    (2.0, "sample_weight must be 4 numbers"),
    (["1", "1", "1", "1"], "sample_weight must be 4 numbers"),
    ([1.0, np.nan, 1.0, 1.0], "sample_weight must be finite, got NaN"),
    ([1.0, np.inf, 1.0, 1.0], "sample_weight must be finite, got infinity"),
    ([1.0, -0.5, 1.0, 1.0], "sample_weight must not be negative, got -0.5"),
    (np.zeros(4), "sample_weight must not be zero everywhere"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_WEIGHTS)
def test_bad_weights(bad: Any, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        rs.Problem(X, Y, sample_weight=bad)


@pytest.mark.parametrize("size", [1e-320, 1.0, 1e308])
def test_weights_of_every_size_are_normalised(size: float) -> None:
    problem = rs.Problem(X, Y, sample_weight=size * np.array([1.0, 0.0, 1.0, 1.0]))
    np.testing.assert_allclose(problem.weights, np.array([1.0, 0.0, 1.0, 1.0]) * 4 / 3, rtol=1e-12)
    assert problem.weight == pytest.approx(0.75 * size, rel=1e-3)  # and no sum overflows


BAD_START: list[tuple[Any, str]] = [
    (np.zeros(4), r"x0 must have shape \(3,\).*got.*\(4,\)"),
    (np.zeros((3, 1)), r"x0 must have shape \(3,\)"),
    (0.0, r"x0 must have shape \(3,\)"),
    ([0.0, np.nan, 0.0], "x0 must be finite, got NaN"),
    ([0.0, np.inf, 0.0], "x0 must be finite, got infinity"),
    ("zeros", "x0 must"),
]


@pytest.mark.parametrize(
    "solver",
    [rs.ProxRR(), rs.ProxSGD(), rs.ExactProxRR(), rs.FISTA()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize(("bad", "message"), BAD_START)
def test_bad_start(solver: Any, bad: Any, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        solver.solve(rs.Problem(X, Y), x0=bad)


class NoProx:
    def value(self, x: Array) -> float:
        return 0.0


BAD_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"loss": Squared}, "loss must be an instance of reshuffle.losses.Loss"),
    ({"loss": "logistic"}, "loss must be an instance of reshuffle.losses.Loss"),
    ({"penalty": NoProx()}, r"penalty must have methods value\(x\) and prox\(x, step\)"),
    ({"penalty": rs.penalties.L1}, "penalty must have methods"),
    ({"penalty": 0.1}, "penalty must have methods"),
    ({"ridge": -0.1}, "ridge must be finite and not negative"),
    ({"ridge": np.nan}, "ridge must be finite and not negative"),
    ({"ridge": "some"}, "ridge must be finite and not negative"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_PARTS)
def test_bad_parts_of_a_problem(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        rs.Problem(X, Y, **bad)


@pytest.mark.parametrize(
    "bad", [[0.0, 0.0, 0.0], np.zeros(2), np.zeros(3, dtype=int), np.zeros((6, 2))[::2, 0]]
)
@pytest.mark.parametrize("name", ["value", "objective", "gradient", "margins"])
def test_bad_point(bad: Any, name: str) -> None:
    with pytest.raises(rs.InputError, match=r"x must be a C-ordered float64 array of shape \(3,\)"):
        getattr(rs.Problem(X, Y), name)(bad)


# --- solvers -----------------------------------------------------------------------------------

BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"step": 0.0}, "step must be a positive, finite number, got 0.0"),
    ({"step": -1}, "step must be a positive, finite number, got -1"),
    ({"step": np.nan}, "step must be a positive, finite number, got nan"),
    ({"step": np.inf}, "step must be a positive, finite number, got inf"),
    ({"step": "fast"}, "step must be a number, a schedule or a function, got 'fast'"),
    ({"step": True}, "step must be"),
    ({"step": rs.steps.InverseTime}, "step must be an instance, got the class InverseTime"),
    ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
    ({"batch_size": 2.0}, "batch_size must be a positive integer"),
    ({"epochs": 0}, "epochs must be a positive integer, got 0"),
    ({"epochs": 1.5}, "epochs must be a positive integer"),
    ({"epochs": True}, "epochs must be a positive integer"),
    ({"check_every": 0}, "check_every must be a positive integer"),
    ({"eval_every": -1}, "eval_every must be a positive integer"),
    ({"seed": -1}, "seed must be a non-negative integer, got -1"),
    ({"seed": 1.5}, "seed must be a non-negative integer, got 1.5"),
    ({"seed": True}, "seed must be a non-negative integer, got True"),
    ({"seed": None}, "seed must be a non-negative integer, got None"),
    ({"tol": -1e-9}, "tol must be finite and not negative"),
    ({"tol": np.nan}, "tol must be finite and not negative"),
    ({"time_limit": 0}, "time_limit must be a positive, finite number"),
    ({"time_limit": -1.0}, "time_limit must be a positive, finite number"),
]
BAD_PROXRR: list[tuple[dict[str, Any], str]] = [
    ({"prox": "never"}, "prox must be \"epoch\" or \"step\", got 'never'"),
    ({"order": rs.orders.ShuffleOnce}, r"order must be Reshuffle\(\), ShuffleOnce\(\), Cyclic\(\)"),
    ({"order": "random"}, r"order must be Reshuffle\(\), ShuffleOnce\(\), Cyclic\(\)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("solver", "bad", "message"),
    [(solver, *row) for solver in (rs.ProxRR, rs.ProxSGD) for row in BAD_SETTINGS]
    + [(rs.ProxRR, *row) for row in BAD_PROXRR],
)
def test_bad_settings(solver: Any, bad: dict[str, Any], message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        solver(**bad)


def oracle(**changes: Any) -> rs.OracleProblem:
    arguments: dict[str, Any] = {
        "n": 2,
        "dim": 2,
        "gradient": lambda i, x: x,
        "value": lambda x: float(x @ x) / 2,
    }
    return rs.OracleProblem(**(arguments | changes))


class WrongShape(NoProx):
    def prox(self, x: Array, step: float) -> Array:
        return np.append(x, 0.0)


BAD_RUNS: list[tuple[Callable[[], Any], str]] = [
    (lambda: rs.ProxRR(step=lambda t: 0.0).solve(rs.Problem(X, Y)), "step at epoch 0 must be a positive"),
    (lambda: rs.ProxRR(step=lambda t: 1.0 - t).solve(rs.Problem(X, Y)), "step at epoch 1 must be a positive"),
    (lambda: rs.ProxSGD(step=lambda t: "a").solve(rs.Problem(X, Y)), "step at epoch 0 must be a positive"),  # type: ignore[arg-type, return-value]
    (lambda: rs.ProxRR(step=rs.steps.Decreasing()).solve(rs.Problem(X, Y)), "Decreasing.*strongly convex"),
    (lambda: rs.ProxRR().solve(rs.Problem(X, Y, penalty=WrongShape())), r"penalty WrongShape must return shape \(3,\) of numbers, got shape \(4,\)"),
    (lambda: rs.ProxRR().solve(X), "problem must be a Problem, an OracleProblem or"),  # type: ignore[arg-type]
    (lambda: rs.ProxRR().solve(rs.Problem(0 * X, Y)), "L_max is 0.*all rows zero"),
    (lambda: rs.ProxSGD().solve(rs.Problem(0 * X, Y)), "L_max is 0.*all rows zero"),
    (lambda: rs.ExactProxRR().solve(rs.Problem(0 * X, Y)), "all rows of X are zero"),
    (lambda: rs.FISTA().solve(rs.Problem(0 * X, Y)), "L_max is 0.*all rows zero"),
    (lambda: rs.ProxRR().solve(oracle()), "no smoothness constants"),
    (lambda: rs.ProxRR(step=0.1, tol=1e-3).solve(oracle()), "no smoothness constants"),
    (lambda: rs.ProxRR(step=0.1).solve(oracle(gradient=lambda i, x: x[:1])), r"gradient\(i, x\) with i=0 must return shape \(2,\) of numbers, got shape \(1,\)"),
    (lambda: oracle(n=0), "n must be a positive integer"),
    (lambda: oracle(dim=1.5), "dim must be a positive integer"),
    (lambda: oracle(gradient=None), "gradient must be a function"),
    (lambda: oracle(value=3.0), "value must be a function"),
    (lambda: oracle(smoothness=-1.0), "smoothness must be one non-negative number or 2 of them"),
    (lambda: oracle(smoothness=[1.0] * 3), "smoothness must be one non-negative number or 2 of them"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD_RUNS)
def test_bad_runs(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        call()


# --- what is accepted --------------------------------------------------------------------------


def duplicated() -> sp.csr_matrix:
    """X with its first entry in two halves, in columns out of order."""
    data = np.array([0.5, 2.0, 0.5, *sp.csr_matrix(X).data[2:]])
    return sp.csr_matrix((data, [0, 2, 0, 1, 0, 2, 1, 2], [0, 3, 4, 6, 8]), shape=X.shape)


def wide() -> sp.csr_matrix:
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (np.asfortranarray(X), "X is not stored row by row"),
        (np.hstack([X, X])[:, ::2][:, [0, 2, 1]].T.copy().T, "X is not stored row by row"),
        (sp.csc_matrix(X), "X is sparse in CSC format and was converted to CSR"),
        (sp.coo_array(X), "X is sparse in COO format and was converted to CSR"),
        (sp.lil_matrix(X), "X is sparse in LIL format and was converted to CSR"),
        (duplicated(), "X has unsorted or duplicate column indices"),
        (X.tolist(), None),
        (X.astype(int), None),
        (X.astype(np.uint8), None),
        (X.astype(np.float16), None),
        (X.astype(">f8"), None),
        (sp.csr_matrix(X.astype(int)), None),
        (sp.csr_array(X), None),
        (wide(), None),
    ],
)  # fmt: skip
def test_other_layouts_are_converted(given: Any, warning: str | None) -> None:
    """Float data that had to be copied is worth a warning, which points at the caller's line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = rs.Problem(given, Y)
    messages = [str(w.message) for w in caught]
    assert len(messages) == (warning is not None), messages
    for w in caught:
        assert issubclass(w.category, rs.ConversionWarning)
        assert str(w.message).startswith(str(warning))
        assert w.filename == __file__
    x = np.array([0.1, -0.2, 0.3])
    assert problem.objective(x) == pytest.approx(rs.Problem(X, Y).objective(x), rel=1e-15)


def test_bool_rows_are_zeros_and_ones() -> None:
    x = np.array([0.1, -0.2, 0.3])
    expected = rs.Problem((X > 0) * 1.0, Y).objective(x)
    for given in (X > 0, sp.csr_matrix(X > 0)):
        assert rs.Problem(given, Y).objective(x) == pytest.approx(expected, rel=1e-15)


def test_64_bit_indices_are_narrowed() -> None:
    rows = rs.Problem(wide(), Y).rows
    assert rows.indices.dtype == rows.indptr.dtype == np.uint32
    np.testing.assert_array_equal(rows.indices, sp.csr_matrix(X).indices)


@pytest.mark.parametrize("layout", [np.array, sp.csr_matrix])
def test_one_zero_row_is_accepted(layout: Any) -> None:
    some = X.copy()
    some[2] = 0.0
    result = rs.ProxRR(epochs=2).solve(rs.Problem(layout(some), Y))
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize("y", [[1, 0, 1, 0], [True, False, True, False], [1, -1, 1, -1]])
def test_two_kinds_of_labels_mean_the_same(y: Any) -> None:
    np.testing.assert_array_equal(rs.Problem(X, y).targets, Y)


@pytest.mark.parametrize(
    ("labels", "codes", "classes"),
    [
        ([2, 1, 2], [1.0, -1.0, 1.0], [1, 2]),
        (["b", "a", "b"], [1.0, -1.0, 1.0], ["a", "b"]),
        ([True, False, True], [1.0, -1.0, 1.0], [False, True]),
        (["x", "z", "y", "x"], [0, 2, 1, 0], ["x", "y", "z"]),
        ([0.5, -3.0, 7.0], [1, 0, 2], [-3.0, 0.5, 7.0]),
    ],
)
def test_encode_labels(labels: Any, codes: list[float], classes: list[Any]) -> None:
    y, found = rs.encode_labels(labels)
    assert y.tolist() == codes
    assert found.tolist() == classes
    loss = None if len(classes) == 2 else Multinomial()
    rs.Problem(np.eye(len(labels)), y, loss=loss)  # what it returns is what a problem takes


@pytest.mark.parametrize("labels", [["a", "a"], [], [[1, 2], [2, 1]]])
def test_encode_labels_refuses(labels: Any) -> None:
    with pytest.raises(rs.InputError, match="labels"):
        rs.encode_labels(labels)
