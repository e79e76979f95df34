"""Working sets: the features that matter now, and the problem on them alone.

Where a penalty holds most coordinates at zero, an epoch need not read them. The rows are compacted to
the active features A; the method goes on there as if nothing had happened (the slopes do not change:
x is zero elsewhere), with the larger step that shorter rows allow. Now and then a pass over all columns
finds those that have to come back; nothing is certified without one.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.datafit import Datafit
from reshuffle.objective import Array, Visits
from reshuffle.penalties import Able, ability
from reshuffle.penalties.abilities import closed, rows
from reshuffle.problem import Problem
from reshuffle.solvers.exact.newton_compiled import is_small_with
from reshuffle.solvers.slope_table import LinearModelTable, SlopeTable, State

SMALL = 1 << 15  # stored values, below which an epoch is too short for any of this to pay
FEW = 0.3  # of the features, at most: else the first epoch is better made with all
SMALLER = 0.7  # of the stored values (of the features, after a review): else it does not pay
WIDE = 100  # features for each value of a mean row: then even the first epoch is restricted
FIRST = 20  # features to begin with, where the problem in these is solved in one call
GUESS = 0.9  # of the strength, below which a gradient at zero is first left out
SLACK = 0.9  # of the strength, beyond which a gradient found by a review is taken along
DRIFT = 3.0  # times its change in the last epoch: how far a gradient may still move
ABILITIES = ("part", "holds_at_zero", "together")
"""What a penalty must be able to do."""


class WorkingSets:
    """Restricts the memory of a problem to features, and back."""

    def __init__(self, memory: SlopeTable) -> None:
        self.memory, self.size = memory, memory.problem.features
        self.penalty = _restrictable(memory)
        fit = memory.problem.datafit
        self.pays = self.penalty is not None and fit is not None and fit.rows.stored >= SMALL
        self.wide = self.pays and memory.sparsity >= WIDE
        self.first = self._first()
        """Features of a small problem to begin with; 0 where that does not pay."""
        self.everything = np.arange(self.size, dtype=np.uint32)
        self._value: tuple[Array, float] | None = None
        self._slopes: tuple[Array, Array, Array] | None = None
        """What was computed last, and where: the certificate of a point asks for what led to it."""
        self._active: Visits = self.everything
        self._part: SlopeTable = memory

    def _first(self) -> int:
        """Dense rows are worth it: of sparse ones, epochs in all features cost no more than such steps.

        A quadratic has one model, whose own working sets are enough.
        """
        fit = self.memory.problem.datafit
        if self.penalty is None or ability(self.penalty, "excess") is None or fit is None:
            return 0
        worth = fit.rows.dense and not fit.loss.quadratic and self.size > FIRST
        return FIRST if worth and is_small_with(fit, FIRST) else 0

    def on(self, active: Visits) -> SlopeTable:
        """The memory in these features; the last one is kept."""
        if active.size == self.size:
            return self.memory
        if not np.array_equal(active, self._active):
            place = np.minimum(np.searchsorted(self._active, active), self._active.size - 1)
            inside = self._active.size > 0 and np.array_equal(self._active[place], active)
            if not inside:  # and give the memory of the old rows back before the new ones come
                self._keep(self.everything, self.memory)
                place = active
            self._keep(active, cast(LinearModelTable, self._part).on(place.astype(np.uint32)))
        return self._part

    def _keep(self, active: Visits, part: SlopeTable) -> None:
        """Both in one call, which no signal interrupts: they belong together."""
        vars(self).update(_active=active, _part=part)

    def enough(self, x: Array, active: Visits) -> Visits:
        """None of the features, where x has none: at zero every slope is known."""
        return active[:0] if self.pays and not x.any() else active

    def restrict(self, x: Array, active: Visits) -> Array:
        return x if active.size == self.size else np.concatenate([x[active], x[self.size :]])

    def extend(self, x: Array, active: Visits) -> Array:
        if active.size == self.size:
            return x
        whole = np.zeros(self.memory.problem.shape)
        whole[active], whole[self.size :] = x[: active.size], x[active.size :]
        return whole

    def value(self, x: Array, active: Visits) -> float:
        """f(x), where x is zero outside the active features."""
        if self._value is None or not np.array_equal(self._value[0], x):
            active = self.enough(x, active)
            self._value = x, self.on(active).problem.value(self.restrict(x, active))
        return self._value[1]

    def slopes(self, x: Array, active: Visits) -> tuple[Array, Array]:
        """Slopes and their mean gradient at x, which is zero outside the active features."""
        if self._slopes is None or not np.array_equal(self._slopes[0], x):
            self._slopes = None  # its memory is given back before there are others
            self._slopes = x, *self._compute_slopes(x, self.enough(x, active))
        return self._slopes[1:]

    def _compute_slopes(self, x: Array, active: Visits) -> tuple[Array, Array]:
        if active.size == self.size:
            return self.memory.slopes(x)
        part = cast(LinearModelTable, self.on(active))
        return cast(LinearModelTable, self.memory).slopes_from(part, self.restrict(x, active))

    def begin(self, x: Array, g: Array, few: bool) -> Visits:
        """The features to begin with at x, from the gradient there."""
        if self.penalty is None:
            return self.everything
        used = self.everything[rows(x[: self.size] != 0)]
        found = self.few(x, g, used) if few else None
        if found is not None:
            return found
        if not x.any():
            return self.guess(g) if self.wide else self.everything
        held = self.penalty.holds_at_zero(g[: self.size], SLACK)
        matter = self._features((x[: self.size] != 0) | ~held)
        fewer = self.pays and np.count_nonzero(matter) <= FEW * self.size
        return self.everything[matter] if fewer else self.everything

    def guess(self, g: Array) -> Visits:
        """The features to begin with at zero, from the gradient there, if they are few."""
        if self.penalty is None:
            return self.everything
        held = self.penalty.holds_at_zero(g[: self.size], GUESS)
        matter = self._features(~held)
        few = np.count_nonzero(matter) <= FEW * self.size
        return self.everything[matter] if few else self.everything

    def few(self, x: Array, g: Array, old: Visits) -> Visits | None:
        """The old features and the few that x is most likely to need, where the set is small in these.

        As many as there are now, so that a support of s is found in log s rounds; else nothing.
        """
        if not self.first:
            return None
        penalty, fit = cast(Able, self.penalty), cast(Datafit, self.memory.problem.datafit)
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
        """The features to go on with, from the gradient at x, and whether one had been missing."""
        if self.penalty is None:
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
        matter = self._features((x != 0) | ~self.penalty.holds_at_zero(g, SLACK))
        matter[old] = True
        few = np.count_nonzero(matter) <= SMALLER * self.size
        return (self.everything[matter] if few else self.everything), True

    def add(self, active: Visits, g: Array, bound: float) -> Visits:
        """The active features, and others that may not rest at zero, where P(x) - P(x*) ≤ ``bound``.

        x* is the minimiser in the active ones, g the gradient at x. For every feature j

            (∇_j f(x) - ∇_j f(x*))²/(2L_j) ≤ f(x) - f(x*) - ⟨∇f(x*), x - x*⟩ ≤ P(x) - P(x*),

        since a step of length 1/L_j along j lowers f(x) - ⟨∇f(x*), x⟩, whose minimum is at x*, by the
        left side. Where ψ holds a feature at zero against every gradient that close to g, it holds it at
        x* too; where it holds all, x* is the minimiser in all features.
        """
        penalty, fit = cast(Able, self.penalty), cast(Problem, self.memory.problem).datafit
        drift = np.sqrt(2.0 * fit.loss.curvature * bound * fit.column_squares)
        drift = drift.reshape(-1, *[1] * (g.ndim - 1))
        matter = self._features(~penalty.holds_at_zero(g[: self.size], drift=drift))
        matter[active] = True
        return self.everything[matter]

    def shrink(self, state: State, before: State) -> State:
        """Leave out features that have come to rest at zero, where that is many.

        At rest means: the gradient would hold the feature at zero also if it moved on three times as far
        as it did since ``before``.
        """
        active, n = state["active"], state["active"].size
        if not (self.pays and n):
            return state
        x, was = (self.restrict(s["x"], active)[:n] for s in (state, before))
        if np.count_nonzero(rows(x != 0)) > SMALLER * n:
            return state
        g, drift = state["g"][:n], DRIFT * np.abs(state["g"] - before["g"])[:n]
        part = cast(Able, self.penalty).part(active, (self.size, *x.shape[1:]))
        resting = cast(Able, part).holds_at_zero(g, drift=drift)
        matter = closed(cast(Able, part), (x != 0) | (was != 0) | ~resting)
        counts = cast(Datafit, self.on(active).problem.datafit).column_counts
        if counts[matter].sum() > SMALLER * counts.sum():
            return state
        kept = np.concatenate([matter, np.ones(len(state["g"]) - n, dtype=bool)])
        smaller = {"active": active[matter], "g": state["g"][kept], "q": state["q"][kept]}
        return state | smaller

    def _features(self, matter: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return closed(cast(Able, self.penalty), matter)


def _restrictable(memory: SlopeTable) -> Able | None:
    """The penalty, where it may hold features at zero."""
    penalty, fit = memory.problem.penalty, memory.problem.datafit
    able = all(ability(penalty, name) for name in ABILITIES)
    return cast(Able, penalty) if able and fit is not None else None
