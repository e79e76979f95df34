"""Newton steps by coordinate descent over the columns of sparse rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.core import native
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_cg import FaceSteps
from reshuffle.solvers.exact.newton_columns import MOST_LEFT, ColumnDescent, NewtonColumns
from reshuffle.solvers.exact.view import View

MIX = ["newton_columns", "shuffled"]
ALONE = ["newton_columns"]
CLASSES = (rs.losses.Logistic(), rs.losses.SquaredHinge())
NUMBERS = (rs.losses.Squared(), rs.losses.Huber(0.3), rs.losses.Quantile(0.8, 0.2))
PENALTIES = (
    rs.penalties.L1(3e-3), rs.penalties.L1(np.linspace(1e-3, 1e-2, 40)), rs.penalties.ElasticNet(2e-3, 1e-2), rs.penalties.L2(1e-2),
    rs.penalties.NonNegative(1e-3), rs.penalties.Box(-0.2, 0.1), rs.penalties.L1(2e-3) + rs.penalties.Box(-0.2, 0.3),
)  # fmt: skip


def sparse_set(n: int = 90, d: int = 40, spread: float = 0.5, seed: int = 0) -> tuple[Any, Any]:
    """Sparse rows with an empty row and column, two equal columns, and columns of different scale; targets of real numbers."""
    rng = np.random.default_rng(seed)
    X = (
        (rng.random((n, d)) < 0.15)
        * rng.standard_normal((n, d))
        * 10.0 ** rng.uniform(-spread, spread, d)
    )
    X[:, 3], X[:, 7], X[5] = X[:, 4], 0.0, 0.0
    x = (rng.random(d) < 0.3) / np.maximum(np.abs(X).max(axis=0), 0.1)
    return sp.csr_matrix(X), X @ x - 0.4 + 0.5 * rng.standard_normal(n)


def problem_of(loss: Any, penalty: Any, intercept: bool = False, **others: Any) -> rs.Problem:
    X, y = sparse_set()
    y = np.where(y > 0, 1.0, -1.0) if loss in CLASSES else y
    return rs.Problem(X, y, loss, penalty, fit_intercept=intercept, **others)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("loss", [*CLASSES, *NUMBERS], ids=repr)
def test_it_agrees_with_newton_steps(loss: Any, penalty: Any, intercept: bool) -> None:
    problem = problem_of(loss, penalty, intercept, ridge=1e-3)
    best = problem.objective(rs.ExactProxRR(tol=1e-11, phases=["newton"]).solve(problem).x)
    result = rs.ExactProxRR(tol=1e-7, phases=MIX).solve(problem)
    assert result.converged, result.message
    at_zero = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - best <= 1e-7 * at_zero


def test_it_solves_a_problem_alone_with_weights_and_offsets() -> None:
    rng = np.random.default_rng(1)
    weights = rng.random(90) * (rng.random(90) < 0.7)
    kept = weights > 0
    X, y = sparse_set()
    y, offset = np.where(y > 0, 1.0, -1.0), rng.standard_normal(90)
    penalty = rs.penalties.ElasticNet(2e-3, 1e-3)
    whole = rs.Problem(
        X, y, penalty=penalty, sample_weight=weights, offset=offset, fit_intercept=True
    )
    part = rs.Problem(
        X[kept], y[kept], penalty=penalty, sample_weight=weights[kept], offset=offset[kept], fit_intercept=True
    )  # fmt: skip
    result = rs.ExactProxRR(tol=1e-10, phases=ALONE).solve(whole)
    assert result.converged
    assert set(result.trace.header["phases"].split(", ")) == {"newton_columns"}
    assert result.trace["newton_columns"][-1] == result.epoch
    same = rs.ExactProxRR(tol=1e-10, phases=["newton"]).solve(part)
    np.testing.assert_allclose(result.x, same.x, atol=1e-4)


def test_it_finds_what_scikit_learn_finds() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = sparse_set()
    problem = rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L1(0.02), fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-9, phases=MIX).solve(problem)
    assert result.converged
    lasso = linear_model.Lasso(alpha=0.02, tol=1e-13, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(X @ result.x[:-1] + result.x[-1], lasso.predict(X), atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:X is sparse", "ignore:X has unsorted")
def test_bits_do_not_depend_on_how_rows_are_stored() -> None:
    X, y = sparse_set()
    backwards = [np.arange(*ends)[::-1] for ends in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    order, ends = np.concatenate(backwards), X.indptr.astype(np.int64)
    unsorted = sp.csr_matrix((X.data[order], X.indices[order].astype(np.int64), ends), X.shape)
    halves = (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * ends)
    twice = sp.csr_matrix(halves, X.shape)
    solver, found = rs.ExactProxRR(tol=1e-9, phases=MIX), []
    for data in (X, unsorted, X.tocsc(), twice):
        problem = rs.Problem(data, y, rs.losses.Huber(0.3), rs.penalties.L1(3e-3))
        found.append(solver.solve(problem).x)
    for x in found[1:]:
        np.testing.assert_array_equal(x, found[0])


def test_values_of_one_are_read_without_being_stored() -> None:
    X, y = sparse_set()
    X.data[:] = 1.0
    problem = rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L1(1e-2))
    descent, x = ColumnDescent(problem), np.zeros(40)
    taken = descent.step(x)
    assert taken.gained == pytest.approx(problem.objective(x) - problem.objective(taken.at.x))
    assert taken.gained > 0.0


def test_who_is_able() -> None:
    X, y = sparse_set()
    able, solver = NewtonColumns().able, rs.ExactProxRR()
    held, labels = rs.penalties.L1(0.01), np.arange(90) % 3
    assert able(rs.Problem(X, y, rs.losses.Squared(), held), solver)
    assert not able(rs.Problem(X.toarray(), y, rs.losses.Squared(), held), solver)
    assert not able(rs.Problem(X, labels, rs.losses.Multinomial(), held), solver)
    assert not able(rs.Problem(X, np.sign(y), rs.losses.Probit(), held), solver)  # no dual point
    assert not able(rs.Problem(X, y, rs.losses.Squared()), solver)
    for penalty in (rs.penalties.GroupLasso(0.1, [[0, 1], [2, 3]]), rs.penalties.L1Ball(1.0)):
        assert not able(rs.Problem(X, y, rs.losses.Squared(), penalty), solver)
    with pytest.raises(rs.InputError, match="can act"):
        rs.ExactProxRR(phases=ALONE).solve(rs.Problem(X, y, rs.losses.Squared()))


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def slow_problem(intercept: bool = False) -> rs.Problem:
    X, y = sparse_set(120, 90, spread=1.5, seed=2)
    labels = np.where(y > 0, 1.0, -1.0)
    return rs.Problem(X, labels, penalty=rs.penalties.L1(3e-4), fit_intercept=intercept)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("phases", [ALONE, MIX], ids=["alone", "mixed"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_resumed_run_has_the_same_bits_and_counts(
    intercept: bool, phases: list[str], tmp_path: Path
) -> None:
    """The linearisation that a step leaves behind is not saved, and is not counted twice."""
    problem = slow_problem(intercept)
    solver = rs.ExactProxRR(tol=1e-6, epochs=60, eval_every=1, phases=phases)
    whole = solver.solve(problem)
    steps = np.flatnonzero(np.diff(whole.trace["newton_columns"]) > 0)
    assert steps.size > 3
    for at in (int(steps[0]), int(steps[0]) + 1, int(steps[2])):
        if at < 1:
            continue
        solver.solve(problem, callbacks=[partial(stands_at, at)]).save(tmp_path / "part.npz")
        resumed = solver.solve(problem, resume=tmp_path / "part.npz")
        np.testing.assert_array_equal(resumed.x, whole.x)
        assert resumed.trace["gradients"].tolist() == whole.trace["gradients"].tolist()
        assert resumed.trace["newton_columns"].tolist() == whole.trace["newton_columns"].tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_phases_have_a_turn() -> None:
    """Slow steps once went on to the end of a run, whatever the others would have done."""
    problem = slow_problem()
    solver = rs.ExactProxRR(tol=0.0, epochs=150, eval_every=1, phases=MIX)
    made = solver.solve(problem).trace["newton_columns"]
    assert made[-1] > MOST_LEFT
    stayed = np.flatnonzero(np.diff(made) == 0)
    assert (made[stayed] == MOST_LEFT).any()


def test_a_face_without_curvature_takes_no_step() -> None:
    """All residuals are beyond Huber's threshold; conjugate gradients once divided by zero curvature there."""
    X, y = sparse_set()
    loss, penalty = rs.losses.Huber(1e-6), rs.penalties.ElasticNet(1e-6, 1e-3)
    problem = rs.Problem(X, y, loss, penalty, fit_intercept=True)
    x = np.append(np.full(40, 0.1), 0.0)
    with np.errstate(all="raise"):
        taken = FaceSteps(problem).step(x)
    assert taken.products == 0
    np.testing.assert_array_equal(taken.at.x, x)


