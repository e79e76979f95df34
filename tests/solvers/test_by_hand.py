"""Small cases worked out on paper."""

from __future__ import annotations

import numpy as np

import reshuffle as rs

C = np.array([[1.0, 0.0, -2.0], [0.5, 3.0, 1.0]])


def example_1() -> rs.OracleProblem:
    """The paper's Example 1: f_i(x) = <c_i, x>, ψ = ‖x‖²/2."""
    return rs.OracleProblem(
        n=2,
        dim=3,
        gradient=lambda i, x: C[i],
        value=lambda x: float(C.mean(axis=0) @ x),
        penalty=rs.penalties.L2(1.0),
    )


def test_example_1_one_prox_per_epoch_is_a_full_proximal_gradient_step() -> None:
    x0, step = np.array([1.0, -1.0, 2.0]), 0.25
    full = (x0 - 2 * step * C.mean(axis=0)) / (1 + 2 * step)
    for order in (rs.orders.Reshuffle(), rs.orders.ShuffleOnce(), rs.orders.Cyclic()):
        result = rs.ProxRR(step=step, order=order, epochs=1).solve(example_1(), x0)
        np.testing.assert_allclose(result.x, full, rtol=1e-15)


def test_example_1_a_prox_each_step_is_not() -> None:
    x0, step = np.array([1.0, -1.0, 2.0]), 0.25
    full = (x0 - 2 * step * C.mean(axis=0)) / (1 + 2 * step)
    first = (x0 - step * C[0]) / (1 + step)
    second = (first - step * C[1]) / (1 + step)
    result = rs.ProxRR(step=step, order=rs.orders.Cyclic(), prox="step", epochs=1).solve(
        example_1(), x0
    )
    np.testing.assert_allclose(result.x, second, rtol=1e-15)
    assert np.abs(result.x - full).min() > 1e-2


def test_two_epochs_on_paper() -> None:
    """f_1 = (x - 1)²/2, f_2 = (2x)²/2, ψ = |x|/8, γ = 1/8: all numbers are binary fractions.

    epoch 0:  0 → 1/8 → 1/16 → prox by 1/32 → 1/32
    epoch 1:  1/32 → 39/256 → 39/512 → prox by 1/32 → 23/512
    """
    problem = rs.Problem(
        np.array([[1.0], [2.0]]), [1.0, 0.0], rs.losses.Squared(), rs.penalties.L1(1 / 8)
    )
    solver = rs.ProxRR(step=1 / 8, order=rs.orders.Cyclic(), epochs=2)
    seen: list[float] = []
    result = solver.solve(problem, callbacks=[lambda r: seen.append(float(r.x[0]))])
    assert seen == [1 / 32, 23 / 512]
    x = 23 / 512
    assert result.trace["objective"][-1] == ((x - 1) ** 2 + (2 * x) ** 2) / 4 + x / 8
    assert result.trace["gradients"].tolist() == [0, 2, 4]
    assert result.trace["prox_evals"].tolist() == [0, 1, 2]
    assert result.trace["step"].tolist() == [1 / 8] * 3


def test_the_last_shorter_batch_keeps_the_mean() -> None:
    """n = 3, b = 2: steps use (2/3)(f_0 + f_1) and (2/3)f_2, whose mean is f."""
    c = np.array([[3.0], [6.0], [12.0]])
    problem = rs.OracleProblem(
        n=3, dim=1, gradient=lambda i, x: c[i], value=lambda x: float(c.mean() * x[0])
    )
    result = rs.ProxRR(step=1.0, batch_size=2, order=rs.orders.Cyclic(), epochs=1).solve(problem)
    assert result.x[0] == -2 * c.mean()  # two steps along the mean gradient


def test_importance_copies_on_paper() -> None:
    """L = (1, 1, 4), mean 2: copies 1, 1, 2, N = 4, weights N/(n n_i) = 4/3, 4/3, 2/3."""
    c = np.array([[3.0], [6.0], [12.0]])
    problem = rs.OracleProblem(
        n=3, dim=1, gradient=lambda i, x: c[i], value=lambda x: float(c.mean() * x[0]),
        smoothness=[1.0, 1.0, 4.0],
    )  # fmt: skip
    result = rs.ProxRR(step=0.5, importance=True, epochs=1).solve(problem)
    np.testing.assert_allclose(result.x, -0.5 * 4 * c.mean(), rtol=1e-15)
    default = rs.ProxRR(importance=True, epochs=1).solve(problem)
    np.testing.assert_allclose(default.trace["step"][-1], 1 / (2 / 3 * 4), rtol=1e-15)
