from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt, sqrt

import numpy as np

from reshuffle.finite_sum import Array, FiniteSum, Visits
from reshuffle.memory import Memory, SlopeMemory, memory_of
from reshuffle.orders import Order, Reshuffle, check_order, copy_weights, expanded
from reshuffle.penalties import Separable
from reshuffle.problem import Problem
from reshuffle.randomness import Stream
from reshuffle.solvers.base import Certificate, Epoch, Method, Solver, State
from reshuffle.solvers.watch import OFTEN, Watch
from reshuffle.solvers.working_sets import WorkingSets
from reshuffle.validation import check_positive

SAFETY = 0.5  # of 1/L_max: see benchmarks/NOTES.md
FEW_PROXES = 8  # in an epoch, where a prox is a call to Python
PROX_SHARE = 10  # an epoch's proxes cost at most a tenth of its gradients
TENFOLD = 10.0  # by which the step falls in a first epoch from zero
EPOCH_BITS = 40  # of the random numbers that an epoch may draw


@dataclass(frozen=True, kw_only=True)
class ExactProxRR(Solver):
    """Proximal random reshuffling with control variates: the true minimiser, without tuning.

    With slopes remembered from earlier visits (∇̃f_i), their mean g, and h that tends to ∇f(x*),

        x ← x - γ(∇f_i(x) - ∇̃f_i + g - h)            for the m samples of a block,
        x̂ = x,   x ← prox_{γmψ}(x̂ - γmh),   h ← h + (x - x̂)/(γm)   at its end.

    At x = x*, h = ∇f(x*) nothing moves, whatever γ and m: a constant step goes to the solution.
    From zero the first epoch is one of ProxRR. Where a separable penalty holds many features at zero,
    epochs read the others alone (``working_sets``); every certificate looks at all.

    Parameters
    ----------
    tol : stop when the certificate is at most this. It is a bound on (P(x) - P*)/f(0) from the
        duality gap where loss and penalty have a conjugate and there is no intercept (column
        ``gap``), and ‖G(x)‖/‖∇f(0)‖ otherwise (column ``gradient_mapping``). A check is one pass
        that also renews all slopes; it is made when the iterate has slowed down enough.
    step : γ, where the default 1/(2 L_max) of the resampled functions (and of the shorter rows of a
        working set; twice that where it proves faster) is not wanted. It is halved when the run blows
        up or no longer slows down.
    steps_per_prox : m. Default for penalties whose prox runs inside the kernel: √n, or more where an
        epoch's proxes would cost a tenth of its gradients, up to n/16; n/8 for others (whose step is
        also at most 1/(m√(L_f·μ)) at first). m = n is one prox per epoch.
    order : of the visits, ``Reshuffle()`` or ``ShuffleOnce()``.
    importance : visit samples with large L_i more often; by default when that saves work.

    The column ``active`` of the trace counts the features that epochs read.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=0.01, l2=0.01))
    >>> result = rs.ExactProxRR(tol=1e-9).solve(problem)
    >>> result.converged, bool(problem.gradient_mapping(result.x) < 1e-4)
    (True, True)
    """

    epochs: int = 1000
    tol: float = 1e-6
    step: float | None = None
    steps_per_prox: int | None = None
    order: Order = field(default_factory=Reshuffle)
    importance: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is not None:
            check_positive("step", self.step)
        if self.steps_per_prox is not None:
            check_positive("steps_per_prox", self.steps_per_prox, integer=True)
        check_order(self.order)

    def compile(self, problem: FiniteSum) -> None:
        super().compile(problem)
        if isinstance(problem, Problem):
            first = problem.first()
            memory = memory_of(first, np.empty(0, dtype=np.uint32), problem.weights[:1])
            assert isinstance(memory, SlopeMemory)
            state = memory.start(np.zeros(problem.shape))
            memory.epoch(state, np.zeros(1, dtype=np.uint32), np.ones(1))
            if self.tol > 0 and memory.has_dual:
                memory.conjugates(state["table"], 1.0)
            if isinstance(problem.penalty, Separable):
                assert first.stored_in_columns.size == first.features
                part = memory.on(np.zeros(1, dtype=np.uint32))
                x = np.zeros(part.problem.shape)
                memory.start_from(state["x"], part, x)
                part.problem.value(x)

    def bind(self, problem: FiniteSum) -> _Exact:
        owner, weights, largest = resampled(problem, self.importance)
        if not 0 < largest < np.inf:
            problem.smoothness.require()
        memory = memory_of(problem, owner, weights)
        method = _Exact(self, memory, largest)
        count = owner.size or problem.n
        method.header |= {
            "step": f"{method.schedule(0):.6g}",
            "steps per prox": f"{count / method.blocks(memory):.1f}",
            "importance": f"{count} visits of {problem.n} samples" if owner.size else "off",
            "certificate": "duality gap" if memory.has_dual else "gradient mapping",
        }
        return method


