from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from reshuffle.finite_sum import Array, FiniteSum, Visits
from reshuffle.memory import Memory, memory_of
from reshuffle.orders import Order, Reshuffle, check_order, copies
from reshuffle.penalties import Separable
from reshuffle.problem import Problem
from reshuffle.randomness import generator
from reshuffle.solvers.base import Certificate, Epoch, Method, Solver, State
from reshuffle.validation import check_positive

SAFETY = 0.5  # of 1/L_max: see benchmarks/NOTES.md
WINDOW = 4  # epochs over which the iterate must have slowed down


@dataclass(frozen=True, kw_only=True)
class ExactProxRR(Solver):
    """Proximal random reshuffling with control variates: the true minimiser, without tuning.

    With slopes remembered from earlier visits (∇̃f_i), their mean g, and h that tends to ∇f(x*),

        x ← x - γ(∇f_i(x) - ∇̃f_i + g - h)            for the m samples of a block,
        x̂ = x,   x ← prox_{γmψ}(x̂ - γmh),   h ← h + (x - x̂)/(γm)   at its end.

    At x = x*, h = ∇f(x*) nothing moves, whatever γ and m: a constant step goes to the solution.

    Parameters
    ----------
    tol : stop when the certificate is at most this. It is a bound on (P(x) - P*)/f(0) from the
        duality gap where loss and penalty have a conjugate and there is no intercept (column
        ``gap``), and ‖G(x)‖/‖∇f(0)‖ otherwise (column ``gradient_mapping``). A check is one pass
        that also renews all slopes; it is made when the iterate has slowed down enough.
    step : γ, where the default 1/(2 L_max) of the resampled functions is not wanted. It is halved
        when the run blows up or no longer slows down.
    steps_per_prox : m. Default √n for penalties whose prox runs inside the kernel, n/16 for others;
        m = n is one prox per epoch.
    order : of the visits, ``Reshuffle()`` or ``ShuffleOnce()``.
    importance : visit samples with large L_i more often; by default when that saves work.

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
            memory = memory_of(problem.first(), np.empty(0, dtype=np.uint32), problem.weights[:1])
            state = memory.start(np.zeros(problem.shape))
            memory.epoch(state, np.zeros(1, dtype=np.uint32), 1, 1.0)

    def bind(self, problem: FiniteSum) -> _Exact:
        problem.smoothness.require()
        owner, weights, largest = resampled(problem, self.importance)
        count = owner.size or problem.n
        safe_step = SAFETY / largest
        step = self.step or safe_step
        m = self.steps_per_prox
        if m is None:
            m = round(np.sqrt(count)) if isinstance(problem.penalty, Separable) else count // 16
        blocks = max(1, round(count / max(m, 1)))
        memory = memory_of(problem, owner, weights)
        method = _Exact(memory, self.order, self.seed, step, safe_step, blocks, self.tol)
        method.header |= {
            "step": f"{step:.6g}",
            "steps per prox": f"{count / blocks:.1f}",
            "importance": f"{count} visits of {problem.n} samples" if owner.size else "off",
            "certificate": "duality gap" if memory.has_dual else "gradient mapping",
        }
        return method


def resampled(problem: FiniteSum, importance: bool | None) -> tuple[Visits, Array, float]:
    """Owners and weights of the copies (empty where there are none), and their largest L.

    The work of the method grows like N + L/μ, for N functions no less smooth than L. Copies are
    made where that sum falls: for ⌈L_i/c⌉ copies of sample i, over a few c between L̄ and L_max.
    """
    constants = problem.smoothness.individual - problem.ridge
    none = np.empty(0, dtype=np.uint32), problem.weights, float(constants.max())
    if importance is False or not none[2] > 0:
        return none
    n, mean = problem.n, float(constants.mean())
    mu = max(problem.strong_convexity, mean / n)
    best, chosen = n + 2.0 * none[2] / mu, None
    for target in np.geomspace(mean, max(none[2], mean), 7)[: 1 if importance else 7]:
        pool, weights = copies(constants, target)
        largest = float(np.max(weights * constants))
        work = pool.size + 2.0 * largest / mu
        if work < 0.9 * best or (importance and chosen is None):
            best, chosen = work, (pool, weights, largest)
    if chosen is None:
        return none
    pool, weights, largest = chosen
    each = weights * problem.weights if problem.weights.size else weights
    return pool, each[pool], largest


class _Exact(Method):
    def __init__(
        self,
        memory: Memory,
        order: Order,
        seed: int,
        step: float,
        safe_step: float,
        blocks: int,
        tol: float,
    ) -> None:
        super().__init__(memory.problem)
        self.memory, self.order, self.seed = memory, order, seed
        self.blocks, self.tol = blocks, tol
        self.start_gradients = memory.problem.n
        self.safe_step, self.careful = safe_step, step > safe_step
        self.schedule = lambda epoch: step
        self.certificate = "gap" if memory.has_dual else "gradient_mapping"
        self._start_found: float | None = None
        self.pool = np.arange(memory.owner.size or memory.problem.n, dtype=np.uint32)

    # The state: x, table, g, q of the memory; x0; and ``watch``, numbers about the run's progress:
    # the factor of the step, the movement below which a check is due, the last objective that was
    # looked at, then the movements ‖x_{t+1} - x_t‖ of past epochs.

    def start(self, x0: Array) -> State:
        watch = np.concatenate([[1.0, np.inf, np.inf], np.full(WINDOW, np.inf)])
        return self.memory.start(x0) | {"x0": x0.copy(), "watch": watch}

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        factor, due, seen, *moves = state["watch"]
        remembered = {name: state[name] for name in ("x", "table", "g", "q")}
        visits = self.order.visits(
            self.pool.copy(), generator(self.seed, 0 if self.order.fixed else epoch), epoch
        )
        work, used = visits.size, step * factor
        with np.errstate(all="ignore"):  # a step that is too large shows in ``moved``
            new = self.memory.epoch(remembered, visits, self.blocks, used)
            moved = float(np.linalg.norm(new["x"] - state["x"]))

        untried = self.careful and moves[-1] == np.inf
        grows, steady = not moved <= 2.0 * moves[-1], moved >= moves[0]
        if untried or grows or steady:
            with np.errstate(all="ignore"):
                objective = self.problem.objective(new["x"])
            work += self.problem.n
            limit = self._start_objective(state)
            limit += 0.0 if untried else 0.01 * abs(self._scale[0])  # a run that goes well may
            if not objective < limit:  # as if the epoch had not been
                smaller = min(factor / 2.0, self.safe_step / step)
                watch = np.array([smaller, due, seen, *moves])
                return Epoch(state | {"watch": watch}, work, self.blocks, used)
            if steady:  # a long way over flat ground, or going round in circles
                factor *= 2.0 if objective < seen < np.inf else 0.5 if objective >= seen else 1.0
                seen, moves = objective, [np.inf] * WINDOW
        if due == np.inf:  # a first guess: the gap falls like the square of the movement
            due = moved * np.sqrt(10.0 * self.tol)
        watch = np.array([factor, due, seen, *moves[1:], moved])
        return Epoch(new | {"x0": state["x0"], "watch": watch}, work, self.blocks, used)

    def due(self, state: State, epoch: int, every: int) -> bool:
        return bool(state["watch"][-1] <= state["watch"][1]) or epoch % 25 == 0

    def certify(self, state: State) -> Certificate:
        """The certificate at x, from a pass that renews the slopes and their mean."""
        x, fresh = state["x"], self.memory.start(state["x"])
        g = fresh["g"]
        if self.memory.has_dual:
            value = max(self.memory.gap(fresh), 0.0) / self._scale[0]
        else:
            value = self._mapping(x, g) / self._scale[1]
        factor, _, seen, *moves = state["watch"]
        due = moves[-1] * np.sqrt(1.5 * self.tol / value) if value > 0 else np.inf
        renewed = {"table": fresh["table"], "g": g, "q": state["q"] + g - state["g"]}
        watch = np.array([factor, due, seen, *moves])
        return Certificate(value, self.problem.n, 0, state | renewed | {"watch": watch})

    def give_up(self, state: State) -> State:
        return state | self.memory.start(state["x0"])

    def _mapping(self, x: Array, g: Array) -> float:
        tau = 1.0 / self.problem.smoothness.mean
        return float(np.linalg.norm(x - self.problem.prox_with_ridge(x - tau * g, tau)) / tau)

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """f(0) and ‖∇f(0)‖, what the certificates are relative to."""
        zero = np.zeros(self.problem.shape)
        norm = float(np.linalg.norm(self.problem.gradient(zero)))
        return self.problem.value(zero) or 1.0, norm or 1.0

    def _start_objective(self, state: State) -> float:
        if self._start_found is None:
            self._start_found = self.problem.objective(state["x0"])
        return self._start_found
