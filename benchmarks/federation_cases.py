"""Federations on which ExactFedRR is asked for the pooled solution: drawn ones, named ones, random ones.

None of them had a part in the choice of its defaults but ``DRAWN`` and ``NAMED``, where version 0.1.0 stalled; ``random_federation``
gives as many others as one likes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import reshuffle as rs
from reshuffle.federated import Federation
from reshuffle.objective import Array

P, L = rs.penalties, rs.losses


class Case(NamedTuple):
    """A federation that is made when it is asked for: the pooled problem, and how it is split."""

    name: str
    pooled: Callable[[], rs.Problem]
    clients: int
    by: str
    alpha: float = 0.5
    seed: int = 0

    def federation(self, pooled: rs.Problem) -> Federation:
        return rs.federated.split(pooled, self.clients, self.by, seed=self.seed, alpha=self.alpha)


# --- drawn: rows of length one, hardly any strong convexity ---------------------------------------


def _unit_rows(n: int, d: int, seed: int, loss: Any) -> rs.Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    return rs.Problem(X, y, loss=loss, penalty=P.ElasticNet(1e-3, 1e-7))


SHAPES = ((200, 20, 1), (400, 20, 2), (800, 50, 1), (1600, 50, 2))
DRAWN = [
    Case(f"{type(loss).__name__} {n} x {d}, M = {M}, draw {seed}", partial(_unit_rows, n, d, seed, loss), M, "iid")
    for loss in (L.Squared(), L.Huber())
    for n, d, M in SHAPES
    for seed in range(8)
]  # fmt: skip


# --- named: many clients, no strong convexity, penalties of all kinds -----------------------------


def _binary(n: int, d: int, seed: int = 0) -> tuple[sparse.csr_matrix, Array, Array]:
    """Sparse rows of ones, features as rare as words are; a score, and the label of its sign."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, d + 1) ** 0.8
    X = sparse.csr_matrix((rng.random((n, d)) < np.minimum(14 * shares / shares.sum(), 0.9)) * 1.0)
    score = X @ (rng.standard_normal(d) * (rng.random(d) < 0.2)) + 0.5 * rng.standard_normal(n)
    return X, score - np.median(score), np.where(score > np.median(score), 1.0, -1.0)


def _sparse(loss: Any, penalty: Any, n: int = 50_000) -> rs.Problem:
    X, score, label = _binary(n, 500)
    classify = isinstance(loss, (L.Logistic, L.SquaredHinge))
    return rs.Problem(X, label if classify else score, loss=loss, penalty=penalty)


def _digits(penalty: Any) -> rs.Problem:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return rs.Problem(X / 16.0, y, loss=L.Multinomial(), penalty=penalty)


NAMED = [
    Case("sparse logistic, L1, by label, M = 500", partial(_sparse, L.Logistic(), P.L1(1e-3)), 500, "label"),
    Case("sparse logistic, box, by label, M = 500", partial(_sparse, L.Logistic(), P.Box(-0.5, 0.5)), 500, "label"),
    Case("sparse squared, L1, by label, M = 500", partial(_sparse, L.Squared(), P.L1(1e-3)), 500, "label"),
    Case("sparse squared, l1 + l2, by label, M = 500", partial(_sparse, L.Squared(), P.ElasticNet(1e-3, 1e-4)), 500, "label"),
    Case("sparse Huber, l1 + l2, by label, M = 500", partial(_sparse, L.Huber(), P.ElasticNet(1e-3, 1e-4)), 500, "label"),
    Case("sparse Huber, L1, by label, M = 500", partial(_sparse, L.Huber(), P.L1(1e-3)), 500, "label"),
    Case("sparse logistic, box, by quantity, M = 100", partial(_sparse, L.Logistic(), P.Box(-0.5, 0.5), 20_000), 100, "quantity"),
    Case("sparse squared, box, by quantity, M = 100", partial(_sparse, L.Squared(), P.Box(-0.5, 0.5), 20_000), 100, "quantity"),
    Case("digits, nuclear norm, by quantity, M = 50", partial(_digits, P.NuclearNorm(1e-3)), 50, "quantity"),
    Case("digits, nuclear norm, by label, M = 50", partial(_digits, P.NuclearNorm(1e-3)), 50, "label"),
]  # fmt: skip


