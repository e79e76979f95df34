"""One feature for all outputs or for none: scikit-learn's MultiTaskLasso, and a multinomial model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_linnerud
from sklearn.linear_model import MultiTaskLasso

import reshuffle as rs
from reshuffle.penalties import L1, GroupLasso, MultitaskLasso

A, Y = load_linnerud(return_X_y=True)


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0, 60.0])
def test_scikit_learn(strength: float) -> None:
    theirs = MultiTaskLasso(alpha=strength, tol=1e-14, max_iter=10**6).fit(A, Y)
    ours = rs.RRRegressor(penalty=MultitaskLasso(strength)).fit(A, Y)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)
    assert np.array_equal(ours.coef_.any(axis=0), ours.coef_.all(axis=0))


def test_the_same_by_other_names() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3))
    rows = GroupLasso(0.7 / np.sqrt(3))  # its weights are the roots of the sizes
    np.testing.assert_allclose(MultitaskLasso(0.7).prox(x, 0.5), rows.prox(x, 0.5))
    assert MultitaskLasso(0.7).value(x) == pytest.approx(rows.value(x))
    np.testing.assert_allclose(MultitaskLasso(0.7).prox(x[:, 0], 0.5), L1(0.7).prox(x[:, 0], 0.5))


def test_classes_and_groups_of_features() -> None:
    B, y = load_iris(return_X_y=True)
    model = rs.RRClassifier(penalty=MultitaskLasso(0.1)).fit(B, y)
    assert model.converged_
    used = model.coef_.any(axis=0)
    assert 0 < used.sum() < 4
    pairs = rs.RRClassifier(penalty=GroupLasso(0.05, groups=[0, 0, 1, 1])).fit(B, y)
    assert pairs.coef_.any(axis=0).tolist() == [False, False, True, True]