def resampled(problem: FiniteSum, importance: bool | None) -> tuple[Visits, Array, float]:
    """Owners and weights of the copies (empty where there are none), and their largest L.

    The work of the method grows like N + 2L/μ, for N functions no less smooth than L. Copies are
    made where that sum falls: for ⌈L_i/c⌉ copies of sample i, over a few c between L̄ and L_max.
    """
    constants = problem.smoothness.individual - problem.ridge
    none = np.empty(0, dtype=np.uint32), problem.weights, float(constants.max())
    if importance is False or not none[2] > 0:
        return none
    n, mean = problem.n, float(constants.mean())
    mu = max(problem.strong_convexity, mean / n)
    best, chosen = n + 2.0 * none[2] / mu, None
    if importance is None and n + 2.0 * mean / mu > 0.9 * best:
        return none
    for sixths in range(1 if importance else 6):
        weights, count = copy_weights(constants, mean * (none[2] / mean) ** (sixths / 6))
        largest = float(np.max(weights * constants))
        work = count + 2.0 * largest / mu
        if work < 0.9 * best or (importance and chosen is None):
            best, chosen = work, (weights, count, largest)
    if chosen is None:
        return none
    weights, count, largest = chosen
    pool = expanded(weights, count)
    each = weights * problem.weights if problem.weights.size else weights
    return pool, each[pool], largest


def _distance(x: Array, y: Array) -> float:
    """‖x - y‖, infinite where a step was far too large."""
    if not np.isfinite(x).all():
        return np.inf
    return float(np.sqrt(np.vdot(x - y, x - y)))


