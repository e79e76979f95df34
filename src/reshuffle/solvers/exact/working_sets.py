"""Working sets: the features that matter at present, and the problem restricted to them.

If a penalty holds most coordinates at zero, an epoch need not read them. The rows are compacted to
the active features A; the method goes on there as if nothing had happened (the slopes do not change:
x is zero elsewhere), with the larger step that shorter rows allow. Now and then a pass over all columns
finds the features that must come back; nothing is certified without this pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from reshuffle.objective import Array, Visits
from reshuffle.penalties import Able, Penalty, ability
from reshuffle.penalties.abilities import closed, rows
from reshuffle.solvers.exact.newton_compiled import is_small_with
from reshuffle.solvers.slope_table import LinearModelTable, SlopeTable

if TYPE_CHECKING:
    from reshuffle.solvers.exact.state import ExactState

SMALL = 1 << 15
"""With fewer stored values than this an epoch is too short for working sets to pay."""
FEW = 0.3
"""A first epoch is restricted only if at most this share of the features is left."""
WIDE = 100
"""With more features than this for each stored value of a mean row, even the first epoch is restricted."""
FIRST = 20
"""The number of features to begin with, if one call can solve the problem in these."""
ABILITIES = ("part", "holds_at_zero", "together")
"""The abilities that a penalty needs for working sets."""


class SetRules(NamedTuple):
    """How readily features are left out. Every choice leads to the same minimiser; the defaults are fast."""

    guess: float = 0.9
    """At the start a zero feature is left out if its gradient is below this share of the penalty's strength."""
    slack: float = 0.9
    """A review adds a feature if its gradient is above this share of the penalty's strength."""
    drift: float = 3.0
    """Gradients are assumed to change by at most this many times as much as in the last epoch."""
    smaller: float = 0.7
    """Features are left out only where at most this share of the stored values remains."""


