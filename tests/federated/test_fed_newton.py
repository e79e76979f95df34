"""Second-order rounds: the pooled solution whatever the split, and what the clients' sums are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import LOSSES, penalty, random_data, sparse, unknown

import reshuffle as rs
from reshuffle.engines import Threads
from reshuffle.federated.curvature import LENGTHS, Answer, Curved, Question
from reshuffle.federated.local import Turn
from reshuffle.federated.newton_server import Search, _longest
from reshuffle.randomness import Stream

P, L = rs.penalties, rs.losses
NEWTON = [name for name, loss in LOSSES.items() if type(loss).second is not None]


def problem(loss: Any, n: int = 61, **kwargs: Any) -> rs.Problem:
    X, y = random_data(loss, n=n)
    return rs.Problem(sparse(X), y, loss, **kwargs)


def minimum(whole: rs.Problem) -> float:
    return whole.objective(rs.theory.solve(whole))


CASES = [(loss, psi) for loss in NEWTON for psi in ("zero", "elastic_net", "group_lasso")]


@pytest.mark.parametrize(("loss", "psi"), [*CASES, ("logistic", "box")])
def test_the_pooled_solution_whatever_the_split(loss: str, psi: str) -> None:
    """Ridge, weights and intercept included; the objective is that of the pooled samples."""
    whole = problem(
        LOSSES[loss], penalty=penalty(psi, unknown(loss)), ridge=0.02, fit_intercept=True,
        sample_weight=np.linspace(0.5, 1.5, 61),
    )  # fmt: skip
    best = minimum(whole)
    for by in ("label", "quantity"):
        clients = rs.federated.split(whole, clients=4, by=by, seed=1)
        result = rs.FedNewton(rounds=40).solve(clients)
        assert "no step lowers" in result.message
        assert result.trace["objective"][-1] - best <= 1e-11 * abs(best)
        assert clients.gradient_mapping(result.x) < 1e-6


def test_seven_rounds_to_1e_6_on_real_data_whatever_the_split() -> None:
    X, y = rs.datasets.breast_cancer()
    plain = rs.Problem(X, y)
    whole = rs.Problem(X, y, ridge=plain.smoothness.L_f / plain.n)
    best, start = minimum(whole), whole.objective(np.zeros(whole.shape))
    traces = [
        rs.FedNewton(rounds=8).solve(rs.federated.split(whole, M, by, seed=0)).trace
        for M, by in ((1, "iid"), (10, "label"), (50, "quantity"))
    ]
    for trace in traces:
        assert trace["objective"][7] - best <= 1e-6 * (start - best)
        np.testing.assert_allclose(trace["objective"], traces[0]["objective"], rtol=1e-9)


def test_the_features_at_zero_are_not_asked_about() -> None:
    """With an ℓ1 penalty Hessians have the width of what matters, and wide sets start by a gradient."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 700))
    y = X[:, :3] @ [2.0, -1.0, 1.0] + 0.1 * rng.standard_normal(80)
    whole = rs.Problem(X, y, loss=L.Squared(), penalty=P.L1(0.5))
    clients = rs.federated.split(whole, clients=3, by="label")
    result = rs.FedNewton(rounds=30).solve(clients)
    assert result.trace["objective"][-1] - minimum(whole) <= 1e-10
    sent = np.diff(result.trace["bytes_up"]) / (3 * 8)
    assert sent[0] == len(LENGTHS) + 1 + 700  # the gradient alone
    assert sent.max() < 700 + 200 * 201 / 2


def test_losses_without_curvature_are_damped() -> None:
    """Huber far from its kinks has no curvature at all at zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5))
    t = 100.0 * (X.sum(axis=1) + rng.standard_normal(120))
    whole = rs.Problem(X, t, loss=L.Huber(), penalty=P.L1(1e-2))
    result = rs.FedNewton(rounds=60).solve(rs.federated.split(whole, 4, "label"))
    assert result.trace["objective"][-1] - minimum(whole) <= 1e-9 * abs(minimum(whole))


def test_a_step_that_is_too_long_is_taken_back() -> None:
    """Poisson counts, from a start where Newton's step overshoots by far; the result is the best point."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((90, 3))
    y = rng.poisson(np.exp(X @ [0.5, -0.5, 0.2] + 1.0)).astype(float)
    whole = rs.Problem(X, y, loss=L.Poisson(), ridge=1e-3)
    clients = rs.federated.split(whole, 3, "label")
    result = rs.FedNewton(rounds=60).solve(clients, x0=np.array([-6.0, 6.0, -6.0]))
    assert result.trace["objective"][-1] == min(result.trace["objective"])
    assert np.linalg.norm(whole.gradient(result.x)) <= 1e-9


