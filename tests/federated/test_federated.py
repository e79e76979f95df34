"""Federated methods: the product space made visible, and the pooled solution reached."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from oracles import LOSSES, penalty, random_data, sparse, unknown

import reshuffle as rs
from reshuffle.federated.extrapolation import extrapolated
from reshuffle.federated.partition import indices


def problem(loss: str = "logistic", n: int = 61, **kwargs: Any) -> rs.Problem:
    X, y = random_data(LOSSES[loss], n=n)
    kwargs = {"penalty": rs.penalties.ElasticNet(0.01, 0.05)} | kwargs
    return rs.Problem(sparse(X), y, LOSSES[loss], **kwargs)


# --- FedRR is ProxRR on the product space --------------------------------------------------------


class Consensus:
    """ψ = (N/n)(R + consensus) on the stacked unknown: the paper's lemma on its prox."""

    def __init__(self, federation: rs.federated.Federation) -> None:
        self.federation, self.clients = federation, len(federation.clients)
        self.factor = federation.n / federation.sizes.max()

    def value(self, x: Any) -> float:
        penalty: Any = self.federation.penalty
        return float(self.factor * penalty.value(x.reshape(self.clients, -1)[0]))

    def prox(self, x: Any, step: float) -> Any:
        mean = x.reshape(self.clients, -1).mean(axis=0)
        one = self.federation.penalty.prox(mean, step * self.factor / self.clients)
        return np.tile(one, self.clients)


@pytest.mark.parametrize(
    "order", [rs.orders.Reshuffle(), rs.orders.ShuffleOnce(), rs.orders.Cyclic()]
)
@pytest.mark.parametrize("sizes", [(4, 4, 4), (6, 3, 1)])
def test_fedrr_is_proxrr_on_the_stacked_problem(sizes: tuple[int, ...], order: Any) -> None:
    """f_i(x_1, …, x_M) = Σ_m f_{m,π_m(i)}(x_m), zero where client m has no i-th sample."""
    N, M, n, d = sum(sizes), len(sizes), max(sizes), 6
    whole = problem(n=N)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    federation = rs.federated.split(whole, by=[list(range(a, b)) for a, b in pairwise(bounds)])
    step, rounds, seed = 0.3, 3, 4
    result = rs.FedRR(step=step, rounds=rounds, order=order, seed=seed).solve(federation)

    # the orders that the clients drew, as the local work draws them
    from reshuffle.randomness import Stream

    x = np.zeros(d)
    for t in range(rounds):
        stream = Stream(seed, 0 if order.fixed else t)
        drawn = [
            order.visits(np.arange(size, dtype=np.uint32), stream.at(int(bounds[m])), t).copy()
            for m, size in enumerate(sizes)
        ]

        def gradient(i: int, stacked: Any, drawn: Any = drawn) -> Any:
            blocks = np.zeros((M, d))
            for m in range(M):
                if i < sizes[m]:
                    one = federation.clients[m].take(drawn[m][i : i + 1])
                    blocks[m] = one.gradient(np.ascontiguousarray(stacked.reshape(M, d)[m]))
            return blocks.ravel()

        stacked = rs.OracleProblem(
            n=n, dim=M * d, gradient=gradient, value=lambda x: 0.0, penalty=Consensus(federation)
        )
        solver = rs.ProxRR(step=step, order=rs.orders.Cyclic(), epochs=1)
        blocks = solver.solve(stacked, np.tile(x, M)).x.reshape(M, d)
        assert np.all(blocks == blocks[0])
        x = blocks[0]
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-13)
    assert np.abs(x).max() > 1e-3


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": rs.orders.ShuffleOnce()},
        {"batch_size": 4},
        {"importance": True},
        {"importance": True, "batch_size": 3, "step": rs.steps.InverseTime()},
        {"step": rs.steps.Decreasing()},
    ],
)
def test_with_one_client_fedrr_is_proxrr_to_the_bit(settings: dict[str, Any]) -> None:
    settings = {"step": 0.1, "seed": 3} | settings
    federation = rs.federated.split(problem(), clients=1)
    federated = rs.FedRR(rounds=6, **settings).solve(federation)
    single = rs.ProxRR(epochs=6, **settings).solve(federation.clients[0])
    assert federated.digest == single.digest
    assert federated.trace["objective"].tolist() == single.trace["objective"].tolist()


# --- where the methods go -----------------------------------------------------------------------


SPLITS = ("iid", "label", "quantity")
POOLED = [
    pytest.param(loss, psi, by, marks=() if (i + j + k) % 3 == 0 else pytest.mark.slow)
    for i, loss in enumerate(LOSSES)
    for j, psi in enumerate(("zero", "elastic_net", "group_lasso", "sparse_group_lasso"))
    for k, by in enumerate(SPLITS)
]
"""Each two of a loss, a penalty and a split meet; the other combinations are slow."""


