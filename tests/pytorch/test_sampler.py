"""The sampler for PyTorch: seeded orders that can be resumed anywhere."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import reshuffle as rs

torch: Any = pytest.importorskip("torch", reason="PyTorch is an extra")
rt: Any = pytest.importorskip("reshuffle.torch")

N = 10


@pytest.mark.parametrize(
    "order",
    [rs.orders.Reshuffle(), rs.orders.ShuffleOnce(), rs.orders.Cyclic(), rs.orders.Windows(4, 2)],
    ids=repr,
)
def test_each_epoch_visits_each_sample_once(order: Any) -> None:
    sampler = rt.OrderSampler(N, order, seed=1)
    epochs = [list(sampler) for _ in range(3)]
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert (epochs[0] == epochs[1]) == rs.orders.is_fixed(order)
    sampler.set_epoch(1)
    assert list(sampler) == epochs[1]
    assert list(rt.OrderSampler(N, order, seed=1)) == epochs[0]
    assert len(sampler) == N


@pytest.mark.parametrize("batch", [1, 3, 5, 10, 20])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_loader_goes_on_after_any_number_of_batches(batch: int, drop_last: bool) -> None:
    if drop_last and batch > N:
        return
    rows = torch.utils.data.TensorDataset(torch.arange(N))

    def loader(sampler: Any) -> Any:
        return torch.utils.data.DataLoader(rows, batch, sampler=sampler, drop_last=drop_last)

    whole = rt.OrderSampler(N, seed=2)
    expected = [b.tolist() for _ in range(3) for (b,) in loader(whole)]
    a_epoch = len(expected) // 3
    for stop in range(a_epoch + 1):
        first, seen = rt.OrderSampler(N, seed=2), []
        for (b,) in loader(first) if stop else ():
            seen.append(b.tolist())
            if len(seen) == stop:
                break
        state = json.loads(json.dumps(first.state_dict()))
        second = rt.OrderSampler(N, seed=2)
        second.load_state_dict(state)
        while len(seen) < 2 * a_epoch:
            seen += [b.tolist() for (b,) in loader(second)]
        assert seen[: 2 * a_epoch] == expected[: 2 * a_epoch]


def test_workers_draw_ahead_and_the_state_can_say_what_was_used() -> None:
    sampler = rt.OrderSampler(N, seed=2)
    expected = list(sampler)
    sampler.set_epoch(0)
    ahead = iter(sampler)
    for _ in range(6):
        next(ahead)
    other = rt.OrderSampler(N, seed=2)
    other.load_state_dict(sampler.state_dict(used=4))
    assert list(other) == expected[4:]
    assert other.state_dict()["position"] == N


def test_a_loop_that_is_left_early_is_followed_by_the_next_epoch() -> None:
    sampler = rt.OrderSampler(N, seed=2)
    old = iter(sampler)
    next(old)
    new = iter(sampler)
    next(new)
    next(old)
    assert sampler.state_dict()["epoch"] == 1
    assert sampler.state_dict()["position"] == 1


def test_an_order_of_ones_own() -> None:
    class Backwards:
        def visits(self, pool: Any, rng: np.random.Generator, epoch: int) -> Any:
            return pool[::-1].copy()

    assert list(rt.OrderSampler(3, Backwards())) == [2, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rt.OrderSampler(0), "n must be"),
        (lambda: rt.OrderSampler(3, seed=-1), "seed must be"),
        (lambda: rt.OrderSampler(3, order=rs.orders.Reshuffle), "order must be"),
        (lambda: rt.OrderSampler(3).set_epoch(-1), "epoch must be"),
        (lambda: rt.OrderSampler(3).state_dict(used=4), "used must be an integer from 0 to 3"),
        (lambda: rt.OrderSampler(3).load_state_dict({}), "state_dict: n is None"),
        (
            lambda: rt.OrderSampler(3, seed=1).load_state_dict(rt.OrderSampler(3).state_dict()),
            "state_dict: seed is 0, and this sampler has 1",
        ),
        (
            lambda: rt.OrderSampler(3).load_state_dict(
                {**rt.OrderSampler(3).state_dict(), "position": 4}
            ),
            "state_dict: position must be",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        call()