def test_answers_are_sums_over_samples() -> None:
    """Those of two clients add up to that of one who holds all their samples."""
    whole = problem(L.Logistic(), fit_intercept=True)
    rng = np.random.default_rng(0)
    x, d, active = rng.standard_normal(7), rng.standard_normal(7), np.arange(6) % 2 == 0
    local = Curved(whole.shape, whole.features, 0)
    message = Question(x, x - d, 0.1, active).packed()

    def answer(part: rs.Problem) -> Any:
        found = local.bind(part, 0, 1.0)(Turn(message, 1.0, 0, Stream(0)))
        assert found.shape == local.reply_shape(message)
        return found

    pieces = answer(whole.piece(0, 20)) + answer(whole.piece(20, 61))
    np.testing.assert_allclose(pieces, answer(whole), rtol=1e-12, atol=1e-12)
    found = Answer.of(pieces / 61, whole.shape, local.width(active))
    np.testing.assert_allclose(found.gradient, whole.gradient(x), atol=1e-12)
    for t, value in zip(LENGTHS, found.values, strict=True):
        assert value == pytest.approx(whole.value(x - d + t * d))
    A, _ = random_data(L.Logistic(), n=61)
    A = np.column_stack([A[:, active], np.ones(61)])  # and the intercept
    sigmoid = 1.0 / (1.0 + np.exp(-whole.margins(x)))
    bent = sigmoid * (1.0 - sigmoid) + 0.1 * 0.25  # damping, of the largest curvature
    np.testing.assert_allclose(found.hessian, (A.T * bent) @ A / 61, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans())
