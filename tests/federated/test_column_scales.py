"""ExactFedRR on raw columns: the same minimiser, in a metric that all clients agree on."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

import reshuffle as rs
from reshuffle.federated.local import described, local_of
from reshuffle.federated.scales import Metric, Rescaled, ScaledPenalty, metric, moments, units

P, L = rs.penalties, rs.losses
SPLITS = ("iid", "label", "sorted")


def parts(y: Any, split: str, sites: int = 5) -> list[Any]:
    """Rows of the sites: at random, by label, or sorted by the target."""
    count = len(y)
    order = np.random.default_rng(0).permutation(count)
    if split != "iid":
        order = order[np.argsort(np.round(y[order], 0 if split == "label" else 12), kind="stable")]
    return np.array_split(order, sites)


def houses(n: int = 600) -> tuple[Any, Any]:
    """Columns as those of a census of houses: incomes, ages, people, degrees, areas."""
    rng = np.random.default_rng(5)
    people, income = rng.lognormal(7, 1, n), rng.lognormal(1.2, 0.5, n)
    north, west = rng.uniform(32, 42, n), rng.uniform(-124, -114, n)
    area, age = 1e-4 * rng.lognormal(0, 0.5, n), rng.uniform(1, 52, n)
    y = 0.4 * income - 0.4 * (north - 36) - 0.4 * (west + 119) + 3e3 * area + rng.standard_normal(n)
    return np.stack([income, age, people, north, west, area], axis=1), y + 0.01 * age


def check(X: Any, y: Any, settings: dict[str, Any], theirs: Any, split: str, **more: Any) -> None:
    """P at the end is that of the other project's solution, or below, and it is certified."""
    whole = rs.Problem(X, y, **settings)
    start, best = whole.objective(np.zeros(whole.shape)), whole.objective(theirs)
    sites = rs.federated.Sites([(X[part], y[part]) for part in parts(y, split)], **settings)
    for state in ("server", "clients"):
        result = rs.ExactFedRR(rounds=150, tol=1e-6, state=state, **more).solve(sites)
        assert result.converged, result.message
        assert whole.objective(result.x) - best <= 1e-6 * start


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ["ridge", "lasso"])
@pytest.mark.parametrize("of", ["diabetes", "houses"])
def test_regression_on_raw_columns(of: str, name: str, split: str) -> None:
    X, y = load_diabetes(return_X_y=True, scaled=False) if of == "diabetes" else houses()
    n, strength = len(y), 1e-2 * float(np.var(y)) if name == "ridge" else 0.05 * float(np.std(y))
    model: Any = (
        Ridge(strength * n, tol=1e-12)
        if name == "ridge"
        else Lasso(strength, tol=1e-10, max_iter=10**6)
    )
    model.fit(X, y)
    psi: Any = P.L2(strength) if name == "ridge" else P.L1(strength)
    settings = {"loss": L.Squared(), "penalty": psi, "fit_intercept": True}
    check(X, y, settings, np.append(model.coef_, model.intercept_), split)


@pytest.mark.parametrize("split", SPLITS)
def test_logistic_regression_on_raw_columns(split: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    C = 1.0 / (0.1 * len(y))
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, y)
    settings: Any = {"penalty": P.L2(0.1), "fit_intercept": True}
    y = np.where(y > 0, 1.0, -1.0)
    check(X, y, settings, np.append(model.coef_[0], model.intercept_), split)


@pytest.mark.parametrize("split", SPLITS)
def test_softmax_on_raw_columns(split: str) -> None:
    X, y = load_wine(return_X_y=True)
    model = LogisticRegression(C=1 / (0.1 * len(y)), tol=1e-10, max_iter=10**5).fit(X, y)
    theirs = np.ascontiguousarray(np.vstack([model.coef_.T, model.intercept_]))
    settings: Any = {"loss": L.Multinomial(), "penalty": P.L2(0.1), "fit_intercept": True}
    check(X, y, settings, theirs, split)


