"""Passes over dense rows take several rows at a time: the same sums as numpy's, whatever is left over at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reshuffle as rs


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("features", [1, 3, 63, 64, 65, 67, 130])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 9, 1025])
def test_margins_gradients_and_products(rows: int, features: int, dtype: Any) -> None:
    rng = np.random.default_rng(rows * 1000 + features)
    X: Any = rng.standard_normal((rows, features)).astype(dtype)
    y, x = rng.standard_normal(rows), rng.standard_normal(features + 1)
    weights = rng.random(rows)
    weights[:: 3 if rows > 1 else 2] *= rows == 1  # rows that count for nothing come between others
    problem = rs.Problem(X, y, rs.losses.Squared(), fit_intercept=True, sample_weight=weights)
    fit, A = problem.datafit, np.column_stack([X.astype(np.float64), np.ones(rows)])
    own = fit.weights if fit.weights.size else np.ones(rows)
    margins = A @ x
    assert np.allclose(fit.margins(x), margins, rtol=1e-12, atol=1e-12)
    slopes, gradient = fit.slopes(x)
    assert np.allclose(slopes, margins - y, rtol=1e-12, atol=1e-12)
    assert np.allclose(gradient, A.T @ (own * (margins - y)) / rows, rtol=1e-12, atol=1e-12)
    bends = rng.random(rows)
    product = A.T @ (bends * margins) / rows
    assert np.allclose(fit.bent_product(bends, x), product, rtol=1e-12, atol=1e-12)
    assert np.isclose(fit.value(x), 0.5 * np.sum(own * (margins - y) ** 2), rtol=1e-12)
