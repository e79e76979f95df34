"""What the movement of x over the epochs tells: the epochs left, and when a certificate is due."""

from __future__ import annotations

import numpy as np
import pytest

from reshuffle.solvers.exact.movement_monitor import SQUARE, STEEPEST, MovementMonitor

RATE = 0.7
"""The share of the movement that an epoch leaves in these runs."""


def run_of(epochs: int, longest: float) -> list[MovementMonitor]:
    """The monitors of a run whose movement falls by ``RATE`` an epoch and is proportional to the step."""
    monitor, found = MovementMonitor(), []
    for epoch in range(epochs):
        monitor = monitor.after(monitor.factor * RATE**epoch, 1e-4, longest)
        found.append(monitor)
    return found


def test_a_longer_step_on_trial_is_no_lack_of_progress() -> None:
    """Its first epoch moves x farther than the last one did, at the same rate as ever."""
    monitors = run_of(12, longest=2.0)
    tried = [m for m in monitors if m.factor == 2.0]
    assert tried
    assert tried[1].moves[-1] > tried[1].moves[-2]
    for monitor in monitors[2:]:
        assert monitor.falls() == pytest.approx(RATE, abs=0.02) or monitor.rate < 0.0
        assert monitor.left() < np.inf


def test_epochs_left_do_not_depend_on_whether_a_longer_step_is_tried() -> None:
    for plain, trying in zip(run_of(8, longest=1.0), run_of(8, longest=2.0), strict=True):
        if trying.rate != -1.0:
            assert trying.left() <= plain.left() + np.log(2.0) / -np.log(RATE) + 1e-9


@pytest.mark.parametrize("power", [1.0, 2.0, 3.7])
def test_two_certificates_tell_how_fast_the_gap_falls(power: float) -> None:
    """The next one is then due where the gap is about tol."""
    tol, monitor = 1e-6, MovementMonitor()
    for moved in (1.0, 0.5):
        monitor = monitor.after(moved, tol, 1.0).after_check(0.1 * moved**power, tol, STEEPEST)
    assert 0.1 * monitor.due**power == pytest.approx(1.5 * tol)
    slower = MovementMonitor()
    for moved in (1.0, 0.5):
        slower = slower.after(moved, tol, 1.0).after_check(0.1 * moved**power, tol)
    assert slower.due <= monitor.due * (1.0 + 1e-12)
    assert (slower.due == pytest.approx(monitor.due)) == (power <= SQUARE)


def test_a_factor_with_which_p_rose_is_not_tried_again() -> None:
    """On a long flat stretch the factor doubles whenever P falls, but stays below one that made P rise."""
    monitor = MovementMonitor().steady(1.0)
    objectives, factors = iter(1.0 - 0.01 * np.arange(1, 20)), []
    for _ in range(2):
        monitor = monitor.steady(next(objectives))
    assert monitor.factor == 4.0
    monitor = monitor.steady(2.0)  # P rose: the iterate circles
    for objective in objectives:
        monitor = monitor.steady(objective)
        factors.append(monitor.factor)
    assert set(factors) == {2.0}
    undone = MovementMonitor(factor=4.0).shortened(np.inf)
    assert undone.factor == undone.steady(1.0).steady(0.9).factor == 2.0
    for epoch in range(12):  # nor on trial
        undone = undone.after(RATE**epoch, 1e-4, 64.0)
    assert undone.factor == 2.0


def test_only_epochs_since_another_phase_tell_the_rate() -> None:
    """A Newton step moved x far, and its movement is none of the epochs that follow."""
    monitor = MovementMonitor()
    for moved in (1.0, 0.5, 0.25, 0.125):
        monitor = monitor.after(moved, 1e-9, 1.0)
    monitor = monitor.elsewhere()
    for moved in (40.0, 32.0, 25.6):
        monitor = monitor.after(moved, 1e-9, 1.0)
        assert monitor.falls() == pytest.approx(0.5 if moved == 40.0 else 0.8)


def test_a_certificate_after_another_phase_belongs_to_an_epoch_there() -> None:
    """The movement to aim at is scaled by the first epoch after it, not by the movement before the step."""
    tol, monitor = 1e-6, MovementMonitor()
    for moved in (1.0, 0.5):
        monitor = monitor.after(moved, tol, 1.0)
    near = monitor.elsewhere().after_check(1e-4, tol).after(0.01, tol, 1.0)
    assert near.goal == pytest.approx(0.02 * np.sqrt(1.5 * tol / 1e-4))
