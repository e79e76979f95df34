"""How cross-validation divides the rows, and what the folds say about two models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, shown
from reshuffle.randomness import generator

Fold = tuple[AnyArray, AnyArray]
"""The rows to learn from, and the rows to judge by."""
FOLDS = 5
"""The default number of folds, which is scikit-learn's."""
SHUFFLE = 12
"""The number of the random stream that assigns groups to folds; held-out rows use stream 11."""
LEVEL = 0.95
"""The one-sided confidence of a paired comparison."""
NEGLIGIBLE = 0.05
"""A loss that is higher by at most this share of the gain over the empty model counts as the same."""


def folds_of(
    cv: object, X: object, y: AnyArray, codes: AnyArray | None, groups: object, seed: int
) -> list[Fold]:
    """The folds: ``cv`` of them, drawn by the seed, or those of a splitter of scikit-learn.

    A number of folds means rows in random order, so that the order of the file has no influence, and the same share of
    each class in every fold. With ``groups``, all rows of a group are in the same fold.
    """
    from sklearn.model_selection import KFold, StratifiedKFold, check_cv

    target = y if codes is None else codes
    named = None if groups is None else np.asarray(groups)
    if named is not None and named.shape != target.shape[:1]:
        raise InputError(
            f"groups must be {len(target)} values, one per row of X, got shape {named.shape}: {shown(groups)}"
        )
    if cv is None or isinstance(cv, (int, np.integer)):
        count = FOLDS if cv is None else int(cv)
        if named is not None:
            return grouped(named, codes, count, seed)
        if count < 2:
            raise InputError(f"cv must be 2 folds or more, got {count}")
        kind = KFold if codes is None else StratifiedKFold
        drawn = int(generator(seed, SHUFFLE).integers(2**31))  # scikit-learn's largest seed
        cv = kind(count, shuffle=True, random_state=drawn)
    splitter = check_cv(cv, target, classifier=codes is not None)
    return list(splitter.split(X, target, named))


def grouped(groups: AnyArray, codes: AnyArray | None, count: int, seed: int) -> list[Fold]:
    """Folds that keep every group whole.

    Groups are dealt from the largest down, those of equal size in random order. Each goes to the fold where the
    rows of its classes are fewest so far, so that folds are of nearly equal size and mixture.
    """
    names, group = np.unique(groups, return_inverse=True)
    if count < 2 or names.size < count:
        raise InputError(
            f"groups: {names.size} different groups cannot be divided into {count} folds; "
            "use fewer folds (--folds, cv), but two or more"
        )
    kinds = np.zeros(group.size, dtype=np.intp) if codes is None else codes
    table = np.zeros((names.size, int(kinds.max()) + 1))
    np.add.at(table, (group, kinds), 1.0)
    shuffled = generator(seed, SHUFFLE).permutation(names.size)
    order = shuffled[np.argsort(-table.sum(axis=1)[shuffled], kind="stable")]
    filled, fold = np.zeros((count, table.shape[1])), np.empty(names.size, dtype=np.intp)
    for one in order:
        crowded = filled / table.sum(axis=0) @ table[one]
        fold[one] = np.lexsort((filled.sum(axis=1), crowded))[0]
        filled[fold[one]] += table[one]
    held = fold[group]
    return [(np.flatnonzero(held != k), np.flatnonzero(held == k)) for k in range(count)]


@dataclass(frozen=True)
class TimeFolds:
    """Folds in the order of time: each is judged by the rows that come next, and learns from all rows before them.

    The times are given as ``groups``, in any order of rows: ``RRRegressorCV(cv=TimeFolds(5)).fit(X, y,
    groups=times)``. Rows of the same time stay together. scikit-learn's ``TimeSeriesSplit`` expects sorted rows
    and may separate rows of the same time.

    Examples
    --------
    >>> import numpy as np
    >>> from reshuffle.estimators import TimeFolds
    >>> times = np.array([2003, 2001, 2002, 2001])
    >>> for rows, held in TimeFolds(2).split(times, groups=times):
    ...     print(sorted(times[rows].tolist()), "then", times[held].tolist())
    [2001, 2001] then [2002]
    [2001, 2001, 2002] then [2003]
    """

    count: int = FOLDS

    def split(self, X: object, y: object = None, groups: object = None) -> Iterator[Fold]:
        """Pairs of row numbers, from the earliest fold to the last."""
        if groups is None:
            raise InputError("TimeFolds needs the time of each row: fit(X, y, groups=times)")
        when = np.unique(np.asarray(groups), return_inverse=True)[1]
        begins = _boundaries(when, self.count)
        for first, last in pairwise(begins):
            yield np.flatnonzero(when < first), np.flatnonzero((when >= first) & (when < last))

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        return self.count


