"""Residuals in fewer bytes: the same solution, and nothing that a hostile client packs goes unnoticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.engines import Reply
from reshuffle.federated import RandomK, TopK
from reshuffle.federated.client_state_server import Sums
from reshuffle.federated.replies import Unusable
from reshuffle.federated.server import unpacked
from reshuffle.federated.transport import (
    PLACES,
    VALUES,
    Digits,
    read,
    transport_of,
    written,
)

ALL: list[Any] = [Digits("float32"), Digits("bfloat16"), TopK(0.3), RandomK(0.3)]


@pytest.mark.parametrize("transport", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize("shape", [(1,), (7,), (4, 3)])
def test_what_is_packed_is_near_and_zero_stays_zero(transport: Any, shape: tuple[int, ...]) -> None:
    residual = np.random.default_rng(0).normal(size=shape)
    parts = transport.pack(residual, 3)
    found = transport.unpack(parts, shape, 3)
    assert np.linalg.norm(found - residual) < np.linalg.norm(residual)
    kept = found != 0
    np.testing.assert_allclose(found[kept], residual[kept], rtol=2.0**-8)
    assert not transport.unpack(transport.pack(np.zeros(shape), 1), shape, 1).any()
    assert sum(part.nbytes for part in parts.values()) < residual.nbytes or residual.size == 1
    assert transport_of(transport.name) == transport


def test_bfloat16_rounds_to_the_nearest_and_halves_to_even() -> None:
    exact = np.array([0.0, -0.0, 1.0, -2.5, 3.0e38])
    np.testing.assert_allclose(read(written(exact, "bfloat16")), exact, rtol=2.0**-8)
    halves = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8])
    assert read(written(halves, "bfloat16")).tolist() == [1.0, 1 + 4 * 2.0**-8]


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_a_residual_that_overflows_does_not_leave(kind: str) -> None:
    with pytest.raises(rs.InputError, match="too large"):
        written(np.array([1e39]), kind)


def test_a_residual_that_rounding_makes_infinite_does_not_leave() -> None:
    with pytest.raises(rs.InputError, match="too large for bfloat16"):
        written(np.array([np.finfo(np.float32).max]), "bfloat16")


def federation() -> tuple[Any, float]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.sign(X @ rng.normal(size=5) + 0.3 * rng.normal(size=60))
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.01), ridge=0.05)
    best = problem.objective(rs.theory.solve(problem))
    return rs.federated.split(problem, clients=4, by="label", seed=0), best


def gap_after(transport: Any, acceleration: int, rounds: int) -> float:
    """(P(x) - P*)/(P(0) - P*)."""
    clients, best = federation()
    solver = rs.ExactFedRR(
        rounds=rounds,
        state="clients",
        transport=transport,
        acceleration=acceleration,
        eval_every=rounds,
    )
    values = solver.solve(clients).trace["objective"]
    return float((values[-1] - best) / (values[0] - best))


@pytest.mark.parametrize("transport", ["float32", "bfloat16"])
def test_fewer_digits_lead_to_the_exact_solution(transport: str) -> None:
    assert gap_after(transport, 10, 60) <= 1e-10


@pytest.mark.parametrize("transport", [TopK(0.4), RandomK(0.4)], ids=lambda one: one.name)
def test_fewer_coordinates_lead_towards_the_solution(transport: Any) -> None:
    assert gap_after(transport, 0, 100) <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("transport", [TopK(0.4), RandomK(0.4)], ids=lambda one: one.name)
def test_fewer_coordinates_lead_to_the_exact_solution(transport: Any) -> None:
    assert gap_after(transport, 0, 1500) <= 1e-10


def test_bytes_up_are_fewer() -> None:
    clients, _ = federation()
    sent = {
        word: rs.ExactFedRR(rounds=3, state="clients", transport=word)
        .solve(clients)
        .trace["bytes_up"][-1]
        for word in ("float64", "float32", "bfloat16")
    }
    assert sent["bfloat16"] < sent["float32"] < sent["float64"]
    assert sent["float64"] - sent["float32"] == 3 * 4 * 5 * 4  # rounds, clients, coordinates, bytes


def test_a_run_is_resumed_with_the_same_transport_only() -> None:
    clients, _ = federation()
    common: dict[str, Any] = {"state": "clients", "on_lost": "restart"}
    first = rs.ExactFedRR(rounds=2, transport="float32", **common).solve(clients)
    with pytest.raises(rs.InputError, match="transport"):
        rs.ExactFedRR(rounds=4, **common).solve(clients, resume=first)
    assert "transport" not in rs.ExactFedRR(rounds=2, **common).solve(clients).config


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {VALUES: np.zeros(2)},
        {VALUES: np.zeros(3, np.float32), PLACES: np.array([0, 1, 2], np.uint16)},
        {VALUES: np.zeros(2, np.float32), PLACES: np.array([1, 1], np.uint16)},
        {VALUES: np.zeros(2, np.float32), PLACES: np.array([3, 1], np.uint16)},
        {VALUES: np.zeros(2, np.float32), PLACES: np.array([1, 9], np.uint16)},
        {VALUES: np.array([np.nan, 0], np.float32), PLACES: np.array([0, 1], np.uint16)},
        {VALUES: "text", PLACES: np.array([0, 1], np.uint16)},
    ],
)
def test_a_reply_with_something_else_is_not_taken(parts: dict[str, Any]) -> None:
    """It is refused as every other one that is wrong, and its client asked again (tests/flower/test_flower_settings.py)."""
    sums = Sums((5,), np.ones(3) / 3, lambda reply: unpacked(TopK(0.4), reply, (5,)))
    reply = Reply("run", 4, 2, "digest", np.empty(0), more=parts)
    with pytest.raises(Unusable, match=r"its pa|its places"):
        sums.take(reply)


@pytest.mark.parametrize(
    "transport",
    ["float16", "", 3, TopK, "TopK", "TopK 2.0", "TopK nan", "TopK half", np.zeros(3), ["float32"]],
)
def test_transports_that_are_none(transport: Any) -> None:
    with pytest.raises(rs.InputError, match=r"transport|share"):
        rs.ExactFedRR(state="clients", transport=transport)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, np.nan, "half", True])
def test_shares_that_are_none(share: Any) -> None:
    with pytest.raises(rs.InputError, match="share"):
        TopK(share)
    with pytest.raises(rs.InputError, match="share"):
        RandomK(share)


def test_what_transports_need() -> None:
    with pytest.raises(rs.InputError, match="state"):
        rs.ExactFedRR(transport="float32")
    with pytest.raises(rs.InputError, match="acceleration=0"):
        rs.ExactFedRR(state="clients", transport=TopK(0.1))
    with pytest.raises(rs.InputError, match="acceleration=0"):
        rs.ExactFedRR(state="clients", transport="TopK 0.1")
