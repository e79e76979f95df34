"""Standard errors and intervals: statsmodels' numbers, what is refused, and that intervals are about what they say."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from leukemia import EVENT, SEX, TIME, WEIGHTS, X
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import reshuffle as rs
from reshuffle.inference import Inference


class Reference(NamedTuple):
    """statsmodels 0.15.0: bse, pvalues and conf_int() of the features, then of the constant."""

    errors: list[float]
    p_values: list[float]
    lower: list[float]
    upper: list[float]


# OLS(y, C), with cov_type="HC0", WLS(y, C, weights=linspace(0.5, 3, n)): columns 1, 2, 3 and 8 of load_diabetes
# Logit(y, C).fit(method="newton", tol=1e-14), and with cov_type="HC0": columns 0, 1, 4 and 8 of load_breast_cancer
# GLM(y, C, family=Poisson()).fit(tol=1e-14), and with cov_type="HC0": column 12 of load_wine by columns 0, 1, 2 and 9
# MNLogit(y, C).fit(method="newton", tol=1e-14): the classes of load_wine by columns 1, 2 and 7
OLS = Reference(
    [57.3038992827, 64.3645012926, 63.9347044805, 64.4273108209, 2.63899029424],
    [0.0174324474522, 7.03840962344e-19, 6.00743991781e-06, 1.38091730476e-16, 2.32465764989e-206],
    [-249.38345567, 471.781449174, 167.314446786, 427.806683049, 146.946793286],
    [-24.1324479074, 724.786374873, 418.629920872, 681.058501362, 157.32017504],
)
OLS_HC0 = Reference(
    [56.4752143322, 67.9015443765, 65.9293909868, 64.4596894885, 2.62402142537],
    [0.0154541762834, 1.23978895547e-18, 8.84139723279e-06, 7.88664966352e-18, 0.0],
    [-247.447337899, 465.199330551, 163.752951972, 428.093922353, 146.990496675],
    [-26.0685656782, 731.368493496, 422.191415686, 680.771262057, 157.276471651],
)
WLS = Reference(
    [56.9878210656, 62.5666706915, 62.6221106088, 62.4948571166, 2.62807495157],
    [0.0543011596192, 2.57144891523e-20, 3.12656735999e-07, 6.89553613043e-16, 4.81999869314e-207],
    [-221.969022853, 484.616408935, 202.322323696, 401.375301571, 146.956983128],
    [2.03954001745, 730.554395738, 448.478234539, 647.031002521, 157.287458693],
)
LOGIT = Reference(
    [0.155289241847, 0.0582041343267, 20.8297488726, 10.1272812659, 4.73220888128],
    [2.82171659102e-19, 4.25540541733e-11, 2.08919117234e-08, 0.00674929581995, 8.05969775867e-21],
    [-1.69815361331, -0.497928494154, -157.564812046, -47.2835819856, 35.0131502528],
    [-1.0894309709, -0.26977248009, -75.9136968508, -7.5853689005, 53.563068202],
)
LOGIT_HC0 = Reference(
    [0.137338668198, 0.0553239842205, 20.136800473, 12.208795121, 4.60403400726],
    [3.36224018695e-24, 3.97044966679e-12, 6.73874632281e-09, 0.0246331558405, 6.62072559178e-22],
    [-1.66297113546, -0.492283503675, -156.206658139, -51.3632741749, 35.2643683896],
    [-1.12461344875, -0.275417470568, -77.2718507572, -3.50567671124, 53.3118500652],
)
POISSON = Reference(
    [0.00403216699359, 0.00274175518556, 0.010910489068, 0.00145074148522, 0.0535357051119],
    [0.0, 0.0, 1.83925559468e-80, 0.0766594870749, 0.0],
    [0.320209151263, -0.110012179089, 0.185871866424, -0.000274999249604, 1.94256136899],
    [0.336014955438, -0.0992646962529, 0.228640197678, 0.0054118028742, 2.1524174768],
)
POISSON_HC0 = Reference(
    [0.0293032717256, 0.0209065802092, 0.0824617425054, 0.0140083360536, 0.400070408435],
    [4.21236550491e-29, 5.58481098754e-07, 0.0119587286236, 0.854524894952, 3.09082922996e-07],
    [0.270678696139, -0.145614581921, 0.0456339866382, -0.024887432336, 1.26336583108],
    [0.385545410562, -0.063662293421, 0.368878077464, 0.0300242359606, 2.83161301471],
)
MNLOGIT_ERRORS = [
    0.253352571017,
    0.265120551006,
    0.857381464596,
    1.00586823271,
    2.21413452692,
    2.5291037421,
    1.95078070475,
    2.51676818383,
]


def assert_same(found: Inference, known: Reference) -> None:
    np.testing.assert_allclose(found.std_error, known.errors, rtol=1e-8)
    np.testing.assert_allclose(found.p_value, known.p_values, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.lower, known.lower, rtol=1e-7)
    np.testing.assert_allclose(found.upper, known.upper, rtol=1e-7)
    np.testing.assert_array_equal(found.conf_int(), np.column_stack([found.lower, found.upper]))


def test_least_squares() -> None:
    A, y = load_diabetes(return_X_y=True)
    A = A[:, [1, 2, 3, 8]]
    model = rs.RRRegressor(penalty="none").fit(A, y)
    assert_same(model.inference(), OLS)
    assert_same(model.inference(covariance="robust"), OLS_HC0)
    weighted = rs.RRRegressor(penalty="none").fit(A, y, sample_weight=np.linspace(0.5, 3, len(y)))
    assert_same(weighted.inference(), WLS)


def test_two_classes() -> None:
    A, y = load_breast_cancer(return_X_y=True)
    model = rs.RRClassifier(penalty="none").fit(A[:, [0, 1, 4, 8]], y)
    assert_same(model.inference(), LOGIT)
    assert_same(model.inference(covariance="robust"), LOGIT_HC0)


def test_counts() -> None:
    W, _ = load_wine(return_X_y=True)
    model = rs.RRRegressor(loss="poisson", penalty="none").fit(W[:, [0, 1, 2, 9]], W[:, 12])
    assert_same(model.inference(), POISSON)
    assert_same(model.inference(covariance="robust"), POISSON_HC0)


def test_several_classes() -> None:
    W, y = load_wine(return_X_y=True)
    found = rs.RRClassifier(penalty="none").fit(W[:, [1, 2, 7]], y).inference()
    np.testing.assert_allclose(found.std_error, MNLOGIT_ERRORS, rtol=1e-7)
    assert found.names[0] == "1 vs 0: x0"
    assert found.names[-1] == "2 vs 0: (intercept)"
    robust = rs.RRClassifier(penalty="none").fit(W[:, [1, 2, 7]], y).inference(covariance="robust")
    assert np.all(robust.std_error / found.std_error < 3.0)


def test_whole_weights_are_copies_of_rows() -> None:
    A, y = load_breast_cancer(return_X_y=True)
    A, weights = A[:, [0, 1, 4]], np.arange(len(y)) % 3 + 1
    copies = np.repeat(np.arange(len(y)), weights)
    one = rs.RRClassifier(penalty="none").fit(A, y, sample_weight=weights)
    other = rs.RRClassifier(penalty="none").fit(A[copies], y[copies])
    np.testing.assert_allclose(one.inference().std_error, other.inference().std_error, rtol=1e-8)


def test_units_and_places_of_columns_do_not_matter() -> None:
    A, y = load_breast_cancer(return_X_y=True)
    A, factors = A[:, [0, 1, 4]], np.array([1e6, 1.0, 1e-6])
    known = rs.RRClassifier(penalty="none").fit(A, y).inference(covariance="robust")
    moved = A * factors + 100.0 * factors
    other = rs.RRClassifier(penalty="none").fit(moved, y).inference(covariance="robust")
    np.testing.assert_allclose(other.std_error[:3] * factors, known.std_error[:3], rtol=1e-5)


def test_a_table() -> None:
    pd = pytest.importorskip("pandas")
    A, y = load_diabetes(return_X_y=True, as_frame=True)
    found = rs.RRRegressor(penalty="none").fit(A[["bmi", "bp"]], y).inference(level=0.9)
    assert found.names == ["bmi", "bp", "(intercept)"]
    assert "90 % interval" in str(found)
    assert "<table>" in found._repr_html_()
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.loc["bmi", "std_error"] == found.to_dict()["bmi"]["std_error"]
    both = found.transformed(np.array([[1.0, 1.0, 0.0]]), ["bmi + bp"])
    variance = found.covariance[0, 0] + found.covariance[1, 1] + 2 * found.covariance[0, 1]
    assert both.std_error[0] == pytest.approx(np.sqrt(variance))
    assert found.conf_int(0.99)[0, 0] < found.lower[0]


def test_a_ridge_is_about_the_shrunk_coefficients() -> None:
    """The bootstrap of the same fit has the same standard errors, within its own."""
    rng = np.random.default_rng(0)
    A, y = load_diabetes(return_X_y=True)
    A = 10.0 * A[:, [1, 2, 3, 8]]
    model = rs.RRRegressor(penalty="l2", l2=0.2).fit(A, y)
    found = model.inference()
    assert "shrink" in found.about
    again = [
        np.append(fit.coef_, fit.intercept_)
        for rows in rng.integers(0, len(y), (300, len(y)))
        for fit in [rs.RRRegressor(penalty="l2", l2=0.2, tol=1e-8).fit(A[rows], y[rows])]
    ]
    np.testing.assert_allclose(np.std(again, axis=0), found.std_error, rtol=0.12)
    with pytest.raises(rs.InputError, match="a ridge shrinks"):
        model.inference(covariance="model")


def test_after_l1_by_splitting_and_by_debiasing() -> None:
    A, y = load_diabetes(return_X_y=True)
    model = rs.RRRegressor(penalty="l1", l1=0.5).fit(A, y)
    with pytest.raises(rs.InputError, match="not valid as they stand"):
        model.inference()
    split = model.inference(method="split")
    assert "data splitting" in split.method
    assert 2 <= len(split) <= 11
    np.testing.assert_array_equal(split.estimate, model.inference(method="split").estimate)
    debiased = model.inference(method="debiased")
    full = rs.RRRegressor(penalty="none").fit(A, y).inference(covariance="robust")
    apart = (debiased.estimate - full.estimate[:10]) / full.std_error[:10]
    assert np.abs(apart).max() < 2.0
    for penalty in (rs.penalties.GroupLasso(0.5, [0] * 5 + [1] * 5), rs.penalties.Box(-1.0, 1.0)):
        other = rs.RRRegressor(penalty=penalty).fit(A, y)
        with pytest.raises(rs.InputError, match="not valid as they stand"):
            other.inference()
        with pytest.raises(rs.InputError, match="ℓ1 penalty alone"):
            other.inference(method="debiased")
    with pytest.raises(rs.InputError, match="leave method out"):
        rs.RRRegressor(penalty="none").fit(A, y).inference(method="split")


def test_debiasing_without_a_penalty_on_the_inverse_is_one_newton_step() -> None:
    """With two columns that are orthogonal Θ is the inverse, and the step from the lasso ends at least squares."""
    rng = np.random.default_rng(0)
    A, _ = np.linalg.qr(rng.standard_normal((200, 2)) - 0.0)
    A -= A.mean(axis=0)
    y = A @ [3.0, 0.1] + 0.01 * rng.standard_normal(200)
    found = rs.RRRegressor(penalty="l1", l1=1e-3).fit(A, y).inference(method="debiased")
    full = rs.RRRegressor(penalty="none").fit(A, y)
    assert np.abs(found.estimate - full.coef_).max() < 0.1 * np.abs(full.coef_).max()


@pytest.mark.parametrize("loss", ["huber", "squared_hinge", "quantile"])
def test_losses_that_stand_for_no_distribution(loss: str) -> None:
    A, y = load_breast_cancer(return_X_y=True)
    A = A[:, [0, 1, 4]]
    kind = rs.RRClassifier if loss == "squared_hinge" else rs.RRRegressor
    model = kind(loss=loss, penalty="none").fit(A, y)
    assert "sandwich" in model.inference().method
    with pytest.raises(rs.InputError, match="stands for a distribution"):
        model.inference(covariance="model")


def test_what_is_refused() -> None:
    A, y = load_breast_cancer(return_X_y=True)
    A = A[:, [0, 1, 4]]
    model = rs.RRClassifier(penalty="none").fit(A, y)
    for settings in ({"covariance": "HC7"}, {"method": "bootstrap"}, {"level": 95.0}):
        with pytest.raises(rs.InputError):
            model.inference(**settings)
    with pytest.raises(rs.InputError, match="fit the model again"):
        pickle.loads(pickle.dumps(model)).inference()
    with pytest.raises(rs.InputError, match="chose lambda_ by looking"):
        rs.RRClassifierCV(lambdas=3).fit(A, y).inference()
    constant = rs.RRClassifier(penalty="none").fit(np.column_stack([A, np.ones(len(y))]), y)
    with pytest.raises(rs.InputError, match="not determined by the data"):
        constant.inference()
    twice = rs.RRClassifier(penalty="none").fit(np.column_stack([A, A[:, 0]]), y)
    with pytest.raises(rs.InputError, match="depend linearly"):
        twice.inference()
    stopped = rs.RRClassifier(penalty="none", early_stopping=True).fit(A, y)
    with pytest.raises(rs.InputError, match="early_stopping"):
        stopped.inference()
    streamed = model.partial_fit(A, y)
    with pytest.raises(rs.InputError, match="fit the model again"):
        streamed.inference()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_separated_classes_have_no_standard_errors() -> None:
    A = np.linspace(-1, 1, 20)[:, None]
    model = rs.RRClassifier(penalty="none").fit(A, A[:, 0] > 0)
    with pytest.raises(rs.InputError, match="there are no standard errors"):
        model.inference()


# --- Cox -------------------------------------------------------------------------------------------

Y = rs.survival.outcome(TIME, EVENT)
# lifelines 0.30.3: CoxPHFitter().fit(frame, "t", "e", robust=True[, weights_col]) with t + 0.001·row, so that no times are equal:
# its score residuals are for times that differ
LIN_WEI = [0.38884424267694245, 0.35355636895831477, 0.3847478497736273]
LIN_WEI_WEIGHTED = [0.3551922413274977, 0.40308725145378416, 0.37769967857745035]
# with the times as they are: CoxPHFitter().fit(load_leukemia(), "t", "status").standard_errors_
EFRON = [0.45451154434482, 0.3365835509713954, 0.4615126720449877]


def test_cox() -> None:
    np.testing.assert_allclose(rs.RRCox().fit(X, Y).inference().std_error, EFRON, rtol=1e-7)
    apart = rs.survival.outcome(TIME + 0.001 * np.arange(42), EVENT)
    for weights, known in ((None, LIN_WEI), (WEIGHTS, LIN_WEI_WEIGHTED)):
        found = rs.RRCox().fit(X, apart, sample_weight=weights).inference(covariance="robust")
        np.testing.assert_allclose(found.std_error, known, rtol=1e-6)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_scores_are_the_derivatives_in_the_weights(ties: str) -> None:
    """-w_j ∂(n∇f)/∂w_j is the score of row j, ties or not: what a sandwich is made of."""
    x, h = np.array([0.1, 0.5, -0.3]), 1e-5

    def total(weights: Any) -> Any:
        problem = rs.CoxProblem(X, TIME, EVENT, ties=ties, strata=SEX, sample_weight=weights)
        return problem.n * problem.weight * problem.gradient(x)

    problem = rs.CoxProblem(X, TIME, EVENT, ties=ties, strata=SEX, sample_weight=WEIGHTS)
    scores = np.empty((42, 3))
    scores[problem.order] = problem.scores(x) * problem.weight
    np.testing.assert_allclose(scores.sum(axis=0), -total(WEIGHTS), atol=1e-10)
    for j in range(0, 42, 5):
        step = h * (np.arange(42) == j)
        slope = (total(WEIGHTS + step) - total(WEIGHTS - step)) / (2 * h)
        np.testing.assert_allclose(-WEIGHTS[j] * slope, scores[j], atol=1e-6)


def test_cox_with_penalties() -> None:
    ridge = rs.RRCox(penalty="l2", l2=0.1).fit(X, Y)
    assert "shrink" in ridge.inference().about
    with pytest.raises(rs.InputError, match="a ridge shrinks"):
        ridge.inference(covariance="model")
    with pytest.raises(rs.InputError, match="not valid"):
        rs.RRCox(penalty="l1", l1=0.1).fit(X, Y).inference()
    with pytest.raises(rs.InputError, match="chose lambda_ by looking"):
        rs.RRCoxCV(lambdas=3).fit(X, Y).inference()
    twice = rs.RRCox().fit(np.column_stack([X, X[:, 0]]), Y)
    with pytest.raises(rs.InputError, match="depend linearly"):
        twice.inference()


def test_rows_of_weight_zero_say_nothing_about_the_dispersion() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 2))
    counts = np.where(np.arange(60) < 25, rng.integers(1, 4, 60), 0).astype(float)
    for loss in ("squared", "gamma", "tweedie(1.5)"):
        y = np.exp(0.3 * A[:, 0]) * rng.gamma(3.0, 1 / 3, 60)
        model = rs.RRRegressor(loss=loss, penalty="none")
        all_rows = model.fit(A, y, sample_weight=counts).inference()
        some = model.fit(A[:25], y[:25], sample_weight=counts[:25]).inference()
        assert all_rows.df == some.df == 22
        np.testing.assert_allclose(all_rows.std_error, some.std_error, rtol=1e-7)
    with pytest.raises(rs.errors.InputError, match="from 3 rows with 3 coefficients"):
        rs.RRRegressor(penalty="none").fit(A, y, sample_weight=np.arange(60) < 3).inference()


@pytest.mark.parametrize(("loss", "power"), [("inverse_gaussian", 3.0), ("tweedie(2.5)", 2.5)])
def test_robust_errors_have_the_curvature_of_a_loss_that_is_not_convex(
    loss: str, power: float
) -> None:
    """Where the loss bends down its curvature is negative, whatever Newton steps take in its place."""
    rng = np.random.default_rng(1)
    A = np.column_stack([rng.standard_normal((200, 2)), np.ones(200)])
    y = rng.wald(np.exp(0.3 * A[:, 0]), 3.0)
    model = rs.RRRegressor(loss=loss, penalty="none").fit(A[:, :2], y)
    mean = np.exp(A @ np.append(model.coef_, model.intercept_))
    slopes = mean ** (2 - power) - y * mean ** (1 - power)
    bends = (2 - power) * mean ** (2 - power) + (power - 1) * y * mean ** (1 - power)
    assert bends.min() < 0
    bread = np.linalg.inv(A.T @ (A * bends[:, None]))
    wanted = np.sqrt(np.diag(bread @ (A.T @ (A * (slopes**2)[:, None])) @ bread))
    np.testing.assert_allclose(model.inference(covariance="robust").std_error, wanted, rtol=1e-8)
    lasso = rs.RRRegressor(loss=loss, penalty="l1", l1=0.01).fit(A[:, :2], y)
    with pytest.raises(rs.errors.InputError, match="not convex"):
        lasso.inference(method="debiased")


def test_class_weights_leave_robust_errors_alone() -> None:
    """They change the shares of the classes, so that no intercept of a true model is estimated."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((200, 2))
    y = A[:, 0] + rng.logistic(size=200) > 1.0
    model = rs.RRClassifier(penalty="none", class_weight="balanced").fit(A, y)
    assert model.inference().method.startswith("robust")
    with pytest.raises(rs.errors.InputError, match="class_weight"):
        model.inference(covariance="model")


