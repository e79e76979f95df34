"""The lassos of disjoint groups: what is given says which coordinates are a group."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.arrays import Array, Labels
from reshuffle.cached import cached_property
from reshuffle.capacity import check_room
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import (
    Numbers,
    as_numbers,
    check_non_negative,
    check_strength,
    check_weights,
)
from reshuffle.penalties.column_groups import COLUMNS
from reshuffle.penalties.groups import Grouped, GroupNorms

GroupsGiven = str | Sequence[int] | Sequence[Sequence[int]] | Labels | None


class OfStrength(Grouped, ABC):
    """ψ(x) = Σ_j l1_j|x_j| + strength · Σ_g w_g ‖x_g‖₂, for groups that are given."""

    l1: Numbers = 0.0
    strength: float
    groups: GroupsGiven = None
    weights: Sequence[float] | Array | None = None

    def __post_init__(self) -> None:
        check_non_negative("l1", self.l1)
        check_strength(self.strength)
        if self.weights is not None:
            check_non_negative("weights", self.weights)
        if self.groups is not None and not (
            isinstance(self.groups, str) and self.groups == COLUMNS
        ):
            group_labels(self.groups)

    @cached_property
    def _known(self) -> dict[tuple[int, ...], GroupNorms]:
        return {}

    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        if shape not in self._known:
            self._known[shape] = self.made(shape)
        return self._known[shape]

    def made(self, shape: tuple[int, ...]) -> GroupNorms:
        """The groups for an unknown of this shape, anew."""
        labels, weights = self._labelled(shape)
        try:
            l1 = np.broadcast_to(self.l1, shape).ravel()
        except ValueError:
            raise InputError(
                f"l1 of shape {np.shape(self.l1)} does not fit coordinates of shape {shape}"
            ) from None
        return GroupNorms(labels, self.strength * weights, np.where(labels < 0, 0.0, l1))

    def _labelled(self, shape: tuple[int, ...]) -> tuple[Labels, Array]:
        """The group of every coordinate, and the weight of every group."""
        size = int(np.prod(shape))
        if self.groups is None:
            if len(shape) != 2:
                raise InputError("groups must be given unless the unknown is a matrix")
            labels = np.repeat(np.arange(shape[0]), shape[1])
        else:
            labels = group_labels(self.groups)
            if len(shape) == 2 and labels.size == shape[0]:  # One label for all outputs of a row.
                labels = np.repeat(labels, shape[1])
        if labels.size > size:
            raise InputError(f"groups name {labels.size} coordinates, but x has {size}")
        labels = np.append(labels, np.full(size - labels.size, -1))
        inside, count = labels >= 0, int(labels.max()) + 1
        if self.weights is None:  # The group numbers may have gaps of any size.
            labels[inside] = np.unique(labels[inside], return_inverse=True)[1]
            return labels, np.sqrt(np.bincount(labels[inside]))
        return labels, check_weights(self.weights, count, "group")


@dataclass(frozen=True, eq=False)
class GroupLasso(OfStrength):
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

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        labels = np.arange(int(np.prod(shape))) % 3
        some = np.where(labels == 2, -1, labels)
        return [cls(0.02, labels), cls(0.02, some, [1.0, 0.5]), *([cls(0.02)] * (len(shape) == 2))]


@dataclass(frozen=True, eq=False)
class SparseGroupLasso(OfStrength):
    """ψ(x) = Σ_j l1_j|x_j| + strength · Σ_g w_g ‖x_g‖₂: few groups, and few coordinates in each.

    Parameters
    ----------
    l1 : the strength of the ℓ1 norm: one number, or an array that broadcasts against x.
    strength : the strength of the groups, not negative.
    groups, weights : as in ``GroupLasso``. A coordinate with the number -1, or in no list, is not penalised at all;
        a group of weight 0 is penalised by l1 only.

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

    l1: Numbers = field()
    strength: float
    groups: GroupsGiven = None
    weights: Sequence[float] | Array | None = None

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        labels = np.arange(int(np.prod(shape))) % 3
        some = np.where(labels == 2, -1, labels)
        return [cls(0.01, 0.01, labels), cls(0.01, 0.02, some, [0.0, 0.5])]


@dataclass(frozen=True, eq=False)
class MultitaskLasso(OfStrength):
    """ψ(x) = strength · Σ_j ‖x_j‖₂ over the rows of a matrix unknown: a feature is used by all outputs or by none.

    With ``Squared`` and a matrix of targets it is scikit-learn's ``MultiTaskLasso`` with ``alpha`` = strength; with
    more than two classes it selects the features of a multinomial model. ``GroupLasso`` of the rows is the same with weights √(outputs),
    and with ``groups``, one number per feature, it has groups of features over all outputs. For one output it is the l1 norm.

    Parameters
    ----------
    strength : the factor in front, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> x = np.array([[3.0, 4.0], [0.3, 0.4]])
    >>> rs.penalties.MultitaskLasso(1.0).prox(x, step=1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])

    References
    ----------
    Obozinski, Taskar, Jordan: Joint covariate selection and joint subspace selection for multiple classification problems, 2010.
    """

    strength: float

    example_arguments = ((0.02,),)

    def made(self, shape: tuple[int, ...]) -> GroupNorms:
        labels = np.repeat(np.arange(shape[0]), int(np.prod(shape[1:])))
        return GroupNorms(labels, np.full(shape[0], float(self.strength)), np.zeros(labels.size))


def group_labels(groups: object) -> Labels:
    """The group of each coordinate, from labels or from index lists."""
    if isinstance(groups, str) and groups == COLUMNS:
        raise InputError(
            'groups="columns" needs the names of features: use it in an estimator that is fitted to a table, or give '
            "groups=reshuffle.penalties.column_groups(names or encoder)"
        )
    try:
        flat = np.asarray(groups)
    except ValueError:  # The lists have different lengths.
        flat = np.empty(0, dtype=object)
    if flat.ndim == 1 and flat.dtype.kind in "iu" and flat.size:
        if flat.min() < -1:
            raise InputError(f"groups must be -1 or more, got {flat.min()}")
        return flat.astype(np.int64)
    if not isinstance(groups, Sequence | np.ndarray) or isinstance(groups, str):
        raise InputError(f"groups must be labels or index lists, got {shown(groups)}")
    lists = [as_numbers("groups", g).ravel() for g in groups]
    if not lists or any(g.size == 0 for g in lists):
        raise InputError("groups must not be empty")
    if any(np.ndim(g) != 1 for g in groups) or any(g.dtype.kind not in "iu" for g in lists):
        raise InputError(f"groups must hold integers (labels or index lists), got {shown(groups)}")
    members = np.concatenate(lists)
    if members.min() < 0 or np.unique(members).size != members.size:
        raise InputError("groups must be disjoint lists of non-negative coordinate numbers")
    check_room("groups: a label for every coordinate", 8 * (int(members.max()) + 1))
    labels = np.full(int(members.max()) + 1, -1)
    for number, group in enumerate(lists):
        labels[group] = number
    return labels
