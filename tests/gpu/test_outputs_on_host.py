"""Softmax and matrices of targets on a device: kernels compiled for the processor, against the core and scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import runner
from host_device import COMPILER, HostDevice
from output_cases import LAYOUTS, PROBLEMS, classes_of, separable, softmax, targets, thin
from output_checks import MAKERS, check_pass, check_solution

import reshuffle as rs
from reshuffle.cli import fit, main
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import output_samples
from reshuffle.solvers.exact import device_checks, device_newton, lbfgs_of_outputs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not there")


@pytest.fixture(scope="module")
def device() -> HostDevice:
    return HostDevice()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pass_is_that_of_the_core(
    layout: str, kind: str, bias: bool, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_samples, "BLOCK", 7000)  # several blocks, of which the last is short
    check_pass(layout, kind, bias, device)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimiser_is_that_of_the_processor(name: str, device: HostDevice) -> None:
    check_solution(PROBLEMS[name](), device)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_coordinates_with_a_ridge(
    layout: str, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_checks, "MANY", 10)
    X, y = classes_of()
    found = check_solution(softmax(LAYOUTS[layout](X), y, ridge=1e-3), device, 1e-10)
    assert "hessian_rows" not in found.trace
    check_solution(targets(LAYOUTS[layout], ridge=0.1), device, 1e-10)
    monkeypatch.setattr(lbfgs_of_outputs, "SMALL", 0)  # inverses of the device
    check_solution(softmax(LAYOUTS[layout](X), y, ridge=1e-3), device, 1e-10)


@pytest.mark.parametrize("widest", [10, 4000], ids=["lbfgs", "newton"])
def test_tall_sets_begin_with_samples(
    widest: int, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_checks, "MANY", widest)
    monkeypatch.setattr(device_newton, "WORK_PER_BYTE", 0)
    X, y = classes_of(170_000, 5)
    problem = softmax(X.astype(np.float32), y, ridge=1e-5)
    found = check_solution(problem, device, 1e-9)
    again = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert again.x.tobytes() == found.x.tobytes()


@pytest.mark.parametrize("widest", [10, 4000], ids=["lbfgs", "newton"])
def test_a_run_goes_on_with_the_same_bits(
    widest: int, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_checks, "MANY", widest)
    problem = softmax(*classes_of(), ridge=1e-3)
    solver = rs.ExactProxRR(tol=1e-11, device=device)
    whole = solver.solve(problem)
    first = solver.solve(problem, callbacks=[lambda so_far: so_far.epoch >= 1])
    assert not first.converged
    assert solver.solve(problem, resume=first).x.tobytes() == whole.x.tobytes()


def test_scikit_learn_has_the_same_softmax(device: HostDevice) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = classes_of()
    ridge = 1e-2
    found = rs.ExactProxRR(tol=1e-13, device=device).solve(softmax(X, y, ridge=ridge))
    theirs = linear_model.LogisticRegression(C=1.0 / (len(y) * ridge), tol=1e-10, max_iter=10_000).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(found.x[:-1], theirs.coef_.T, atol=1e-6)
    ours = found.x[-1] - found.x[-1].mean()
    np.testing.assert_allclose(ours, theirs.intercept_ - theirs.intercept_.mean(), atol=1e-6)


# --- nothing that was not proved is claimed ------------------------------------------------------


def test_separable_classes_without_a_penalty_are_not_called_converged(device: HostDevice) -> None:
    problem = separable()
    found = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert not found.converged
    there = DeviceProblem.of(problem, device)
    assert there.can_recede
    assert there.recedes(found.x) == problem.recedes(found.x)
    assert not there.recedes(-found.x)


def test_a_class_without_weight_is_not_called_converged(device: HostDevice) -> None:
    X, y = classes_of()
    problem = softmax(X, y, ridge=1e-3, sample_weight=np.where(y == 2, 0.0, 1.0))
    with pytest.warns(UserWarning, match="no step lowers"):
        assert not rs.ExactProxRR(tol=1e-9, device=device).solve(problem).converged


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gap_is_never_below_the_truth(name: str, device: HostDevice) -> None:
    """At points on the way, far from the minimum and near it."""
    problem = PROBLEMS[name]()
    there = DeviceProblem.of(problem, device)
    best = rs.ExactProxRR(tol=1e-12).solve(problem).x
    measure = rs.ExactProxRR(device=device).bind(problem).measure
    rng = np.random.default_rng(4)
    for size in (1.0, 1e-2, 1e-4):
        x = best + size * rng.normal(size=best.shape) * np.abs(best).max()
        x[: there.features] = there.penalty.prox(x[: there.features], 1e-300)  # within its bounds
        above = (problem.objective(x) - problem.objective(best)) / problem.datafit.at_zero
        assert measure.at(x) >= above - 1e-10


@pytest.mark.parametrize("widest", [10, 4000], ids=["lbfgs", "newton"])
def test_starts_near_and_far_out(
    widest: int, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_checks, "MANY", widest)
    problem = softmax(*classes_of(), ridge=1e-3)
    solver = rs.ExactProxRR(tol=1e-9, device=device)
    best = rs.ExactProxRR(tol=1e-12).solve(problem).x
    assert solver.solve(problem, best).converged
    away = np.random.default_rng(0).normal(size=problem.shape)
    found = solver.solve(problem, 100.0 * away)
    assert found.converged
    above = problem.objective(found.x) - problem.objective(best)
    assert above <= 1e-9 * problem.datafit.at_zero
    with pytest.warns(
        UserWarning, match="ExactProxRR"
    ):  # the losses overflow there, and nothing is claimed
        assert not rs.ExactProxRR(tol=1e-9, epochs=5, device=device).solve(problem, 1e300 * away).converged  # fmt: skip


@pytest.mark.parametrize("widest", [1, 4000], ids=["lbfgs", "newton"])
def test_rows_without_entries(
    widest: int, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_checks, "MANY", widest)
    X, y = classes_of()
    gaps = sp.csr_matrix(sp.vstack([thin(X[:300]), sp.csr_matrix((300, X.shape[1]))]))
    for rows in (sp.csr_matrix(X.shape), gaps, np.zeros_like(X)):
        check_solution(softmax(rows, y, ridge=1e-3), device)
    check_solution(softmax(np.array([[1.0], [2.0], [0.0]]), [0, 1, 2], ridge=1e-3), device)
    check_solution(softmax(np.hstack([X, X]), y, ridge=1e-8), device)  # each column twice


# --- arrays of the device and refusals -----------------------------------------------------------


def test_arrays_of_the_device_are_used_where_they_lie(device: HostDevice) -> None:
    X, y = classes_of()
    wanted = rs.ExactProxRR(tol=1e-12).solve(softmax(X, y, ridge=1e-2)).x
    for labels in (y, y.astype(np.float64), y.astype(np.uint8)):
        there = DeviceProblem(X, labels, rs.losses.Multinomial(), ridge=1e-2, fit_intercept=True, device=device)  # fmt: skip
        assert np.shares_memory(there.datafit.rows[0], X)
        found = rs.ExactProxRR(tol=1e-12).solve(there)
        assert found.converged
        np.testing.assert_allclose(found.x[:-1], wanted[:-1], atol=2e-5)
    Y = np.column_stack([X[:, 0] + y, X[:, 1]])
    there = DeviceProblem(thin(X), Y, rs.losses.Squared(), ridge=1e-2, device=device)
    plain = rs.Problem(thin(X), Y, rs.losses.Squared(), ridge=1e-2)
    found = rs.ExactProxRR(tol=1e-12).solve(there)
    np.testing.assert_allclose(found.x, rs.ExactProxRR(tol=1e-12).solve(plain).x, atol=2e-5)
    assert set(there.contents()) == {"data", "targets", "weights", "offsets", "loss", "penalty", "ridge"}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y": np.array([0, 1])}, "y must have 3 classes"),
        ({"y": np.array([0, 1, 3])}, "each at least once"),
        ({"y": np.array([0, -1, 1])}, "classes 0 … K-1"),
        ({"y": np.array([0.0, 0.5, 1.0])}, "each at least once"),
        ({"y": np.array([0.0, np.nan, 1.0])}, "classes 0 … K-1"),
        ({"y": np.array([0, 1, 2**31 - 1])}, "each at least once"),
        ({"y": np.zeros(3)}, "one class only"),
        ({"offset": np.zeros(3)}, "offset needs a loss of one margin"),
        ({"loss": rs.losses.Squared(), "y": np.ones((2, 2))}, "y must have 3 rows"),
        ({"loss": rs.losses.Squared(), "y": np.full((3, 2), np.inf)}, "y must be finite"),
    ],
    ids=lambda change: str(change)[:40],
)
def test_targets_that_kernels_would_misread_are_refused(
    change: dict[str, Any], said: str, device: HostDevice
) -> None:
    given: dict[str, Any] = {"X": np.ones((3, 2)), "y": np.arange(3), "loss": rs.losses.Multinomial()}  # fmt: skip
    with pytest.raises(rs.InputError, match=said):
        DeviceProblem(**given | change, device=device)


def test_penalties_that_several_outputs_do_not_have_there_are_refused(device: HostDevice) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1500)), np.arange(60) % 3
    few = X[:, :5].copy()
    solver = rs.ExactProxRR(device=device)
    for problem, said in (
        (softmax(X, y, penalty=rs.penalties.L1(0.1)), "at most 4000 coordinates"),
        (softmax(X, y), "at most 4000 coordinates"),
        (softmax(few, y, penalty=rs.penalties.NuclearNorm(0.1)), "not supported on a device"),
    ):
        with pytest.raises(rs.InputError, match=said):
            solver.solve(problem)
        there = DeviceProblem(
            problem.rows.values, y, rs.losses.Multinomial(), problem.penalty, fit_intercept=True, device=device
        )  # fmt: skip
        with pytest.raises(rs.InputError, match=said):
            rs.ExactProxRR().solve(there)


# --- estimators ----------------------------------------------------------------------------------


def test_estimators_take_several_outputs(device: HostDevice) -> None:
    X, y = classes_of()
    names = np.array(["a", "b", "c", "d"])[y]
    wanted = rs.RRClassifier(penalty="l1", l1=0.01).fit(X, names)
    found = rs.RRClassifier(penalty="l1", l1=0.01, device=device).fit(X, names)
    assert found.converged_
    # a number that all classes share is not unique, probabilities are
    np.testing.assert_allclose(found.predict_proba(X), wanted.predict_proba(X), atol=1e-3)
    Y = np.column_stack([X[:, 0] + y, X[:, 1] - y])
    lines = rs.RRRegressor(l2=0.01, device=device).fit(X, Y)
    np.testing.assert_allclose(lines.coef_, rs.RRRegressor(l2=0.01).fit(X, Y).coef_, atol=1e-4)


def test_the_command_fits_several_classes(
    device: HostDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (fit, device_checks):
        monkeypatch.setattr(module, "CudaDevice", lambda purpose: device)
    X, y = classes_of(200, 3)
    lines = ["a,b,c,kind", *(f"{','.join(map(str, row))},k{k}" for row, k in zip(X, y, strict=True))]  # fmt: skip
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    ended = runner().invoke(main, ["fit", str(table), "--target", "kind", "--device", "cuda", "--out", str(tmp_path / "model")])  # fmt: skip
    assert ended.exit_code == 0, ended.output + ended.stderr
