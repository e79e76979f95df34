"""The account of a run: how much ε its epochs or rounds have spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from reshuffle.privacy.epsilon import epsilon_of_allocations, epsilon_of_releases
from reshuffle.privacy.guarantee import NEIGHBOURS, Guarantee
from reshuffle.privacy.levels import Level

ANY_ORDER = "Gaussian releases one after the other, which holds for any order"
ALLOCATION = "balls and bins: each sample drew its step of each pass at random, in secret"
COMMON = (
    "the numbers of samples and of clients, the columns, the classes, the weights and all settings are public",
    "x0 does not depend on the data",
    "the noise is Gaussian in double precision, by numpy's generator with a key from the system; attacks on the "
    "rounding of floating-point noise are not covered",
)
"""What every account assumes."""

RESUMED = (
    "each time that the run was resumed, the epoch or round that was interrupted is counted twice; of any further ones after "
    "the file from which it went on, nobody has seen anything"
)


@dataclass(frozen=True)
class Account:
    """Computes ε after any number of epochs or rounds.

    A unit takes part in one release in every ``turns`` epochs or rounds. ``steps`` is the number of steps among which a
    sample secretly drew its own, if it did.
    """

    level: Level
    multiplier: float
    turns: int = 1
    steps: int | None = None
    assumed: tuple[str, ...] = field(default=())

    def releases(self, epochs: int) -> int:
        """The largest number of releases to which a unit has contributed after ``epochs`` epochs or rounds."""
        return -(-epochs // self.turns)

    def after(self, epochs: int, *, final: bool = True, repeated: int = 0) -> Guarantee:
        """The guarantee of all models up to this epoch, ``repeated`` of which were made twice, with new noise. The ε of allocations takes
        seconds to compute: before the end, the ε for any order is used instead, which is valid but larger."""
        level, count = self.level, self.releases(epochs) + repeated
        z, delta = self.multiplier, level.delta
        secret = final and self.steps is not None
        epsilon = (
            epsilon_of_allocations(z, self.steps or 1, count, delta)
            if secret
            else epsilon_of_releases(z, count, delta)
        )
        return Guarantee(
            epsilon, delta, level.unit, NEIGHBOURS[level.unit], float(level.clip), z, count,
            ALLOCATION if secret else ANY_ORDER, (*COMMON, *self.assumed, *((RESUMED,) if repeated else ())),
        )  # fmt: skip
