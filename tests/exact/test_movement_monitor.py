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
