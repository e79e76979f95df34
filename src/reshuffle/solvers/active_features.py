"""Chooses the features of a second-order step: those that are not zero or may soon leave zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.penalties import Able
from reshuffle.penalties.abilities import closed, needed_form, rows
from reshuffle.penalties.forms import Form
from reshuffle.solvers.exact.costs import LARGEST

SLACK = 0.8
"""A feature at zero may soon be needed if its slope exceeds this share of the penalty's strength."""
MORE = 200
"""At most this many features at zero join the active ones in a step, or as many as are active if that is more."""
LEAST_SLOPE = 1e-100
"""A slope that is practically zero, but whose square does not underflow."""

Mask = NDArray[np.bool_]


class TooWide(InputError):
    """Raised if more features matter than a Hessian can have."""


class ActiveFeatures:
    """ψ + (ridge/2)‖·‖² on the first ``features`` rows of an unknown of this shape, and which of them a step is made in.

    The penalty has the abilities ``compiled``, ``part``, ``excess`` and ``together``. ``advice`` ends the message
    of the error that is raised if the penalty holds too few features at zero: the Hessian of the others has at most ``most`` columns.
    """

    def __init__(
        self, penalty: Able, shape: tuple[int, ...], features: int, ridge: float, advice: str, most: int = LARGEST
    ) -> None:  # fmt: skip
        self.penalty, self.ridge, self.features, self.shape = penalty, ridge, features, shape
        self.advice, self.most = advice, most
        zero, least = np.zeros((features, *shape[1:])), np.full((features, *shape[1:]), LEAST_SLOPE)
        sides = [penalty.excess(zero, s * least) > 0.0 for s in (-1.0, 1.0)]
        self.smooth = rows(sides[0] & sides[1])
        """The features that even the smallest slope, of either sign, moves away from zero."""

    def value(self, x: Array) -> float:
        """ψ(x) + (ridge/2)‖x‖²."""
        x = x[: self.features]
        return self.penalty.value(x) + 0.5 * self.ridge * float(np.sum(x * x))

    def form(self, active: Mask) -> Form:
        """ψ with the ridge on these features, in the form for the solver of the models."""
        shape = (int(np.count_nonzero(active)), *self.shape[1:])
        kept = np.flatnonzero(active).astype(np.uint32)
        whole = shape[0] == self.features
        part = self.penalty if whole else self.penalty.part(kept, (self.features, *shape[1:]))
        return needed_form(part, shape, self.ridge)

    def missing(self, x: Array, g: Array, active: Mask) -> bool:
        """Whether a feature that is not active would leave zero with these slopes."""
        beyond = self.penalty.excess(x[: self.features], g[: self.features])
        return bool(np.any(rows(beyond > 0.0) & ~active))

    def wanted(self, x: Array, g: Array) -> Mask:
        """The features that are not zero, or would leave zero with these slopes."""
        beyond = self.penalty.excess(x[: self.features], g[: self.features])
        pressing = beyond.reshape(self.features, -1).max(axis=1)
        held = self.with_others((pressing == np.inf) | self.smooth)
        count, room = int(np.count_nonzero(held)), self.room
        if count > room:
            raise self.too_wide(count)
        others = np.flatnonzero(~held & (pressing > 0.0))
        order = np.argsort(-pressing[others], kind="stable")
        chosen = held.copy()
        chosen[others[order[: min(room - count, max(MORE, count))]]] = True
        return self.with_others(chosen)

    @property
    def room(self) -> int:
        """The most features of a Hessian."""
        return self.most // int(np.prod(self.shape[1:])) - (self.shape[0] - self.features)

    def too_wide(self, count: int) -> TooWide:
        """The error if ``count`` features matter, too many for a Hessian."""
        return TooWide(
            "Newton steps write out the Hessian of the features that no penalty holds at zero, at most "
            f"{self.room} here, and there are {count}: {self.advice}"
        )

    def with_others(self, features: Mask) -> Mask:
        """These features, and those that the penalty keeps together with them."""
        shape = (self.features, *self.shape[1:])
        column = features.reshape(-1, *[1] * (len(shape) - 1))
        return closed(self.penalty, np.broadcast_to(column, shape))
