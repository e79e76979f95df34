"""Harrell's C against its definition, and the survival function against scikit-survival's."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from leukemia import EVENT, TIME, X

import reshuffle as rs
from reshuffle.survival import Baseline, CoxProblem, concordance

# scikit-survival 0.28.0: CoxPHSurvivalAnalysis(ties="breslow").fit(X, y).predict_survival_function(X[:2]) at times 1, 5 and 10
SURVIVAL = [
    [0.9995377305720181, 0.9948154962058104, 0.9778821321444583],
    [0.9995227632075747, 0.9946480423143325, 0.9771740657175341],
]


def by_pairs(t: np.ndarray, e: np.ndarray, r: np.ndarray, s: np.ndarray) -> float:
    better = pairs = 0.0
    for i, j in permutations(range(len(t)), 2):
        later = t[j] > t[i] or (t[j] == t[i] and not e[j])
        if e[i] and later and s[i] == s[j]:
            pairs += 1
            better += 1.0 if r[i] > r[j] else 0.5 if r[i] == r[j] else 0.0
    return better / pairs


@pytest.mark.parametrize("n", [2, 3, 7, 16, 33, 64])
def test_definition(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(5):
        t, r = rng.integers(0, n // 2 + 1, n).astype(float), rng.integers(0, 5, n).astype(float)
        e, s = rng.random(n) < 0.7, rng.integers(0, 2, n)
        e[np.argmin(t)] = True
        for strata in (np.zeros(n), s):
            try:
                found = concordance(t, e, r, strata)
            except rs.InputError:
                continue
            assert found == pytest.approx(by_pairs(t, e, r, strata))


def test_lifelines_number() -> None:
    # lifelines 0.30.3: CoxPHFitter().fit(load_leukemia(), "t", "status").concordance_index_
    x = rs.ProxNewton().solve(CoxProblem(X, TIME, EVENT)).x
    assert concordance(TIME, EVENT, X @ x) == pytest.approx(0.8513323983169705)


def test_no_pair() -> None:
    with pytest.raises(rs.InputError, match="no two rows can be compared"):
        concordance([1.0, 1.0], [1, 1], [0.0, 1.0])
    with pytest.raises(rs.InputError, match="risk must be finite"):
        concordance([1.0, 2.0], [1, 1], [0.0, np.nan])


def test_survival_function() -> None:
    problem = CoxProblem(X, TIME, EVENT, ties="breslow")
    x = rs.ProxNewton(tol=1e-13).solve(problem).x
    baseline = Baseline.of(problem, x)
    np.testing.assert_allclose(baseline.survival(X[:2] @ x, [1, 5, 10]), SURVIVAL, rtol=1e-8)
    ends = baseline.survival(X[:2] @ x, [0.5, 1e300])
    np.testing.assert_array_equal(ends[:, 0], 1.0)
    assert np.all((ends[:, 1] >= 0) & (ends[:, 1] < 0.9))
    far = Baseline.of(problem, 100.0 * x).survival(100.0 * X @ x, TIME)
    assert np.all((far >= 0) & (far <= 1))
