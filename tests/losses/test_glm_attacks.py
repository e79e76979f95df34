"""Attacks on losses with a log link and on links of classes: edges of targets, powers, weights, exposures, precision."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_ndtr
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs

L, P = rs.losses, rs.penalties
RNG = np.random.default_rng(7)
X = RNG.standard_normal((150, 4))
MEAN = np.exp(0.3 * X[:, 0] + 1.0)
POSITIVE = MEAN * RNG.gamma(3.0, 1 / 3.0, 150)
SEMI = np.where(RNG.random(150) < 0.3, 0.0, POSITIVE)
COUNTS = RNG.poisson(MEAN).astype(float)
SIGNS = np.where(X[:, 0] + RNG.standard_normal(150) > 0, 1.0, -1.0)
OF_MEANS: list[tuple[Any, Any]] = [
    (L.Poisson(), COUNTS), (L.Gamma(), POSITIVE), (L.Tweedie(1.5), SEMI), (L.Tweedie(1.999), SEMI),
    (L.Tweedie(1.001), SEMI), (L.NegativeBinomial(0.5), COUNTS), (L.InverseGaussian(), POSITIVE),
    (L.Tweedie(2.001), POSITIVE),
]  # fmt: skip
OF_CLASSES = [L.Probit(), L.ComplementaryLogLog()]


def solved(problem: rs.Problem, tol: float = 1e-12) -> Any:
    return rs.ExactProxRR(tol=tol if problem.loss.convex else 1e-6).solve(problem)


@pytest.mark.parametrize(
    ("loss", "y"), OF_MEANS, ids=lambda v: repr(v) if isinstance(v, L.Loss) else ""
)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_target_moves_the_intercept_alone(loss: Any, y: Any, unit: float) -> None:
    if isinstance(loss, L.NegativeBinomial):
        return  # its variance has a unit of its own
    own = rs.RRRegressor(loss=loss, penalty="none").fit(X, y)
    other = rs.RRRegressor(loss=loss, penalty="none").fit(X, unit * y)
    np.testing.assert_allclose(other.coef_, own.coef_, atol=2e-6)
    assert other.intercept_ == pytest.approx(own.intercept_ + np.log(unit), abs=1e-5)


@pytest.mark.parametrize(
    "loss", [L.Gamma(), L.InverseGaussian(), L.Tweedie(2.0), L.Tweedie(3.0)], ids=repr
)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [(0.0, "positive"), (-1.0, "positive"), (np.nan, "NaN|finite"), (1e-200, "smaller unit")],
)
def test_targets_that_the_distribution_does_not_have(loss: Any, wrong: float, said: str) -> None:
    y = POSITIVE.copy()
    y[3] = wrong
    with pytest.raises(rs.InputError, match=said):
        rs.Problem(X, y, loss)


@pytest.mark.parametrize("power", [1.0, 0.0, 0.5, -1.0, np.nan, np.inf, "1.5", True, None])
def test_powers_without_a_distribution(power: Any) -> None:
    with pytest.raises(rs.InputError, match="power must be"):
        L.Tweedie(power)


@pytest.mark.parametrize("dispersion", [0.0, -1.0, np.nan, np.inf, 1e-12, "a", True])
def test_dispersions_without_a_distribution(dispersion: Any) -> None:
    with pytest.raises(rs.InputError, match="dispersion must be"):
        L.NegativeBinomial(dispersion)


def test_tweedie_meets_its_neighbours() -> None:
    def fitted(loss: Any) -> Any:
        return solved(rs.Problem(X, POSITIVE, loss, fit_intercept=True)).x

    np.testing.assert_allclose(fitted(L.Tweedie(2.0)), fitted(L.Gamma()), atol=1e-9)
    np.testing.assert_allclose(fitted(L.Tweedie(3.0)), fitted(L.InverseGaussian()), atol=1e-6)
    np.testing.assert_allclose(fitted(L.Tweedie(1.0001)), fitted(L.Poisson()), atol=1e-3)
    counts = rs.Problem(X, COUNTS, L.NegativeBinomial(1e-8), fit_intercept=True)
    plain = rs.Problem(X, COUNTS, L.Poisson(), fit_intercept=True)
    np.testing.assert_allclose(solved(counts).x, solved(plain).x, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "y"), OF_MEANS, ids=lambda v: repr(v) if isinstance(v, L.Loss) else ""
)
def test_rows_without_weight_count_for_nothing(loss: Any, y: Any) -> None:
    kept = np.arange(150) % 3 > 0
    rows = X.copy()
    rows[~kept] *= 1e3  # at any model these would overflow
    whole = solved(
        rs.Problem(rows, y, loss, P.L2(0.01), sample_weight=kept * 1.0, fit_intercept=True)
    )
    part = solved(rs.Problem(X[kept], y[kept], loss, P.L2(0.01), fit_intercept=True))
    np.testing.assert_allclose(whole.x, part.x, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "y"), OF_MEANS, ids=lambda v: repr(v) if isinstance(v, L.Loss) else ""
)
def test_float32_and_sparse_rows(loss: Any, y: Any) -> None:
    offset = RNG.normal(0.0, 0.2, 150)

    def fitted(rows: Any) -> Any:
        return solved(rs.Problem(rows, y, loss, P.L1(0.01), fit_intercept=True, offset=offset)).x

    single = X.astype(np.float32)
    exact = fitted(single.astype(np.float64))
    np.testing.assert_allclose(fitted(single), exact, atol=1e-6)
    np.testing.assert_allclose(fitted(sp.csr_matrix(single)), exact, atol=1e-6)


@pytest.mark.parametrize("loss", OF_CLASSES, ids=repr)
def test_separated_classes_are_said_to_have_no_minimiser(loss: Any) -> None:
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = rs.ExactProxRR(tol=1e-9).solve(rs.Problem(X, y, loss))
    assert "P has no minimiser" in result.message
    assert any(issubclass(w.category, ConvergenceWarning) for w in caught)
    held = rs.ExactProxRR(tol=1e-10).solve(rs.Problem(X, y, loss, P.L2(0.1), fit_intercept=True))
    assert held.converged


@pytest.mark.parametrize("loss", OF_CLASSES, ids=repr)
@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_features_of_any_size(loss: Any, size: float) -> None:
    """At zero a small step moves margins by thousands: tails must be right, not infinite."""
    problem = rs.Problem(size * X, SIGNS, loss, fit_intercept=True)
    plain = rs.Problem(X, SIGNS, loss, fit_intercept=True)
    found, expected = solved(problem), solved(plain)
    assert found.converged
    np.testing.assert_allclose(found.x[:-1] * size, expected.x[:-1], atol=1e-6)


def test_the_normal_tail() -> None:
    z = -np.logspace(0, 4, 200)
    own = np.array([L.Probit.value(a, 1.0) for a in z])
    np.testing.assert_allclose(own, -log_ndtr(z), rtol=1e-12)
    curved = np.array([L.Probit.second(a, 1.0) for a in z])
    assert (np.diff(curved) >= -1e-12).all()
    assert curved.max() <= 1.0


@pytest.mark.parametrize("loss", OF_CLASSES, ids=repr)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_curvature_has_one_peak(loss: Any, y: float) -> None:
    """Newton's bound rests on it: once l'' has fallen it does not rise again."""
    z = np.linspace(-45.0, 45.0 if y < 0 or isinstance(loss, L.Probit) else 6.0, 40_001)
    curved = np.array([type(loss).second(a, y) for a in z.tolist()])
    rises = np.diff(curved) > 1e-12 * curved[:-1]
    falls = np.diff(curved) < -1e-12 * curved[:-1]
    if falls.any():
        assert not rises[np.argmax(falls) :].any()