@pytest.mark.parametrize("shift", [0.0, 5.0])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, sp.csr_matrix, np.float32])
def test_columns_of_ten_orders_of_magnitude(layout: Any, shift: float) -> None:
    """Dense, sparse (not centred) and of single precision."""
    rng, sizes = np.random.default_rng(1), 10.0 ** np.linspace(-4, 5, 8)
    Z = rng.standard_normal((300, 8))
    y = np.where(Z @ rng.standard_normal(8) + 0.3 * rng.standard_normal(300) > 0, 1.0, -1.0)
    X = layout((Z + shift) * sizes)
    psi = P.L2(1e-2 * sizes**2) + P.L1(1e-3 * sizes)
    whole = rs.Problem(X, y, penalty=psi, fit_intercept=True)
    best = whole.objective(rs.ExactProxRR(tol=1e-9).solve(whole).x)
    clients = rs.federated.split(whole, 5, by="label", seed=0)
    result = rs.ExactFedRR(rounds=150, tol=1e-6).solve(clients)
    assert result.converged, result.message
    assert whole.objective(result.x) - best <= 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = rs.ExactFedRR(rounds=150, tol=1e-6, scales=None).solve(clients)
    assert whole.objective(raw.x) - best > 1e-2


def test_engines_resumes_and_state_agree(tmp_path: Path) -> None:
    """Sites and split, threads one and two, and a run in two pieces: to the bit; state at the clients to rounding."""
    X, y = houses(200)
    settings: Any = {"loss": L.Squared(), "penalty": P.L1(0.1), "fit_intercept": True}
    places = [(X[part], y[part]) for part in parts(y, "sorted")]
    here = rs.federated.Federation([rs.Problem(*place, **settings) for place in places])
    there = rs.federated.Sites(places, **settings)
    for federation in (here, there):
        whole = rs.ExactFedRR(rounds=12).solve(federation)
        other = rs.ExactFedRR(rounds=12, engine=rs.engines.Threads(workers=1)).solve(federation)
        np.testing.assert_array_equal(whole.x, other.x)
        path = tmp_path / f"{type(federation).__name__}.npz"
        stop = [rs.Checkpoint(path), lambda result: result.epoch == 5]
        rs.ExactFedRR(rounds=12).solve(federation, callbacks=stop)
        again = rs.ExactFedRR(rounds=12).solve(federation, resume=path)
        np.testing.assert_array_equal(whole.x, again.x)
        home = rs.ExactFedRR(rounds=12, state="clients").solve(federation)
        np.testing.assert_allclose(home.x, whole.x, rtol=1e-6)


@pytest.mark.parametrize("psi", [
    P.L1(0.3) + P.Box(-0.5, 2.0), P.GroupLasso(0.2, [0, 0, 1, 1, 2, -1]), P.SparseGroupLasso(0.1, 0.2, [0, 0, 1, 1, 2, 2]),
])  # fmt: skip
def test_the_prox_in_the_metric(psi: Any) -> None:
    """R(Sv) + (ridge/2)‖Sv‖² + ‖v - u‖²/(2t) has no lower point nearby."""
    rng = np.random.default_rng(2)
    unit = np.array([1e-2, 1e2, 30.0, 3.0, 1e-3, 1.0])
    found = metric(units({0: _said(unit)}, False), psi, (6,))
    assert found is not None
    scaled = ScaledPenalty.of(psi, 0.05, found, (6,))
    for _ in range(20):
        u, t = 2.0 * rng.standard_normal(6), float(rng.uniform(0.1, 3.0))
        v = scaled.prox(u, t)

        def height(v: Any, u: Any = u, t: float = t) -> float:
            x = found.scale * v
            return float(t * (psi.value(x) + 0.025 * (x @ x)) + 0.5 * np.sum((v - u) ** 2))

        least = height(v)
        assert np.isfinite(least)
        for length in (1e-4, 1e-2, 1.0):
            for _ in range(20):
                assert height(v + length * rng.standard_normal(6)) >= least - 1e-12


