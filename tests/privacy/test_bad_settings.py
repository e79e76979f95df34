"""Noise and clips that make no sense, and settings that would leak, are refused before any data is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.privacy import ClientLevel, SampleLevel

pytest.importorskip("dp_accounting")
GOOD: dict[str, Any] = {"clip": 1.0, "noise": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("level", [ClientLevel, SampleLevel])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clip": 0.0}, "clip"),
        ({"clip": -1.0}, "clip"),
        ({"clip": np.inf}, "clip"),
        ({"clip": np.nan}, "clip"),
        ({"noise": 0.0}, "hides nobody"),
        ({"noise": -1.0}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"noise": "much"}, "noise"),
        ({"noise": None}, "got neither"),
        ({"epsilon": 1.0}, "got both"),
        ({"noise": None, "epsilon": 0.0}, "ε = 0"),
        ({"noise": None, "epsilon": np.inf}, "epsilon"),
        ({"noise": None, "epsilon": -1.0}, "epsilon"),
        ({"noise": None, "epsilon": True}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": np.nan}, "delta"),
    ],
)
def test_levels_that_make_no_sense(level: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        level(**GOOD | settings)


def test_noise_is_added_by_sites_or_by_the_driver() -> None:
    with pytest.raises(rs.InputError, match="noise_at"):
        ClientLevel(**GOOD, noise_at="nobody")  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", [rs.ProxRR, rs.FedRR])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tol": 1e-3}, "tol must be 0"),
        ({"importance": True}, "importance"),
        ({"step": None}, "L_max"),
        ({"step": rs.steps.Decreasing()}, "L_max"),
        ({"step": rs.steps.InverseTime()}, "L_max"),
        ({"privacy": "yes"}, "privacy of"),
        ({"privacy": SampleLevel}, "privacy of"),
    ],
)
def test_settings_that_would_leak(solver: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        solver(**{"step": 0.1, "privacy": SampleLevel(**GOOD)} | settings)


@pytest.mark.parametrize(
    "solver", [rs.ExactProxRR, rs.FISTA, rs.ProxSGD, rs.ExactFedRR, rs.FedNewton]
)
@pytest.mark.parametrize("level", [SampleLevel(**GOOD), ClientLevel(**GOOD)])
def test_methods_without_privacy_say_which_have_it(solver: Any, level: Any) -> None:
    with pytest.raises(rs.InputError, match="use ProxRR or FedRR"):
        solver(privacy=level)
    solver(privacy=None) if "privacy" in solver.__dataclass_fields__ else None


def test_levels_and_methods_that_do_not_go_together() -> None:
    with pytest.raises(rs.InputError, match="with replacement"):
        rs.LocalSGD(step=0.1, privacy=SampleLevel(**GOOD))  # type: ignore[arg-type]
    with pytest.raises(rs.InputError, match=r"privacy\.SampleLevel"):
        rs.ProxRR(step=0.1, privacy=ClientLevel(**GOOD))  # type: ignore[arg-type]
    with pytest.raises(rs.InputError, match="on_missing"):
        rs.FedRR(step=0.1, on_missing="average", privacy=ClientLevel(**GOOD))


def test_an_allocation_needs_privacy_and_its_noise() -> None:
    order = rs.orders.Allocation()
    with pytest.raises(rs.InputError, match="SampleLevel"):
        rs.ProxRR(order=order)
    with pytest.raises(rs.InputError, match="SampleLevel"):
        rs.FedRR(order=order, step=0.1, privacy=ClientLevel(**GOOD))
    with pytest.raises(rs.InputError, match="epsilon_of_allocations"):
        rs.ProxRR(order=order, step=0.1, privacy=SampleLevel(clip=1.0, epsilon=1.0, delta=1e-6))


def test_a_large_delta_is_refused_by_the_number_of_units() -> None:
    problem = rs.Problem(np.eye(50), np.arange(50) % 2)
    with pytest.raises(rs.InputError, match="1/50 for 50 samples"):
        rs.ProxRR(step=0.1, privacy=SampleLevel(clip=1.0, noise=1.0, delta=0.02)).solve(problem)
    clients = rs.federated.split(problem, clients=5, seed=0)
    with pytest.raises(rs.InputError, match="1/5 for 5 clients"):
        rs.FedRR(step=0.1, privacy=ClientLevel(clip=1.0, noise=1.0, delta=0.2)).solve(clients)
    with pytest.raises(rs.InputError, match="1/50 for 50 samples"):
        rs.FedRR(step=0.1, privacy=SampleLevel(clip=1.0, noise=1.0, delta=0.2)).solve(clients)


class TestEstimators:
    X, y = np.eye(40), np.arange(40) % 2
    solver = rs.ProxRR(step=0.1, epochs=2, privacy=SampleLevel(clip=1.0, noise=1.0, delta=1e-3))

    @pytest.mark.parametrize("name", ["early_stopping", "warm_start"])
    def test_what_looks_at_the_data_is_refused(self, name: str) -> None:
        with pytest.raises(rs.InputError, match=name):
            rs.RRClassifier(solver=self.solver, **{name: True}).fit(self.X, self.y)

    def test_class_weights_from_counts_are_refused(self) -> None:
        with pytest.raises(rs.InputError, match="class_weight"):
            rs.RRClassifier(solver=self.solver, class_weight="balanced").fit(self.X, self.y)

    def test_partial_fit_and_cross_validation_are_refused(self) -> None:
        with pytest.raises(rs.InputError, match="partial_fit"):
            rs.RRClassifier(solver=self.solver).partial_fit(self.X, self.y, classes=[0, 1])
        with pytest.raises(rs.InputError, match="cross-validation"):
            rs.RRClassifierCV(solver=self.solver).fit(self.X, self.y)


def test_scales_of_sites_would_leave_without_noise() -> None:
    rng = np.random.default_rng(0)
    data = {name: (rng.normal(size=(30, 3)), rng.integers(2, size=30)) for name in "ab"}
    sites = rs.federated.Sites(data, standardise=True)
    with pytest.raises(rs.InputError, match="standardised"):
        rs.FedRR(step=0.1, privacy=ClientLevel(clip=1.0, noise=1.0, delta=0.1)).solve(sites)


def test_a_penalty_that_sites_choose_by_their_data_is_refused() -> None:
    rng = np.random.default_rng(0)
    data = {name: (rng.normal(size=(30, 3)), rng.integers(2, size=30)) for name in "ab"}
    sites = rs.federated.Sites(data, choose_penalty=lambda f: rs.penalties.L2(f.smoothness.L_f))
    with pytest.raises(rs.InputError, match="choose_penalty must be None with privacy"):
        rs.FedRR(step=0.1, privacy=ClientLevel(clip=1.0, noise=1.0, delta=0.1)).solve(sites)