@pytest.mark.parametrize(("loss", "psi", "by"), POOLED)
def test_exact_fedrr_finds_the_pooled_solution(loss: str, psi: str, by: str) -> None:
    """Whatever the split: ridge, weights and intercept included."""
    kwargs: Any = {
        "penalty": penalty(psi, unknown(loss)),
        "ridge": 0.05,
        "fit_intercept": True,
        "sample_weight": np.linspace(0.5, 1.5, 61),
    }
    whole = problem(loss, **kwargs)
    federation = rs.federated.split(whole, clients=4, by=by, seed=1)
    best = whole.objective(rs.theory.solve(whole))
    solver = rs.ExactFedRR(rounds=5000, tol=1e-10, check_every=25, eval_every=5000)
    result = solver.solve(federation)
    assert result.reached, result.message
    np.testing.assert_allclose(result.trace["objective"][-1], best, rtol=1e-12)
    beyond = rs.ExactFedRR(rounds=4 * result.epoch, eval_every=5000).solve(federation)
    assert whole.gradient_mapping(beyond.x) < 1e-9


def test_exact_fedrr_to_1e_10_with_copies_and_several_passes() -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    X[::7] *= 12
    whole = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.01, 0.05))
    best = whole.objective(rs.theory.solve(whole))
    federation = rs.federated.split(
        whole, by=[list(range(25)), list(range(25, 30)), list(range(30, 60))]
    )
    for settings in ({"importance": True}, {"importance": False}, {"local_passes": 2}):
        limits: Any = {"tol": 1e-8, "check_every": 25, "eval_every": 9000}
        result = rs.ExactFedRR(rounds=9000, **limits, **settings).solve(federation)
        assert result.converged
        assert result.trace["objective"][-1] - best < 1e-10


def test_local_passes_go_on_from_one_another() -> None:
    """Each step is along ∇f_i(x) less its last slope, plus the mean of the last slopes, less h."""
    whole = problem(n=12, penalty=None)
    clients = rs.federated.split(whole, by=[list(range(12))])
    step, client = 0.2, clients.clients[0]
    settings: Any = {"local_passes": 3, "order": rs.orders.Cyclic(), "importance": False}
    solver = rs.ExactFedRR(rounds=1, step=step, **settings)
    found = solver.solve(clients, x0=np.full(6, 0.3)).x

    def slope(i: int, x: Any) -> Any:
        return client.take(np.array([i], dtype=np.uint32)).gradient(x)

    x = np.full(6, 0.3)
    slopes = np.array([slope(i, x) for i in range(12)])
    for _ in range(3):
        mean = slopes.mean(axis=0)
        for i in range(12):
            new = slope(i, x)
            x, slopes[i] = x - step * (new - slopes[i] + mean), new
    np.testing.assert_allclose(found, x, rtol=0, atol=1e-13)


def test_many_small_clients_take_more_passes_and_no_larger_steps() -> None:
    whole = problem(n=240, penalty=rs.penalties.L2(0.01))
    passes, steps = [], []
    for count in (2, 8, 240):
        rounds = rs.ExactFedRR().bind(rs.federated.split(whole, clients=count))
        local: Any = rounds.plan.local
        passes.append(local.passes)
        steps.append(rounds.schedule(0) * rounds.plan.smoothness)
        rounds.close()
    assert passes[0] < passes[1] <= 8
    assert passes[2] == 50  # of one sample each: as many visits as a handful of samples takes
    assert max(steps[:2]) <= 0.5
    assert steps[2] <= 1.0
    fixed = rs.ExactFedRR(local_passes=3).bind(rs.federated.split(whole, clients=24))
    assert getattr(fixed.plan.local, "passes", None) == 3
    fixed.close()


# --- acceleration -------------------------------------------------------------------------------


@pytest.mark.parametrize("psi", ["zero", "elastic_net"])
@pytest.mark.parametrize("order", [rs.orders.ShuffleOnce(), rs.orders.Reshuffle()])
def test_acceleration_saves_rounds_and_changes_nothing_else(order: Any, psi: str) -> None:
    whole = problem(n=200, penalty=penalty(psi), ridge=0.002)
    federation = rs.federated.split(whole, clients=5, by="label")
    common: Any = {"rounds": 5000, "tol": 1e-13, "eval_every": 5000, "order": order}
    plain = rs.ExactFedRR(acceleration=0, **common).solve(federation)
    fast = rs.ExactFedRR(**common).solve(federation)
    assert plain.converged
    assert fast.converged
    np.testing.assert_allclose(fast.x, plain.x, rtol=0, atol=1e-6)
    assert fast.epoch < (0.5 if order.fixed else 0.8) * plain.epoch
    for column in ("bytes_up", "bytes_down", "gradients"):  # less a round, the same in each
        slow, quick = (r.trace[column][-1] / r.epoch for r in (plain, fast))
        assert np.isclose(slow, quick, rtol=0.2)


