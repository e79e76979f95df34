"""Problems of several outputs that a device solves, each a trap of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs

ROWS, COLUMNS, CLASSES = 600, 9, 4


def classes_of(n: int = ROWS, d: int = COLUMNS, K: int = CLASSES, seed: int = 0) -> tuple[Any, Any]:
    """Rows and classes, each of which is there."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def softmax(X: Any, y: Any, **more: Any) -> rs.Problem:
    return rs.Problem(X, y, rs.losses.Multinomial(), **{"fit_intercept": True} | more)


def thin(X: Any) -> Any:
    return sp.csr_matrix(np.where(X > 0.3, X, 0.0))


def ones(X: Any) -> Any:
    return sp.csr_matrix((X > 0.3).astype(float))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "float64": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "sparse": thin,
    "sparse float32": lambda X: thin(X).astype(np.float32),
    "ones": ones,
}


def lonely() -> rs.Problem:
    X, y = classes_of()
    y[y == 3] = 0
    y[7] = 3
    return softmax(X, y, penalty=rs.penalties.L1(1e-3))


def held() -> rs.Problem:
    return softmax(*classes_of(), penalty=rs.penalties.L1(100.0))


def stiff() -> rs.Problem:
    return softmax(*classes_of(), ridge=1e4)


def two() -> rs.Problem:
    X, y = classes_of()
    return softmax(X, (y > 1).astype(int), penalty=rs.penalties.L1(1e-2))


def pixels(layout: Callable[[Any], Any] = np.asarray, **penalty: Any) -> rs.Problem:
    """Columns from 0 to 255 as they are, one of them constant and one zero."""
    rng = np.random.default_rng(1)
    X = np.floor(np.clip(rng.normal(60.0, 90.0, (ROWS, 30)), 0.0, 255.0))
    X[:, 3], X[:, 4] = 0.0, 255.0
    y = (X @ rng.normal(size=(30, 5)) / 60.0 + rng.gumbel(size=(ROWS, 5))).argmax(axis=1)
    y[:5] = np.arange(5)
    return softmax(layout(X), y, **penalty)


def weighted() -> rs.Problem:
    weights = np.where(np.arange(ROWS) % 3, np.linspace(0.5, 2.0, ROWS), 0.0)
    return softmax(*classes_of(), ridge=1e-3, sample_weight=weights)


def many() -> rs.Problem:
    """A hundred classes."""
    return softmax(*classes_of(2000, 6, 100), ridge=1e-3)


def targets(layout: Callable[[Any], Any] = np.asarray, **penalty: Any) -> rs.Problem:
    """A matrix of targets, whose columns have different sizes."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(ROWS, COLUMNS))
    Y = (X @ rng.normal(size=(COLUMNS, 3)) + rng.normal(size=(ROWS, 3))) * [1.0, 10.0, 0.1] + 3.0
    return rs.Problem(layout(X), Y, rs.losses.Squared(), fit_intercept=True, **penalty)


PROBLEMS: dict[str, Callable[[], rs.Problem]] = {
    "a class with one sample": lonely,
    "an intercept beside a strong l1": held,
    "an intercept beside a strong ridge": stiff,
    "two classes": two,
    "pixels, l1": lambda: pixels(penalty=rs.penalties.L1(0.1)),
    "pixels, ridge": lambda: pixels(lambda X: X.astype(np.float32), ridge=1e-3),
    "pixels, elastic net": lambda: pixels(sp.csr_matrix, penalty=rs.penalties.ElasticNet(0.01, 0.001)),
    "weights of zero": weighted,
    "a hundred classes": many,
    "columns of all sizes": lambda: softmax(
        classes_of()[0] * 10.0 ** np.arange(-4, 5), classes_of()[1], penalty=rs.penalties.L1(1e-3)
    ),
    "rows as groups": lambda: softmax(*classes_of(), penalty=rs.penalties.GroupLasso(0.02, weights=np.ones(COLUMNS))),
    "a box": lambda: softmax(*classes_of(), penalty=rs.penalties.Box(-0.1, 0.2)),
    "without an intercept": lambda: softmax(*classes_of(), fit_intercept=False, penalty=rs.penalties.L1(0.01)),
    "targets, l1": lambda: targets(penalty=rs.penalties.L1(0.1)),
    "targets, ridge": lambda: targets(thin, ridge=0.1),
    "targets, groups": lambda: targets(penalty=rs.penalties.GroupLasso(0.5, weights=np.ones(COLUMNS))),
}  # fmt: skip


def separable() -> rs.Problem:
    """Classes that planes part, without a penalty: P has no minimiser."""
    return softmax(np.tile(5.0 * np.eye(3), (30, 1)), np.tile(np.arange(3), 30))
