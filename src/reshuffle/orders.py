"""Orders in which the samples are visited, and importance copies, which are visited several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array, Visits
from reshuffle.core import native
from reshuffle.datafit import Datafit
from reshuffle.disk_datafit import on_disk
from reshuffle.errors import InputError, shown
from reshuffle.validation import check_positive, check_visits

PIECE = 1 << 15
"""Random numbers are drawn this many at a time, so that they stay in the cache."""


class Order(Protocol):
    """Turns the samples of a pool into the visits of one epoch.

    ``fixed`` says whether every epoch has the same visits (false for an order without it), ``store``
    whether rows are then stored in that order.
    """

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        """The visits of one epoch. ``rng`` is that of the epoch (of the first epoch, if the order is fixed).

        The pool was made for this call: it may be put in order in place, and returned.
        """
        ...


@dataclass(frozen=True)
class Reshuffle:
    """A fresh permutation each epoch: the RR of ProxRR and FedRR."""

    fixed: ClassVar[bool] = False

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        return shuffled(pool, rng)


@dataclass(frozen=True)
class ShuffleOnce:
    """One permutation for all epochs: the SO of ProxSO and FedSO.

    The rows are copied once in that order, so that epochs read the memory sequentially;
    ``store=False`` avoids the copy.
    """

    store: bool = True
    fixed: ClassVar[bool] = True

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        return shuffled(pool, rng)


@dataclass(frozen=True)
class Cyclic:
    """The order of the data in each epoch (the incremental gradient method)."""

    store: ClassVar[bool] = False
    fixed: ClassVar[bool] = True

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        return pool


@dataclass(frozen=True)
class Allocation:
    """Balls and bins: in each epoch every sample draws one of the ⌈n/b⌉ steps, independently of the others.

    Batches differ in length, with b samples on average, and some may be empty. It is for ``privacy.SampleLevel`` only. The
    draws use random numbers of the system instead of the run's seed, since ε is smaller than that of other orders only
    if nobody knows the step of a sample.
    """

    fixed: ClassVar[bool] = False

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        raise InputError("order Allocation() is for privacy=SampleLevel(...)")

    def allocate(
        self, pool: Visits, steps: int, rng: np.random.Generator
    ) -> tuple[Visits, NDArray[np.int64]]:
        """The visits of an epoch, and the ends of its steps among them.

        Examples
        --------
        >>> visits, ends = Allocation().allocate(np.arange(6, dtype=np.uint32), 3, np.random.default_rng(0))
        >>> sorted(visits.tolist()), ends.tolist()
        ([0, 1, 2, 3, 4, 5], [3, 5, 6])
        """
        step = rng.integers(steps, size=pool.size)
        ends = np.cumsum(np.bincount(step, minlength=steps)).astype(np.int64)
        return pool[np.argsort(step, kind="stable")], ends


@dataclass(frozen=True)
class Windows:
    """In each epoch, shards in random order, and their rows in random order within windows of several shards.

    For rows on disk: a window is read, its rows are visited, and the next one is read meanwhile. Every epoch visits
    each row once, as with ``Reshuffle``, but not every order of the rows can occur. If rows are sorted, by their label
    for instance, shuffle them once with ``reshuffle convert --shuffle``.

    Parameters
    ----------
    window : the number of rows in a window; on disk, by default as many as the memory of ``open_shards`` allows.
    shard : the number of rows that stay together if the rows are in memory; on disk, those of a shard do.
    """

    window: int | None = None
    shard: int = 1024
    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("window", self.window, integer=True, optional=True)
        check_positive("shard", self.shard, integer=True)

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        starts = np.array([*range(0, pool.size, self.shard), pool.size])
        return ShardWindows(starts, self.window or pool.size).visits(pool, rng, epoch)


@dataclass(frozen=True, eq=False)
class ShardWindows:
    """The order of ``Windows`` on shards that begin at ``starts``, whose last entry is the number of rows."""

    starts: NDArray[np.int64]
    window: int
    fixed: ClassVar[bool] = False

    def groups(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """The shards of each window, in turn."""
        counts = np.diff(self.starts)
        order = rng.permutation(np.flatnonzero(counts))
        found: list[list[int]] = []
        held = self.window
        for k in order.tolist():
            if not found or held + counts[k] > self.window:
                found.append([])
                held = 0
            found[-1].append(k)
            held += int(counts[k])
        return [np.array(group) for group in found]

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        visits, at = np.empty_like(pool), 0
        for group in self.groups(rng):
            begin = at
            for k in group:
                rows = pool[self.starts[k] : self.starts[k + 1]]
                visits[at : at + rows.size] = rows
                at += rows.size
            shuffled(visits[begin:at], rng)
        return visits

    def draws(self, count: int, rng: np.random.Generator) -> Visits:
        """About ``count`` independent draws, window after window, from each window in proportion to its rows."""
        visits, at, seen, n = np.empty(count, dtype=np.uint32), 0, 0, int(self.starts[-1])
        for group in self.groups(rng):
            rows = np.concatenate([np.arange(self.starts[k], self.starts[k + 1]) for k in group])
            seen += rows.size
            stop = count if seen == n else round(count * seen / n)
            visits[at:stop] = rows[with_replacement(stop - at, rows.size, rng)]
            at = stop
        return visits


def order_on(order: Order, fit: Datafit | None) -> Order:
    """The order for these samples: on disk, ``Reshuffle`` is replaced by ``Windows``."""
    if fit is None or not fit.on_disk or isinstance(order, (Cyclic, ShardWindows)):
        return order
    rows = on_disk(fit).rows
    if isinstance(order, ShuffleOnce):
        raise InputError(
            "order: rows on disk are not put in another order by a run; `reshuffle convert --shuffle` shuffles them once"
        )
    if not isinstance(order, (Reshuffle, Windows)):
        return order
    wanted = getattr(order, "window", None) or rows.window_rows
    if wanted > rows.window_rows:
        raise InputError(
            f"order: a window of {wanted} rows takes more than a quarter of memory={rows.memory:,}: give open_shards more, or "
            f"a window of at most {rows.window_rows}"
        )
    return ShardWindows(rows.starts, wanted)


def in_windows(order: Order, fit: Datafit | None) -> Order:
    """``order_on`` for visits that are drawn once and kept: on disk ``ShuffleOnce`` is also replaced by ``Windows``."""
    once = fit is not None and fit.on_disk and isinstance(order, ShuffleOnce)
    return order_on(Reshuffle() if once else order, fit)


def is_fixed(order: Order) -> bool:
    """Whether every epoch has the same visits."""
    return bool(getattr(order, "fixed", False))


def visits_of(order: Order, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
    """The visits of an epoch, checked: as many as the pool has samples, and all of them samples of it."""
    size, largest = pool.size, int(pool.max())
    name = f"order {type(order).__name__}: visits"
    visits = check_visits(order.visits(pool, rng, epoch), largest + 1, name)
    if visits.size != size:
        raise InputError(f"{name} must be as many as the pool's {size}, got {visits.size}")
    return visits


def shuffled(pool: Visits, rng: np.random.Generator) -> Visits:
    """The pool itself, in a uniformly random order."""
    for last in range(pool.size - 1, 0, -PIECE):
        native.shuffle(pool, rng.random(min(PIECE, last)), last)
    return pool


def with_replacement(
    count: int, n: int, rng: np.random.Generator, cumulative: Array | None = None
) -> Visits:
    """``count`` independent draws from n samples, uniform or by cumulative probabilities."""
    visits = np.empty(count, dtype=np.uint32)
    for start in range(0, count, PIECE):
        drawn = rng.random(min(PIECE, count - start))
        if cumulative is None:
            visits[start : start + PIECE] = drawn * n
        else:
            visits[start : start + PIECE] = np.searchsorted(cumulative, drawn, side="right")
    return np.minimum(visits, np.uint32(n - 1), out=visits)


def copies(constants: Array, target: float | None = None) -> tuple[Visits, Array]:
    """Importance resampling: n_i = ⌈L_i/L̄⌉ copies of sample i, each with weight N/(n·n_i).

    There are N = Σ n_i ≤ 2n copies, the mean of the weighted copies is the mean of the originals,
    and every copy is (N/n)·L̄-smooth, where (N/n)·L̄ ≤ 2L̄. (The paper weighs a copy 1/n_i, which moves the
    minimiser unless N = n.) Another ``target`` than L̄ makes fewer or more copies.

    Examples
    --------
    >>> pool, weights = copies(np.array([1.0, 1.0, 4.0]))
    >>> pool.tolist(), weights.tolist()
    ([0, 1, 2, 2], [1.3333333333333333, 1.3333333333333333, 0.6666666666666666])
    """
    weights, count = copy_weights(constants, target)
    return expanded(weights, count), weights


# Constants that vanish beside the mean may underflow: they get one copy.
@np.errstate(under="ignore")
def copy_weights(constants: Array, target: float | None = None) -> tuple[Array, int]:
    """The weights N/(n·n_i) of the copies, and N; ``expanded`` lists them."""
    mean = constants.mean()
    if not mean > 0:
        raise InputError("importance resampling needs at least one L_i that is not zero")
    counts = constants / (target or mean)
    np.maximum(np.ceil(counts, out=counts), 1.0, out=counts)
    count = int(counts.sum())
    return np.divide(count / constants.size, counts, out=counts), count


def expanded(weights: Array, count: int) -> Visits:
    """Each sample repeated as often as it has copies, n_i = N/(n·w_i)."""
    pool, end = np.empty(count, dtype=np.uint32), 0
    for start in range(0, weights.size, PIECE):
        piece = weights[start : start + PIECE]
        copies = np.rint(count / weights.size / piece).astype(np.int64)
        samples = np.arange(start, start + piece.size, dtype=np.uint32)
        begin, end = end, end + int(copies.sum())
        pool[begin:end] = np.repeat(samples, copies)
    return pool


def check_order(order: object) -> Order:
    """The order, checked: an instance of one of these classes, or any object with a method ``visits``."""
    if isinstance(order, type) or not hasattr(order, "visits"):
        raise InputError(
            "order must be Reshuffle(), ShuffleOnce(), Cyclic(), Windows() or have a method visits, "
            f"got {shown(order)}"
        )
    return order