def test_acceleration_is_resumed_from_what_it_remembers() -> None:
    federation = rs.federated.split(problem(), clients=4, by="label")
    solver = rs.ExactFedRR(rounds=30, seed=3, acceleration=4)
    whole = solver.solve(federation)
    half = solver.solve(federation, callbacks=[lambda r: r.epoch == 17])
    assert all(half.state[f"image{k}"].shape == (1, 4, 6) for k in range(4))
    assert solver.solve(federation, resume=half).digest == whole.digest
    forgotten = dict(half.state)
    names = [name for name in half.state if name.startswith(("image", "residual"))]
    forgotten |= {name: half.state[name][:0] for name in names}
    assert solver.solve(federation, resume=replace(half, state=forgotten)).digest != whole.digest


def test_a_step_that_changes_is_not_extrapolated() -> None:
    federation = rs.federated.split(problem(), clients=4, by="label")
    common: Any = {"rounds": 8, "order": rs.orders.Reshuffle(), "step": lambda t: 0.1 / (1 + t)}
    results = [rs.ExactFedRR(acceleration=k, **common).solve(federation) for k in (0, 10)]
    assert results[0].digest == results[1].digest
    with pytest.raises(rs.InputError, match="acceleration"):
        rs.ExactFedRR(acceleration=-1)


def iterate(map_: Any, z: Any, rounds: int, memory: int) -> Any:
    images = residuals = np.empty((0, *z.shape))
    for _ in range(rounds):
        image = map_(z)
        images = np.concatenate([images, image[None]])
        residuals = np.concatenate([residuals, (image - z)[None]])
        z, kept = extrapolated(images, residuals, memory)
        images, residuals = images[kept], residuals[kept]
        assert 1 <= len(images) <= memory
    return z


def test_anderson_solves_a_linear_map_in_as_many_rounds_as_it_has_dimensions() -> None:
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    matrix, shift = 0.95 * rotation, rng.standard_normal(5)
    fixed = np.linalg.solve(np.eye(5) - matrix, shift)
    found = iterate(lambda z: matrix @ z + shift, np.zeros(5), 9, 6)
    assert np.linalg.norm(found - fixed) < 1e-6
    assert np.linalg.norm(fixed) * 0.95**9 > 0.1  # where plain rounds would be


@pytest.mark.parametrize("memory", [1, 3, 10])
def test_anderson_is_safe_on_a_map_with_kinks(memory: int) -> None:
    """A contraction, but an extrapolation across a kink goes wrong."""
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]

    def bend(z: Any) -> Any:
        return 0.9 * rotation @ (np.sign(z) * np.maximum(np.abs(z) - 3.0, 0.0)) + 1.0

    found = iterate(bend, 50 * rng.standard_normal(6), 400, memory)
    assert np.linalg.norm(bend(found) - found) < 1e-9


def test_the_safeguard_of_anderson() -> None:
    images, residuals = np.arange(12.0).reshape(4, 3), np.ones((4, 3))
    residuals[1] *= 0.4
    point, kept = extrapolated(images, residuals, 9)  # the last has more than twice the best
    assert kept == slice(1, 2)
    assert np.array_equal(point, images[1])
    residuals[1:, :] = [[0.4], [0.5], [0.6]]
    assert extrapolated(images, residuals, 2)[1] == slice(1, 2)  # the best is two rounds old
    assert extrapolated(images, residuals, 3)[1] == slice(1, None)
    point, kept = extrapolated(images[:2], np.array([[1.0] * 3, [9.0] * 3]), 9)
    assert kept == slice(1, None)  # a plain step that grows: the map is to blame, so go on
    assert np.array_equal(point, images[1])


