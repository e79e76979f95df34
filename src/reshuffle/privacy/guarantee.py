"""The guarantee of a private run, as a record in results and model files, and the account by which it is made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Self

from reshuffle.errors import InputError, shown
from reshuffle.privacy.epsilon import epsilon_of_allocations, epsilon_of_releases
from reshuffle.privacy.levels import Level

NEIGHBOURS = {
    "client": "zero-out: two federations of equal size are neighbours if one client's change of the model is zero in one "
    "of them",
    "sample": "zero-out: two data sets of equal size are neighbours if one sample's gradients are zero in one of them",
}
"""The relation under which ε holds. For replacing a unit by another one, ε doubles and δ becomes (1 + e^ε)·δ."""
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
class Guarantee:
    """(ε, δ) of all models of a run together, with the neighbouring relation and the assumptions."""

    epsilon: float
    delta: float
    unit: str
    """The protected unit: "client" or "sample"."""
    neighbours: str
    clip: float
    noise: float
    """z, the noise multiplier."""
    releases: int
    """The number of noised sums to which one unit contributed."""
    account: str
    """How ε was computed."""
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"ε = {self.epsilon:.4g} at δ = {self.delta:.3g} for each {self.unit} ({self.releases} releases with "
            f"noise {self.noise:.4g}·C, C = {self.clip:.4g}; {self.account})"
        )

    def to_text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The guarantee of a header."""
        try:
            return cls.from_record(json.loads(text))
        except (ValueError, TypeError):
            raise InputError(
                f"privacy of a result must be a guarantee, got {shown(text)}"
            ) from None

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The guarantee of a record made by ``asdict``; raises ``ValueError`` if it is not one."""
        names = {part.name for part in fields(cls)}
        if not isinstance(record, dict) or set(record) != names:
            raise ValueError("its record of privacy is not a guarantee")
        epsilon, delta = float(record["epsilon"]), float(record["delta"])
        if not (epsilon >= 0 and 0 < delta < 1):
            raise ValueError("its ε or δ is not a valid number")
        return cls(
            epsilon, delta, str(record["unit"]), str(record["neighbours"]), float(record["clip"]),
            float(record["noise"]), int(record["releases"]), str(record["account"]),
            tuple(map(str, record["assumed"])),
        )  # fmt: skip


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
        epsilon = epsilon_of_releases(z, count, delta)
        if secret:
            epsilon = epsilon_of_allocations(z, self.steps or 1, count, delta)
        return Guarantee(
            epsilon, delta, level.unit, NEIGHBOURS[level.unit], float(level.clip), z, count,
            ALLOCATION if secret else ANY_ORDER, (*COMMON, *self.assumed, *((RESUMED,) if repeated else ())),
        )  # fmt: skip
