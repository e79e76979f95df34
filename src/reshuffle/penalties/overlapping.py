"""Groups that may overlap: their lists, and the common part of the plain and the latent group lasso."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.errors import InputError, not_converged, shown, warn_user
from reshuffle.penalties.base import ByContent, as_numbers, check_non_negative, check_strength
from reshuffle.penalties.inexact import COLD, Approximate

GroupLists = Sequence[Sequence[int]] | Sequence[NDArray[np.int64]]


class Members(NamedTuple):
    """Index lists end to end, smallest group first; ``order`` says which group is where."""

    members: NDArray[np.int64]
    starts: NDArray[np.int64]
    order: NDArray[np.int64]


class OverlappingGroups(ByContent, ABC):
    """ψ = strength times a norm made of the norms of groups, with a prox by iterations."""

    strength: float
    groups: GroupLists
    weights: Sequence[float] | Array | None
    tolerance: float
    _known: dict[str, Members]

    strong_convexity = 0.0
    homogeneous = True

    def __post_init__(self) -> None:
        check_strength(self.strength)
        count = len(check_lists(self.groups))
        if self.weights is not None:
            weights = as_numbers("weights", self.weights)
            check_non_negative("weights", weights)
            if weights.shape != (count,):
                raise InputError(
                    f"weights must hold {count} numbers, one per group, got shape {weights.shape}"
                )
        check_tolerance(self.tolerance)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        size = int(np.prod(shape))
        chain = [list(range(k, min(k + 3, size))) for k in range(0, size - 1, 2)]
        kind: Any = cls  # Its fields are those of the subclasses, which are dataclasses.
        return [kind(0.006, chain), kind(0.01, [[0, 1, 2], [1, 3], [0]], [1.0, 0.0, 2.0])]

    @abstractmethod
    def norm(self, x: Array) -> float:
        """ψ(x) for a strength of 1."""

    def value(self, x: Array) -> float:
        return float(self.strength * norm) if np.isfinite(norm := self.norm(x)) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        return self.prox_from(x, step, COLD, 0.0).point

    def prox_and_error(self, x: Array, step: float) -> tuple[Array, float]:
        """The prox p, and a bound on ‖p - p*‖: √(2·gap), see ``penalties.inexact``."""
        found = self.prox_from(x, step, COLD, 0.0)
        return found.point, found.error

    @abstractmethod
    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        """The prox by iterations; see ``abilities``."""

    # --- pieces --------------------------------------------------------------------------------

    def _gave_up(self, count: str) -> None:
        warn_user(
            f"the prox of {type(self).__name__} did not reach its tolerance {self.tolerance:g} in {count}",
            not_converged(),
        )

    def _structure(self, size: int) -> Members:
        if "members" not in self._known:
            self._known["members"] = members_of(self.groups)
        known = self._known["members"]
        if known.members.max() >= size:
            raise InputError(f"groups name coordinate {known.members.max()}, but x has {size}")
        return known

    def _weights(self, size: int) -> Array:
        _, starts, order = self._structure(size)
        if self.weights is None:
            return np.sqrt(np.diff(starts))
        return np.asarray(self.weights, dtype=np.float64)[order]

    def _bounds(self, size: int) -> Array:
        return self.strength * self._weights(size)

    def _norms(self, x: Array) -> Array:
        members, starts, _ = self._structure(x.size)
        norms: Array = np.sqrt(np.add.reduceat(x.ravel()[members] ** 2, starts[:-1]))
        return norms


def check_tolerance(tolerance: float) -> None:
    """Check that a tolerance lies between 0 and 1."""
    if not (isinstance(tolerance, (int, float, np.number)) and 0 < tolerance < 1):
        raise InputError(f"tolerance must lie between 0 and 1, got {shown(tolerance)}")


def members_of(groups: object) -> Members:
    """The lists in the form that the kernel takes."""
    lists = check_lists(groups)
    order = np.argsort([g.size for g in lists], kind="stable")
    lists = [lists[g] for g in order]
    starts = np.concatenate([[0], np.cumsum([g.size for g in lists])])
    return Members(np.concatenate(lists), starts, order)


def check_lists(groups: object) -> list[NDArray[np.int64]]:
    """Check that groups are non-empty lists of distinct, non-negative integers."""
    if not isinstance(groups, (Sequence, np.ndarray)) or isinstance(groups, str) or not len(groups):
        raise InputError(f"groups must be index lists, at least one, got {shown(groups)}")
    lists = []
    for number, group in enumerate(groups):
        members = as_numbers(f"groups: group {number}", group)
        if members.ndim != 1 or (members.size and members.dtype.kind not in "iu"):
            raise InputError(f"groups must be lists of integers, group {number} is {shown(group)}")
        if not members.size:
            raise InputError(f"groups must not be empty, group {number} is")
        if members.min() < 0 or np.unique(members).size != members.size:
            raise InputError(
                f"groups must name each coordinate once, from 0 on, group {number} is {shown(group)}"
            )
        lists.append(members.astype(np.int64))
    return lists