@pytest.mark.parametrize("loss", [L.InverseGaussian(), L.Tweedie(2.5)], ids=repr)
def test_a_loss_that_is_not_convex_claims_no_bound(loss: Any) -> None:
    result = rs.ExactProxRR(tol=1e-6).solve(rs.Problem(X, POSITIVE, loss, P.L2(1e-3)))
    assert not result.converged
    assert result.message.startswith("stationary")
    assert "gap" not in result.trace
    for solver in (rs.ProxRR(), rs.FISTA()):
        with pytest.raises(rs.InputError, match="curvature"):
            solver.solve(rs.Problem(X, POSITIVE, loss))
    with pytest.raises(rs.InputError, match="convex"):
        rs.FedNewton().solve(rs.federated.split(rs.Problem(X, POSITIVE, loss), clients=2))
    model = rs.RRRegressor(loss=loss).fit(X, POSITIVE)  # and says nothing where all is well
    assert model.certificate_.measure == "relative_mapping"


@pytest.mark.parametrize(
    ("loss", "y"), OF_MEANS, ids=lambda v: repr(v) if isinstance(v, L.Loss) else ""
)
def test_the_bound_is_true(loss: Any, y: Any) -> None:
    """Every claimed bound on the way is at least P(x) - P*."""
    if not loss.convex:
        return
    offset = RNG.normal(0.0, 1.0, 150)
    problem = rs.Problem(X, y, loss, P.ElasticNet(0.01, 1e-4), fit_intercept=True, offset=offset)
    least = problem.objective(solved(problem, 1e-14).x)
    scale = problem.datafit.at_zero
    for tol in (1e-1, 1e-2, 1e-4, 1e-6, 1e-8):
        result = rs.ExactProxRR(tol=tol).solve(problem)
        assert problem.objective(result.x) - least <= (result.trace["gap"][-1] + 1e-14) * scale