def _said(unit: Any) -> dict[str, Any]:
    zero, one = np.zeros(unit.size), np.ones(unit.size)
    return {"mean": zero, "squares": unit**2, "filled": one, "weight": 1.0, "sparse": 0}


def test_columns_in_one_group_share_a_scale() -> None:
    unit = np.array([1e-2, 1e2, 30.0, 3.0, 1e-3, 1.0])
    found = metric(units({0: _said(unit)}, False), P.GroupLasso(0.2, [0, 0, 1, 1, 2, -1]), (6,))
    assert found is not None
    assert found.scale[0] == found.scale[1]
    assert found.scale[2] == found.scale[3]
    assert found.scale[4] == 1024.0


def test_columns_that_are_alike_are_left_as_they_are() -> None:
    """Rows are not copied: the bits are those without scales."""
    X, y = rs.datasets.breast_cancer()
    clients = rs.federated.split(rs.Problem(X, y, penalty=P.L2(0.01)), 5, by="label", seed=0)
    one, two = (rs.ExactFedRR(rounds=5, scales=s).solve(clients).x for s in ("agreed", None))
    np.testing.assert_array_equal(one, two)


def test_moments_keep_the_digits_of_columns_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    X = 1e9 + rng.standard_normal((100, 1))
    clients = [rs.Problem(X[k::2], np.sign(rng.standard_normal(50)) + 0.0) for k in (0, 1)]
    found = units({c: moments(client) for c, client in enumerate(clients)}, True)
    np.testing.assert_allclose(found.unit, X.std(), rtol=1e-6)


def test_there_and_back() -> None:
    rng = np.random.default_rng(0)
    found = Metric(np.exp2(np.arange(-3.0, 3.0)), rng.standard_normal(6))
    for shape in ((7,), (7, 3), (6,)):
        plain = found if shape[0] == 7 else Metric(found.scale, np.zeros(6))
        x = rng.standard_normal(shape)
        np.testing.assert_allclose(plain.outer(plain.inner(x)), x, atol=1e-12)


def test_work_in_a_metric_travels_as_a_record() -> None:
    local = Rescaled(rs.orders.ShuffleOnce(), 3, None, 7, np.array([2.0]), np.array([0.5]))
    again = local_of(described(local))
    assert isinstance(again, Rescaled)
    assert (again.passes, again.seed, *again.metric) == (3, 7, *local.metric)
    assert json.dumps([again.scale.tolist(), again.centre.tolist()]) == "[[2.0], [0.5]]"


def test_what_cannot_be_scaled_is_said() -> None:
    X, y = houses(120)
    psi = P.FusedLasso(0.1, 0.1)
    clients = rs.federated.split(rs.Problem(X, y, L.Squared(), psi), 3, by="iid")
    with pytest.warns(UserWarning, match="does not allow each a scale of its own"):
        rs.ExactFedRR(rounds=2).solve(clients)
    with pytest.raises(rs.InputError, match="scales must be"):
        rs.ExactFedRR(scales="mine")  # type: ignore[arg-type]


def test_more_columns_than_rows_names_the_other_method() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 80)), rng.standard_normal(40)
    clients = rs.federated.split(rs.Problem(X, y, L.Squared(), P.L1(1e-4)), 4, by="iid")
    with pytest.warns(UserWarning, match="FedNewton"):
        rs.ExactFedRR(rounds=3, tol=1e-6).solve(clients)


def test_other_projects_agree_on_an_elastic_net() -> None:
    X, y = houses()
    model = ElasticNet(0.1, l1_ratio=0.5, tol=1e-10, max_iter=10**6).fit(X, y)
    settings: Any = {
        "loss": L.Squared(),
        "penalty": P.ElasticNet(0.05, 0.05),
        "fit_intercept": True,
    }
    check(X, y, settings, np.append(model.coef_, model.intercept_), "sorted")