# --- random --------------------------------------------------------------------------------------


def random_federation(seed: int) -> Case:
    """Any loss, penalty, shape, split and number of clients."""
    rng = np.random.default_rng([seed, 13])
    loss, penalty = str(rng.choice(LOSSES)), str(rng.choice(PENALTIES))
    n, d = int(10 ** rng.uniform(1.7, 3.3)), int(10 ** rng.uniform(0.3, 1.8))
    clients = int(np.clip(10 ** rng.uniform(0.0, 2.0), 1, n // 2))
    by = str(rng.choice(["iid", "label", "quantity", "dirichlet"]))
    by = "label" if by == "dirichlet" and loss in ("Squared", "Huber") else by
    name = f"{seed}: {loss}, {penalty}, {n} x {d}, {by}, M = {clients}"
    alpha = float(rng.choice([0.1, 0.5, 2.0]))
    return Case(name, partial(_random, seed, loss, penalty, n, d), clients, by, alpha, seed)


LOSSES = ("Logistic", "Squared", "Huber", "SquaredHinge")
PENALTIES = ("Zero", "L1", "L2", "ElasticNet", "Box", "GroupLasso", "NonNegative")


def _random(seed: int, loss: str, penalty: str, n: int, d: int) -> rs.Problem:
    rng = np.random.default_rng([seed, 14])
    X = rng.standard_normal((n, d)) @ _correlation(rng, d)
    if rng.random() < 0.5:  # rows of one length, or of uneven ones
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    elif rng.random() < 0.5:
        X *= np.exp(rng.uniform(0.0, 1.0) * rng.standard_normal((n, 1)))
    score = X @ (rng.standard_normal(d) * (rng.random(d) < 0.5))
    score = score / (score.std() or 1.0) + rng.choice([0.1, 1.0]) * rng.standard_normal(n)
    classify = loss in ("Logistic", "SquaredHinge")
    y = np.where(score > np.median(score), 1.0, -1.0) if classify else score
    y[0], y[1] = (1.0, -1.0) if classify else (y[0], y[1])
    ridge = float(rng.choice([0.0, 1e-4, 1e-2]))
    # without any penalty a separable set has no minimiser
    ridge = max(ridge, 1e-3) if penalty == "Zero" else ridge
    plain = rs.Problem(X, y, loss=getattr(L, loss)())
    most = float(np.abs(plain.gradient(np.zeros(d))).max())
    share = float(10 ** rng.uniform(-3, -0.5))
    made: dict[str, Callable[[], Any]] = {
        "Zero": P.Zero,
        "L1": lambda: P.L1(share * most),
        "L2": lambda: P.L2(share * plain.smoothness.L_f / 10),
        "ElasticNet": lambda: P.ElasticNet(share * most, float(10 ** rng.uniform(-7, -2))),
        "Box": lambda: P.Box(-0.3, 0.3),
        "GroupLasso": lambda: P.GroupLasso(share * most, np.arange(d) // 3),
        "NonNegative": lambda: P.NonNegative(share * most),
    }
    return rs.Problem(X, y, loss=getattr(L, loss)(), penalty=made[penalty](), ridge=ridge)


def _correlation(rng: np.random.Generator, d: int) -> Array:
    """Columns of uneven lengths that depend on one another, more or less."""
    mixed = np.eye(d) + rng.choice([0.0, 0.3]) * rng.standard_normal((d, d)) / np.sqrt(d)
    lengths = np.exp(rng.choice([0.0, 0.5]) * rng.standard_normal(d))
    return np.asarray(mixed * lengths)
