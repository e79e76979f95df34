"""Data that needs no file: a data set that comes with scikit-learn, and synthetic problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError
from reshuffle.validation import check_positive


def breast_cancer() -> tuple[Array, Array]:
    """569 × 30, labels -1 (malignant) and +1: scikit-learn's copy, columns standardised."""
    from sklearn.datasets import load_breast_cancer

    X, labels = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), 2.0 * labels - 1.0


def synthetic(
    n: int,
    features: int,
    *,
    stored: int | None = None,
    seed: int = 0,
    dtype: Any = np.float64,
) -> tuple[Any, Array]:
    """A random binary problem: n rows, dense, or CSR with ``stored`` values in each row.

    Values are standard normal over √(values in a row), labels follow a logistic model.
    """
    check_positive("n", n, integer=True)
    check_positive("features", features, integer=True)
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(features)
    if stored is None:
        X: object = rng.standard_normal((n, features), dtype=dtype)
        X /= dtype(np.sqrt(features))
    else:
        check_positive("stored", stored, integer=True)
        if stored > features:
            raise InputError(f"stored must be at most features = {features}, got {stored}")
        # One draw from each of `stored` ranges of columns: the indices are sorted, and no column occurs twice.
        edges = np.linspace(0, features, stored + 1).astype(np.int32)
        indices = rng.integers(edges[:-1], edges[1:], size=(n, stored), dtype=np.int32)
        data = rng.standard_normal(n * stored, dtype=dtype)
        data /= dtype(np.sqrt(stored))
        wide = np.int64 if n * stored >= 2**31 else np.int32
        indptr: AnyArray = (np.arange(n + 1) * stored).astype(wide)
        X = sp.csr_matrix((data, indices.reshape(-1), indptr), shape=(n, features))
    odds = np.asarray(X @ truth.astype(dtype), dtype=np.float64)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * odds)), 1.0, -1.0)
    return X, y
