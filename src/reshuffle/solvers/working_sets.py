"""Working sets: the features that matter now, and the problem on them alone.

Where a penalty holds most coordinates at zero, an epoch need not read them. The rows are compacted to
the active features A; the method goes on there as if nothing had happened (the slopes do not change:
x is zero elsewhere), with the larger step that shorter rows allow. Now and then a pass over all columns
finds those that have to come back; nothing is certified without one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.finite_sum import Array, Visits
from reshuffle.memory import Memory, SlopeMemory, State
from reshuffle.penalties import Separable
from reshuffle.problem import Problem

SMALL = 1 << 15  # stored values, below which an epoch is too short for any of this to pay
FEW = 0.3  # of the features, at most: else the first epoch is better made with all
SMALLER = 0.7  # of the stored values (of the features, after a review): else it does not pay
WIDE = 100  # features for each value of a mean row: then even the first epoch is restricted
GUESS = 0.9  # of l1, below which a gradient at zero is first left out
SLACK = 0.9  # of l1, beyond which a gradient found by a review is taken along
DRIFT = 3.0  # times its change in the last epoch: how far a gradient may still move


class WorkingSets:
    """Restricts the memory of a problem to features, and back."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.size = memory, memory.problem.penalised
        self.penalty = _restrictable(memory)
        self.wide = self.penalty is not None and memory.sparsity >= WIDE
        self.everything = np.arange(self.size, dtype=np.uint32)
        self._active: Visits = self.everything
        self._part: Memory = memory

    def on(self, active: Visits) -> Memory:
        """The memory in these features; the last one is kept."""
        if active.size == self.size:
            return self.memory
        if not np.array_equal(active, self._active):
            place = np.minimum(np.searchsorted(self._active, active), self._active.size - 1)
            inside = self._active.size > 0 and np.array_equal(self._active[place], active)
            if not inside:  # and give the memory of the old rows back before the new ones come
                self._part, place = self.memory, active
            assert isinstance(self._part, SlopeMemory)
            self._part = self._part.on(place.astype(np.uint32))
            self._active = active
        return self._part

    def enough(self, x: Array, active: Visits) -> Visits:
        """None of the features, where x has none: at zero every slope is known."""
        return active[:0] if self.penalty is not None and not x.any() else active

    def restrict(self, x: Array, active: Visits) -> Array:
        return x if active.size == self.size else np.concatenate([x[active], x[self.size :]])

    def extend(self, x: Array, active: Visits) -> Array:
        if active.size == self.size:
            return x
        whole = np.zeros(self.memory.problem.shape)
        whole[active], whole[self.size :] = x[: active.size], x[active.size :]
        return whole

    def value_at_zero(self) -> float:
        """f(0)."""
        zero = np.zeros(self.memory.problem.shape)
        active = self.enough(zero, self.everything)
        return self.on(active).problem.value(self.restrict(zero, active))

    def renewed(self, x: Array, active: Visits) -> State:
        """Slopes and their mean gradient at x, which is zero outside the active features."""
        active = self.enough(x, active)
        if active.size == self.size:
            return self.memory.start(x)
        whole, part = self.memory, self.on(active)
        assert isinstance(whole, SlopeMemory)
        assert isinstance(part, SlopeMemory)
        return whole.start_from(x, part, self.restrict(x, active))

    def guess(self, g: Array) -> Visits:
        """The features to begin with at zero, from the gradient there, if they are few."""
        assert self.penalty is not None
        matter = _rows(~self.penalty.holds_at_zero(g[: self.size], GUESS))
        few = np.count_nonzero(matter) <= FEW * self.size
        return self.everything[matter] if few else self.everything

    def choose(self, x: Array, g: Array, old: Visits) -> tuple[Visits, bool]:
        """The features to go on with, from the gradient at x, and whether one had been missing."""
        if self.penalty is None:
            return self.everything, False
        held = self.penalty.holds_at_zero(g[: self.size])
        missing = _rows(~held)
        missing[old] = False
        if not missing.any():
            return old, False
        matter = _rows((x[: self.size] != 0) | ~self.penalty.holds_at_zero(g[: self.size], SLACK))
        matter[old] = True
        few = np.count_nonzero(matter) <= SMALLER * self.size
        return (self.everything[matter] if few else self.everything), True

    def shrink(self, state: State, before: State) -> State:
        """Leave out features that have come to rest at zero, where that is many.

        At rest means: |g_j| would stay below l1_j if it moved on three times as far as it did since
        ``before``.
        """
        active = state["active"]
        if self.penalty is None or not active.size:
            return state
        n = active.size
        x, was = (self.restrict(s["x"], active)[:n] for s in (state, before))
        if np.count_nonzero(_rows(x != 0)) > SMALLER * n:
            return state
        g, drift = state["g"][:n], DRIFT * np.abs(state["g"] - before["g"])[:n]
        penalty = self.penalty.part(active, (self.size, *x.shape[1:]))
        resting = penalty.holds_at_zero(g + drift) & penalty.holds_at_zero(g - drift)
        matter = _rows((x != 0) | (was != 0) | ~resting)
        part = self.on(active).problem
        assert isinstance(part, Problem)
        counts = part.stored_in_columns
        if counts[matter].sum() > SMALLER * counts.sum():
            return state
        kept = np.concatenate([matter, np.ones(len(state["g"]) - n, dtype=bool)])
        smaller = {"active": active[matter], "g": state["g"][kept], "q": state["q"][kept]}
        return state | smaller


def _restrictable(memory: Memory) -> Separable | None:
    """The penalty, where it may hold features at zero and leaving them out may pay."""
    penalty = memory.problem.penalty
    large = isinstance(memory, SlopeMemory) and memory.problem.rows.stored >= SMALL
    return penalty if large and isinstance(penalty, Separable) else None


def _rows(matter: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether any output of a feature matters."""
    return matter if matter.ndim == 1 else np.any(matter, axis=1)
