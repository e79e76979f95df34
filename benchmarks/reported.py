"""Problems that a solver of this package once failed on, one for each report; the names say what is hard.

Left out, since accuracies are relative to f(0): targets of size 1e200 and 1e-170, where it overflows and underflows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg as spl

from benchmarks.corpus_data import Size, rows_of, signs
from benchmarks.instances import Instance, PenaltyName, largest_strength


def _made(name: str, loss: Any, rows: Callable[[], Any], **rest: Any) -> Callable[[], Instance]:
    def build() -> Instance:
        X, y = rows()
        kind: PenaltyName = rest.get("penalty", "zero")
        return Instance(name=name, X=X, y=y, loss=loss, **(rest | {"penalty": kind}))

    return build


def _gaussian() -> Any:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 20))
    w = rng.standard_normal(20) * (rng.random(20) < 0.4)
    return X, np.sign(X @ w + rng.standard_normal(300))


def _far_targets() -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    return X, 100 * (X.sum(axis=1) + rng.standard_normal(300))


def _one_long_column(length: float) -> Callable[[], Any]:
    def make() -> Any:
        rng = np.random.default_rng(11)
        u, Z = rng.standard_normal(500), rng.standard_normal((500, 3))
        t = 100 * u + Z @ [2.0, -1.0, 1.0] + 0.1 * rng.standard_normal(500)
        return np.column_stack([length * u, Z]), t

    return make


def _exact_fit() -> Any:
    X, _ = _one_long_column(1e9)()
    return X, X @ np.array([1e-9, 1.0, 1.0, 1.0])


def _small_targets(scale: float) -> Callable[[], Any]:
    def make() -> Any:
        X, t = _far_targets()
        return X, scale * t

    return make


def _one_long_row() -> Any:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 5))
    y = signs(X[:, 0] + rng.standard_normal(300) > 0)
    X[7] *= 1e6
    return X, y


def _years() -> Any:
    rng = np.random.default_rng(4)
    X = np.column_stack([1950 + rng.integers(0, 70, 400), rng.standard_normal((400, 5))])
    return X, signs((X[:, 0] - 1985) / 20 + X[:, 1] + rng.standard_normal(400) > 0)


def _imbalanced() -> Any:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((1000, 8))
    return X, signs(X[:, 0] + rng.standard_normal(1000) > 3.2)


def _huge() -> Any:
    X, y = _gaussian()
    return 1e155 * X, y


def _zeros() -> Any:
    return np.zeros((20, 3)), signs(np.arange(20) % 2)


def _three() -> Any:
    return np.array([[-0.0714], [0.9559], [-0.9274]]), np.array([1.0, -1.0, 1.0])


def _two() -> Any:
    return np.array([[0.0, 0.7224], [0.0122, -0.0011]]), np.array([100.0, -56.0])


def _loose(share: float) -> Callable[[], Instance]:
    """a9a with λ2 = L_f/n, where the certificate lags."""

    def build() -> Instance:
        X, y = rows_of("a9a")
        start = np.ones(min(X.shape))  # ARPACK's own start is random
        top = float(spl.svds(X.astype(float), k=1, v0=start, return_singular_vectors=False)[0])
        bare = Instance(
            name=f"A8: a9a, {share:g}", X=X, y=y, loss="logistic", penalty="elastic_net"
        )
        n = X.shape[0]
        return bare.with_(l1=share * largest_strength(bare), l2=0.25 * top**2 / n**2)

    return build


def _wide() -> Instance:
    X, y = rows_of("sparse wide")
    bare = Instance(name="A6: 100 × 50,000", X=X, y=y, loss="logistic", penalty="l1")
    return bare.with_(l1=0.1 * largest_strength(bare))


def _rows(name: str) -> Callable[[], Any]:
    return lambda: rows_of(name)


def _groups(name: str, labels: list[int], **rest: Any) -> Callable[[], Instance]:
    given = np.array(labels, dtype=np.int64)
    return _made(
        name, "logistic", _gaussian, penalty="group_lasso", strength=0.02, labels=given, **rest
    )


THREES = [k // 4 for k in range(20)]
_BUILDS: dict[str, tuple[Size, str, Callable[[], Any], dict[str, Any]]] = {
    "A1: leaves the minimiser": ("small", "logistic", _gaussian, {}),
    "A2: residuals far beyond δ": ("small", "huber", _far_targets, {"penalty": "l1", "l1": 1e-2}),
    "A2: diabetes, Huber": ("small", "huber", _rows("diabetes std"), {"penalty": "l1", "l1": 0.01, "intercept": True}),
    "A4: one column × 1e5": ("small", "squared", _one_long_column(1e5), {"intercept": True}),
    "A5: one column × 1e9": ("small", "squared", _one_long_column(1e9), {"intercept": True}),
    "A5: one column × 1e9, exact fit": ("small", "squared", _exact_fit, {}),
    "A5: targets × 1e-140": ("small", "squared", _small_targets(1e-142), {}),
    "A6: 3 × 1": ("small", "logistic", _three, {"penalty": "l1", "l1": 5e-4}),
    "A6: 2 × 2": ("small", "squared", _two, {"penalty": "l2", "l2": 1.2e-4}),
    "A6: iris": ("small", "multinomial", _rows("iris"), {"penalty": "elastic_net", "l1": 1e-3, "l2": 1e-3, "intercept": True}),
    "A6: breast cancer": ("small", "logistic", _rows("cancer std"), {"penalty": "l1", "l1": 1e-3}),
    "A6: diabetes": ("small", "squared", _rows("diabetes raw"), {"penalty": "l1", "l1": 1.0}),
    "A6: wine raw": ("small", "multinomial", _rows("wine"), {"penalty": "elastic_net", "l1": 1e-3, "l2": 1e-3}),
    "A6: breast cancer raw": ("small", "logistic", _rows("cancer"), {"penalty": "elastic_net", "l1": 1e-3, "l2": 1e-3}),
    "A6: years": ("small", "logistic", _years, {"penalty": "l2", "l2": 1e-3, "intercept": True}),
    "A6: one row × 1e6": ("small", "logistic", _one_long_row, {"penalty": "l2", "l2": 1e-3}),
    "A6: linnerud": ("small", "squared", _rows("linnerud weight"), {"penalty": "l1", "l1": 0.1, "intercept": True}),
    "A6: wine, squared hinge": ("small", "squared_hinge", _rows("wine 0 std"), {}),
    "A6: imbalanced": ("small", "logistic", _imbalanced, {"penalty": "elastic_net", "l1": 1e-3, "l2": 1e-3, "intercept": True}),
    "A6: near separable, ℓ1": ("small", "logistic", _rows("near separable"), {"penalty": "l1", "l1": 1e-6}),
    "A6: near separable, ℓ2": ("small", "logistic", _rows("near separable"), {"penalty": "l2", "l2": 1e-8}),
    "A7: rows × 1e155": ("small", "logistic", _huge, {}),
    "A7: all zero, ridge": ("small", "logistic", _zeros, {"ridge": 0.1}),
}  # fmt: skip
REPORTED: dict[str, tuple[Size, Callable[[], Instance]]] = {
    name: (size, _made(name, loss, rows, **rest)) for name, (size, loss, rows, rest) in _BUILDS.items()
} | {
    "A3: a label -1": ("small", _groups("A3: a label -1", [-1, *THREES[1:]])),
    "A3: labels shorter than x": ("small", _groups("A3: labels shorter than x", THREES[:16])),
    "A3: a weight 0": (
        "small",
        _groups("A3: a weight 0", THREES, group_weights=np.array([1.0, 0.0, 1.0, 2.0, 1.0])),
    ),
    "A6: 100 × 50,000": ("small", _wide),
    "A8: a9a, 0.1": ("large", _loose(0.1)),
    "A8: a9a, 0.01": ("large", _loose(0.01)),
}  # fmt: skip
