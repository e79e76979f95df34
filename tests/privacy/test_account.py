"""ε against closed formulas and published numbers, and never that of Poisson sampling for a shuffled pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import reshuffle as rs
from reshuffle.privacy import (
    Account,
    ClientLevel,
    SampleLevel,
    epsilon_of_allocations,
    epsilon_of_releases,
    noise_for_releases,
)

accounting = pytest.importorskip("dp_accounting")


def exact_epsilon(noise: float, releases: int, delta: float) -> float:
    """The ε of a Gaussian mechanism with μ = √E/z, by Theorem 8 of Balle and Wang (2018)."""
    mu = math.sqrt(releases) / noise

    def excess(epsilon: float) -> float:
        far = np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        return float(norm.cdf(mu / 2 - epsilon / mu) - far - delta)

    return float(brentq(excess, 0.0, 1e4, xtol=1e-12))


@pytest.mark.parametrize(
    ("noise", "releases", "delta", "known"),
    [(1.0, 10, 1e-5, 17.9), (1.0, 50, 1e-5, 54.4), (5.0, 50, 1e-5, 6.57), (20.0, 50, 1e-5, 1.36)],
)
def test_releases_cost_what_the_exact_formula_says(
    noise: float, releases: int, delta: float, known: float
) -> None:
    found = epsilon_of_releases(noise, releases, delta)
    assert found == pytest.approx(exact_epsilon(noise, releases, delta), rel=1e-7)
    assert found == pytest.approx(known, rel=5e-3)


def test_a_shuffled_pass_is_never_given_the_number_of_poisson_sampling() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, rdp

    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000)
    poisson = rdp.RdpAccountant().compose(event).get_epsilon(1e-5)
    assert poisson < 2.5
    level = SampleLevel(clip=1.0, noise=1.0, delta=1e-5)
    assert Account(level, 1.0).after(10).epsilon > 17.8


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("releases", [1, 7, 400])
def test_noise_for_an_epsilon_is_enough_and_hardly_more(epsilon: float, releases: int) -> None:
    noise = noise_for_releases(epsilon, 1e-6, releases)
    assert epsilon_of_releases(noise, releases, 1e-6) <= epsilon
    assert epsilon_of_releases(0.999 * noise, releases, 1e-6) > epsilon


def test_nothing_released_costs_nothing() -> None:
    assert epsilon_of_releases(1.0, 0, 1e-5) == 0.0
    assert epsilon_of_allocations(1.0, 100, 0, 1e-5) == 0.0


def test_an_allocation_to_one_step_is_a_plain_release() -> None:
    assert epsilon_of_allocations(2.0, 1, 3, 1e-5) == epsilon_of_releases(2.0, 3, 1e-5)


@pytest.mark.slow
def test_allocations_have_the_published_number() -> None:
    pytest.importorskip("PLD_accounting")
    assert epsilon_of_allocations(1.0, 100, 10, 1e-5) == pytest.approx(1.74, abs=0.01)


def test_turns_of_clients_are_counted_upwards() -> None:
    account = Account(ClientLevel(clip=1.0, noise=1.0, delta=1e-3), 1.0, turns=4)
    assert [account.releases(rounds) for rounds in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


def test_a_guarantee_survives_its_text() -> None:
    spent = Account(ClientLevel(clip=0.5, noise=2.0, delta=1e-3), 2.0).after(9)
    assert rs.privacy.Guarantee.from_text(spent.to_text()) == spent
    assert "zero-out" in spent.neighbours
    assert any("double precision" in text for text in spent.assumed)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"epsilon": 1}', "null", "not json"])
def test_a_damaged_guarantee_is_refused(text: str) -> None:
    with pytest.raises(rs.InputError, match="privacy of a result"):
        rs.privacy.Guarantee.from_text(text)
