"""Watches how far each epoch moves x, and derives from it the step, the next certificate and the epochs left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.objective import Array

WINDOW = 4
"""The movement must fall over this many epochs."""
SLOW = 0.2
"""A longer step is tried if the movement is more than this share of that ``TRIED`` epochs before."""
TRIED = 3
"""A longer step is tried, or kept, by how the movement fell over this many epochs."""
OFTEN = 0.1
"""The features that were left out are reviewed when the movement has fallen to this share."""
SETTLING = -2.0
"""The count of calm epochs at the start of a run; it is negative, so that two more must pass before a longer step is tried."""
NEVER = -1.0
"""The value of ``rate`` after a longer step failed: none is tried again."""
USUAL = 0.4
"""An epoch usually leaves this share of the movement, as measured on the sets of benchmarks/cases.py."""
SLOWEST = 0.9
"""If an epoch leaves more than this share of the movement, epochs make no progress, unless few of them are left."""
NEARBY = 8.0
"""The most epochs that count as few."""
SQUARE = 2.0
"""The power of the movement that a certificate falls like if its dual point does not lag behind."""
STEEPEST = 4.0
"""The largest such power with a ridge on several outputs: 3.7 was measured on ten classes of images."""
ROUNDING = 1e-12
"""Differences of the objective below this share of it are rounding."""
LONGEST = 64.0
"""The largest factor of the step. If P is so flat that longer steps would help, Newton steps are better."""


class MovementMonitor(NamedTuple):
    """Numbers about the run that are part of its state; they are saved as ``array``."""

    factor: float = 1.0
    """The step is the default one times this."""
    due: float = np.inf
    """The movement below which a certificate is due."""
    seen: float = np.inf
    """The last objective that was computed."""
    review: float = np.inf
    """The movement below which the features that were left out are reviewed."""
    rarity: float = OFTEN
    """The share to which the movement must fall before the next review."""
    calm: float = SETTLING
    """Epochs since the step or the features changed."""
    rate: float = np.inf
    """How the movement fell before the longer step on trial; infinite if none is on trial, ``NEVER`` after
    one that failed."""
    checked: float = np.inf
    """The last certificate."""
    at: float = np.inf
    """The movement when the last certificate was computed."""
    goal: float = np.inf
    """The movement at which the wanted accuracy is expected."""
    power: float = SQUARE
    """The power of the movement that the certificate falls like: as theory has it, then as the last two certificates had it."""
    longest: float = LONGEST
    """The largest factor that may be tried: half of the last one with which P rose."""
    since: float = 0.0
    """Epochs since the start of the run, or since a step of another phase."""
    moves: tuple[float, ...] = (np.inf,) * WINDOW
    """‖x_{t+1} - x_t‖ of past epochs."""

    @classmethod
    def of(cls, numbers: Array) -> MovementMonitor:
        """The numbers from their saved ``array``."""
        named = dict(zip(cls._fields, numbers[:-WINDOW].tolist(), strict=False))
        return cls(**named | {"moves": tuple(numbers[-WINDOW:].tolist())})

    def array(self) -> Array:
        """All numbers in one array, for saving."""
        return np.array([*self[:-1], *self.moves])

    def left(self) -> float:
        """Epochs until the wanted accuracy, if the movement continues to fall at its present rate.

        0 if nothing is known yet, infinite if the movement does not fall.
        """
        moved = self.moves[-1]
        if moved == 0.0:
            return np.inf
        if moved == np.inf or self.goal == np.inf:
            return 0.0
        if not moved > self.goal:
            return 1.0
        if not self.goal > 0:
            return np.inf
        rate = self.falls()
        if not rate < 1.0:
            return np.inf
        left = float(np.log(moved / self.goal) / -np.log(rate))
        return left if rate < SLOWEST or left <= NEARBY else np.inf

    def falls(self) -> float:
        """The share of the movement that one more epoch leaves.

        Only epochs of the same kind are compared. After a step of another phase, and while a longer step is on trial, these are the
        epochs since then; until there are two of them, the rate of those before is taken. Nor does it say anything
        that x moves farther where the run has just begun or features have come back.
        """
        known = [move for move in self.moves if move < np.inf]
        if 0.0 < self.since < len(known):
            count = int(self.since)
            known = known[-count:] if count > 1 else known[:-1]
        if 0.0 < self.rate < np.inf:
            known = known[-int(self.calm) :] if self.calm >= 2.0 else []
            if not known:
                return float(self.rate ** (1.0 / TRIED))
        elif self.calm <= 1.0 and len(known) > 1 and known[-1] > known[-2]:
            known = known[:-1]
        fell = known[-1] / known[0] if len(known) > 1 and known[0] > 0 else USUAL
        return float(fell ** (1.0 / max(len(known) - 1, 1)))

    def squarings(self, tol: float) -> float:
        """How often the accuracy that is expected now has to be squared until it is ``tol``; infinite if nothing is known."""
        if not (0.0 < self.goal < np.inf and 0.0 < tol < 1.0):
            return np.inf
        now = tol * (self.moves[-1] / self.goal) ** self.power
        return float(np.log2(max(np.log(tol) / np.log(now), 1.0))) if now < 1.0 else np.inf

    def may_have_reached(self, tol: float) -> bool:
        """Whether epochs may have reached ``tol`` unseen: no certificate was computed, or the last one has since fallen like the square of the movement."""
        if self.checked == np.inf:
            return self.moves[-1] < np.inf
        return bool(self.checked * (self.moves[-1] / self.at) ** SQUARE <= tol)

    @property
    def at_rest(self) -> bool:
        """Whether the movement is zero, or so small that a certificate is due."""
        moved = self.moves[-1]
        return moved == 0.0 or (moved < np.inf and not moved > self.due and self.due < np.inf)

    def moved(self, distance: float) -> MovementMonitor:
        """The numbers after a step that is not an epoch and moved x this far."""
        return self._replace(moves=(*self.moves[1:], distance))

    def elsewhere(self) -> MovementMonitor:
        """The numbers after a step of another phase, which moved x in its own way."""
        return self._replace(since=0.0, calm=min(self.calm, 0.0))

    def unsettled(self) -> MovementMonitor:
        """The numbers after the active features changed."""
        return self._replace(calm=0.0, review=np.inf)

    def after_check(self, value: float, tol: float, steepest: float = SQUARE) -> MovementMonitor:
        """The numbers with a new certificate, and the movement at which the next one is due.

        The certificate falls like the movement if the dual point lags behind, otherwise like its square, and up to the
        power ``steepest`` if x moves along flat directions, in which the gradient is small; the last two certificates show
        which. The second certificate is due where the square would have it, so that it does not come too late.
        """
        moved, soon, power = self.moves[-1], SQUARE, self.power
        if not value < np.inf:  # there is no bound yet
            return self
        if not (0 < value and 0 < moved < np.inf):
            return self._replace(due=np.inf, goal=np.inf)
        between = 0.0 < self.since and self.checked < np.inf
        if between and self.checked > value and self.at > moved:
            power = min(max(np.log(self.checked / value) / np.log(self.at / moved), 1.0), steepest)
            soon = power
        due, goal = (moved * (1.5 * tol / value) ** (1.0 / each) for each in (soon, power))
        return self._replace(due=due, goal=goal, power=power, checked=value, at=moved)

    def shortened(self, most: float) -> MovementMonitor:
        """The numbers after an undone epoch: half the step, with a factor of at most ``most``."""
        half = self.factor / 2.0
        return self._replace(factor=min(half, most), longest=half)

    def steady(self, objective: float) -> MovementMonitor:
        """The numbers after epochs whose movement did not fall; the objective shows why.

        If P still falls, the way is long and flat, and the step is doubled. If not, the iterate
        circles, and the step is halved. After the first epoch like this the objective is only remembered.
        """
        factor, longest, rounding = self.factor, self.longest, ROUNDING * abs(self.seen)
        if self.seen < np.inf and abs(objective - self.seen) > rounding:
            if objective < self.seen:
                factor = max(min(2.0 * factor, longest), factor)
            else:
                factor = longest = factor / 2.0
        return MovementMonitor(
            factor, self.due, objective, self.review, self.rarity, checked=self.checked, at=self.at, goal=self.goal, power=self.power,
            longest=longest,
        )  # fmt: skip

    def after(self, moved: float, tol: float, longest: float) -> MovementMonitor:
        """The numbers after one more epoch with this movement, and with the step that it suggests.

        If three calm epochs in a row leave more than ``SLOW`` of the movement, the problem is
        ill-conditioned rather than noisy: a step of twice the length (up to the factor
        ``longest``) is tried, and kept if the movement then falls faster.
        """
        scale, at = 1.0, self.at
        if self.since == 0.0 and at == self.moves[-1] < np.inf:
            # the last certificate followed a step of another phase, and belongs to the movement that an epoch there would have made
            scale, at = moved / (self.falls() * self.moves[-1]), moved / self.falls()
        due, goal = (
            moved * (10.0 * tol) ** (1.0 / power) if known == np.inf else scale * known
            for known, power in ((self.due, SQUARE), (self.goal, self.power))
        )
        review = moved * self.rarity if self.review == np.inf else self.review
        factor, calm, rate = self.factor, self.calm + 1.0, self.rate
        if calm > TRIED and 0 < self.moves[-TRIED] < np.inf:
            fell = moved / self.moves[-TRIED]
            if rate == np.inf and fell > SLOW and 2.0 * factor <= min(longest, self.longest):
                factor, calm, rate = 2.0 * factor, 0.0, fell
            elif 0 < rate < np.inf:
                better = fell <= rate
                factor, rate = (factor, np.inf) if better else (0.5 * factor, NEVER)
        return self._replace(
            factor=factor,
            due=due,
            goal=goal,
            review=review,
            calm=calm,
            rate=rate,
            at=at,
            since=self.since + 1.0,
            moves=(*self.moves[1:], moved),
        )
