from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.errors import InputError, not_converged, shown, warn_user
from reshuffle.penalties.base import (
    Array,
    ByContent,
    check_non_negative,
    check_strength,
    conjugate_with_ridge,
)
from reshuffle.penalties.overlapping import GroupLists, Members, check_lists, members_of

MOST = 5_000  # passes of one prox: what is not solved then lies on the edge of two patterns


@dataclass(frozen=True, eq=False)
class OverlappingGroupLasso(ByContent):
    """ψ(x) = strength · Σ_g w_g ‖x_g‖₂ over groups that may overlap: what is zero is a union of groups.

    The prox solves its dual, min ‖x - Σ_g v_g‖² with v_g on group g and ‖v_g‖ ≤ step·strength·w_g, by compiled
    passes over the groups with extrapolation; for nested (tree-structured) groups one pass is exact.

    The latent form, where what is *not* zero is a union of groups, is ``GroupLasso`` on a matrix that has the
    columns of the groups side by side.

    Parameters
    ----------
    strength : the factor in front, not negative.
    groups : index lists, of coordinates of x (row after row for a matrix unknown). A coordinate in none is free.
    weights : one w_g per group; √(size of g) where not given.
    tolerance : passes end when one moves their vectors by less than this, relative to ‖x‖.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> psi = rs.penalties.OverlappingGroupLasso(1.0, groups=[[0, 1, 2], [2, 3]], weights=[1.0, 1.0])
    >>> psi.prox(np.array([3.0, 4.0, 0.0, 0.5]), step=1.0)
    array([2.4, 3.2, 0. , 0. ])
    >>> p, error = psi.prox_and_error(np.array([3.0, 4.0, 1.0, 2.5]), step=1.0)
    >>> error < 1e-6  # proved by the duality gap, which rounding keeps from being smaller
    True

    References
    ----------
    Jenatton, Mairal, Obozinski, Bach: Proximal methods for hierarchical sparse coding, 2011.
    """

    strength: float
    groups: GroupLists
    weights: Sequence[float] | Array | None = None
    tolerance: float = 1e-14
    _known: dict[str, Members] = field(init=False, repr=False, default_factory=dict)

    strong_convexity = 0.0
    homogeneous = True

    def __post_init__(self) -> None:
        check_strength(self.strength)
        lists = check_lists(self.groups)
        if self.weights is not None:
            weights = np.asarray(self.weights)
            check_non_negative("weights", weights)
            if weights.shape != (len(lists),):
                raise InputError(
                    f"weights must hold {len(lists)} numbers, one per group, got shape {weights.shape}"
                )
        good = isinstance(self.tolerance, (int, float, np.number)) and 0 < self.tolerance < 1
        if not good:
            raise InputError(f"tolerance must lie between 0 and 1, got {shown(self.tolerance)}")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        size = int(np.prod(shape))
        chain = [list(range(k, min(k + 3, size))) for k in range(0, size - 1, 2)]
        return [cls(0.006, chain), cls(0.01, [[0, 1, 2], [1, 3], [0]], [1.0, 0.0, 2.0])]

    def value(self, x: Array) -> float:
        members, starts, _ = self._structure(x.size)
        norms = np.sqrt(np.add.reduceat(x.ravel()[members] ** 2, starts[:-1]))
        return float(self._bounds(x.size) @ norms)

    def prox(self, x: Array, step: float) -> Array:
        return self._solved(x, step)[0].reshape(x.shape)

    def prox_and_error(self, x: Array, step: float) -> tuple[Array, float]:
        """The prox p, and a bound on ‖p - p*‖: √(2·gap) with gap = Σ_g step·strength·w_g·‖p_g‖ - ⟨v_g, p_g⟩."""
        p, parts = self._solved(x, step)
        gap = step * self.value(p) - float(parts @ p[self._structure(x.size).members])
        return p.reshape(x.shape), float(np.sqrt(2.0 * max(gap, 0.0)))

    # --- abilities -----------------------------------------------------------------------------

    def prepare(self) -> None:
        from reshuffle.kernels.overlap import overlap_solve

        members, starts = np.zeros(1, dtype=np.int64), np.array([0, 1])
        overlap_solve(np.zeros(1), members, starts, np.ones(1), 0.0, 1, np.empty(1), np.zeros(1))

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        """With a ridge: a dual point without one is a decomposition that no formula gives."""
        return ridge > 0

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        return conjugate_with_ridge(self, g, ridge)

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        return 1.0

    # --- pieces --------------------------------------------------------------------------------

    def _solved(self, x: Array, step: float) -> tuple[Array, Array]:
        """p = x - Σ_g v_g, and the v_g end to end."""
        from reshuffle.kernels.overlap import overlap_solve

        flat = np.ascontiguousarray(x.ravel(), dtype=np.float64)
        members, starts, _ = self._structure(flat.size)
        rest, parts = np.empty(flat.size), np.zeros(members.size)
        bounds = step * self._bounds(flat.size)
        small = self.tolerance * float(np.linalg.norm(flat))
        passes = overlap_solve(flat, members, starts, bounds, small, MOST, rest, parts)
        if passes < 0 and np.isfinite(flat).all():
            warn_user(
                "the prox of OverlappingGroupLasso did not reach its tolerance "
                f"{self.tolerance:g} in {MOST} passes",
                not_converged(),
            )
        return rest, parts

    def _structure(self, size: int) -> Members:
        if "members" not in self._known:
            self._known["members"] = members_of(self.groups)
        known = self._known["members"]
        if known.members.max() >= size:
            raise InputError(f"groups name coordinate {known.members.max()}, but x has {size}")
        return known

    def _bounds(self, size: int) -> Array:
        """strength·w_g, smallest group first."""
        _, starts, order = self._structure(size)
        if self.weights is None:
            return self.strength * np.sqrt(np.diff(starts))
        return self.strength * np.asarray(self.weights, dtype=np.float64)[order]
