"""Estimators on tensors of PyTorch and arrays of array-api-strict, under scikit-learn's own switch.

SCIPY_ARRAY_API=1 pytest -n 0 tests/pytorch/test_array_api.py
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import sklearn

import reshuffle as rs

pytestmark = pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="scikit-learn dispatches with SCIPY_ARRAY_API=1",
)


def data(number: str = "float64") -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=200) > 0.0, 1, 0)
    return X.astype(number), y


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("number", ["float64", "float32"])
def test_answers_are_of_the_library_of_X(library: str, number: str) -> None:
    xp = pytest.importorskip(library)
    X, y = data(number)
    rows, labels = xp.asarray(X), xp.asarray(y)
    wanted = rs.RRClassifier(penalty="l1", l1=0.01).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        model = rs.RRClassifier(penalty="l1", l1=0.01).fit(rows, labels)
        for name in ("predict", "decision_function", "predict_proba"):
            answer = getattr(model, name)(rows)
            assert type(answer) is type(rows)
            assert answer.device == rows.device
            np.testing.assert_array_equal(np.asarray(answer), getattr(wanted, name)(X))
        assert model.score(rows, labels) == wanted.score(X, y)
        line = rs.RRRegressor(l2=0.1).fit(rows, rows[:, 0])
        assert type(line.predict(rows)) is type(rows)
        assert line.score(rows, rows[:, 0]) > 0.5
        chosen = rs.RRClassifierCV(lambdas=5, cv=3).fit(rows, labels)
        assert type(chosen.predict(rows)) is type(rows)
    assert isinstance(model.predict(rows), np.ndarray)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)


def test_tensors_that_need_gradients_and_views() -> None:
    torch = pytest.importorskip("torch")
    X, y = data()
    rows = torch.from_numpy(np.hstack([X, X]))[:, ::2].requires_grad_()
    with sklearn.config_context(array_api_dispatch=True):
        model = rs.RRClassifier(l2=0.1).fit(rows, torch.from_numpy(y))
        assert model.predict(rows).dtype == torch.int64
    wanted = rs.RRClassifier(l2=0.1).fit(np.hstack([X, X])[:, ::2], y)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-9)
