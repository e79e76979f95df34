"""Visits: permutations, uniform, and functions of the seed and the epoch."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import reshuffle as rs
from reshuffle.orders import Cyclic, Reshuffle, ShuffleOnce, copies, with_replacement
from reshuffle.randomness import Stream, generator

POOL = np.arange(100_003, dtype=np.uint32)  # more than one piece of random numbers


@pytest.mark.parametrize("order", [Reshuffle(), ShuffleOnce(), Cyclic()])
def test_every_sample_once(order: Reshuffle | ShuffleOnce | Cyclic) -> None:
    visits = order.visits(POOL.copy(), generator(0, 0), 0)
    assert visits.dtype == np.uint32
    assert np.array_equal(np.sort(visits), POOL)


def test_reshuffle_changes_each_epoch_and_shuffle_once_does_not() -> None:
    first, second = (Reshuffle().visits(POOL.copy(), generator(3, t), t) for t in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, Reshuffle().visits(POOL.copy(), generator(3, 0), 0))
    problem = rs.Problem(np.eye(50), np.arange(50.0), rs.losses.Squared())
    for order, fixed in ((ShuffleOnce(store=False), True), (Reshuffle(), False)):
        sampling = rs.ProxRR(order=order, seed=3).bind(problem).sampling
        once, twice = (sampling.visits(generator(3, t), t) for t in (0, 1))
        assert np.array_equal(once, twice) is fixed


def test_all_permutations_are_equally_likely() -> None:
    """χ² over the 24 orders of 4 samples; 60 is beyond the 0.9999 quantile for 23 degrees."""
    draws = 12_000
    pool = np.arange(4, dtype=np.uint32)
    counts = Counter(
        tuple(map(int, Reshuffle().visits(pool.copy(), generator(1, t), t))) for t in range(draws)
    )
    assert set(counts) == set(permutations(range(4)))
    expected = draws / 24
    assert sum((c - expected) ** 2 / expected for c in counts.values()) < 60


def test_draws_with_replacement_follow_their_probabilities() -> None:
    probabilities = np.array([0.5, 0.0, 0.3, 0.2])
    drawn = with_replacement(200_000, 4, generator(0, 0), np.cumsum(probabilities))
    found = np.bincount(drawn, minlength=4) / drawn.size
    assert found[1] == 0
    np.testing.assert_allclose(found, probabilities, atol=0.006)  # over five standard errors
    uniform = np.bincount(with_replacement(200_000, 4, generator(0, 1)), minlength=4) / 200_000
    np.testing.assert_allclose(uniform, 0.25, atol=0.006)


@given(arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1e6)))
@np.errstate(under="ignore")  # of constants next to nothing
def test_copies_are_at_most_2n_smooth_and_unbiased(constants: Any) -> None:
    n = constants.size
    if constants.mean() == 0:
        with pytest.raises(ValueError, match="not zero"):
            copies(constants)
        return
    pool, weights = copies(constants)
    counts = np.bincount(pool, minlength=n)
    assert counts.min() >= 1
    assert pool.size <= 2 * n
    np.testing.assert_allclose(counts * weights / pool.size, 1 / n, rtol=1e-12)
    bound = pool.size / n * constants.mean()
    assert (weights * constants).max() <= bound * (1 + 1e-9)


def test_a_stream_stands_where_it_is_told() -> None:
    """Client m's numbers are the same whether or not others drew before."""
    whole = generator(5, 2).random(1000)
    stream = Stream(5, 2)
    for position in (700, 0, 10, 999):
        assert np.array_equal(stream.at(position).random(1000 - position), whole[position:])
