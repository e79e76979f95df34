"""Cox's partial likelihood: derivatives, other people's numbers, and data it was not made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from leukemia import EVENT, LOG_WBC, RX, SEX, TIME, WEIGHTS, X

import reshuffle as rs
from reshuffle.survival import CoxProblem

ALL = np.arange(3, dtype=np.uint32)
# lifelines 0.30.3: CoxPHFitter().fit(load_leukemia(), "t", "status", fit_options={"precision": 1e-13})
EFRON = [0.3146780496052354, 1.6819423996746805, 1.5035912010043664]
EFRON_ERRORS = [0.45451154434482, 0.3365835509713954, 0.4615126720449877]
EFRON_LIKELIHOOD = -69.59048267084034
# the same with strata=["sex"], and with weights 1, 2, 3, 1, … as weights_col
EFRON_STRATA = [1.4536541449623426, 0.9981036608138627]
EFRON_WEIGHTS = [0.16963629065769384, 1.8934228620587976, 1.300714808269793]
# scikit-survival 0.28.0: CoxPHSurvivalAnalysis(ties="breslow", tol=1e-15, n_iter=500); statsmodels 0.15.0, PHReg(…, ties="breslow")
BRESLOW = [0.26317061777442863, 1.593618797737934, 1.3908766638654442]
BRESLOW_ERRORS = [0.4494352793165078, 0.32999580249866656, 0.4566457845605247]
# scikit-survival 0.28.0: CoxnetSurvivalAnalysis(l1_ratio=1.0, alphas=[0.2, 0.1, 0.02], tol=1e-15), glmnet's algorithm
COXNET = {
    0.2: [0.0, 0.9260474815673233, 0.04760348244298762],
    0.1: [0.0, 1.2122938770757483, 0.6250187312679933],
    0.02: [0.03926566680244465, 1.5103342375996494, 1.1583803774740014],
}


def solved(problem: CoxProblem, tol: float = 1e-12) -> Any:
    return rs.ProxNewton(tol=tol).solve(problem)


def simulated(n: int = 60, d: int = 3, seed: int = 1) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    return A, rng.exponential(1.0, n), rng.random(n) < 0.6


def naive(x: Any, A: Any, t: Any, e: Any, w: Any, s: Any, ties: str) -> float:
    """The definition, set by set."""
    z, total = A @ x, 0.0
    for stratum in np.unique(s):
        for moment in np.unique(t[(s == stratum) & e & (w > 0)]):
            D, R = (s == stratum) & e & (t == moment) & (w > 0), (s == stratum) & (t >= moment)
            risk, dead, d = (w * np.exp(z))[R].sum(), (w * np.exp(z))[D].sum(), int(D.sum())
            total -= (w * z)[D].sum()
            parts = [risk - k / d * dead for k in range(d)] if ties == "efron" else [risk] * d
            total += w[D].mean() * np.log(parts).sum()
    return total / len(t)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_derivatives(ties: str, weighted: bool) -> None:
    A, t, e = simulated()
    t, s = np.ceil(4 * t), np.arange(60) % 3
    w = np.random.default_rng(0).integers(0, 4, 60).astype(float) if weighted else np.ones(60)
    problem = CoxProblem(A, t, e, ties=ties, strata=s, sample_weight=w)
    x, h = np.array([0.3, -0.8, 1.1]), 1e-6
    assert problem.value(x) == pytest.approx(
        naive(x, A, t, e, w * 60 / w.sum(), s, ties), rel=1e-13
    )
    steps = h * np.eye(3)
    slopes = [(problem.value(x + v) - problem.value(x - v)) / (2 * h) for v in steps]
    bends = [(problem.gradient(x + v) - problem.gradient(x - v)) / (2 * h) for v in steps]
    np.testing.assert_allclose(problem.gradient(x), slopes, atol=1e-8)
    np.testing.assert_allclose(problem.hessian(x, ALL), bends, atol=1e-8)
    assert problem.value(30.0 * x) >= problem.least
    largest = np.linalg.eigvalsh(problem.hessian(x, ALL))[-1]
    assert largest <= problem.smoothness.L_f


def test_lifelines_and_scikit_survival() -> None:
    efron, breslow = CoxProblem(X, TIME, EVENT), CoxProblem(X, TIME, EVENT, ties="breslow")
    for problem, coef, errors in ((efron, EFRON, EFRON_ERRORS), (breslow, BRESLOW, BRESLOW_ERRORS)):
        result = solved(problem)
        assert result.converged
        np.testing.assert_allclose(result.x, coef, rtol=0, atol=1e-7)  # where lifelines stops
        information = 42 * problem.hessian(result.x, ALL)
        np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(information))), errors, rtol=1e-7)
    assert -42 * efron.value(np.array(EFRON)) == pytest.approx(EFRON_LIKELIHOOD, rel=1e-12)
    strata = CoxProblem(np.column_stack([LOG_WBC, RX]), TIME, EVENT, strata=SEX)
    np.testing.assert_allclose(solved(strata).x, EFRON_STRATA, atol=1e-6)
    weighted = CoxProblem(X, TIME, EVENT, sample_weight=WEIGHTS)
    np.testing.assert_allclose(solved(weighted).x, EFRON_WEIGHTS, atol=1e-6)


@pytest.mark.parametrize("l1", COXNET)
def test_coxnet(l1: float) -> None:
    problem = CoxProblem(X, TIME, EVENT, ties="breslow", penalty=rs.penalties.L1(l1))
    result = solved(problem)
    assert result.converged
    np.testing.assert_allclose(result.x, COXNET[l1], atol=1e-6)  # as far as coordinate descent went


def test_whole_weights_are_copies_with_breslow() -> None:
    copies = np.repeat(np.arange(42), WEIGHTS.astype(int))
    one = CoxProblem(X, TIME, EVENT, ties="breslow", sample_weight=WEIGHTS)
    other = CoxProblem(X[copies], TIME[copies], EVENT[copies], ties="breslow")
    np.testing.assert_allclose(solved(one).x, solved(other).x, atol=1e-10)


def test_rows_of_weight_zero_are_left_out() -> None:
    weights = np.where(np.arange(42) % 4 == 0, 0.0, 1.0)
    kept = weights > 0
    one = CoxProblem(X, TIME, EVENT, sample_weight=weights)
    other = CoxProblem(X[kept], TIME[kept], EVENT[kept])
    np.testing.assert_allclose(solved(one).x, solved(other).x, atol=1e-12)


def test_only_the_order_of_times_counts() -> None:
    known = solved(CoxProblem(X, TIME, EVENT)).x
    np.testing.assert_array_equal(solved(CoxProblem(X, TIME * 1e300, EVENT)).x, known)
    mixed = np.random.default_rng(0).permutation(42)
    shuffled = CoxProblem(X[mixed], TIME[mixed], EVENT[mixed])
    np.testing.assert_allclose(solved(shuffled).x, known, atol=1e-12)


def test_the_scale_and_the_place_of_columns_do_not_matter() -> None:
    known, factors = solved(CoxProblem(X, TIME, EVENT)).x, np.array([1e7, 1.0, 1e-7])
    result = solved(CoxProblem(X * factors + 1e3 * factors, TIME, EVENT))
    assert result.converged
    np.testing.assert_allclose(result.x * factors, known, atol=1e-8)


def test_sparse_rows_are_the_same() -> None:
    A: Any = sp.random(150, 40, 0.1, random_state=0, format="csr")
    t = np.random.default_rng(0).exponential(1.0, 150)
    x = [
        solved(CoxProblem(rows, t, t < 1, penalty=rs.penalties.L1(0.003))).x
        for rows in (A, A.toarray(), A.tocsc())
    ]
    np.testing.assert_allclose(x[0], x[1], atol=1e-12)
    np.testing.assert_array_equal(x[0], x[2])


# --- what it was not made for ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"event": np.zeros(42)}, "all rows are censored"),
        ({"event": EVENT + 1}, "True or 1 for an event"),
        ({"event": EVENT[:5]}, "42 values"),
        ({"event": np.where(EVENT, np.nan, 0.0)}, "event must be finite"),
        ({"time": -TIME}, "not be negative"),
        ({"time": np.where(TIME > 30, np.nan, TIME)}, "time must be finite"),
        ({"time": TIME.astype("datetime64[D]")}, "in the unit you want"),
        ({"time": TIME[:, None]}, "one per row of X"),
        ({"X": np.where(X > 4, np.nan, X)}, "X must be finite"),
        ({"X": X[:, 0]}, "X must be a matrix"),
        ({"X": X.astype(str)}, "must hold numbers"),
        ({"ties": "exact"}, "ties must be one of"),
        ({"strata": [0, 1]}, "strata must be 42 labels"),
        ({"strata": np.where(SEX > 0, np.nan, 0.0)}, "missing"),
        ({"ridge": -1.0}, "ridge must be"),
        ({"sample_weight": -WEIGHTS}, "must not be negative"),
        ({"sample_weight": np.where(EVENT, 0.0, 1.0)}, "of positive weight"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        CoxProblem(**({"X": X, "time": TIME, "event": EVENT} | change))


def test_columns_that_do_not_vary_or_are_there_twice() -> None:
    known = solved(CoxProblem(X, TIME, EVENT))
    constant = solved(CoxProblem(np.column_stack([X, np.full(42, 0.1)]), TIME, EVENT))
    twice = solved(CoxProblem(np.column_stack([X, X[:, 1]]), TIME, EVENT))
    assert constant.converged
    assert twice.converged
    np.testing.assert_allclose(constant.x, [*known.x, 0.0], atol=1e-9)
    np.testing.assert_allclose(twice.x[1] + twice.x[3], known.x[1], atol=1e-9)
    sparse = sp.csr_matrix(np.column_stack([X, np.ones(42)]))
    np.testing.assert_allclose(solved(CoxProblem(sparse, TIME, EVENT)).x[:3], known.x, atol=1e-9)


def test_ties_everywhere_and_strata_that_say_nothing() -> None:
    assert solved(CoxProblem(X, np.ones(42), np.ones(42))).converged
    some = solved(CoxProblem(X, np.ones(42), EVENT))
    assert some.converged
    assert some.x.any()
    single = solved(CoxProblem(X, TIME, EVENT, strata=np.arange(42)))
    assert single.converged
    assert not single.x.any()
    one, quiet = np.arange(42) % 3, np.arange(42) % 3 != 1
    known = solved(CoxProblem(X[quiet], TIME[quiet], EVENT[quiet], strata=one[quiet]))
    without = solved(CoxProblem(X, TIME, EVENT & quiet, strata=one))
    np.testing.assert_allclose(without.x, known.x, atol=1e-10)


def test_one_event() -> None:
    A, t, _ = simulated()
    event = t == np.sort(t)[5]
    result = solved(CoxProblem(A, t, event))
    assert result.converged
    assert np.linalg.norm(CoxProblem(A, t, event).gradient(result.x)) < 1e-8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_monotone_likelihood_is_never_called_converged() -> None:
    A, t, e = simulated()
    separated = rs.ProxNewton().solve(CoxProblem(A, A[:, 0].max() - A[:, 0], np.ones(60)))
    assert not separated.converged
    assert "P has no minimiser" in separated.message
    group = (A[:, :1] > 0).astype(float)
    B = np.column_stack([group, A[:, 1:]])
    with pytest.warns(UserWarning, match="likelihood is monotone"):
        result = rs.ProxNewton().solve(CoxProblem(B, t, e & (group[:, 0] > 0)))
    assert not result.converged
    held = CoxProblem(B, t, e & (group[:, 0] > 0), penalty=rs.penalties.L2(1e-3))
    assert rs.ProxNewton().solve(held).converged


def test_fewer_rows_than_columns() -> None:
    A, t, e = simulated(30, 100)
    for penalty in (
        rs.penalties.L1(0.05),
        rs.penalties.L2(0.05),
        rs.penalties.ElasticNet(0.02, 0.01),
    ):
        problem = CoxProblem(A, t, e, penalty=penalty)
        result = solved(problem, 1e-10)
        assert result.converged
        assert problem.gradient_mapping(result.x) < 1e-4


def test_columns_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(rs.InputError, match="overflow"):
        solved(CoxProblem(X * 1e200, TIME, EVENT))


def test_other_solvers_say_which_one_to_take() -> None:
    problem = CoxProblem(X, TIME, EVENT)
    with pytest.raises(rs.InputError, match="ProxNewton or FISTA"):
        rs.ProxRR().solve(problem)
    with pytest.raises(rs.InputError, match="use ExactProxRR"):
        rs.ProxNewton().solve(rs.Problem(X, np.sign(SEX - 0.5)))


def test_a_run_is_resumed_and_a_problem_pickles() -> None:
    import pickle

    problem = CoxProblem(X, TIME, EVENT, strata=SEX, penalty=rs.penalties.L1(0.01))
    whole = rs.ProxNewton(tol=1e-12).solve(problem)
    with pytest.warns(UserWarning, match="give more epochs"):
        begun = rs.ProxNewton(tol=1e-12, epochs=1).solve(problem)
    again = pickle.loads(pickle.dumps(problem))
    rest = rs.ProxNewton(tol=1e-12).solve(again, resume=begun)
    np.testing.assert_array_equal(rest.x, whole.x)
    with pytest.raises(rs.InputError):
        rs.ProxNewton(tol=1e-12).solve(CoxProblem(X, TIME, EVENT), resume=begun)
