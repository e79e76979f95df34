from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import check_strength
from reshuffle.penalties.groups import Grouped, GroupNorms, GroupsGiven, check_groups


@dataclass(frozen=True, eq=False)
class GroupLasso(Grouped):
    """ψ(x) = strength · Σ_g w_g ‖x_g‖₂ over disjoint groups of coordinates.

    Parameters
    ----------
    strength : the factor in front, not negative.
    groups : for each coordinate the number of its group (an integer array, -1 for a coordinate that
        is not penalised; if there are fewer numbers, the remaining coordinates are not penalised), or a list of index lists.
        ``None``: each row of a matrix unknown is a group (one group per feature of a multinomial model).
        "columns", in an estimator that is fitted to a table: the features of one column, named
        "column=category", are a group; see ``column_groups``.
    weights : one w_g per group; √(size of g) by default.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> penalty = rs.penalties.GroupLasso(1.0, groups=[0, 0, 1], weights=[1.0, 2.0])
    >>> penalty.prox(np.array([3.0, 4.0, 1.5]), step=1.0)
    array([2.4, 3.2, 0. ])
    """

    strength: float
    groups: GroupsGiven = None
    weights: Sequence[float] | Array | None = None
    _known: dict[tuple[int, ...], GroupNorms] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_strength(self.strength)
        check_groups(self.groups, self.weights)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        labels = np.arange(int(np.prod(shape))) % 3
        some = np.where(labels == 2, -1, labels)
        return [cls(0.02, labels), cls(0.02, some, [1.0, 0.5]), *([cls(0.02)] * (len(shape) == 2))]

    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        if shape not in self._known:
            labels, weights = self._labelled(shape)
            self._known[shape] = GroupNorms(labels, self.strength * weights, np.zeros(labels.size))
        return self._known[shape]
