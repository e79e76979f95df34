"""What the exact method watches to keep its pace: numbers about the run, part of its state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.objective import Array

WINDOW = 4  # epochs over which the iterate must have slowed down
SLOW = 0.2  # of the movement three epochs before: slower than this, a longer step is tried
OFTEN = 0.1  # of the movement: how far it falls between two reviews of the features left out
SETTLING = -2.0  # calm epochs at the start: two more must pass before a longer step is tried
NEVER = -1.0
USUAL = 0.4  # of the movement, from one epoch to the next, on the sets of benchmarks/cases.py
SLOWEST = 0.9  # of it: beyond, epochs do not come nearer
ROUNDING = 1e-12  # of the objective: a difference that says nothing about the way
LONGEST = 64.0  # of the step: on flat ground that is longer still, Newton steps go further


class MovementMonitor(NamedTuple):
    """Numbers, one after the other in an array, so that they are saved and resumed like x."""

    factor: float = 1.0
    """Of the step."""
    due: float = np.inf
    """The movement below which a certificate is due."""
    seen: float = np.inf
    """The last objective that was looked at."""
    review: float = np.inf
    """The movement below which the features that were left out are looked at again."""
    rarity: float = OFTEN
    """By how much the movement has to fall until then."""
    calm: float = SETTLING
    """Epochs since the step or the features changed."""
    rate: float = np.inf
    """How the movement fell before the longer step on trial; infinite where none is, ``NEVER`` after
    one that failed."""
    checked: float = np.inf
    """The last certificate, and"""
    at: float = np.inf
    """the movement when it was computed."""
    moves: tuple[float, ...] = (np.inf,) * WINDOW
    """‖x_{t+1} - x_t‖ of past epochs."""

    @classmethod
    def of(cls, numbers: Array) -> MovementMonitor:
        named = dict(zip(cls._fields, numbers[:-WINDOW].tolist(), strict=False))
        return cls(**named | {"moves": tuple(numbers[-WINDOW:].tolist())})

    def array(self) -> Array:
        return np.array([*self[:-1], *self.moves])

    def left(self) -> float:
        """Epochs until a certificate is due, if the movement goes on falling as it does.

        0 where nothing is known yet, infinite where it does not fall.
        """
        known = [move for move in self.moves if move < np.inf]
        if known and known[-1] == 0.0:
            return np.inf
        if not known or self.due == np.inf:
            return 0.0
        if not known[-1] > self.due:
            return 1.0
        if not self.due > 0:
            return np.inf
        rate = self.falls()
        return float(np.log(known[-1] / self.due) / -np.log(rate)) if rate < SLOWEST else np.inf

    def falls(self) -> float:
        """How much of the movement is left after one more epoch."""
        known = [move for move in self.moves if move < np.inf]
        fell = known[-1] / known[0] if len(known) > 1 and known[0] > 0 else USUAL
        return float(fell ** (1.0 / max(len(known) - 1, 1)))

    def squarings(self, tol: float) -> float:
        """How often the accuracy has to be squared until a certificate of ``tol`` is due.

        Accuracy falls like the square of the movement. Infinite where nothing is known.
        """
        if not (0.0 < self.due < np.inf and 0.0 < tol < 1.0):
            return np.inf
        now = tol * (self.moves[-1] / self.due) ** 2
        return float(np.log2(max(np.log(tol) / np.log(now), 1.0))) if now < 1.0 else np.inf

    @property
    def rests(self) -> bool:
        """Whether the movement has fallen as far as it is hoped to."""
        return self.moves[-1] == 0.0 or self.left() == 1.0

    def unsettled(self) -> MovementMonitor:
        """After the features changed."""
        return self._replace(calm=0.0, review=np.inf)

    def after_check(self, value: float, tol: float) -> MovementMonitor:
        """With a certificate, and the movement at which the next one is due.

        It falls like the movement where the dual point lags behind, and like its square where it does not:
        the last two tell which. Of the first nothing is known but that the square is the most.
        """
        moved, power = self.moves[-1], 2.0
        if not value < np.inf:  # nothing was learnt
            return self
        if not (0 < value and 0 < moved < np.inf):
            return self._replace(due=np.inf)
        if self.checked > value and self.at > moved and self.checked < np.inf:
            power = min(max(np.log(self.checked / value) / np.log(self.at / moved), 1.0), 2.0)
        due = moved * (1.5 * tol / value) ** (1.0 / power)
        return self._replace(due=due, checked=value, at=moved)

    def shortened(self, most: float) -> MovementMonitor:
        """After an epoch that was undone: half the step, and at most ``most``."""
        return self._replace(factor=min(self.factor / 2.0, most))

    def steady(self, objective: float) -> MovementMonitor:
        """After epochs that did not slow down: the objective tells why.

        Where it still falls, the way is long and flat, and the step is doubled; where it does not, the
        iterate circles, and the step is halved. The first such epoch only remembers the objective.
        """
        change, rounding = 1.0, ROUNDING * abs(self.seen)
        if self.seen < np.inf and abs(objective - self.seen) > rounding:
            change = 2.0 if objective < self.seen else 0.5
        factor = min(self.factor * change, max(LONGEST, self.factor))
        return MovementMonitor(
            factor, self.due, objective, self.review, self.rarity, checked=self.checked, at=self.at
        )

    def after(self, moved: float, tol: float, longest: float) -> MovementMonitor:
        """With the movement of one more epoch, and the step that it suggests.

        Where three calm epochs in a row brought the movement down to ``SLOW`` of what it was and no
        further, the problem is ill-conditioned rather than noisy; a step of twice the length (up to
        the factor ``longest``) is tried, and kept if the movement then falls faster.
        """
        due = moved * np.sqrt(10.0 * tol) if self.due == np.inf else self.due
        review = moved * self.rarity if self.review == np.inf else self.review
        factor, calm, rate = self.factor, self.calm + 1.0, self.rate
        if calm > 3 and 0 < self.moves[-3] < np.inf:
            fell = moved / self.moves[-3]
            if rate == np.inf and fell > SLOW and 2.0 * factor <= longest:
                factor, calm, rate = 2.0 * factor, 0.0, fell
            elif 0 < rate < np.inf:
                better = fell <= rate
                factor, rate = (factor, np.inf) if better else (0.5 * factor, NEVER)
        return self._replace(
            factor=factor,
            due=due,
            review=review,
            calm=calm,
            rate=rate,
            moves=(*self.moves[1:], moved),
        )