class _Exact(Method):
    """The state: ``active`` features and, on these, g and q of the memory; table; x; x0; watch."""

    def __init__(self, solver: ExactProxRR, memory: Memory, largest: float) -> None:
        super().__init__(memory.problem)
        self.solver, self.memory, self.safe_step = solver, memory, SAFETY / largest
        self.largest = largest
        self.pool = np.arange(memory.owner.size or memory.problem.n, dtype=np.uint32)
        step = solver.step or self._default_step()
        self.careful = step > self.safe_step
        self.longest = 2.0 * self.safe_step / step if solver.step is None else 1.0
        self.schedule = lambda epoch: step
        self.sets, self.stream = WorkingSets(memory), Stream(solver.seed)
        self.certificate = "gap" if memory.has_dual else "gradient_mapping"
        self._start_found: float | None = None

    def blocks(self, memory: Memory) -> int:
        """How many proxes an epoch has."""
        count, m = self.pool.size, self.solver.steps_per_prox
        if m is None and isinstance(self.problem.penalty, Separable):
            m = max(isqrt(count), min(round(PROX_SHARE * memory.sparsity), count // 16))
        elif m is None:
            m = count // FEW_PROXES
        return max(1, round(count / max(m, 1)))

    def _default_step(self) -> float:
        """1/(2L), and for a prox outside the kernel no more than makes τ = γm = 1/√(L_f·μ)."""
        mu = self.problem.strong_convexity
        if isinstance(self.problem.penalty, Separable) or not mu > 0:
            return self.safe_step
        m = self.pool.size / self.blocks(self.memory)
        return min(self.safe_step, 1.0 / (m * sqrt(self.problem.smoothness.rough_average * mu)))

    def start(self, x0: Array) -> State:
        """Slopes at x0; none at zero, where the first epoch does without."""
        wide = self.sets.wide and not x0.any()
        known = wide or x0.any()
        self.start_gradients = self.problem.n if known else 0
        state = self.sets.renewed(x0, self.sets.everything) if known else self.memory.blank(x0)
        active = self.sets.guess(state["g"]) if wide else self.sets.everything
        state |= {name: self.sets.restrict(state[name], active) for name in ("g", "q")}
        return state | {"active": active, "watch": Watch().array(), "x0": x0.copy()}

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        watch, active = Watch.of(state["watch"]), state["active"]
        memory = self.sets.on(active)
        blocks = self.blocks(memory)
        remembered = {name: state[name] for name in ("table", "g", "q")}
        remembered["x"] = self.sets.restrict(state["x"], active)
        order = self.solver.order
        rng = self.stream.at(0 if order.fixed else epoch << EPOCH_BITS)
        visits = order.visits(self.pool.copy(), rng, epoch)
        work, used = visits.size, step * watch.factor * self._gain(memory)
        first = epoch == 0 and not state["x"].any()
        falling = np.linspace(1.0, TENFOLD, blocks) if first else np.ones(blocks)
        if first:
            remembered = memory.blank(remembered["x"])
        new = memory.epoch(remembered, visits, used / falling, corrected=not first)
        moved = _distance(new["x"], remembered["x"])
        new |= {"x": self.sets.extend(new["x"], active), "active": active, "x0": state["x0"]}

        untried = self.careful and watch.moves[-1] == np.inf
        grows, steady = not moved <= 2.0 * watch.moves[-1], 0 < watch.moves[0] <= moved
        if untried or grows or steady:
            with np.errstate(all="ignore"):
                objective = self.objective(new)
            work += self.problem.n
            limit = self._start_objective(state)
            limit += 0.0 if untried else 0.01 * abs(self._at_zero)  # a run that goes well may
            if not objective < limit:  # as if the epoch had not been
                watch = watch._replace(factor=min(watch.factor / 2.0, self.safe_step / step))
                return Epoch(state | {"watch": watch.array()}, work, blocks, used)
            if steady:  # a long way over flat ground, or going round in circles
                change = 2.0 if objective < watch.seen < np.inf else 0.5
                factor = watch.factor * (change if watch.seen < np.inf else 1.0)
                watch = Watch(factor, watch.due, objective, watch.review, watch.rarity)
        watch = watch.after(moved, self.solver.tol, self.longest)
        new["watch"] = watch.array()
        if active.size < self.sets.size and moved <= watch.review:
            new, _ = self._review(new)
            work += self.problem.n
        elif not first:
            new = self.sets.shrink(new, state)
            if new["active"].size < active.size:
                new["watch"] = watch.unsettled().array()
        return Epoch(new, work, blocks, used)

    def _gain(self, memory: Memory) -> float:
        """How much longer a step may be where rows are shorter."""
        if self.solver.step is not None or memory is self.memory:
            return 1.0
        assert isinstance(memory, SlopeMemory)
        return self.largest / memory.smoothness if memory.smoothness > 0 else 1.0

    def due(self, state: State, epoch: int, every: int) -> bool:
        watch = Watch.of(state["watch"])
        return watch.moves[-1] <= watch.due or epoch % 25 == 0

    def objective(self, state: State) -> float:
        x = state["x"]
        active = self.sets.enough(x, state["active"])
        penalty = float(self.problem.penalty.value(x[: self.problem.penalised]))
        value = self.sets.on(active).problem.value(self.sets.restrict(x, active))
        return value + penalty if np.isfinite(penalty) else penalty

    def columns(self, state: State) -> dict[str, float]:
        return {"active": float(state["active"].size)}

    def certify(self, state: State) -> Certificate:
        """The certificate at x, from a pass that renews the slopes and their mean."""
        new, fresh = self._review(state)
        if self.memory.has_dual:
            value = max(self.memory.gap(fresh), 0.0) / self._at_zero
        else:
            value = self._mapping(fresh["x"], fresh["g"]) / self._slope_at_zero
        watch = Watch.of(new["watch"])
        tol = self.solver.tol
        due = watch.moves[-1] * np.sqrt(1.5 * tol / value) if 0 < value < np.inf else np.inf
        new["watch"] = watch._replace(due=due).array()
        return Certificate(value, self.problem.n, 0, new)

    def _review(self, state: State) -> tuple[State, State]:
        """The state with slopes taken at x and the features that matter there; and all of it."""
        x, old = state["x"], state["active"]
        fresh = self.sets.renewed(x, old)
        active, news = self.sets.choose(x, fresh["g"], old)
        watch = Watch.of(state["watch"]).unsettled()
        watch = watch._replace(rarity=OFTEN if news else OFTEN * watch.rarity)
        g = self.sets.restrict(fresh["g"], active)
        change = self.sets.restrict(fresh["g"], old) - state["g"]
        q = self.sets.extend(state["q"] + change, old)  # h stays, where it is known
        new = {"table": fresh["table"], "g": g, "q": self.sets.restrict(q, active)}
        return state | new | {"active": active, "watch": watch.array()}, fresh

    def give_up(self, state: State) -> State:
        return self.start(state["x0"])

    def _mapping(self, x: Array, g: Array) -> float:
        tau = 1.0 / self.problem.smoothness.mean
        return float(np.linalg.norm(x - self.problem.prox_with_ridge(x - tau * g, tau)) / tau)

    @cached_property
    def _at_zero(self) -> float:
        """f(0), what the duality gap is relative to."""
        return self.sets.value_at_zero() or 1.0

    @cached_property
    def _slope_at_zero(self) -> float:
        """‖∇f(0)‖, what the gradient mapping is relative to."""
        zero = np.zeros(self.problem.shape)
        return float(np.linalg.norm(self.problem.gradient(zero))) or 1.0

    def _start_objective(self, state: State) -> float:
        if self._start_found is None:
            self._start_found = self.problem.objective(state["x0"])
        return self._start_found