def test_combinations_are_checked() -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((50, 2))
    table = rs.RRRegressor(penalty="none").fit(A, rng.standard_normal(50)).inference()
    difference = table.transformed([[1, -1, 0]], ["x0 - x1"])
    assert difference.estimate[0] == pytest.approx(table.estimate[0] - table.estimate[1])
    for wrong, names in (([[1, -1]], ["a"]), (np.eye(3), ["a"]), ([["p", "q", "r"]], ["a"])):
        with pytest.raises(rs.errors.InputError, match="matrix must have a row of 3 numbers"):
            table.transformed(wrong, names)


def test_more_coefficients_than_the_sample_can_carry_are_refused() -> None:
    """On noise, 31 coefficients from 20 rows had p-values of 1e-40 by the sandwich."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((20, 30)), rng.standard_normal(20)
    with pytest.raises(rs.errors.InputError, match="20 rows for 17"):
        rs.RRRegressor(penalty="l2", l2=0.1).fit(A, y).inference()
    held = rs.RRRegressor(penalty="l2", l2=10.0).fit(A, y).inference()  # the data determine two
    assert np.mean((held.lower[:30] <= 0.0) & (held.upper[:30] >= 0.0)) > 0.8
    few = A[:, :12]
    with pytest.raises(rs.errors.InputError, match="many more rows"):
        rs.RRClassifier(penalty="l2", l2=1e-3).fit(few, y > 0).inference()
    assert rs.RRRegressor(penalty="none").fit(few, y).inference().df == 7  # exact for normal errors


def test_one_event_has_no_intervals() -> None:
    rng = np.random.default_rng(0)
    A, times, events = rng.standard_normal((50, 2)), rng.exponential(1.0, 50), np.zeros(50, bool)
    events[7] = True
    model = rs.RRCox(penalty="l2", l2=1e-4).fit(A, rs.survival.outcome(times, events))
    with pytest.raises(rs.errors.InputError, match=r"1 events for 1\.9"):
        model.inference()
