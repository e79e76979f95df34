"""The server's part of a second-order round: a proximal Newton step from sums over all clients.

    min_u  ⟨∇f(x), u - x⟩ + ½(u - x)ᵀH(u - x) + ψ(u),    H = ∇²f(x) on the active features,

which the solver of the exact method's models minimises. The minimiser is the next point that clients are asked about.
The values of f there, and at parts of the step, decide whether it is taken, or which part of the step instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.core import native
from reshuffle.engines.number_bytes import LEAST, WHOLE, rounded
from reshuffle.federated.curvature import LENGTHS, Answer, Curved, Question
from reshuffle.federated.downlink import MARGIN, Allowed
from reshuffle.federated.federation import Federation
from reshuffle.federated.replies import Said
from reshuffle.federated.server import Server
from reshuffle.federated.transport import Transport
from reshuffle.objective import Array
from reshuffle.penalties.abilities import as_able
from reshuffle.solvers.active_features import SLACK, ActiveFeatures
from reshuffle.solvers.method import State
from reshuffle.solvers.newton_model import descend, loose_rows, within

FIRST = 500
"""The Hessian of at most this many coordinates is asked for before any gradient is known: 1 MB per client."""
SHRINKS = 1e-4
"""While steps converge, each decreases P by less than this share of the decrease before."""
INSTEAD = "take ExactFedRR, or a stronger ℓ1"
"""The advice if there are too many features for a Hessian."""
DIGITS = 3
"""The bytes of a rounded damping: its twelve bits of mantissa are more than enough, as a factor of three would not matter."""
STEEP = 1e9
"""The most damping for a loss without a bound on its curvature, which may be e^20 times as large one step further."""


class Search(NamedTuple):
    """Numbers that one round hands to the next: part of the state of a run."""

    objective: float = np.inf
    """P at the last point that was taken."""
    promised: float = 0.0
    """The change of P along the step from there if f were linear."""
    decrease: float = 0.0
    """The decrease of the quadratic model at its minimum."""
    damping: float = 0.0
    done: float = 0.0
    """Whether no step lowers P any further."""

    @classmethod
    def of(cls, state: State) -> Search:
        return cls(*state["search"].tolist())


class NewtonServer(Server):
    """Proximal Newton steps. The state: x, the last point that was taken, the active features.

    Answers are added up as they come: the server holds one Hessian, whatever the number of clients.
    """

    needs_all = True
    sums_only = True
    may_round = True
    adds_up = True

    def __init__(
        self,
        federation: Federation,
        local: Curved,
        rounds: bool = False,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(federation.prox, federation.sizes.astype(np.float64), transport)
        self.rounds = rounds
        self.local, self.n, self.ridge = local, federation.n, federation.ridge
        self.features, self.shape = federation.features, federation.shape
        penalty = as_able(federation.penalty)
        self.psi = ActiveFeatures(penalty, self.shape, self.features, self.ridge, INSTEAD)
        self.form = self.psi.form(np.ones(self.features, dtype=bool))
        self.loose = loose_rows(self.form, self.shape)
        bounded = all(
            loss is None or loss.curvature < np.inf for loss in federation.losses.values()
        )
        self.most = 1.0 if bounded else STEEP

    # --- the state -----------------------------------------------------------------------------

    def start(self, x0: Array) -> State:
        x, all_of = within(self.form, x0), np.ones(self.features, dtype=bool)
        if self.local.width(all_of) > FIRST:
            all_of = self.psi.wanted(x, np.zeros(self.shape))
        return self._state(x, x, all_of, Search())

    def message(self, state: State) -> Array:
        x, base, search = state["x"], state["base"], Search.of(state)
        return Question(x, base, search.damping, state["active"] != 0.0).packed()

    def rounded(self, state: State, new: State, allowed: Allowed) -> State:
        """The state with damping rounded to few digits; a trial point was already rounded when it was chosen (``_short``)."""
        search = Search.of(new)
        damping = float(rounded(np.array([search.damping]), DIGITS)[0])
        return new | {"search": np.array(search._replace(damping=damping))}

    def stalled(self, state: State) -> str:
        return "no step lowers P(x) any further" if Search.of(state).done else ""

    def rejects(self, state: State, objective: float) -> bool:
        best = Search.of(state).objective
        return bool(objective > best + native.ROUNDING * abs(best))

    def model_decrease(self, state: State) -> float:
        search = Search.of(state)
        if search.done:
            return 0.0
        return search.decrease if np.isfinite(search.objective) else np.inf

    def _state(self, x: Array, base: Array, active: NDArray[np.bool_], search: Search) -> State:
        return {"x": x, "base": base, "active": active.astype(float), "search": np.array(search)}

    # --- a round -------------------------------------------------------------------------------

    def add_up(self, state: State, total: Array, said: Said, step: float, number: int) -> State:
        active, search = state["active"] != 0.0, Search.of(state)
        x, base = state["x"], state["base"]
        found = Answer.of(total / self.n, self.shape, self.local.width(active))
        points = [base + t * (x - base) for t in LENGTHS]
        heights = np.array(
            [value + self.psi.value(u) for value, u in zip(found.values, points, strict=True)]
        )
        # There is nothing to decide, because the point is known to be good.
        if np.array_equal(x, base):
            return self._onward(x, found, active, search._replace(objective=float(heights[0])))
        which = _longest(heights, search)
        if which is None:  # The server goes back, and adds damping.
            again, damping, *_ = native.another(search.damping, 0.0, 1.0, search.decrease)
            if not again and search.damping < self.most:
                again, damping = True, 30.0 * search.damping
            return self._state(base, base, active, search._replace(damping=damping, done=not again))
        gained = search.objective - float(heights[which])
        spent = 0.5 * search.damping * found.spread
        damping, _ = native.adapted(
            search.damping, search.decrease, LENGTHS[which], gained, False, spent
        )
        if which > 0 and search.damping > 1.0:
            damping = search.damping
        search = search._replace(objective=float(heights[which]), damping=damping)
        if which > 0:
            return self._state(points[which], points[which], active, search)
        return self._onward(x, found, active, search)

    def _onward(self, x: Array, found: Answer, active: NDArray[np.bool_], search: Search) -> State:
        """The step from x, where f and its derivatives are known."""
        g, own = found.gradient, np.append(active, np.ones(self.shape[0] - self.features, bool))
        start, floor = x[own].ravel(), native.TRACE * native.EPSILON * abs(search.objective)
        u, form = start.copy(), self.psi.form(active)
        decrease = descend(form, found.hessian, g[own], start, u, native.FINE, floor).gained
        d = np.zeros(self.shape)
        d[own] = (u - start).reshape(-1, *self.shape[1:])
        if d.ndim > 1:  # A common shift of rows that have no penalty changes nothing.
            d[self.loose] -= d[self.loose].mean(axis=1, keepdims=True)
        if not (np.isfinite(decrease) and np.isfinite(d).all()):
            # Without curvature the model has no minimum, so the bound on the curvature of the loss is used.
            stuck = search.damping >= 1.0
            return self._state(x, x, active, search._replace(damping=1.0, done=stuck))
        seen = g.copy()
        seen[own] += np.einsum("ij,j->i", found.hessian, u - start).reshape(-1, *self.shape[1:])
        to = within(self.form, x + d)
        if self.rounds:
            to = self._short(to, own, found.hessian, decrease)
            d = to - x
        wanted = self.psi.wanted(to, seen / SLACK)
        promised = float(np.sum(g * d)) + self.psi.value(to) - self.psi.value(x)
        missing = self.psi.missing(x, g, active)
        # A decrease below the rounding of P cannot be seen in P, but slopes still show it.
        if decrease <= native.ROUNDING * abs(search.objective):
            promised = 0.0
            if not decrease < SHRINKS * search.decrease:
                return self._state(x, x, wanted, search._replace(done=not missing))
        elif not promised < 0.0:
            return self._state(x, x, wanted, search._replace(done=not missing))
        return self._state(to, x, wanted, search._replace(promised=promised, decrease=decrease))

    def _short(self, to: Array, own: NDArray[np.bool_], hessian: Array, decrease: float) -> Array:
        """The trial point in the fewest bytes that cost the quadratic model no more than a small part of its decrease."""
        for width in range(LEAST, WHOLE):
            short = rounded(to, width)
            e = (short - to)[own].ravel()
            rise = 0.5 * float(np.einsum("i,ij,j->", e, hessian, e) + self.ridge * np.dot(e, e))
            if rise <= MARGIN * decrease and np.isfinite(self.psi.value(short)):
                return short
        return to


def _longest(heights: Array, search: Search) -> int | None:
    """The length of the step: the whole if P falls as promised, otherwise the length at which P is lowest."""
    lengths = np.array(LENGTHS)
    bars = search.objective + native.ARMIJO * lengths * search.promised
    bars[0] += native.ROUNDING * abs(search.objective)
    good = np.flatnonzero(heights <= bars)
    if not good.size:
        return None
    return 0 if good[0] == 0 else int(good[np.argmin(heights[good])])
