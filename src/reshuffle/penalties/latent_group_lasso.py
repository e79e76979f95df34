from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.errors import InputError
from reshuffle.penalties.base import DualByNorm
from reshuffle.penalties.cylinders import CylinderSplit, project, split
from reshuffle.penalties.group_lasso import GroupLasso
from reshuffle.penalties.inexact import COLD, Approximate
from reshuffle.penalties.overlapping import (
    GroupLists,
    OverlappingGroups,
    check_lists,
)

FAR = 1e100  # The largest multiplier: |x_j| and bounds differ by at most 1e100 where both matter, and products must not overflow.


@dataclass(frozen=True, eq=False)
class LatentGroupLasso(DualByNorm, OverlappingGroups):
    """ψ(x) = strength · min { Σ_g w_g ‖v_g‖₂ : Σ_g v_g = x, v_g zero outside group g }, for groups that overlap.

    The nonzero coordinates form a union of groups; with ``OverlappingGroupLasso`` the zeros do. The dual norm is
    max_g ‖y_g‖/(strength·w_g), so that the prox is x minus its projection onto an intersection of cylinders. It is found
    by a compiled Newton method in one multiplier per group, and so is the value, the upper one of two bounds that meet.

    The problem can also be solved for the parts v_g directly. Their features are those of the groups side by side
    (``columns``), their penalty is a ``GroupLasso`` (``penalty``), whose prox runs in the kernels, and the coefficients are
    their sum (``coefficients``). This is faster, but needs a copy of the columns.

    Parameters
    ----------
    strength : the factor in front, not negative.
    groups : index lists, of coordinates of x (row after row for a matrix unknown). A coordinate in none is held at 0.
    weights : one w_g per group; √(size of g) by default.
    tolerance : the error of the prox is proved to be at most this, relative to ‖x‖. A run asks for less accuracy as
        long as less will do, and begins with the multipliers of its last prox.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> latent = rs.penalties.LatentGroupLasso(0.05, groups=[range(0, 10), range(5, 20), range(15, 30)])
    >>> x = rs.ExactProxRR().solve(rs.Problem(X, y, penalty=latent, fit_intercept=True)).x
    >>> np.flatnonzero(x[:-1])  # the first and the last group
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 15, 16, 17, 18, 19, 20, 21,
           22, 23, 24, 25, 26, 27, 28, 29])

    In the parts:

    >>> problem = rs.Problem(latent.columns(X), y, penalty=latent.penalty, fit_intercept=True)
    >>> parts = rs.ExactProxRR().solve(problem).x
    >>> np.allclose(latent.coefficients(parts, X.shape[1]), x, atol=1e-2)
    True

    References
    ----------
    Jacob, Obozinski, Vert: Group lasso with overlap and graph lasso, 2009.
    Villa, Rosasco, Mosci, Verri: Proximal methods for the latent group lasso penalty, 2014.
    """

    strength: float
    groups: GroupLists
    weights: Sequence[float] | Array | None = None
    tolerance: float = 1e-12

    def norm(self, x: Array) -> float:
        """An upper bound of the norm, usually 1e-13 above the lower bound; +inf if some x_j ≠ 0 is in no group."""
        return self.split(x).value

    def split(self, x: Array) -> CylinderSplit:
        """x = Σ_g v_g with the least Σ_g w_g ‖v_g‖, smallest group first, and a bound on how far it is above the least."""
        flat = np.ascontiguousarray(x.ravel(), dtype=np.float64)
        return split(flat, self._structure(flat.size))

    # --- abilities -----------------------------------------------------------------------------

    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        """``start`` holds step times the multipliers, which changes little from one call to the next."""
        flat = np.ascontiguousarray(x.ravel(), dtype=np.float64)
        groups = self._bounded(flat.size, step)
        if not np.isfinite(flat).all():
            return Approximate(x.copy(), COLD, np.inf)  # The run detects that its iterate diverged.
        known = start.shape == groups.weights.shape and np.all((start >= 0) & (start < FAR * step))
        multipliers = start / step if known else np.zeros(groups.weights.size)
        found = project(flat, groups, gap, self.tolerance, multipliers)
        if found.rounds < 0:
            self._gave_up(f"{-found.rounds} rounds")
        return Approximate(
            found.point.reshape(x.shape), step * multipliers, found.gap, abs(found.rounds)
        )

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        """Whether every group has a positive strength."""
        return ridge > 0 or bool(np.all(self._bounded(int(np.prod(shape))).weights > 0))

    def lambda_max(self, g: Array) -> float:
        """The dual norm: the largest ‖g_G‖/(strength·w_G)."""
        norms, bounds = self._norms(g), self._bounded(g.size).weights
        met = norms > 0
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.max(norms[met] / bounds[met], initial=0.0))

    # --- the problem in the parts --------------------------------------------------------------

    @cached_property
    def penalty(self) -> GroupLasso:
        """The penalty of the parts of a vector unknown."""
        sizes = [group.size for group in check_lists(self.groups)]
        labels = np.repeat(np.arange(len(sizes)), sizes).tolist()
        return GroupLasso(self.strength, labels, self.weights)

    def columns(self, X: Any) -> Any:
        """The columns of the groups side by side, of an array or a CSR matrix (a copy)."""
        if not hasattr(X, "tocsr"):
            X = np.asarray(X)
        if X.ndim != 2:
            raise InputError(f"X must be a matrix, got shape {X.shape}")
        wide = X[:, self._side_by_side(X.shape[1])]
        return wide if hasattr(wide, "tocsr") else np.ascontiguousarray(wide)

    def coefficients(self, parts: Array, features: int) -> Array:
        """x = Σ_g v_g for this many features; entries after the parts (an intercept) are appended to x."""
        members = self._side_by_side(features)
        if len(parts) < members.size:
            raise InputError(f"parts must have {members.size} rows, got shape {np.shape(parts)}")
        x = np.zeros((features, *parts.shape[1:]))
        np.add.at(x, members, parts[: members.size])
        return np.concatenate([x, parts[members.size :]])

    def _side_by_side(self, features: int) -> NDArray[np.int64]:
        members = np.concatenate(check_lists(self.groups))
        if members.max() >= features:
            raise InputError(f"groups name feature {members.max()}, but there are {features}")
        return members
