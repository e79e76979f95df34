from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.penalties.base import BELOW, Array, check_non_negative


@dataclass(frozen=True, eq=False)
class GroupLasso:
    """ψ(x) = strength · Σ_g w_g ‖x_g‖₂ over disjoint groups of coordinates.

    Parameters
    ----------
    strength : the factor in front, not negative.
    groups : for each coordinate the number of its group (an integer array, -1 for a coordinate that
        is not penalised), or a list of index lists. ``None``: each row of a matrix unknown is a
        group (one group per feature of a multinomial model).
    weights : one w_g per group; √(size of g) where not given.
    """

    strength: float
    groups: Sequence[int] | Sequence[Sequence[int]] | NDArray[np.integer] | None = None
    weights: Sequence[float] | Array | None = None
    _labels: NDArray[np.int64] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_non_negative("strength", self.strength)
        if self.weights is not None:
            check_non_negative("weights", np.asarray(self.weights, dtype=float))
        if self.groups is not None:
            object.__setattr__(self, "_labels", _labels(self.groups))

    def value(self, x: Array) -> float:
        norms, weights, _ = self._norms(x)
        return float(self.strength * np.dot(weights, norms))

    def conjugate(self, g: Array) -> float:
        """ψ*(g) = 0 where ‖g_k‖ ≤ strength·w_k in all groups (and g = 0 outside them), else +inf."""
        return 0.0 if self.dual_scale(g) == 1.0 else np.inf

    def dual_scale(self, g: Array) -> float:
        """The largest α ≤ 1 with ψ*(αg) = 0."""
        norms, weights, labels = self._norms(g)
        if np.any(g.ravel()[labels < 0]):
            return 0.0
        bounds = self.strength * weights
        beyond = norms > bounds
        return float((bounds[beyond] / norms[beyond]).min() * BELOW) if beyond.any() else 1.0

    def prox(self, x: Array, step: float) -> Array:
        norms, weights, labels = self._norms(x)
        threshold = step * self.strength * weights
        ratio = np.divide(threshold, norms, out=np.ones_like(norms), where=norms > threshold)
        factor = 1.0 - ratio  # 0 where the norm is at most the threshold
        # the label -1 (not penalised) picks the factor 1 that is appended
        shrunk: Array = (x.ravel() * np.append(factor, 1.0)[labels]).reshape(x.shape)
        return shrunk

    def _norms(self, x: Array) -> tuple[Array, Array, NDArray[np.int64]]:
        if self._labels is not None:
            labels = self._labels
        elif x.ndim == 2:
            labels = np.repeat(np.arange(x.shape[0]), x.shape[1])
        else:
            raise InputError("groups must be given unless the unknown is a matrix")
        if labels.size < x.size:
            labels = np.append(labels, np.full(x.size - labels.size, -1))
        if labels.size > x.size:
            raise InputError(f"groups name {labels.size} coordinates, but x has {x.size}")
        count = int(labels.max()) + 1
        inside = labels >= 0
        squares = np.bincount(labels[inside], x.ravel()[inside] ** 2, minlength=count)
        if self.weights is None:
            weights = np.sqrt(np.bincount(labels[inside], minlength=count))
        else:
            weights = np.asarray(self.weights, dtype=np.float64)
            if weights.shape != (count,):
                raise InputError(
                    f"weights must hold {count} numbers, one a group, got shape {weights.shape}"
                )
        return np.sqrt(squares), weights, labels


def _labels(groups: object) -> NDArray[np.int64]:
    """The group of each coordinate, from labels or from index lists."""
    try:
        flat = np.asarray(groups)
    except ValueError:  # lists of different lengths
        flat = np.empty(0, dtype=object)
    if flat.ndim == 1 and flat.dtype.kind in "iu" and flat.size:
        if flat.min() < -1:
            raise InputError(f"groups must be -1 or more, got {flat.min()}")
        return flat.astype(np.int64)
    if not isinstance(groups, Sequence | np.ndarray) or isinstance(groups, str):
        raise InputError(f"groups must be labels or index lists, got {groups!r}")
    lists = [np.asarray(g).ravel() for g in groups]
    if not lists or any(g.size == 0 for g in lists):
        raise InputError("groups must not be empty")
    if any(np.ndim(g) != 1 for g in groups) or any(g.dtype.kind not in "iu" for g in lists):
        raise InputError(f"groups must hold integers (labels or index lists), got {groups!r}")
    members = np.concatenate(lists)
    if members.min() < 0 or np.unique(members).size != members.size:
        raise InputError("groups must be disjoint lists of non-negative coordinate numbers")
    labels = np.full(int(members.max()) + 1, -1)
    for number, group in enumerate(lists):
        labels[group] = number
    return labels
