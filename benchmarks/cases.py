"""The problems that solvers are raced on: real data by name, synthetic data for what no small set has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs

Array = NDArray[np.float64]
Kind = Literal["logistic", "squared", "huber", "multinomial"]
LOSSES: dict[Kind, rs.losses.Loss] = {
    "logistic": rs.losses.Logistic(),
    "squared": rs.losses.Squared(),
    "huber": rs.losses.Huber(delta=1.0),
    "multinomial": rs.losses.Multinomial(),
}


@dataclass(frozen=True, eq=False)
class Case:
    """min (1/n) Σ l(a_iᵀx, y_i) + l1‖x‖₁ + (l2/2)‖x‖², no intercept."""

    name: str
    X: Any
    y: Array
    kind: Kind
    l1: float
    l2: float

    def problem(self) -> rs.Problem:
        """A fresh one: nothing that an earlier fit computed is kept."""
        penalty = rs.penalties.ElasticNet(l1=self.l1, l2=self.l2)
        return rs.Problem(self.X, self.y, loss=LOSSES[self.kind], penalty=penalty)

    @cached_property
    def judge(self) -> rs.Problem:
        return self.problem()

    @cached_property
    def at_zero(self) -> float:
        """P(0)."""
        return self.judge.objective(np.zeros(self.judge.shape))

    @property
    def stored(self) -> int:
        return self.judge.rows.stored


def case(name: str, X: Any, y: Array, kind: Kind, l1: float, l2: float | None = None) -> Case:
    """λ1 as a fraction of λ_max, beyond which the solution is zero; λ2 = L_f/n unless given."""
    bare = rs.Problem(X, y, loss=LOSSES[kind])
    largest = float(np.abs(bare.gradient(np.zeros(bare.shape))).max())
    if l2 is None:
        l2 = bare.smoothness.L_f / bare.n
    return Case(name, X, y, kind, l1 * largest, l2)


def _libsvm(name: str, *l1: float) -> Callable[[bool], list[Case]]:
    def make(quick: bool) -> list[Case]:
        X, y = rs.datasets.load_libsvm(name)
        return [case(f"{name}, λ1 = {part:g} λ_max", X, y, "logistic", part) for part in l1]

    return make


def _lasso(quick: bool) -> list[Case]:
    """No λ2: what celer and liblinear solve."""
    X, y = rs.datasets.load_libsvm("mushrooms")
    return [case("mushrooms, ℓ1 alone, 0.01", X, y, "logistic", 0.01, 0.0)]


def _breast_cancer(quick: bool) -> list[Case]:
    X, y = rs.datasets.breast_cancer()
    return [case("breast cancer, 0.01", X, y, "logistic", 0.01)]


def _digits(quick: bool) -> list[Case]:
    from sklearn.datasets import load_digits

    X, labels = load_digits(return_X_y=True)
    return [case("digits, multinomial, 0.01", X / 16.0, labels.astype(float), "multinomial", 0.01)]


def _unit_rows(quick: bool) -> list[Case]:
    """Text-like: the popularity of columns falls like a power, rows have length 1."""
    n, d, stored = (20_000, 2_000, 65) if quick else (200_000, 20_000, 65)
    rng = np.random.default_rng(0)
    columns = np.minimum((d * rng.random((n, stored)) ** 1.5).astype(np.int32), d - 1)
    values = rng.exponential(size=(n, stored))
    X = sp.csr_matrix(
        (values.ravel(), columns.ravel(), np.arange(0, n * stored + 1, stored)), (n, d)
    )
    X.sum_duplicates()
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    truth = np.zeros(d)
    truth[rng.choice(d, d // 50, replace=False)] = 4.0 * rng.standard_normal(d // 50)
    odds = np.asarray(4.0 * (X @ truth))
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    return [case(f"unit rows {n:,} × {d:,}, 0.02", X, y, "logistic", 0.02, 1e-6)]


def _heavy_tail(quick: bool) -> list[Case]:
    """Row lengths are log-normal: L_max is hundreds of times the mean."""
    n = 50_000 if quick else 1_000_000
    X, y = rs.datasets.synthetic(n, 1_000, stored=20, seed=1)
    X.data *= np.repeat(np.random.default_rng(1).lognormal(sigma=1.0, size=n), 20)
    return [case(f"heavy-tailed rows {n:,} × 1,000, 0.01", X, y, "logistic", 0.01)]


def _dense(quick: bool) -> list[Case]:
    n, d = (5_000, 100) if quick else (50_000, 500)
    X, y = rs.datasets.synthetic(n, d, seed=2)
    return [case(f"dense {n:,} × {d}, 0.01", X, y, "logistic", 0.01)]


def _regression(quick: bool) -> list[Case]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    X, y = X * np.sqrt(len(X)), (y - y.mean()) / y.std()
    n, d = (5_000, 100) if quick else (50_000, 500)
    A, _ = rs.datasets.synthetic(n, d, seed=3)
    rng = np.random.default_rng(3)
    truth = np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0) * np.sqrt(d)
    b = A @ truth + rng.standard_t(2, size=n)
    return [
        case("diabetes, squared, 0.01", X, y, "squared", 0.01),
        case("diabetes, Huber, 0.01", X, y, "huber", 0.01),
        case(f"dense {n:,} × {d}, squared, 0.01", A, b, "squared", 0.01),
        case(f"dense {n:,} × {d}, Huber, 0.01", A, b, "huber", 0.01),
    ]


CASES: dict[str, Callable[[bool], list[Case]]] = {
    "a1a": _libsvm("a1a", 0.02),
    "a9a": _libsvm("a9a", 0.1, 0.01, 0.001),
    "mushrooms": _libsvm("mushrooms", 0.01),
    "lasso": _lasso,
    "breast-cancer": _breast_cancer,
    "digits": _digits,
    "unit-rows": _unit_rows,
    "heavy-tail": _heavy_tail,
    "dense": _dense,
    "regression": _regression,
}
