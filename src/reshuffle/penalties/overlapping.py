"""Groups that may overlap: their lists, the group lasso with them, and its common part with the latent one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.errors import InputError, not_converged, shown, warn_user
from reshuffle.penalties.base import (
    ByContent,
    WithDual,
    as_numbers,
    check_non_negative,
    check_strength,
    check_weights,
)
from reshuffle.penalties.inexact import COLD, Approximate

MOST = 5_000  # The most passes of one prox; a point that needs more lies on the boundary between two patterns of zeros.
GroupLists = Sequence[Sequence[int]] | Sequence[NDArray[np.int64]]


class Members(NamedTuple):
    """Index lists end to end, smallest group first, and a number for each group: its weight, or a bound of a norm."""

    members: NDArray[np.int64]
    starts: NDArray[np.int64]
    weights: Array


class OverlappingGroups(ByContent, ABC):
    """ψ = strength times a norm made of the norms of groups, with a prox by iterations."""

    strength: float
    groups: GroupLists
    weights: Sequence[float] | Array | None
    tolerance: float

    homogeneous = True

    def __post_init__(self) -> None:
        check_strength(self.strength)
        count = len(check_lists(self.groups))
        if self.weights is not None:
            check_non_negative("weights", self.weights)
            check_weights(self.weights, count, "group")
        if not (isinstance(self.tolerance, (int, float, np.number)) and 0 < self.tolerance < 1):
            raise InputError(f"tolerance must lie between 0 and 1, got {shown(self.tolerance)}")

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

    @cached_property
    def _members(self) -> Members:
        lists = check_lists(self.groups)
        sizes = np.array([g.size for g in lists])
        weights = np.sqrt(sizes) if self.weights is None else np.asarray(self.weights, np.float64)
        order = np.argsort(sizes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(sizes[order])])
        return Members(np.concatenate([lists[g] for g in order]), starts, weights[order])

    def _structure(self, size: int) -> Members:
        known = self._members
        if known.members.max() >= size:
            raise InputError(f"groups name coordinate {known.members.max()}, but x has {size}")
        return known

    def _bounded(self, size: int, step: float = 1.0) -> Members:
        """The groups with the bounds step·strength·w_g."""
        known = self._structure(size)
        return known._replace(weights=step * (self.strength * known.weights))

    def _norms(self, x: Array) -> Array:
        members, starts, _ = self._structure(x.size)
        norms: Array = np.sqrt(np.add.reduceat(x.ravel()[members] ** 2, starts[:-1]))
        return norms


@dataclass(frozen=True, eq=False)
class OverlappingGroupLasso(WithDual, OverlappingGroups):
    """ψ(x) = strength · Σ_g w_g ‖x_g‖₂ over groups that may overlap: the zeros form a union of groups.

    The prox solves its dual, min ‖x - Σ_g v_g‖² with v_g on group g and ‖v_g‖ ≤ step·strength·w_g, by compiled
    passes over the groups with extrapolation; for nested (tree-structured) groups one pass is exact.

    In the latent form, ``LatentGroupLasso``, the *nonzero* coordinates form a union of groups.

    Parameters
    ----------
    strength : the factor in front, not negative.
    groups : index lists, of coordinates of x (row after row for a matrix unknown). A coordinate in none is free.
    weights : one w_g per group; √(size of g) by default.
    tolerance : passes end when one moves the vectors v_g by less than this, relative to ‖x‖. A run asks for less accuracy as
        long as less will do, and begins with the vectors of its last prox.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> psi = rs.penalties.OverlappingGroupLasso(1.0, groups=[[0, 1, 2], [2, 3]], weights=[1.0, 1.0])
    >>> psi.prox(np.array([3.0, 4.0, 0.0, 0.5]), step=1.0)
    array([2.4, 3.2, 0. , 0. ])
    >>> p, error = psi.prox_and_error(np.array([3.0, 4.0, 1.0, 2.5]), step=1.0)
    >>> error < 1e-12
    True

    References
    ----------
    Jenatton, Mairal, Obozinski, Bach: Proximal methods for hierarchical sparse coding, 2011.
    """

    strength: float
    groups: GroupLists
    weights: Sequence[float] | Array | None = None
    tolerance: float = 1e-14

    def norm(self, x: Array) -> float:
        return float(self._structure(x.size).weights @ self._norms(x))

    # --- abilities -----------------------------------------------------------------------------

    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        """``start`` holds v_g/step end to end: a subgradient, which changes little from one call to the next."""
        flat = np.ascontiguousarray(x.ravel(), dtype=np.float64)
        groups, rest = self._bounded(flat.size, step), np.empty(flat.size)
        known = start.shape == groups.members.shape and np.isfinite(start).all()
        parts = step * start if known else np.zeros(groups.members.size)
        small = self.tolerance * float(np.linalg.norm(flat))
        passes = native.overlap_solve(flat, *groups, small, gap, MOST, rest, parts)
        if passes < 0 and np.isfinite(flat).all():
            self._gave_up(f"{MOST} passes")
        point = np.empty(flat.size)
        left = native.overlap_gap(flat, rest, parts, *groups, point)
        left = left if left >= 0 else np.inf  # It is NaN if x has a NaN.
        warm = parts / step if step > 0 else COLD
        return Approximate(point.reshape(x.shape), warm, left, abs(passes))


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
