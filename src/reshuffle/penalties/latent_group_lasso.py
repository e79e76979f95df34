from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import Array, ByContent
from reshuffle.penalties.group_lasso import GroupLasso
from reshuffle.penalties.overlapping import GroupLists, check_lists


class LatentGroupLasso(ByContent):
    """ψ(x) = strength · min { Σ_g w_g ‖v_g‖₂ : Σ_g v_g = x, v_g zero outside group g }, for groups that overlap.

    What is not zero is a union of groups; for ``OverlappingGroupLasso`` it is what is zero. The minimum over the parts v_g
    and that over x are taken at once: the unknowns are the parts, end to end. Their features are those of the groups side
    by side (``columns``), their penalty is a ``GroupLasso`` with every ability of that, the kernels and the
    duality gap among them, and the coefficients are their sum (``coefficients``).

    Parameters
    ----------
    strength : the factor in front, not negative.
    groups : lists of features. A feature in none has the coefficient 0.
    weights : one w_g per group; √(size of g) where not given.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> latent = rs.penalties.LatentGroupLasso(0.05, groups=[range(0, 10), range(5, 20), range(15, 30)])
    >>> problem = rs.Problem(latent.columns(X), y, penalty=latent.penalty, fit_intercept=True)
    >>> parts = rs.ExactProxRR().solve(problem).x
    >>> x = latent.coefficients(parts, X.shape[1])  # 30 of them, and the intercept
    >>> np.flatnonzero(x[:-1])  # the first and the last group
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 15, 16, 17, 18, 19, 20, 21,
           22, 23, 24, 25, 26, 27, 28, 29])

    References
    ----------
    Jacob, Obozinski, Vert: Group lasso with overlap and graph lasso, 2009.
    """

    def __init__(
        self, strength: float, groups: GroupLists, weights: Sequence[float] | Array | None = None
    ) -> None:
        self.strength, self.groups, self.weights = strength, groups, weights
        self._lists = check_lists(groups)
        given = len(self._lists) if weights is None else np.shape(weights)[:1]
        if given not in (len(self._lists), (len(self._lists),)):
            raise InputError(
                f"weights must hold {len(self._lists)} numbers, one per group, got {shown(weights)}"
            )
        self.penalty  # noqa: B018 -- it refuses strengths and weights that are none

    def _contents(self) -> list[Any]:
        return [self.strength, self.groups, self.weights]

    def __repr__(self) -> str:
        return f"LatentGroupLasso({self.strength!r}, {len(self._lists)} groups)"

    @cached_property
    def penalty(self) -> GroupLasso:
        """That of the parts."""
        sizes = [group.size for group in self._lists]
        return GroupLasso(
            self.strength, np.repeat(np.arange(len(sizes)), sizes).tolist(), self.weights
        )

    def columns(self, X: Any) -> Any:
        """The columns of the groups side by side, of an array or a CSR matrix (a copy)."""
        if not hasattr(X, "tocsr"):
            X = np.asarray(X)
        if X.ndim != 2:
            raise InputError(f"X must be a matrix, got shape {X.shape}")
        wide = X[:, self._members(X.shape[1])]
        return wide if hasattr(wide, "tocsr") else np.ascontiguousarray(wide)

    def coefficients(self, parts: Array, features: int) -> Array:
        """x = Σ_g v_g, for so many features; what follows the parts (an intercept) follows x."""
        members = self._members(features)
        if len(parts) < members.size:
            raise InputError(f"parts must have {members.size} rows, got shape {np.shape(parts)}")
        x = np.zeros((features, *parts.shape[1:]))
        np.add.at(x, members, parts[: members.size])
        return np.concatenate([x, parts[members.size :]])

    def _members(self, features: int) -> Any:
        members = np.concatenate(self._lists)
        if members.max() >= features:
            raise InputError(f"groups name feature {members.max()}, but there are {features}")
        return members