@pytest.mark.parametrize(
    "solver",
    [
        rs.FedRR(step=rs.steps.InverseTime(), rounds=1600, eval_every=1600),
        rs.FedRR(step=rs.steps.InverseTime(), rounds=1600, eval_every=1600, batch_size=3),
        rs.FedRR(step=rs.steps.InverseTime(), rounds=1600, eval_every=1600, importance=True),
        rs.LocalSGD(step=rs.steps.InverseTime(), rounds=1600, eval_every=1600),
        rs.LocalSGD(step=rs.steps.InverseTime(), rounds=1600, eval_every=1600, local_steps=4),
        rs.FedRR(step=rs.steps.InverseTime(), rounds=1600, eval_every=1600, participation=0.5),
    ],
    ids=["FedRR", "batches", "importance", "LocalSGD", "few steps", "participation"],
)
def test_decreasing_steps_tend_to_the_pooled_solution(solver: Any) -> None:
    """Unequal clients: with equal weights of clients the answer would be elsewhere."""
    whole = problem()
    lists = [list(range(40)), list(range(40, 55)), list(range(55, 61)), [0]]
    lists[0] = lists[0][1:]
    federation = rs.federated.split(whole, by=lists)
    x = rs.theory.solve(whole)
    found = solver.solve(federation).x
    sizes = np.concatenate([np.full(len(part), len(part)) for part in lists])
    by_client = problem(sample_weight=(1.0 / sizes)[np.argsort(np.concatenate(lists))])
    elsewhere = np.linalg.norm(rs.theory.solve(by_client) - x)
    assert elsewhere > 0.5 * np.linalg.norm(x)
    near = 0.35 if isinstance(solver, rs.LocalSGD) else 0.03  # the noise of SGD falls slowly
    assert np.linalg.norm(found - x) < near * np.linalg.norm(x)


def test_federation_is_the_pooled_problem() -> None:
    whole = problem(ridge=0.1, sample_weight=np.linspace(0.1, 2, 61), fit_intercept=True)
    federation = rs.federated.split(whole, clients=5, by="quantity", seed=2)
    x = np.random.default_rng(0).standard_normal(whole.shape)
    assert np.isclose(federation.objective(x), whole.objective(x), rtol=1e-14)
    np.testing.assert_allclose(federation.gradient(x), whole.gradient(x), atol=1e-15)
    assert np.isclose(federation.smoothness.L_max, whole.smoothness.L_max)
    assert np.isclose(federation.smoothness.L_f, whole.smoothness.L_f, rtol=1e-6)
    assert np.isclose(federation.gradient_mapping(x), whole.gradient_mapping(x), rtol=1e-5)


# --- splits -------------------------------------------------------------------------------------

Y = np.array([-1.0, 1.0] * 50)


@pytest.mark.parametrize("by", ["iid", "label", "quantity", "dirichlet"])
def test_splits_are_partitions_and_repeatable(by: str) -> None:
    parts = indices(Y, 7, by, seed=3, alpha=0.3)
    assert len(parts) == 7
    assert min(part.size for part in parts) >= 1
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(100))
    again = indices(Y, 7, by, seed=3, alpha=0.3)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


def test_split_by_label_and_by_a_column_and_by_lists() -> None:
    assert all(abs(Y[part].sum()) == part.size for part in indices(Y, 4, "label"))
    site = np.repeat(["north", "south", "east", "west"], 25)
    parts = indices(Y, 99, site)
    assert [set(site[part]) for part in parts] == [{"east"}, {"north"}, {"south"}, {"west"}]
    assert [part.tolist() for part in indices(np.arange(3.0), 9, [[2], [0, 1]])] == [[2], [0, 1]]
    uneven = [part.size for part in indices(Y, 10, "quantity", alpha=0.1)]
    assert max(uneven) > 3 * sorted(uneven)[5]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("color", "by must be one of iid, label"),
        (np.arange(5), "one value for each of 100 samples"),
        ([[0, 1], [1, 2]], "exactly once"),
        ([list(range(100)), []], "without samples"),
    ],
)
def test_bad_splits(by: Any, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        indices(Y, 4, by)


def test_more_clients_than_samples() -> None:
    with pytest.raises(rs.InputError, match="at most the 100 samples"):
        indices(Y, 101, "iid")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"engine": "mpi"}, 'engine must be "threads", "ray"'),
        ({"participation": 0.0}, r"participation must be in \(0, 1\]"),
        ({"on_missing": "ignore"}, "on_missing"),
        ({"retries": -1}, "retries"),
        ({"round_timeout": 0}, "round_timeout"),
        ({"step": -1.0}, "step"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        rs.FedRR(**arguments)
    with pytest.raises(rs.InputError, match=message):
        rs.ExactFedRR(**arguments)


def test_a_single_problem_is_not_a_federation() -> None:
    with pytest.raises(rs.InputError, match="split"):
        rs.FedRR().solve(problem())
    with pytest.raises(rs.InputError, match="use FedRR"):
        rs.ProxRR(step=0.1, epochs=1).solve(rs.federated.split(problem(), clients=2))


def test_every_client_takes_part_once_before_any_twice() -> None:
    federation = rs.federated.split(problem(), clients=7)
    rounds = rs.FedRR(participation=0.3, rounds=1).bind(federation)
    turns = [rounds._participants(t) for t in range(8)]
    for epoch in (turns[:4], turns[4:]):
        assert sorted(c for turn in epoch for c in turn) == list(range(7))
    assert turns[:4] != turns[4:]
    rounds.close()
    with pytest.raises(rs.InputError, match="participation must be 1"):
        rs.ExactFedRR(participation=0.5)
