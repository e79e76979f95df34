"""A watch on the step of ExactFedRR, by the residuals ‖T(z) - z‖ of its rounds alone.

With the solutions as fixed points of a T that does not expand, plain rounds have residuals that do not grow.
Where one grows, or hardly falls any more, γ may be too long for the local passes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from reshuffle.federated.anderson import GROWTH
from reshuffle.objective import Array

PATIENCE = 50  # rounds in which a residual that falls at all should have been halved
QUIET = 1e-8  # of the first residual: from here on rounding may have a part in it
STUCK = 0.65  # of the residual that was last a half: above it there is next to no progress
LEAST = 1.0 / 16.0  # of the step that was chosen: if it does not go with this, it is not the step


class Pace(NamedTuple):
    """How the residual ‖T(z) - z‖ goes: part of the state of a run."""

    factor: float = 1.0
    """Of the step that was chosen."""
    first: float = 0.0
    """The first residual of the run."""
    halved: float = np.inf
    """The residual when it had last fallen to a half."""
    since: float = 0.0
    """Rounds since then."""
    least: float = np.inf
    """The least residual with this step."""

    @classmethod
    def of(cls, numbers: Array) -> Pace:
        return cls(*numbers.tolist())

    def after(self, residual: float) -> Pace:
        """The pace after a round with this residual."""
        new = self if self.first else self._replace(first=residual, halved=residual)
        new = new._replace(least=min(new.least, residual))
        if residual <= 0.5 * new.halved:
            return new._replace(halved=residual, since=0.0)
        return new._replace(since=new.since + 1.0)

    @property
    def stalls(self) -> bool:
        """Whether the residual has not fallen to a half for long, and is no rounding."""
        return self.since >= PATIENCE and self.halved > QUIET * self.first

    @property
    def stuck(self) -> bool:
        """Whether it stalls and has hardly fallen at all, or stalls for twice as long."""
        return self.stalls and (self.least > STUCK * self.halved or self.since >= 2 * PATIENCE)

    def trouble(self, residual: float, before: float | None) -> Literal["grew", "stuck", ""]:
        """Why the step should be halved after this residual, where it should.

        ``before`` is the residual of the round before, where this one was a plain step from there.
        """
        if self.factor <= LEAST:
            return ""
        if before is not None and residual > QUIET * self.first and residual > GROWTH * before:
            return "grew"
        return "stuck" if self.stuck else ""

    def anew(self) -> Pace:
        """The pace with half the step."""
        return Pace(0.5 * self.factor, self.first)

    @property
    def doubts(self) -> str:
        """What whoever gets a model now should know and try."""
        if not self.stalls:
            return ""
        return (
            f"the residual of the rounds has not halved for {self.since:.0f} rounds: try a shorter step, "
            "other local_passes, order=Reshuffle() with acceleration=0, or FedNewton"
        )
