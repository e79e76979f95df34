"""Rounds of ExactFedRR with some of 100 clients, by label: state with the clients, no acceleration.

python -m benchmarks.participation mushrooms
"""

from __future__ import annotations

import sys

import numpy as np

import reshuffle as rs

ACCURACIES = (1e-2, 1e-4, 1e-6)


def rounds_to(name: str, participation: float, most: int) -> list[int | None]:
    """Rounds until (P(x) - P*)/(P(0) - P*) is below each accuracy; λ2 = L_f/N, as in docs/federated.md."""
    X, y = rs.datasets.load_libsvm(name)
    plain = rs.Problem(X, y)
    problem = rs.Problem(X, y, penalty=rs.penalties.L2(plain.smoothness.L_f / plain.n))
    best = problem.objective(rs.theory.solve(problem))
    clients = rs.federated.split(problem, clients=100, by="label", seed=0)
    solver = rs.ExactFedRR(
        rounds=most, seed=0, acceleration=0, state="clients", participation=participation
    )
    values = solver.solve(clients).trace["objective"]
    gaps = (values - best) / (values[0] - best)
    return [int(np.argmax(gaps <= a)) if (gaps <= a).any() else None for a in ACCURACIES]


if __name__ == "__main__":
    for share in (1.0, 0.3, 0.1):
        print(sys.argv[1], share, rounds_to(sys.argv[1], share, 2000), flush=True)