@settings(max_examples=25, deadline=None)
def test_messages_survive_packing(seed: int, features: int, bias: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = (features + bias, *((3,) * bool(rng.integers(2))))
    question = Question(
        rng.standard_normal(shape), rng.standard_normal(shape), float(rng.random()),
        rng.random(features) < 0.5,
    )  # fmt: skip
    again = Question.of(question.packed(), shape, features)
    for one, other in zip(question, again, strict=True):
        np.testing.assert_array_equal(one, other)
    width = Curved(shape, features, 0).width(question.active)
    H = rng.standard_normal((width, width))
    answer = Answer(rng.random(len(LENGTHS)), 1.5, rng.standard_normal(shape), H + H.T)
    found = Answer.of(answer.packed(), shape, width)
    for one, other in zip(answer, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_how_far_to_go() -> None:
    search = Search(objective=1.0, promised=-0.5)
    assert _longest(np.array([0.9, 0.5, 0.6, 0.9, 1.0]), search) == 0
    assert _longest(np.array([2.0, 0.9, 0.8, 0.95, 1.0]), search) == 2
    assert _longest(np.array([np.inf, np.nan, 2.0, 1.5, 1.2]), search) is None


def test_what_it_cannot_do_is_refused_before_any_work() -> None:
    whole = problem(L.Logistic())
    clients = rs.federated.split(whole, 3)
    with pytest.raises(rs.InputError, match="no step to choose"):
        rs.FedNewton(step=0.1)
    with pytest.raises(rs.InputError, match="participation must be 1"):
        rs.FedNewton(participation=0.5)
    with pytest.raises(rs.InputError, match="on_missing"):
        rs.FedNewton(on_missing="average")
    with pytest.raises(rs.InputError, match="takes a Federation"):
        rs.FedNewton().solve(whole)
    digits = rs.Problem(
        np.eye(6), np.arange(6) % 3, loss=L.Multinomial(), penalty=P.NuclearNorm(0.1)
    )
    with pytest.raises(rs.InputError, match=r"NuclearNorm.*lacks compiled.*use ExactFedRR"):
        rs.FedNewton().solve(rs.federated.split(digits, 2))
    oracle = rs.OracleProblem(n=4, dim=2, gradient=lambda i, x: x, value=lambda x: float(x @ x) / 2)
    with pytest.raises(rs.InputError, match="client 0 is no Problem"):
        rs.FedNewton().solve(rs.federated.Federation([oracle]))
    wide = rs.Problem(np.ones((4, 3001)), [1, -1, 1, -1], ridge=0.1)
    with pytest.raises(rs.InputError, match="at most 3000 here, and there are 3001"):
        rs.FedNewton().solve(rs.federated.split(wide, 2))
    assert rs.FedNewton(rounds=3).solve(clients).trace["objective"].size == 4


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Any) -> None:
    clients = rs.federated.split(
        problem(L.Logistic(), penalty=P.ElasticNet(1e-3, 1e-3)), 5, "label"
    )
    whole = rs.FedNewton(rounds=9).solve(clients)
    for stop in range(1, 5):

        def enough(result: rs.Result, stop: int = stop) -> bool:
            return result.epoch == stop

        rs.FedNewton(rounds=9).solve(clients, callbacks=[rs.Checkpoint(tmp_path / "r.npz"), enough])
        resumed = rs.FedNewton(rounds=9, engine=Threads(2)).solve(
            clients, resume=tmp_path / "r.npz"
        )
        assert resumed.digest == whole.digest


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_columns_of_any_scale_and_copies_of_columns(scale: float) -> None:
    """Newton's steps do not see scales; a copy, a constant or an empty column leaves P* as it is."""
    X, y = rs.datasets.breast_cancer()
    X = np.ascontiguousarray(X[:, :6])
    best = minimum(rs.Problem(X, y, penalty=P.L2(1e-9), fit_intercept=True))
    more = [
        X[:, 0] * scale,
        X[:, 1:] / scale,
        X[:, :2] @ [1.0, 2.0],
        np.ones(len(X)),
        0.0 * X[:, 0],
    ]
    whole = rs.Problem(np.column_stack(more), y, fit_intercept=True)
    result = rs.FedNewton(rounds=30).solve(rs.federated.split(whole, 7, "label"))
    assert result.trace["objective"][-1] <= best + 1e-7


def test_tol_is_reached_beyond_what_the_objective_can_see() -> None:
    X, y = rs.datasets.breast_cancer()
    whole = rs.Problem(X, y, penalty=P.ElasticNet(1e-2, 1e-2))
    clients = rs.federated.split(whole, 20, "quantity", seed=0)
    result = rs.FedNewton(tol=1e-12).solve(clients)
    assert result.reached, result.message
    assert result.trace["gap"][-1] <= 1e-12
    assert whole.gradient_mapping(rs.FedNewton().solve(clients).x) <= 1e-11


def test_a_client_of_one_sample_and_a_start_far_away() -> None:
    X, y = rs.datasets.breast_cancer()
    whole = rs.Problem(X[:60], y[:60], ridge=1e-3)
    clients = rs.federated.split(whole, 60)
    best = minimum(whole)
    for x0 in (None, np.full(30, 50.0)):
        result = rs.FedNewton(rounds=60).solve(clients, x0)
        assert result.trace["objective"][-1] - best <= 1e-12


# --- data at home, and losses without a bound on their curvature --------------------------------


def at_home(whole: Any, loss: Any, lists: list[Any], **settings: Any) -> tuple[Any, Any]:
    """The same clients as a federation in memory and as sites."""
    X, y = whole
    pooled = rs.Problem(X, y, loss, **settings)
    sites = rs.federated.Sites([(X[k], y[k]) for k in lists], loss, **settings)
    return rs.federated.split(pooled, by=lists), sites


@pytest.mark.parametrize("loss", [L.Logistic(), L.Multinomial(), L.Squared(), L.Poisson()])
@pytest.mark.parametrize("tol", [0.0, 1e-9])
def test_sites_give_the_same_bits(loss: Any, tol: float, tmp_path: Any) -> None:
    lists = [list(range(0, 20)), list(range(20, 50)), list(range(50, 61))]
    federation, sites = at_home(
        random_data(loss, n=61), loss, lists, penalty=P.ElasticNet(1e-3, 1e-2), fit_intercept=True
    )
    solver = rs.FedNewton(rounds=40, tol=tol)
    here, there = solver.solve(federation), solver.solve(sites)
    assert there.digest == here.digest
    assert there.reached == (tol > 0)
    path = tmp_path / "run.npz"
    solver.solve(sites, callbacks=[rs.Checkpoint(path), lambda r: r.epoch == 2])
    assert solver.solve(sites, resume=path).digest == there.digest


def test_of_sites_too_the_best_point_is_returned() -> None:
    """A trial step that overshoots is not what a run ends with, however few its rounds."""
    X, y = counts()
    lists = [np.arange(k, 200, 4) for k in range(4)]
    _, sites = at_home((X, y), L.Poisson(), lists)
    whole = rs.Problem(X, y, L.Poisson())
    for rounds in range(1, 12):
        found = rs.FedNewton(rounds=rounds).solve(sites)
        assert whole.objective(found.x) == pytest.approx(found.trace["objective"][-1], rel=1e-12)
        assert whole.objective(found.x) <= whole.objective(np.zeros(8))


def counts() -> tuple[Any, Any]:
    """Counts that grow so fast that a first Newton step overflows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8))
    X[0] *= 60.0
    return X, rng.poisson(np.exp(np.clip(8.0 * X @ rng.standard_normal(8), -20.0, 8.0))) * 1.0


@pytest.mark.parametrize("psi", [P.Zero(), P.ElasticNet(1e-2, 1e-3), P.Box(-0.3, 0.3)])
def test_poisson_by_damping_beyond_the_curvature_at_hand(psi: Any) -> None:
    X, y = counts()
    whole = rs.Problem(X, y, L.Poisson(), psi, fit_intercept=True)
    best = rs.ExactProxRR(tol=1e-12).solve(whole).trace["objective"][-1]
    for M, by in ((1, "iid"), (7, "quantity")):
        found = rs.FedNewton(rounds=60, tol=1e-8).solve(rs.federated.split(whole, M, by, seed=0))
        assert found.reached
        assert found.trace["objective"][-1] - best < 1e-9 * abs(best)
