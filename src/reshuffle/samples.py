"""Samples and their loss, as the kernels read them: whole, in pieces for threads, or in calls that are bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.errors import InputError
from reshuffle.interruption import cuts, listen
from reshuffle.losses import Loss
from reshuffle.rows import Rows
from reshuffle.validation import read_only

Array = NDArray[np.float64]
Visits = NDArray[np.uint32]
T = TypeVar("T")
PIECE = 1 << 13  # rows of a piece: a fraction of a millisecond, so that threads share evenly
SUMMED = 1 << 10  # rows whose losses are added up before they join the total, as the kernels do it


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows a_i of a matrix with targets y_i, weights w_i and a loss.

    ``weights`` is empty where all w_i are 1. With ``bias`` the last entry (row) of x is b.
    """

    rows: Rows
    targets: NDArray[Any]
    weights: Array
    loss: Loss
    bias: bool
    features: int
    outputs: tuple[int, ...]
    """The shape of one margin: () for a number, (K,) for one per output."""
    threads: int | None = None
    """Of passes over all rows in storage order. Where given, sums are made of pieces of a fixed size, in
    order, so that the bits do not depend on the number; where not, they are made in one piece."""

    @property
    def n(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of x."""
        return (self.features + self.bias, *self.outputs)

    # --- what the kernels take -----------------------------------------------------------------

    @cached_property
    def stamp(self) -> int:
        """The integer under which the kernels know this loss and their own code."""
        from reshuffle.kernels.loss import register

        stamp = self.loss.stamp
        register(stamp, *self.loss.functions)
        return stamp

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """The first arguments of most kernels."""
        return (*self.rows, self.targets, self.weights, self.loss.params, self.bias)

    @cached_property
    def quick(self) -> Rows:
        """The rows without their values, where all of these are 1."""
        return self.rows.without_ones()

    def scratch(self, batch: int = 1) -> Array:
        """Room for the margins of a batch."""
        return np.empty((batch, *self.outputs))

    def flat(self, x: Array) -> int:
        """How many entries of x, flat, come before the intercept."""
        return self.features * (x.size // len(x))

    def checked(self, x: Array) -> Array:
        """x, refused where a kernel would read beyond it."""
        good = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.c_contiguous
        if not good or x.shape != self.shape:
            found = f"{getattr(x, 'dtype', type(x).__name__)} of shape {np.shape(x)}"
            raise InputError(
                f"x must be a C-ordered float64 array of shape {self.shape}, got {found}"
            )
        return x

    @cached_property
    def pieces(self) -> list[Self]:
        """The rows in pieces of a fixed size, for threads; none where they fit into one."""
        if self.threads is None or self.n <= PIECE:
            return []
        ends = [*range(PIECE, self.n, PIECE), self.n]
        parts = []
        for start, stop in zip([0, *ends], ends, strict=False):
            part = replace(self.piece(start, stop), threads=None)
            vars(part)["quick"] = self.quick.piece(start, stop)
            parts.append(part)
        return parts

    def each(self, work: Callable[[Self], T]) -> list[T]:
        """What ``work`` makes of the pieces, in their order, on as many threads as there should be."""
        if self.threads == 1:
            return [work(part) for part in self.pieces]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(work, self.pieces))

    def each_with(self, rows: Array, work: Callable[[Self, Array], T]) -> list[T]:
        """The same, with the entries of an array that has one for each row."""
        places = np.cumsum([0, *(part.n for part in self.pieces)])
        own = {
            id(part): rows[a:b] for part, a, b in zip(self.pieces, places, places[1:], strict=False)
        }
        return self.each(lambda part: work(part, own[id(part)]))

    # --- in calls that are bounded ---------------------------------------------------------------

    @cached_property
    def stretches(self) -> list[slice]:
        """The rows in storage order, as many at a time as one call of a kernel may read."""
        return cuts(self.n, lambda i: self._before(i) + i, SUMMED)

    def _before(self, i: int) -> int:
        """Values of the rows before row i, times the outputs; targets may go on beyond the rows."""
        last = len(self.rows.indptr) - 1
        values = i * self.features if self.rows.dense else int(self.rows.indptr[min(i, last)])
        return values * prod(self.outputs)

    def in_turn(self, rows: Rows, *beside: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
        """The rows, and arrays with an entry for each, stretch after stretch; as they are where there is one."""
        if len(self.stretches) <= 1:
            yield rows, *beside
            return
        for part in self.stretches:
            listen()
            yield rows.stretch(part), *(array[part] for array in beside)

    # --- other samples, other features ---------------------------------------------------------

    def take(self, order: Visits) -> Self:
        """The same samples in the given order, in memory in that order (a copy of the rows)."""
        weights = self.weights[order] if self.weights.size else self.weights
        return self.on_samples(self.rows.take(order), self.targets[order], weights)

    def piece(self, start: int, stop: int) -> Self:
        """The samples from ``start`` up to ``stop``, where they lie."""
        return self.on_samples(
            self.rows.piece(start, stop), self.targets[start:stop], self.weights[start:stop]
        )

    def first(self) -> Self:
        """The first sample alone, to compile kernels with: all types are those of the whole."""
        other = self.piece(0, 1)
        vars(other)["quick"] = self.quick.piece(0, 1)
        return other

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The samples of all parts, one after the other (copied, their weights as they are)."""
        targets = np.concatenate([part.targets for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return parts[0].on_samples(Rows.join([part.rows for part in parts]), targets, weights)

    def on_samples(self, rows: Rows, targets: NDArray[Any], weights: Array) -> Self:
        """The same loss on other samples (their weights as they are, not normalised again)."""
        return replace(self, rows=rows, targets=read_only(targets), weights=read_only(weights))

    def columns(self, kept: Visits) -> Self:
        """The same samples in these features alone; an intercept stays (a copy of the rows)."""
        rows = self.quick.columns(kept, self.features)
        other = replace(self, rows=rows, features=int(kept.size))
        vars(other)["quick"] = rows  # read by the kernels of the whole, also where all are 1 now
        for known in {"column_counts", "column_squares"} & vars(self).keys():
            vars(other)[known] = vars(self)[known][kept]
        return other

    @cached_property
    def column_counts(self) -> NDArray[np.int64]:
        """How many values each feature has."""
        return self.rows.column_counts(self.features)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed on demand: kernels belong to one process."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        vars(self)["rows"] = self.rows.read_only()
        for name in ("targets", "weights"):
            vars(self)[name] = read_only(getattr(self, name))
