"""Decides how long second-order steps pause after one of them."""

from __future__ import annotations

from reshuffle.solvers.exact.newton_steps import Progress
from reshuffle.solvers.exact.state import NewtonState
from reshuffle.solvers.exact.view import View

HELPED = 0.01
"""Second-order steps pause after one that gained less than this share of tol·f(0)."""
REST = 5
"""After a second-order step that did not help, this many epochs are made besides the one between two steps."""
PRECISION = 1e-13
"""The best accuracy, over f(0), that rounding allows: smaller tolerances count as this."""


def after_steps(view: View, gained: float, between: int, cost: float) -> NewtonState:
    """The state of the second-order phases after their steps: the next ones follow after ``between`` epochs.

    If the steps did not help, epochs are made for as long as the steps took, ``cost`` nanoseconds, and at least ``REST`` + 1.
    """
    helped = gained > HELPED * view.run.at_zero * max(view.run.solver.tol, PRECISION)
    paid = between if helped else max(REST + 1, round(cost / view.epoch_cost))
    rest = view.epoch + 1 + paid
    return view.state.newton._replace(rest=rest, progress=Progress())
