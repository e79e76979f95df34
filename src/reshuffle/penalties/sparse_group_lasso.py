from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.penalties.base import Numbers, check_non_negative, check_strength
from reshuffle.penalties.groups import Grouped, GroupNorms, GroupsGiven, check_groups


@dataclass(frozen=True, eq=False)
class SparseGroupLasso(Grouped):
    """ψ(x) = Σ_j l1_j|x_j| + strength · Σ_g w_g ‖x_g‖₂: few groups, and few coordinates in each.

    Parameters
    ----------
    l1 : the strength of the ℓ1 norm: one number, or an array that broadcasts against x.
    strength : the strength of the groups, not negative.
    groups : for each coordinate the number of its group (an integer array), or a list of index lists.
        A coordinate with the number -1, or in no list, is not penalised at all. ``None``: each row of a
        matrix unknown is a group.
        "columns", in an estimator that is fitted to a table: the features of one column, named
        "column=category", are a group; see ``column_groups``.
    weights : one w_g per group; √(size of g) by default. A group of weight 0 is penalised by l1 only.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> penalty = rs.penalties.SparseGroupLasso(l1=1.0, strength=1.0, groups=[0, 0, 0, -1], weights=[1.0])
    >>> penalty.prox(np.array([4.0, 5.0, 0.5, 9.0]), step=1.0)
    array([2.4, 3.2, 0. , 9. ])

    References
    ----------
    Simon, Friedman, Hastie, Tibshirani: A sparse-group lasso, 2013.
    """

    l1: Numbers
    strength: float
    groups: GroupsGiven = None
    weights: Sequence[float] | Array | None = None
    _known: dict[tuple[int, ...], GroupNorms] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_non_negative("l1", self.l1)
        check_strength(self.strength)
        check_groups(self.groups, self.weights)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        labels = np.arange(int(np.prod(shape))) % 3
        some = np.where(labels == 2, -1, labels)
        return [cls(0.01, 0.01, labels), cls(0.01, 0.02, some, [0.0, 0.5])]

    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        if shape not in self._known:
            labels, weights = self._labelled(shape)
            try:
                l1 = np.broadcast_to(self.l1, shape).ravel()
            except ValueError:
                raise InputError(
                    f"l1 of shape {np.shape(self.l1)} does not fit coordinates of shape {shape}"
                ) from None
            l1 = np.where(labels < 0, 0.0, l1)
            self._known[shape] = GroupNorms(labels, self.strength * weights, l1)
        return self._known[shape]
