"""The risk sets of a stratum, and the partial likelihood as a function of the margins of its rows.

Rows are sorted by time from the last to the first, and at equal times censored rows come before events: the risk set of
a time is then everything up to the end of its events, and all sums over risk sets are cumulative sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.core import native

Numbers = NDArray[np.int64]


class Margins(NamedTuple):
    """The partial likelihood of a stratum at some margins."""

    value: float
    """Minus the log likelihood; infinite if the sum over a risk set underflows."""
    hazards: Array
    """w_j e^{z_j} Σ_k c_k (1 - l_k)/S_k over the terms of row j: its expected number of events, which is its slope plus w_j δ_j."""
    sizes: Array
    """w_j e^{z_j - shift}."""
    sums: Array
    """S_k e^{-shift}."""
    shift: float


@dataclass(frozen=True, eq=False)
class RiskSets:
    """-Σ_{events i} w_i z_i + Σ_k c_k log S_k(z) over the sorted rows of a stratum.

    Breslow has a term for each time with events, D its events and R its risk set: c = Σ_D w_i and S = Σ_R w_j e^{z_j}. Efron has
    one for each event, l = 0, …, |D| - 1: c = Σ_D w_i/``|D|`` and S = Σ_R w_j e^{z_j} - (l/``|D|``) Σ_D w_i e^{z_i}.
    """

    weights: Array
    events: NDArray[np.bool_]
    begins: Numbers
    """The first event of each time that has events."""
    ends: Numbers
    """The end of its events, and of its risk set."""
    times: Array
    """These times, from the last to the first."""
    owner: Numbers
    """The time of each term, as an index into these."""
    shares: Array
    """1 - l/``|D|`` of each term, the part of the events that is left in its risk set."""
    counts: Array
    """c_k."""

    @classmethod
    def of(cls, times: Array, events: NDArray[np.bool_], weights: Array, efron: bool) -> RiskSets:
        """The risk sets of sorted rows."""
        at = np.flatnonzero(events)
        moments, begins, sizes = np.unique(-times[at], return_index=True, return_counts=True)
        begins, ends = at[begins], at[begins] + sizes
        totals = np.array([weights[b:e].sum() for b, e in zip(begins, ends, strict=True)])
        if efron:
            owner = np.repeat(np.arange(begins.size), sizes)
            within = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            shares = 1.0 - within / sizes[owner]
            counts = totals[owner] / sizes[owner]
        else:
            owner, shares, counts = np.arange(begins.size), np.ones(begins.size), totals
        return cls(weights, events, begins, ends, -moments, owner, shares, counts)

    @property
    def least(self) -> float:
        """A bound below ``value`` at all z: Jensen's inequality in Σ_D w_i (1 - l/``|D|``) e^{z_i} ≤ S_k."""
        return float(self.counts @ np.log(self.totals[self.owner] * self.shares))

    @cached_property
    def totals(self) -> Array:
        """Σ_D w_i of each time."""
        return np.bincount(self.owner, self.counts, self.begins.size).astype(np.float64)

    @cached_property
    def terms(self) -> Numbers:
        """The number of terms of each time."""
        return np.bincount(self.owner, minlength=self.begins.size)

    @cached_property
    def starts(self) -> Numbers:
        """The first term of each time."""
        return np.searchsorted(self.owner, np.arange(self.begins.size))

    def of_times(self, e: Array) -> tuple[Array, Array]:
        """Sums of e (an entry or a row for each row) over the risk set of each time without its events, and over its events."""
        marks = np.column_stack([np.append(0, self.ends[:-1]), self.begins]).ravel()
        # For an empty segment, where no row was censored in between, reduceat returns the entry itself.
        pieces = np.add.reduceat(e[: self.ends[-1]], marks, axis=0)
        before, own = pieces[0::2].copy(), pieces[1::2]
        before[marks[0::2] == marks[1::2]] = 0.0
        before[1:] += own[:-1]
        return np.cumsum(before, axis=0), own

    def of_terms(self, e: Array) -> Array:
        """Sums of e over the risk set of each term."""
        rest, own = self.of_times(e)
        shares = self.shares.reshape(-1, *[1] * (e.ndim - 1))
        return np.asarray(rest[self.owner] + shares * own[self.owner])

    @cached_property
    def native(self) -> native.RiskSets:
        """The risk sets as an object of the core, which computes the sums over rows."""
        return native.RiskSets(self.weights, self.begins, self.ends, self.terms, self.totals)

    def at(self, z: Array) -> Margins:
        """The partial likelihood where the rows have these margins."""
        sizes, sums, hazards = np.empty(z.size), np.empty(self.counts.size), np.empty(z.size)
        value, shift = self.native.at(z, sizes, sums, hazards)
        if not np.isfinite(value):
            hazards[:] = np.nan
        return Margins(value, hazards, sizes, sums, shift)

    def rates(self, each: Array) -> Array:
        """For each row the sum of ``each``, a number or a row for every term, over the terms whose risk set has the row.

        An event counts with the share of it that is left in the risk set of a term at its own time.
        """
        shares = self.shares.reshape(-1, *[1] * (each.ndim - 1))
        whole, left = (np.add.reduceat(part, self.starts, axis=0) for part in (each, each * shares))
        tail = np.concatenate([np.cumsum(whole[::-1], axis=0)[::-1], np.zeros_like(whole[:1])])
        found = tail[self.first]
        found[self.events] = (tail[1:] + left)[self.first[self.events]]
        return np.asarray(found)

    @cached_property
    def first(self) -> Numbers:
        """The last time whose risk set has the row, as an index into ``times``; the number of times if there is none."""
        return np.searchsorted(self.ends, np.arange(self.weights.size), side="right")

    def scores(self, at: Margins, rows: Array) -> Array:
        """The contributions of the rows to -∇(-log L): they sum to it, and are independent for large n, unlike the terms of a sum over events.

        An event contributes w_j(a_j - ā), ā the mean of its risk set (over the terms of its time if there are several). From every row
        its expected contribution to each risk set is subtracted, w_j e^{z_j} c_k/S_k (a_j - ā_k) (Lin and Wei, 1989).
        """
        if not self.begins.size:
            return np.zeros_like(rows)
        rows = rows - rows[0]
        means = self.of_terms(at.sizes[:, None] * rows) / at.sums[:, None]
        expected = self.rates((self.counts / at.sums)[:, None] * means)
        found = at.sizes[:, None] * expected - at.hazards[:, None] * rows
        own = np.add.reduceat(means, self.starts, axis=0) / self.terms[:, None]
        events = self.events
        found[events] += self.weights[events, None] * (rows[events] - own[self.first[events]])
        return np.asarray(found)

    def hessian(self, at: Margins, rows: Array) -> Array:
        """Σ_k c_k Cov_k(a) of the rows a_j of a matrix, with the distribution w_j e^{z_j}/S_k on the risk set of k."""
        H = np.empty((rows.shape[1], rows.shape[1]))
        columns = np.ascontiguousarray(rows.T)
        self.native.covariances(columns, at.sizes, at.sums, at.hazards, H)
        return H
