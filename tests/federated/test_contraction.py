"""The theorem of docs/exact.md: with a common Hessian a round of ExactFedRR contracts z = x - τh.

‖z⁺ - z*‖² ≤ ρ²‖z - z*‖²,   ρ² = max_{μ ≤ λ ≤ L} a(λ)² + (1 - b(λ))² < 1,
a(λ) = (1 - γλ)ⁿ,   b(λ) = (1/n) Σ_{k<n} (1 - γλ)ᵏ.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.callbacks import Callback

Array = NDArray[np.float64]
DIM, SAMPLES = 5, 4


def quadratics(hessian: Array, linear: Array, penalty: object) -> rs.OracleProblem:
    """f_i(x) = ½xᵀHx - b_iᵀx, the same H for every i."""
    return rs.OracleProblem(
        n=len(linear),
        dim=DIM,
        gradient=lambda i, x: hessian @ x - linear[i],
        value=lambda x: float(0.5 * x @ hessian @ x - linear.mean(axis=0) @ x),
        smoothness=np.full(len(linear), np.linalg.eigvalsh(hessian)[-1]),
        penalty=penalty,
    )


def contraction(step: float, low: float, high: float) -> float:
    """ρ of the theorem, on a fine grid of eigenvalues."""
    x = 1.0 - step * np.linspace(low, high, 20_001)
    a, b = x**SAMPLES, np.mean([x**k for k in range(SAMPLES)], axis=0)
    return float(np.sqrt(np.max(a**2 + (1.0 - b) ** 2)))


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("part", [0.05, 0.4, 1.0])
@pytest.mark.parametrize(
    "penalty", [rs.penalties.L1(0.3), rs.penalties.NonNegative(), rs.penalties.L1Ball(0.5)]
)
def test_a_round_contracts_as_the_theorem_says(clients: int, part: float, penalty: object) -> None:
    rng = np.random.default_rng(clients)
    problems, eigenvalues = [], []
    for _ in range(clients):
        basis = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
        eigenvalues.append(rng.uniform(0.05, 2.0, DIM))
        hessian = basis @ np.diag(eigenvalues[-1]) @ basis.T
        problems.append(quadratics(hessian, rng.standard_normal((SAMPLES, DIM)), penalty))
    low, high = np.min(eigenvalues), np.max(eigenvalues)
    step = float(part / high)
    federation = rs.federated.Federation(problems)
    points = states(federation, step, rounds=3000)
    rho = contraction(step, low, high)
    assert rho < 1.0
    distances = [float(np.linalg.norm(z - points[-1])) for z in points]
    for before, after in pairwise(distances):
        if before > 1e-8:
            assert after <= rho * before * (1.0 + 1e-6)
    assert distances[0] > 0.1


def states(federation: rs.federated.Federation, step: float, rounds: int) -> list[Array]:
    """z = x - τh, one row per client, after every round."""
    found: list[Array] = []

    def record(result: rs.Result) -> bool:
        found.append(result.state["x"] - step * SAMPLES * result.state["controls"])
        return len(found) > 2 and float(np.linalg.norm(found[-1] - found[-2])) < 1e-14

    watched: Callback = record
    solver = rs.ExactFedRR(
        step=step, local_passes=1, acceleration=0, order=rs.orders.Reshuffle(), rounds=rounds
    )
    solver.solve(federation, callbacks=[watched])
    return found
