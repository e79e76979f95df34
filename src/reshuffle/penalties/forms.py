"""Penalties in the form that the core reads: numbers per coordinate, or per coordinate and group.

The coordinates are those of x without its intercept, flat (row after row for a matrix unknown).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.core import native


class Coordinates(NamedTuple):
    """Σ_j l1_j|x_j| + (l2_j/2)x_j² + indicator(low_j ≤ x_j ≤ high_j)."""

    l1: Array
    l2: Array
    low: Array
    high: Array

    @property
    def one_by_one(self) -> Coordinates | None:
        """The form itself, if no group ties coordinates together."""
        return self

    @property
    def in_groups(self) -> Groups | None:
        """The groups, if there are any."""
        return None

    @property
    def holds_at_zero(self) -> bool:
        """Whether some coordinate stays at zero although its gradient is not zero."""
        return bool(self.l1.any() or np.any(self.low == 0.0) or np.any(self.high == 0.0))

    @property
    def free(self) -> NDArray[np.bool_]:
        """The coordinates on which the form does not depend."""
        bounded = (self.low > -np.inf) | (self.high < np.inf)
        return ~((self.l1 > 0) | (self.l2 > 0) | bounded)


class Groups(NamedTuple):
    """Σ_j l1_j|x_j| + (l2/2)‖x‖² + Σ_g strengths_g·‖x_g‖₂ over disjoint groups of coordinates.

    Group g has the coordinates members[starts[g]], …, members[starts[g+1] - 1]; a coordinate in no group is
    penalised by l1 and l2 only.
    """

    l1: Array
    l2: float
    strengths: Array
    members: NDArray[np.uint32]
    starts: NDArray[np.int64]

    @property
    def one_by_one(self) -> Coordinates | None:
        return None

    @property
    def in_groups(self) -> Groups | None:
        return self

    @property
    def holds_at_zero(self) -> bool:
        return bool(self.l1.any() or self.strengths.any())

    @property
    def free(self) -> NDArray[np.bool_]:
        held = (self.l1 > 0) | (self.l2 > 0)
        strengths = np.repeat(self.strengths, np.diff(self.starts))
        held[self.members[: self.starts[-1]][strengths > 0]] = True
        return ~held


Form = Coordinates | Groups
NO_PENALTY = Coordinates(*(np.empty(0) for _ in range(4)))


def native_form(form: object) -> native.Form:
    """A compiled penalty as an object of the core, with its arrays checked."""
    if isinstance(form, Coordinates):
        return native.coordinates(*form)
    if isinstance(form, Groups):
        return native.groups(*form)
    raise TypeError(f"a compiled penalty is Coordinates or Groups, got {type(form).__name__}")
