"""Runs rounds whose P(x) and certificate come with the replies of the next round.

Only the sites know f at x, and a separate question would be a round that trains nothing. So every reply reports the client's
values at the x from which the round began: the last row of the trace is completed a round later, and if the certificate
is good enough the run ends at that x and discards the round that brought it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reshuffle.callbacks import Callback
from reshuffle.solvers.method import Epoch, State
from reshuffle.solvers.run import BLOW_UP, Run
from reshuffle.trace import Result


class Reported(NamedTuple):
    """The clients' reports about the point from which a round began."""

    objective: float
    """P(x)."""
    measure: float
    """The certificate that ``tol`` is compared with."""
    state: State
    """The state with that x, for a run that ends there."""


@dataclass(frozen=True)
class RoundEpoch(Epoch):
    """A round, with the reports about its start if the replies had them."""

    reported: Reported | None = None


class DelayedRun(Run):
    """A run that knows P(x) of its last round only when the next one is done."""

    ended_before = False
    """Whether the last reports ended the run at the start of the round that brought them."""

    def _accept(self, done: Epoch, step: float, seconds: float) -> float:
        reported = done.reported if isinstance(done, RoundEpoch) else None
        if reported is None or not self._complete(reported) <= self.solver.tol:
            return super()._accept(done, step, seconds)
        self.ended_before, self.state, self.seconds = True, reported.state, seconds
        self.gradients += done.gradients
        return reported.measure

    def _look(self, measure: float, callbacks: Sequence[Callback]) -> str:
        return "" if self.ended_before else super()._look(measure, callbacks)

    def _finish(self, converged: bool, message: str) -> Result:
        if not self.ended_before:
            method: Any = self.method
            measure = self._complete(method.ask_about(self.state))
            if measure <= self.solver.tol:
                message, converged = self._stop(measure)
        return super()._finish(converged, message)

    def _complete(self, reported: Reported) -> float:
        """Complete the last row of the trace; returns the certificate, or NaN if none is wanted."""
        objective, measure = reported.objective, reported.measure
        if self.trace.latest("epoch") == self.epoch:
            self.trace.amend(**{"objective": objective, self.method.certificate: measure})
        if np.isnan(self.start_objective):
            self.start_objective = self.trace["objective"][0]
        if objective < self.best[0]:
            self.best = objective, self.method.x_of(reported.state)
        grown = objective > BLOW_UP * (1.0 + abs(self.start_objective))
        if grown and not self.method.takes_back:
            self._raise_divergence(self.step)
        return measure if self.solver.tol > 0 else np.nan
