"""The losses of samples whose rows lie on disk: every pass reads windows of rows, and the next window while one is used.

Targets, weights and tables with a number for each sample are in memory. A pass in storage order takes one shard at a
time, so that its sums, and therefore the bits of a run, do not depend on the available memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array, Ends, Noise, Visits
from reshuffle.cached import cached_property, keep
from reshuffle.core import native
from reshuffle.datafit import ALONE, Copies, Datafit, Steps
from reshuffle.digests import digest
from reshuffle.disk_visits import Stretches, WindowPart, gathered, segments_of
from reshuffle.errors import InputError
from reshuffle.interruption import listen
from reshuffle.losses import Loss
from reshuffle.rows import Rows
from reshuffle.samples import Range
from reshuffle.shards import Shards
from reshuffle.validation import read_only

T = TypeVar("T", float, Array)


@dataclass(frozen=True, eq=False)
class DiskDatafit(Datafit):
    """Σ_i w_i·l(a_iᵀx + b, y_i) over rows in files."""

    rows: Shards  # type: ignore[assignment]
    on_disk = True

    @property
    def disk_passes(self) -> float:
        """The bytes read from this folder for this problem, over the bytes of its rows."""
        about = self.rows.manifest
        targets = sum(shard.files["targets"].bytes for shard in about.shards)
        return (self.rows.reader.bytes_read - self._first_byte) / (about.bytes - targets)

    @cached_property
    def _first_byte(self) -> int:
        """Bytes that had been read before this problem was made."""
        return self.rows.reader.bytes_read

    # --- windows -------------------------------------------------------------------------------

    def _loaded(self, rows: Rows, **changed: Any) -> Datafit:
        """The samples with their rows in memory."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return Datafit(**(own | {"rows": rows} | changed))

    def _local(self, rows: Rows, targets: AnyArray, weights: Array, offsets: Array) -> Datafit:
        """Samples whose rows were read; rows of ones have no values in the files, so no window is searched for other values."""
        others = {"targets": targets, "weights": weights, "offsets": offsets}
        fit = self._loaded(rows, **{name: read_only(array) for name, array in others.items()})
        return keep(fit, quick=rows)

    def windows(self) -> Iterator[tuple[Range, Datafit]]:
        """All rows in storage order, shard by shard. The first pass also counts the values of each column."""
        counts = None if "column_counts" in vars(self) else np.zeros(self.features, dtype=np.int64)
        squares = np.zeros(self.features)
        for begin, end, rows in self.rows.in_turn():
            listen()
            part = Range(begin, end)
            fit = self._local(rows, *map(part.of, (self.targets, self.weights, self.offsets)))
            if counts is not None:
                counts += fit.column_counts
                squares += fit.column_squares * fit.n
            yield part, fit
        if counts is not None:
            vars(self).update(column_counts=counts, column_squares=squares / self.n)

    def _summed_up(self, work: Callable[[Range, Datafit], T]) -> T:
        """The sum of the results of ``work`` on every window."""
        windows = (work(part, fit) for part, fit in self.windows())
        total = next(windows)
        for found in windows:
            total = total + found
        return total

    @property
    def core(self) -> NoReturn:
        """Raises an error: the core can read only windows of these rows."""
        raise InputError(
            f"this needs all rows in memory, and those of {self.rows.reader.folder} lie on disk; "
            f"open_shards(folder, memory={self.rows.bytes}) or more takes them into memory"
        )

    def prepare(self) -> None:
        _ = self._first_byte
        self._bare.prepare()

    @cached_property
    def _bare(self) -> Datafit:
        """The samples without features, for computations from targets and margins alone."""
        return self._loaded(Rows.of_dense(np.empty((self.n, 0))), features=0)

    # --- passes over all rows ------------------------------------------------------------------

    @cached_property
    def _last(self) -> dict[str, Any]:
        """The last point at which a pass computed value and gradient, and both of these."""
        return {}

    def value(self, x: Array) -> float:
        if self.reads_once or self._is_last(x):
            return float(self._at(x)["value"])
        return float(self._summed_up(lambda part, fit: fit.value(x)))

    def _is_last(self, x: Array) -> bool:
        known = self._last.get("x")
        return known is not None and np.array_equal(known, x)

    def _at(self, x: Array) -> dict[str, Any]:
        """Value and gradient at x, by one pass unless they are known. The bits do not depend on which pass computed them."""
        if not self._is_last(x):
            self.slopes(x)
        return self._last

    @cached_property
    def at_zero(self) -> float:
        return self._bare.value(np.zeros(self._bare.shape)) / self.n

    def gradient(self, x: Array, factor: float) -> Array:
        if self.reads_once:
            scaled: Array = self._at(x)["gradient"] * (factor * self.n)
            return scaled
        return self._summed_up(lambda part, fit: fit.gradient(x, factor))

    def margins(self, x: Array) -> Array:
        found = np.empty((self.n, *self.outputs))
        for part, fit in self.windows():
            part.of(found)[...] = fit.margins(x)
        return found

    def slopes(self, x: Array) -> tuple[Array, Array]:
        """Slopes and mean gradient. The pass also computes the value, which is kept for this x."""
        table, value = np.empty((self.n, *self.outputs)), 0.0
        mean, at_once = np.zeros(self.shape), self.reads_once
        for part, fit in self.windows():
            if at_once:
                own_mean, own = self._linearised(fit, x, part.of(table))
            else:
                part.of(table)[...], own = fit.slopes(x)
                own_mean = fit.value(x) / fit.n
            mean += own * (fit.n / self.n)
            value += fit.n * own_mean
        self.remember(x, value, mean)
        return table, mean

    @property
    def reads_once(self) -> bool:
        """Whether the core computes value, slopes, curvatures and gradient in one reading of a row."""
        return type(self.loss).second is not None and not self.outputs and self.threads is None

    def _linearised(self, fit: Datafit, x: Array, table: Array) -> tuple[float, Array]:
        """Fill in the slopes of a window; returns the mean of its losses and its mean gradient."""
        core, x, mean, value = fit.core, fit.checked(x), np.zeros(self.shape), 0.0
        for rows in fit.in_turn():
            margins, curvatures = np.empty((2, rows.end - rows.begin))
            value = native.linearise(
                core, x, *rows, 1.0 / fit.n, margins, rows.of(table), curvatures, mean, value
            )  # fmt: skip
        fit.raise_own_errors()
        return value / fit.n, mean

    def remember(self, x: Array, value: float, gradient: Array) -> None:
        """Keep the value Σ_i w_i·l(a_iᵀx + b, y_i) and (1/n) times its gradient, which another pass has computed."""
        self._last.update(x=x.copy(), value=value, gradient=gradient.copy())

    def combined(self, slopes: Array) -> Array:
        return self._summed_up(lambda part, fit: fit.combined(part.of(slopes)) * (fit.n / self.n))

    def conjugates(self, slopes: Array, scale: float) -> float:
        return self._bare.conjugates(slopes, scale)

    def column_means(self) -> Array:
        return self._summed_up(lambda part, fit: fit.column_means() * (fit.n / self.n))

    @cached_property
    def column_squares(self) -> Array:
        self.margins(np.zeros(self.shape))  # any pass computes them too
        found: Array = vars(self)["column_squares"]
        return found

    @cached_property
    def column_counts(self) -> NDArray[np.int64]:
        self.margins(np.zeros(self.shape))
        found: NDArray[np.int64] = vars(self)["column_counts"]
        return found

    def curvature_product(self, v: Array, factor: float) -> Array:
        return self._summed_up(lambda part, fit: fit.curvature_product(v, factor))

    def bent_product(self, curvatures: Array, v: Array) -> Array:
        return self._summed_up(
            lambda part, fit: fit.bent_product(np.ascontiguousarray(part.of(curvatures)), v) * (fit.n / self.n)
        )  # fmt: skip

    def squared_norms(self) -> Array:
        found = np.empty(self.n)
        for part, fit in self.windows():
            part.of(found)[...] = fit.squared_norms()
        return found

    def known_constants(self) -> tuple[float, float] | None:
        """L_max and L̄ without a ridge, from the manifest."""
        if self.weights.size or self.rows.kept is not None or not self.loss.curvature < np.inf:
            return None
        about, c = self.rows.manifest, float(self.loss.curvature)
        mean = about.sum_of_squares / self.n
        return c * (about.largest_square + self.bias), c * (mean + self.bias)

    @cached_property
    def longest(self) -> int:
        return self.features * prod(self.outputs)

    # --- shuffled passes -----------------------------------------------------------------------

    def parts(self, visits: Visits) -> Iterator[WindowPart]:
        """The visits in turn, with their rows in memory."""
        starts, segments = self.rows.starts, segments_of(self.rows, visits)
        groups = [segment.pieces for segment in segments]
        for segment, rows in zip(segments, self.rows.windows(groups), strict=True):
            listen()
            stretches: Stretches = []
            shift, at = np.zeros(len(self.rows.counts), dtype=np.int64), 0
            for k in segment.pieces:
                whole = Range(int(starts[k]), int(starts[k + 1]))
                stretches.append((whole, Range(at, at + whole.end - whole.begin)))
                shift[k] = at - whole.begin
                at += whole.end - whole.begin
            mine = visits[segment.visits]
            local = (mine + shift[self.rows.owners(mine)]).astype(np.uint32)
            given = (gathered(a, stretches) for a in (self.targets, self.weights, self.offsets))
            yield WindowPart(read_only(local), self._local(rows, *given), stretches, segment)

    def sweep(
        self,
        x: Array,
        visits: Visits,
        steps: Steps,
        weights: Array | None = None,
        batch: int = 1,
    ) -> None:
        """Steps over the visits, in place. A batch that extends into the next window is cut in two."""
        for part in self.parts(visits):
            if (
                batch > 1
                and steps.prox_step > 0.0
                and part.segment.visits.stop < visits.size
                and part.visits.size % batch
            ):
                raise InputError(
                    f"batch_size: on disk a batch of {batch} samples with a prox of its own must not go from one window to "
                    f"the next, here after {part.visits.size} samples: give a batch size that divides the rows of a shard, "
                    f"{self.rows.manifest.shard_rows}"
                )
            own = None if weights is None else read_only(part.gather(weights))
            part.fit.sweep(x, part.visits, steps, own, batch)

    def clipped_sweep(
        self, x: Array, visits: Visits, ends: Ends, steps: Steps, clip: float, noise: Noise
    ) -> None:
        """Steps along clipped gradients with noise. If a batch extends into the next window, its sum so far is added to its noise.

        The noise of a batch is added once, with its last samples; until then x does not change.
        """
        begun, k = Begun(noise), 0
        for part in self.parts(visits):
            start, stop = part.segment.visits.start, part.segment.visits.stop
            last = stop == visits.size
            ended = ends.size if last else int(np.searchsorted(ends, stop, side="right"))
            if ended > k:
                own = part.visits[: ends[ended - 1] - start]
                part.fit.clipped_sweep(x, own, ends[k:ended] - start, steps, clip, begun)
            rest = part.visits[own.size if ended > k else 0 :]
            k = ended
            if rest.size and not last:  # x - x⁺ of a step of length 1 without noise is the sum
                moved, one = x.copy(), np.array([rest.size])
                part.fit.clipped_sweep(
                    moved, rest, one, Steps(1.0), clip, lambda _: np.zeros((1, *x.shape))
                )
                begun.add(x - moved)

    def block(
        self, y: Array, visits: Visits, step: float, table: Array, q: Array, copies: Copies = ALONE
    ) -> None:
        if copies.owner.size:
            raise InputError("importance: copies of samples need all rows in memory")
        for part in self.parts(visits):
            local, drift = part.gather(table), step * part.segment.visits.start * q
            y -= drift
            part.fit.block(y, part.visits, step, local, q)
            y += drift
            part.scatter(local, table)

    # --- other samples, other features ---------------------------------------------------------

    def fits_in(self, kept: AnyArray) -> bool:
        """Whether the rows fit into memory with these features alone, given as a mask or as numbers."""
        if self.rows.dense:
            stored = self.n * int(np.count_nonzero(kept) if kept.dtype == bool else kept.size)
        else:
            stored = int(self.column_counts[kept].sum())
        return self.rows.manifest.memory_of(stored, self.n) <= self.rows.memory // 2

    def columns(self, kept: Visits) -> Datafit:  # type: ignore[override]
        """The samples with these features alone, in memory; an error if they do not fit."""
        if not kept.size:
            return self._bare
        if not self.fits_in(kept):
            raise InputError(
                f"{kept.size} features of {self.rows!r} do not fit into memory={self.rows.memory:,} bytes: give more to open_shards"
            )
        counts, squares = self.column_counts, self.column_squares
        rows = Rows.join([fit.quick.columns(kept, self.features) for _, fit in self.windows()])
        fit = self._loaded(rows, features=int(kept.size))
        return keep(fit, column_counts=counts[kept], column_squares=squares[kept])

    def in_memory(
        self, pieces: Sequence[int], targets: AnyArray, weights: Array, offsets: Array
    ) -> Datafit:
        """The samples of these pieces, which stay in memory; no file is read whole for them."""
        return self._local(self.rows.window(pieces, verify=False), targets, weights, offsets)

    def on_samples(self, rows: Any, targets: AnyArray, weights: Array, offsets: Array) -> Self:
        """The loss on other samples; in memory if their rows fit."""
        found: Any = datafit_on(
            rows, read_only(targets), read_only(weights), self.loss, self.bias, self.features, self.outputs,
            read_only(offsets),
        )  # fmt: skip
        return found  # type: ignore[no-any-return]

    def identity(self) -> str:
        """A digest of the rows from the checksums of the files, without reading any row."""
        return digest(*self.rows.identity, self.features, self.bias, self.rows.window_rows)


class Begun:
    """Rows of noise; the sum over the samples of a batch in earlier windows is added to the next row."""

    def __init__(self, noise: Noise) -> None:
        self._noise, self._first = noise, np.zeros(1)

    def add(self, total: Array) -> None:
        self._first = self._first + total

    def __call__(self, count: int) -> Array:
        rows = self._noise(count)
        rows[0] += self._first
        self._first = np.zeros(1)
        return rows


def on_disk(fit: Datafit) -> DiskDatafit:
    """The samples, checked to have their rows in files."""
    if not isinstance(fit, DiskDatafit):
        raise TypeError(f"the rows are in memory: {fit!r}")
    return fit


def datafit_on(
    rows: Rows | Shards, targets: AnyArray, weights: Array, loss: Loss, bias: bool, features: int,
    outputs: tuple[int, ...], offsets: Array,
) -> Datafit:  # fmt: skip
    """The samples with their loss; rows on disk that fit into memory are read into it."""
    if isinstance(rows, Shards) and rows.fits:
        rows = rows.load()
    kind: Any = DiskDatafit if isinstance(rows, Shards) else Datafit
    fit: Datafit = kind(rows, targets, weights, loss, bias, features, outputs, offsets=offsets)
    return fit
