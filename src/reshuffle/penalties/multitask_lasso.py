from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import check_strength
from reshuffle.penalties.groups import Grouped, GroupNorms


@dataclass(frozen=True, eq=False)
class MultitaskLasso(Grouped):
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
    _known: dict[tuple[int, ...], GroupNorms] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_strength(self.strength)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02)]

    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        if shape not in self._known:
            labels = np.repeat(np.arange(shape[0]), int(np.prod(shape[1:])))
            bounds: Array = np.full(shape[0], float(self.strength))
            self._known[shape] = GroupNorms(labels, bounds, np.zeros(labels.size))
        return self._known[shape]