class WorkingSets:
    """Restricts the slope table of a problem to features, and back."""

    def __init__(
        self, table: SlopeTable, rules: SetRules | None = None, at_once: bool = True
    ) -> None:
        self.table, self.size, self.rules = table, table.problem.features, rules or SetRules()
        self.linear = table if is_restrictable(table) else None
        """The table, if it is of a linear model whose penalty may hold features at zero."""
        fit = table.problem.datafit
        self.pays = self.linear is not None and fit is not None and fit.rows.stored >= SMALL
        self.wide = self.pays and table.sparsity >= WIDE
        self.first = self._first() if at_once else 0
        """The number of features that a small problem begins with; 0 if that does not pay."""
        self.everything = np.arange(self.size, dtype=np.uint32)
        self._last: tuple[Visits, LinearModelTable] | None = None
        """The last set and its table; they are replaced in one assignment, so that an interruption cannot separate them."""

    def _first(self) -> int:
        """The number of features to begin with. It pays on dense rows; on sparse ones, epochs in all features cost no more.

        A quadratic has only one model, whose own working sets suffice.
        """
        if self.linear is None or ability(self.penalty, "excess") is None:
            return 0
        fit, form = self.linear.fit, self.linear.problem.form_with_ridge
        if form is not None and not form.holds_at_zero:
            return 0
        worth = fit.rows.dense and not fit.loss.quadratic and self.size > FIRST
        return FIRST if worth and is_small_with(fit, FIRST) else 0

    @property
    def penalty(self) -> Able:
        """ψ, with the ``ABILITIES``."""
        penalty = self.table.problem.penalty
        if not is_able(penalty):
            raise AttributeError("this penalty holds no feature at zero")
        return penalty

    def on(self, active: Visits) -> SlopeTable:
        """The table in these features; the last one is kept."""
        if active.size == self.size or self.linear is None:
            return self.table
        if self._last is None or not np.array_equal(active, self._last[0]):
            table, place = self.linear, active
            if self._last is not None:
                before, last = self._last
                found = np.minimum(np.searchsorted(before, active), before.size - 1)
                if before.size > 0 and np.array_equal(before[found], active):
                    table, place = last, found.astype(np.uint32)
                else:
                    self._last = (
                        None  # frees the memory of the old rows before the new ones are made
                    )
                    del last
            self._last = active, table.on(place)
        return self._last[1]

    def enough(self, x: Array, active: Visits) -> Visits:
        """The features that are needed to compute slopes at x: the active ones, but none at x = 0."""
        return active[:0] if self.pays and not x.any() else active

    def restrict(self, x: Array, active: Visits) -> Array:
        """x in the active features, and its intercept."""
        return x if active.size == self.size else np.concatenate([x[active], x[self.size :]])

    def extend(self, x: Array, active: Visits) -> Array:
        """x in all features, zero in those that are not active."""
        if active.size == self.size:
            return x
        whole = np.zeros(self.table.problem.shape)
        whole[active], whole[self.size :] = x[: active.size], x[active.size :]
        return whole

    def value(self, x: Array, active: Visits) -> float:
        """f(x), where x is zero outside the active features."""
        active = self.enough(x, active)
        return self.on(active).problem.value(self.restrict(x, active))

    def slopes(self, x: Array, active: Visits) -> tuple[Array, Array]:
        """Slopes and their mean gradient at x, which is zero outside the active features."""
        active = self.enough(x, active)
        if active.size == self.size or self.linear is None:
            return self.table.slopes(x)
        slopes, _ = self.on(active).slopes(self.restrict(x, active))
        return slopes, self.linear.fit.combined(slopes)

    def begin(self, x: Array, g: Array, few: bool) -> Visits:
        """The features to begin with at x, from the gradient there."""
        if self.linear is None:
            return self.everything
        used = self.everything[rows(x[: self.size] != 0)]
        found = self.few(x, g, used) if few and self._stays_small(g) else None
        if found is not None:
            return found
        if not x.any():
            return self.guess(g) if self.wide else self.everything
        held = self.penalty.holds_at_zero(g[: self.size], self.rules.slack)
        matter = self._features((x[: self.size] != 0) | ~held)
        fewer = self.pays and np.count_nonzero(matter) <= self._most(FEW)
        return self.everything[matter] if fewer and self._fits(matter) else self.everything

    def _stays_small(self, g: Array) -> bool:
        """Whether the set is likely to be small in the features that will be needed.

        Usually no more features are needed than there are rows; on tall sets, half of those that the gradient moves away from zero.
        """
        if self.linear is None or self.linear.fit.n < self.size:
            return True
        pulled = np.count_nonzero(self._features(~self.penalty.holds_at_zero(g[: self.size])))
        return is_small_with(self.linear.fit, int(pulled) // 2)

    def guess(self, g: Array) -> Visits:
        """The features to begin with at x = 0, from the gradient there; all features unless these are few."""
        if self.linear is None:
            return self.everything
        held = self.penalty.holds_at_zero(g[: self.size], self.rules.guess)
        matter = self._features(~held)
        few = np.count_nonzero(matter) <= FEW * self.size
        return self.everything[matter] if few and self._fits(matter) else self.everything

    def few(self, x: Array, g: Array, old: Visits) -> Visits | None:
        """The old features and the few new ones that x most likely needs; None if the set is not small in these.

        About as many are added as x has nonzeros (at least ``first``), so that a support of s features is found in log s rounds.
        """
        if not self.first or self.linear is None:
            return None
        penalty, fit = self.penalty, self.linear.fit
        beyond = penalty.excess(x[: self.size], g[: self.size])
        shape, beyond = beyond.shape, beyond if beyond.ndim == 1 else beyond.max(axis=1)
        support = int(np.count_nonzero(np.isinf(beyond)))
        matter = beyond > 0.0
        some, count = beyond[matter], support + max(self.first, support)
        if count < some.size:
            matter &= beyond > np.partition(some, some.size - count - 1)[some.size - count - 1]
        matter[old] = True
        spread = np.broadcast_to(matter.reshape(-1, *[1] * (len(shape) - 1)), shape)
        found = self.everything[closed(penalty, spread)]
        return found if found.size < self.size and is_small_with(fit, found.size) else None

    def choose(self, x: Array, g: Array, old: Visits) -> tuple[Visits, bool]:
        """The features to continue with, from the gradient at x, and whether one had been missing."""
        if self.linear is None:
            return self.everything, False
        x, g = x[: self.size], g[: self.size]
        missing = self._features(~self.penalty.holds_at_zero(g))
        missing[old] = False
        if not missing.any():
            return old, False
        found = self.few(x, g, old) if old.size < self.size else None
        if found is not None:
            return found, True
        if not self.pays:
            return self.everything, True
        matter = self._features((x != 0) | ~self.penalty.holds_at_zero(g, self.rules.slack))
        matter[old] = True
        few = np.count_nonzero(matter) <= self._most(self.rules.smaller)
        return (self.everything[matter] if few and self._fits(matter) else self.everything), True

    def add(self, active: Visits, g: Array, bound: float) -> Visits:
        """The active features, and those others that may not be zero at x*, given P(x) - P(x*) ≤ ``bound``.

        x* is the minimiser in the active ones, g the gradient at x. For every feature j

            (∇_j f(x) - ∇_j f(x*))²/(2L_j) ≤ f(x) - f(x*) - ⟨∇f(x*), x - x*⟩ ≤ P(x) - P(x*),

        since a step of length 1/L_j along j lowers f(x) - ⟨∇f(x*), x⟩, whose minimum is at x*, by the
        left side. If ψ holds a feature at zero against every gradient that close to g, it also holds it at
        x*; if it holds all of them, x* is the minimiser in all features.
        """
        if self.linear is None:
            return self.everything
        penalty, fit = self.penalty, self.linear.fit
        drift = np.sqrt(2.0 * fit.loss.curvature * bound * fit.column_squares)
        drift = drift.reshape(-1, *[1] * (g.ndim - 1))
        matter = self._features(~penalty.holds_at_zero(g[: self.size], drift=drift))
        matter[active] = True
        return self.everything[matter] if self._fits(matter) else self.everything

    def shrink(self, state: ExactState, before: ExactState) -> ExactState:
        """Leave out features that have come to rest at zero, if they are many.

        A feature is at rest if the penalty would hold it at zero even after its gradient changed by three times
        as much as it did since ``before``.
        """
        active, n, rules = state.active, state.active.size, self.rules
        if not (self.pays and n):
            return state
        x, was = (self.restrict(s.x, active)[:n] for s in (state, before))
        if np.count_nonzero(rows(x != 0)) > rules.smaller * n:
            return state
        g, drift = state.g[:n], rules.drift * np.abs(state.g - before.g)[:n]
        part, fit = (
            self.penalty.part(active, (self.size, *x.shape[1:])),
            self.on(active).problem.datafit,
        )
        if not is_able(part) or fit is None:
            return state
        matter = closed(part, (x != 0) | (was != 0) | ~part.holds_at_zero(g, drift=drift))
        counts = fit.column_counts
        if counts[matter].sum() > rules.smaller * counts.sum() or not fit.fits_in(matter):
            return state
        kept = np.concatenate([matter, np.ones(len(state.g) - n, dtype=bool)])
        return replace(state, active=active[matter], g=state.g[kept], q=state.q[kept])

    def _most(self, share: float) -> float:
        """The most features that may be left for compacting the rows to pay; on disk all but one, because memory is so much faster."""
        on_disk = self.linear is not None and self.linear.fit.on_disk
        return self.size - 1 if on_disk else share * self.size

    def _fits(self, matter: NDArray[np.bool_]) -> bool:
        """Whether the rows fit into memory in these features; rows on disk are compacted only then."""
        return self.linear is not None and self.linear.fit.fits_in(matter)

    def _features(self, matter: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return closed(self.penalty, matter)


def is_able(penalty: Penalty) -> TypeGuard[Able]:
    """Whether the penalty has the abilities that working sets need."""
    return all(ability(penalty, name) is not None for name in ABILITIES)


def is_restrictable(table: SlopeTable) -> TypeGuard[LinearModelTable]:
    """Whether this is the table of a linear model whose penalty may hold features at zero."""
    return table.problem.datafit is not None and is_able(table.problem.penalty)