def test_a_singular_hessian_counts_as_dearer() -> None:
    """More features that are not zero than rows, and no ridge: a model takes many rounds, and steps over columns are preferred."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 2000)), rng.choice([-1.0, 1.0], 300)
    x = np.where(np.arange(2000) < 400, 1.0, 0.0)
    alone, ridged = (
        costs.newton(rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.01, l2)), x, 1.0)
        for l2 in (0.0, 1e-3)
    )
    solving = costs.SOLVE * 400**2 + costs.FACTOR * 400**3
    assert alone == pytest.approx(ridged + (costs.SINGULAR - 1.0) * solving)


def test_the_gain_of_a_step_counts_the_ridge() -> None:
    problem = problem_of(CLASSES[0], rs.penalties.L1(3e-3), intercept=True, ridge=0.5)
    x = np.full(41, 0.7)
    taken = ColumnDescent(problem).step(x)
    assert taken.gained == pytest.approx(problem.objective(x) - problem.objective(taken.at.x))
    assert taken.gained > 0.0


def test_steps_by_conjugate_gradients_come_first() -> None:
    """Where both take part, coordinate descent is ready once a step by conjugate gradients has failed."""
    problem = problem_of(CLASSES[0], rs.penalties.L1(3e-3))
    phases = ["newton_columns", "newton_cg", "shuffled"]
    method: Any = rs.ExactProxRR(phases=phases).bind(problem)
    state = method.start(np.zeros(problem.shape))

    def ready(**newton: float) -> bool:
        monitor = state.monitor.moved(1.0)._replace(checked=0.1)
        then = replace(state, monitor=monitor, newton=state.newton._replace(**newton))
        return NewtonColumns().ready(View(method.run, then, 9, method.run.first_step))

    assert not ready()
    assert ready(products=40.0, steps=2.0, gap=0.11)  # it left most of the certificate
    assert not ready(products=40.0, steps=2.0, gap=10.0)
    assert not ready(products=40.0, steps=2.0, gap=0.11, rest=12.0)


@pytest.mark.parametrize("intercept", [False, True])
def test_sweeps_minimise_the_model(intercept: bool) -> None:
    """The margins follow u, the decrease is that of the model, and many sweeps end where no coordinate is pulled."""
    problem, l1 = problem_of(CLASSES[0], rs.penalties.L1(3e-3), intercept), 3e-3
    rng, size = np.random.default_rng(2), 40 + intercept
    X = np.hstack([sparse_set()[0].toarray(), np.ones((90, int(intercept)))])
    x = 0.3 * rng.standard_normal(size) * (rng.random(size) < 0.5)
    h, g = rng.random(90) / 90, X.T @ rng.standard_normal(90) / 90
    descent, u, z = ColumnDescent(problem), x.copy(), np.zeros(90)
    decrease, sweeps, _ = native.sweep_columns(
        descent._native, *descent._columns, h, g, u, z, 3000, 1e-14
    )
    np.testing.assert_allclose(z, X @ (u - x), atol=1e-12)
    psi = l1 * (np.abs(x[:40]).sum() - np.abs(u[:40]).sum())
    assert decrease == pytest.approx(psi - g @ (u - x) - 0.5 * h @ z**2, rel=1e-9)
    assert sweeps > 1
    r = g + X.T @ (h * z)
    kept = np.flatnonzero(u[:40])
    assert kept.size
    np.testing.assert_allclose(r[kept], -l1 * np.sign(u[kept]), atol=1e-6)
    assert np.all(np.abs(r[40:]) < 1e-6)