def _boundaries(when: AnyArray, count: int) -> list[int]:
    """The times at which the parts begin: count + 1 parts of nearly equal size, of which the first is never held out."""
    moments = int(when.max()) + 1
    if moments < count + 1:
        raise InputError(
            f"{count} folds in the order of time need {count + 1} different times, got {moments}; "
            "use fewer folds (--folds, cv)"
        )
    before = np.cumsum(np.bincount(when))
    found: list[int] = []
    for part in range(1, count + 1):
        wanted = int(np.searchsorted(before, when.size * part / (count + 1) * (1 - 1e-12))) + 1
        least = found[-1] + 1 if found else 1
        found.append(min(max(wanted, least), moments - (count - part) - 1))
    return [*found, moments]


class Paired(NamedTuple):
    """How much higher the loss of one model is than that of another, on the same held-out rows.

    With d_k = l_k(λ) - l_k(λ') on fold k of K, ``difference`` is the mean d̄ of d_k and ``error`` its standard error
    s_d/√K. ``bound`` = d̄ + t·s_d/√K, with t the quantile of Student's distribution with K - 1 degrees of freedom at
    the level 0.95, is an upper confidence bound on the difference. Training sets of folds overlap, so that the
    level is nominal.
    """

    difference: float
    error: float
    bound: float
    gain: float
    """How much lower the mean loss of the better model is than that of the empty one."""

    @property
    def worse(self) -> bool:
        """Whether the folds show that the loss is higher: 0 lies below the interval d̄ ± t·s_d/√K."""
        return self.difference > 0 and 2 * self.difference - self.bound > 0

    @property
    def as_good(self) -> bool:
        """Whether the folds show that the loss is higher by at most a negligible part of the gain, and not measurably higher."""
        return not self.worse and self.bound <= NEGLIGIBLE * self.gain

    def __str__(self) -> str:
        return f"{readable(self.difference, 2)} ± {readable(self.error, 1)}"


def readable(value: float, digits: int = 3) -> str:
    """A number with this many digits, without an exponent unless it is needed: 1,370 and not 1.37e+03.

    Examples
    --------
    >>> readable(1372.6), readable(0.00123456), readable(2.5e-9), readable(0.0)
    ('1,370', '0.00123', '2.5e-09', '0')
    """
    if not (np.isfinite(value) and 1e3 <= abs(value) < 1e9):
        return f"{value:.{digits}g}"
    return f"{float(f'{value:.{digits}g}'):,.0f}"


def standard_error(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard error of the mean over the folds, which are the last axis; zero for a single fold."""
    folds = losses.shape[-1]
    if folds == 1:
        return np.zeros(losses.shape[:-1])
    return np.asarray(losses.std(axis=-1, ddof=1) / np.sqrt(folds))


def paired(losses: NDArray[np.float64], k: int, best: int) -> Paired:
    """Row k of a table of losses (λ's by folds, from the largest λ down) against row ``best``."""
    gain = float(losses[0].mean() - losses[best].mean())
    if k == best:
        return Paired(0.0, 0.0, 0.0, gain)
    apart, folds = losses[k] - losses[best], losses.shape[1]
    mean, error, times = float(apart.mean()), np.inf, np.inf
    if folds > 1:
        error, times = float(standard_error(apart)), float(student.ppf(LEVEL, folds - 1))
    return Paired(mean, error, mean + times * error, gain)
