"""What the exact method watches to keep its pace: numbers about the run, part of its state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.finite_sum import Array

WINDOW = 4  # epochs over which the iterate must have slowed down
SLOW = 0.2  # of the movement three epochs before: slower than this, a longer step is tried
OFTEN = 0.1  # of the movement: how far it falls between two reviews of the features left out
NEVER = -1.0


class Watch(NamedTuple):
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
    calm: float = -2.0
    """Epochs since the step or the features changed, less two at the beginning."""
    pace: float = np.inf
    """How the movement fell before the longer step on trial; infinite where none is, ``NEVER`` after
    one that failed."""
    moves: tuple[float, ...] = (np.inf,) * WINDOW
    """‖x_{t+1} - x_t‖ of past epochs."""

    @classmethod
    def of(cls, numbers: Array) -> Watch:
        factor, due, seen, review, rarity, calm, pace, *moves = numbers.tolist()
        return cls(factor, due, seen, review, rarity, calm, pace, tuple(moves))

    def array(self) -> Array:
        return np.array([*self[:-1], *self.moves])

    def unsettled(self) -> Watch:
        """After the features changed."""
        return self._replace(calm=0.0, review=np.inf)

    def after(self, moved: float, tol: float, longest: float) -> Watch:
        """With the movement of one more epoch, and the step that it suggests.

        Where three calm epochs in a row brought the movement down to ``SLOW`` of what it was and no
        further, the problem is ill-conditioned rather than noisy; a step of twice the length (up to
        the factor ``longest``) is tried, and kept if the movement then falls faster.
        """
        due = moved * np.sqrt(10.0 * tol) if self.due == np.inf else self.due
        review = moved * self.rarity if self.review == np.inf else self.review
        factor, calm, pace = self.factor, self.calm + 1.0, self.pace
        if calm > 3 and 0 < self.moves[-3] < np.inf:
            fell = moved / self.moves[-3]
            if pace == np.inf and fell > SLOW and 2.0 * factor <= longest:
                factor, calm, pace = 2.0 * factor, 0.0, fell
            elif 0 < pace < np.inf:
                better = fell <= pace
                factor, pace = (factor, np.inf) if better else (0.5 * factor, NEVER)
        return self._replace(
            factor=factor,
            due=due,
            review=review,
            calm=calm,
            pace=pace,
            moves=(*self.moves[1:], moved),
        )
