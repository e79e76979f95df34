"""Cases of ExactFedRR that the tests on the processor and those on a card have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs

SOLVERS: dict[str, Any] = {
    "default": rs.ExactFedRR(rounds=6, seed=2),
    "no acceleration": rs.ExactFedRR(rounds=6, seed=2, acceleration=0, order=rs.orders.Reshuffle()),
    "reshuffled": rs.ExactFedRR(rounds=4, seed=2, order=rs.orders.Reshuffle(), local_passes=2),
    "cyclic": rs.ExactFedRR(rounds=4, seed=2, order=rs.orders.Cyclic(), local_passes=3),
    "importance": rs.ExactFedRR(rounds=5, seed=2, importance=True),
    "no importance": rs.ExactFedRR(rounds=5, seed=2, importance=False),
    "at the clients": rs.ExactFedRR(rounds=6, seed=2, state="clients"),
    "participation": rs.ExactFedRR(rounds=9, seed=2, state="clients", acceleration=0, participation=0.4),
    "short memory": rs.ExactFedRR(rounds=8, seed=2, acceleration=2),
    "no scales": rs.ExactFedRR(rounds=5, seed=2, scales=None),
}  # fmt: skip


def by_label(columns: int = 12, parts: int = 300) -> rs.federated.Federation:
    """Clients of one label each, some with a single row; columns that are empty, and rows that come twice."""
    rng = np.random.default_rng(3)
    n = 2 * parts + 50
    X = rng.normal(size=(n, columns)) * (rng.random((n, columns)) < 0.4)
    X[:, 4] = 0.0
    X[7] = X[8]
    X[11] = 0.0
    y = np.where(X @ rng.normal(size=columns) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    problem = rs.Problem(
        sp.csr_matrix(X), y, penalty=rs.penalties.L1(2e-3), ridge=0.01, fit_intercept=True
    )
    order = np.argsort(y, kind="stable")
    cuts = np.sort(rng.choice(np.arange(1, n), parts - 1, replace=False))
    return rs.federated.Federation([problem.take(own.astype(np.uint32)) for own in np.split(order, cuts)])  # fmt: skip


def cancelling() -> rs.federated.Federation:
    """The two equal rows of the first client cancel each other at a step of 2: from 0 its passes come back to 0."""
    both, other = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.3, 1.0], [1.0, -0.4], [0.2, 0.1]])  # fmt: skip
    settings: dict[str, Any] = {"loss": rs.losses.Squared(), "penalty": rs.penalties.L2(0.1)}
    return rs.federated.Federation(
        [rs.Problem(both, np.ones(2), **settings), rs.Problem(other, np.array([0.5, -1.0, 0.2]), **settings)]
    )  # fmt: skip


CANCELLED = rs.ExactFedRR(rounds=5, seed=1, step=2.0, acceleration=3, scales=None, importance=False)
"""Its first client makes a plain step in the first round."""