def test_a_constant_target_and_a_single_feature() -> None:
    model = rs.RRRegressor(loss="gamma").fit(X[:, :1], np.full(150, 3.0))
    assert model.predict(X[:3, :1]) == pytest.approx([3.0] * 3, rel=1e-6)
    assert model.score(X[:, :1], np.full(150, 3.0)) == 1.0


def test_far_offsets_and_tiny_exposures() -> None:
    near = rs.Problem(X, COUNTS, L.Poisson(), fit_intercept=True)
    expected = solved(near).x
    model = rs.RRRegressor(loss="poisson", penalty="none").fit(
        X, COUNTS, offset=np.full(150, 300.0)
    )
    np.testing.assert_allclose(model.coef_, expected[:-1], atol=1e-6)
    assert model.intercept_ == pytest.approx(expected[-1] - 300.0, abs=1e-6)
    years = np.full(150, 1e-9)
    tiny = solved(rs.Problem(X, COUNTS, L.Poisson(), fit_intercept=True, exposure=years)).x
    np.testing.assert_allclose(tiny[:-1], expected[:-1], atol=1e-6)
    with pytest.raises(rs.InputError, match=r"f\(0\)|overflow"):
        rs.ExactProxRR().solve(rs.Problem(X, COUNTS, L.Poisson(), offset=np.full(150, 1e4)))


@pytest.mark.parametrize(
    ("loss", "most"), [(rs.losses.InverseGaussian(), 1e150), (rs.losses.Tweedie(6.0), 1e60)]
)
def test_targets_whose_powers_vanish_are_refused(loss: Any, most: float) -> None:
    """Up to the limit the model has the coefficients of any other unit; beyond it every point had seemed stationary."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = rng.gamma(20.0, np.exp(X @ [0.5, -0.3, 0.0]) / 20.0)
    y /= y.max()
    fit = rs.RRRegressor(loss=loss, penalty="none").fit
    assert np.allclose(fit(X, most * y).coef_, fit(X, y).coef_, atol=1e-6)
    with pytest.raises(rs.errors.InputError, match=r"must not exceed .* larger unit"):
        fit(X, 2.0 * most * y)
