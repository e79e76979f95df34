"""Samples and their loss in the form that the core reads: as a whole, in pieces for threads, or in bounded calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array, Visits
from reshuffle.cached import cached_property, keep
from reshuffle.core import native
from reshuffle.errors import InputError
from reshuffle.interruption import cuts, listen
from reshuffle.losses import Loss
from reshuffle.losses.native import native_loss, own_errors
from reshuffle.rows import Rows
from reshuffle.validation import read_only

T = TypeVar("T")
PIECE = 1 << 13
"""The number of rows in a piece: a fraction of a millisecond of work, so that threads share evenly."""
NO_OFFSETS: Array = read_only(np.empty(0))
# The core sums the losses of this many rows before adding them to a total; calls end at multiples of it.
SUMMED = 1 << 10


class Range(NamedTuple):
    """The rows from ``begin`` up to ``end``."""

    begin: int
    end: int

    def of(self, array: AnyArray) -> AnyArray:
        """The entries of these rows in an array that has one for each row."""
        return array[self.begin : self.end]


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows a_i of a matrix with targets y_i, weights w_i, offsets o_i and a loss.

    ``weights`` is empty if all w_i are 1. With ``bias`` the last entry (row) of x is b. Margins z_i = a_iᵀx + b
    do not include the offsets, so that they are linear in x; the loss of row i is l(z_i + o_i, y_i).
    """

    rows: Rows
    targets: AnyArray
    weights: Array
    loss: Loss
    bias: bool
    features: int
    outputs: tuple[int, ...]
    """The shape of one margin: () for a number, (K,) for one per output."""
    threads: int | None = None
    """The number of threads for passes over all rows in storage order. If given, sums are made of pieces of a fixed size, in
    order, so that the bits do not depend on the number; otherwise they are made in one piece."""
    offsets: Array = field(default_factory=lambda: NO_OFFSETS)
    """One o_i for each row; empty if all are 0."""

    @property
    def n(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.features + self.bias, *self.outputs)

    # --- what the core takes -------------------------------------------------------------------

    @property
    def core(self) -> native.Samples:
        """These samples as an object of the core, checked once.

        An error that a user's own loss raised when the core called it is raised again here.
        """
        self.raise_own_errors()
        return self._core

    @cached_property
    def _core(self) -> native.Samples:
        loss = native_loss(self.loss, self.targets.dtype == np.int32)
        return native.Samples(
            *self.quick, self.targets, self.weights, self.offsets, loss, self.bias, self.features,
            prod(self.outputs) if self.outputs else 0,
        )  # fmt: skip

    @cached_property
    def _own_errors(self) -> list[BaseException]:
        return own_errors(self.loss)

    def raise_own_errors(self) -> None:
        """Raise the error that a user's own loss has raised inside the core."""
        if self._own_errors:
            error = self._own_errors[0]
            self._own_errors.clear()
            raise error

    @cached_property
    def quick(self) -> Rows:
        """The rows without their values, if all of these are 1."""
        return self.rows.without_ones()

    def checked(self, x: Array) -> Array:
        """x, checked to have the shape and the type that the core reads."""
        good = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.c_contiguous
        if not good or x.shape != self.shape:
            found = f"{getattr(x, 'dtype', type(x).__name__)} of shape {np.shape(x)}"
            raise InputError(
                f"x must be a C-ordered float64 array of shape {self.shape}, got {found}"
            )
        return x

    # --- pieces for threads, calls that are bounded ----------------------------------------------

    @cached_property
    def pieces(self) -> list[Range]:
        """The rows in pieces of a fixed size, for threads; empty if they fit into one piece."""
        if self.threads is None or self.n <= PIECE:
            return []
        ends = [*range(PIECE, self.n, PIECE), self.n]
        return [Range(*ends_of) for ends_of in zip([0, *ends], ends, strict=False)]

    def each(self, work: Callable[[Range], T]) -> list[T]:
        """The results of ``work`` on the pieces, in their order, computed by the given number of threads; without pieces on all rows."""
        if not self.pieces or self.threads == 1:
            return [work(part) for part in self.pieces or self.in_turn()]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(work, self.pieces))

    @cached_property
    def stretches(self) -> list[Range]:
        """The rows in storage order, in stretches that one call of the core may read."""
        found = cuts(self.n, lambda i: self._before(i) + i, SUMMED)
        return [Range(part.start, part.stop) for part in found]

    def _before(self, i: int) -> int:
        """The number of values in the rows before row i, times the number of outputs."""
        last = len(self.rows.indptr) - 1
        values = i * self.features if self.rows.dense else int(self.rows.indptr[min(i, last)])
        return values * prod(self.outputs)

    def in_turn(self) -> Iterator[Range]:
        """The rows, stretch after stretch."""
        if len(self.stretches) <= 1:
            yield Range(0, self.n)
        else:
            for part in self.stretches:
                listen()
                yield part

    # --- other samples, other features ---------------------------------------------------------

    def take(self, order: Visits) -> Self:
        """The samples in the given order, stored in that order (a copy of the rows)."""
        others = (array[order] if array.size else array for array in (self.weights, self.offsets))
        return self.on_samples(self.rows.take(order), self.targets[order], *others)

    def piece(self, start: int, stop: int) -> Self:
        """The samples from ``start`` up to ``stop``, without a copy."""
        others = (array[start:stop] for array in (self.targets, self.weights, self.offsets))
        return self.on_samples(self.rows.piece(start, stop), *others)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The samples of all parts, one after the other (a copy; weights are not changed)."""
        targets = np.concatenate([part.targets for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        offsets = np.concatenate([part.own_offsets() for part in parts])
        offsets = offsets if offsets.any() else NO_OFFSETS
        rows = Rows.join([part.rows for part in parts])
        return parts[0].on_samples(rows, targets, weights, offsets)

    def on_samples(self, rows: Rows, targets: AnyArray, weights: Array, offsets: Array) -> Self:
        """The loss on other samples, whose weights are not normalised again."""
        return replace(
            self, rows=rows, targets=read_only(targets), weights=read_only(weights), offsets=read_only(offsets)
        )  # fmt: skip

    def own_weights(self) -> Array:
        """One weight for each row, ones if there are none."""
        return self.weights if self.weights.size else np.ones(self.n)

    def own_offsets(self) -> Array:
        """One offset for each row, zeros if there are none."""
        return self.offsets if self.offsets.size else np.zeros(self.n)

    def predictors(self, x: Array) -> Array:
        """The arguments of the losses: a_iᵀx + b + o_i for every row."""
        margins: Array = self.margins(x)  # type: ignore[attr-defined]
        return margins + self.offsets if self.offsets.size else margins

    def columns(self, kept: Visits) -> Self:
        """The samples with these features only, and the intercept (a copy of the rows)."""
        rows = self.quick.columns(kept, self.features)
        other = replace(self, rows=rows, features=int(kept.size))
        computed = {"column_counts", "column_squares"} & vars(self).keys()
        known = {name: vars(self)[name][kept] for name in computed}
        # A matrix of ones has no values that would have to be checked again.
        return keep(other, quick=rows, **known)

    @cached_property
    def column_counts(self) -> NDArray[np.int64]:
        return self.rows.column_counts(self.features)

    def __getstate__(self) -> dict[str, object]:
        """The state without cached values: objects of the core belong to one process."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        vars(self)["rows"] = self.rows.read_only()
        for name in ("targets", "weights", "offsets"):
            vars(self)[name] = read_only(getattr(self, name))
