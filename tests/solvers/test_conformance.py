"""Every loss × penalty × order: dense = CSR = oracle, to 1e-12."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import LOSSES, every_pair, oracle, penalty, random_data, sparse, unknown

import reshuffle as rs

SOLVERS: dict[str, rs.ProxRR | rs.ProxSGD] = {
    "reshuffle": rs.ProxRR(epochs=3, seed=1),
    "shuffle_once": rs.ProxRR(epochs=3, seed=1, order=rs.orders.ShuffleOnce()),
    "shuffle_once_in_place": rs.ProxRR(epochs=3, seed=1, order=rs.orders.ShuffleOnce(store=False)),
    "cyclic": rs.ProxRR(epochs=3, order=rs.orders.Cyclic(), step=lambda t: 0.1 / (t + 1)),
    "prox_each_step": rs.ProxRR(epochs=3, seed=1, prox="step", step=rs.steps.InverseTime()),
    "with_replacement": rs.ProxSGD(epochs=3, seed=1),
    "batches": rs.ProxRR(epochs=3, seed=1, batch_size=5, step=0.05),
    "sgd_batches": rs.ProxSGD(epochs=3, seed=1, batch_size=5),
    "importance": rs.ProxRR(epochs=3, seed=1, importance=True),
    "importance_once": rs.ProxRR(
        epochs=3, seed=1, importance=True, order=rs.orders.ShuffleOnce(), batch_size=2
    ),
    "importance_sgd": rs.ProxSGD(epochs=3, seed=1, importance=True),
}


def three_ways(
    loss: rs.losses.Loss, **kwargs: Any
) -> tuple[rs.Problem, rs.Problem, rs.OracleProblem]:
    X, y = random_data(loss)
    dense = rs.Problem(X, y, loss, **kwargs)
    return dense, rs.Problem(sparse(X), y, loss, **kwargs), oracle(dense, X, y)


def assert_same_run(solver: Any, *problems: rs.FiniteSum) -> None:
    first, *others = (solver.solve(problem) for problem in problems)
    assert np.abs(first.x).max() > 0  # something happened
    for other in others:
        np.testing.assert_allclose(other.x.reshape(first.x.shape), first.x, rtol=0, atol=1e-12)
        for column in ("objective", "gradients", "prox_evals", "step"):
            np.testing.assert_allclose(
                other.trace[column], first.trace[column], rtol=1e-12, atol=1e-12
            )


@pytest.mark.filterwarnings("ignore::reshuffle.errors.StepWarning")
@every_pair
def test_dense_csr_and_oracle_agree(loss: str, psi: str) -> None:
    """With one prox per epoch and with one per step."""
    problems = three_ways(LOSSES[loss], penalty=penalty(psi, unknown(loss)))
    for order in ("reshuffle", "prox_each_step"):
        assert_same_run(SOLVERS[order], *problems)


@pytest.mark.filterwarnings("ignore::reshuffle.errors.StepWarning")
@pytest.mark.parametrize("order", SOLVERS)
@pytest.mark.parametrize("psi", ["elastic_net", "group_lasso"])
@pytest.mark.parametrize("loss", LOSSES)
def test_agree_in_every_order(loss: str, psi: str, order: str) -> None:
    problems = three_ways(LOSSES[loss], penalty=penalty(psi, unknown(loss)))
    assert_same_run(SOLVERS[order], *problems)


@pytest.mark.parametrize("order", ["reshuffle", "shuffle_once", "prox_each_step", "batches"])
@pytest.mark.parametrize("loss", LOSSES)
def test_agree_with_ridge_intercept_and_weights(loss: str, order: str) -> None:
    weights = np.linspace(0.0, 2.0, 23)
    problems = three_ways(
        LOSSES[loss],
        penalty=rs.penalties.L1(0.01),
        ridge=0.3,
        fit_intercept=True,
        sample_weight=weights,
    )
    assert_same_run(SOLVERS[order], *problems)


@pytest.mark.parametrize("ridge", [50.0, 1e3])
def test_a_strong_ridge_keeps_the_scaled_iterate_exact(ridge: float) -> None:
    """The scale of the iterate underflows many times in an epoch; the result must not notice."""
    problems = three_ways(rs.losses.Squared(), ridge=ridge)
    largest = problems[0].smoothness.L_max
    assert_same_run(rs.ProxRR(epochs=3, step=0.9 / largest), *problems)
    assert_same_run(rs.ProxRR(epochs=3, step=1.0 / ridge), *problems)  # 1 - step·ridge = 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layout", [np.array, sparse])
def test_float32_follows_float64(loss: str, layout: Any) -> None:
    """float32 data, the same numbers: the model and all sums are float64."""
    X, y = random_data(LOSSES[loss])
    X = X.astype(np.float32).astype(np.float64)  # numbers that float32 holds exactly
    solver = rs.ProxRR(epochs=5, seed=3, step=0.1)
    double = solver.solve(rs.Problem(layout(X), y, LOSSES[loss], penalty=rs.penalties.L1(0.01)))
    single = solver.solve(
        rs.Problem(layout(X.astype(np.float32)), y, LOSSES[loss], penalty=rs.penalties.L1(0.01))
    )
    np.testing.assert_allclose(single.x, double.x, rtol=0, atol=1e-13)
    assert single.x.dtype == np.float64


def test_64_bit_indices_give_the_same_run() -> None:
    X, y = random_data(rs.losses.Logistic())
    narrow = sparse(X)
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    results = [rs.ProxRR(epochs=2).solve(rs.Problem(A, y)) for A in (narrow, wide)]
    assert np.array_equal(results[0].x, results[1].x)
