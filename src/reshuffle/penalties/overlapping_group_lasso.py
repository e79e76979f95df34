from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reshuffle.arrays import Array
from reshuffle.core import native
from reshuffle.penalties.base import DualWithRidge
from reshuffle.penalties.inexact import COLD, Approximate
from reshuffle.penalties.overlapping import GroupLists, Members, OverlappingGroups

MOST = 5_000  # The most passes of one prox; a point that needs more lies on the boundary between two patterns of zeros.


@dataclass(frozen=True, eq=False)
class OverlappingGroupLasso(DualWithRidge, OverlappingGroups):
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
    _known: dict[str, Members] = field(init=False, repr=False, default_factory=dict)

    def norm(self, x: Array) -> float:
        return float(self._weights(x.size) @ self._norms(x))

    # --- abilities -----------------------------------------------------------------------------

    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        """``start`` holds v_g/step end to end: a subgradient, which changes little from one call to the next."""
        flat = np.ascontiguousarray(x.ravel(), dtype=np.float64)
        members, starts, _ = self._structure(flat.size)
        bounds, rest = step * self._bounds(flat.size), np.empty(flat.size)
        known = start.shape == members.shape and np.isfinite(start).all()
        parts = step * start if known else np.zeros(members.size)
        groups = members, starts, bounds
        small = self.tolerance * float(np.linalg.norm(flat))
        passes = native.overlap_solve(flat, *groups, small, gap, MOST, rest, parts)
        if passes < 0 and np.isfinite(flat).all():
            self._gave_up(f"{MOST} passes")
        point = np.empty(flat.size)
        left = native.overlap_gap(flat, rest, parts, *groups, point)
        left = left if left >= 0 else np.inf  # It is NaN if x has a NaN.
        warm = parts / step if step > 0 else COLD
        return Approximate(point.reshape(x.shape), warm, left, abs(passes))
