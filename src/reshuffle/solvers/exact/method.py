"""An epoch of the exact method, and what keeps it on its way."""

from __future__ import annotations

from functools import partial
from math import isqrt, sqrt
from typing import TYPE_CHECKING, cast

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.errors import InputError
from reshuffle.objective import Array, FiniteSum, Visits
from reshuffle.orders import is_fixed, visits_of
from reshuffle.penalties import ability
from reshuffle.penalties.inexact import COLD
from reshuffle.problem import Problem
from reshuffle.randomness import Stream
from reshuffle.solvers.certificate import FreeCoordinates, Proof
from reshuffle.solvers.exact.accelerated import CHECKED, Acceleration
from reshuffle.solvers.exact.costs import FOUND, LOOSEST, PRECISION, REST, Finish, Steps
from reshuffle.solvers.exact.decrement import STALLED, stalled_at
from reshuffle.solvers.exact.lbfgs import QuasiNewton, is_smooth
from reshuffle.solvers.exact.movement_monitor import OFTEN, MovementMonitor
from reshuffle.solvers.exact.newton_compiled import STEPS
from reshuffle.solvers.exact.newton_steps import Progress, can_finish
from reshuffle.solvers.exact.working_sets import WorkingSets
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.prox_call import beginning, columns, kept
from reshuffle.solvers.sampling import bind_step
from reshuffle.solvers.second_order import Linearisation
from reshuffle.solvers.slope_table import LinearModelTable, SlopeTable
from reshuffle.steps import Setting
from reshuffle.validation import check_visits

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

SAFETY = 0.5  # of 1/L_max: see benchmarks/NOTES.md
FEW_PROXES = 8  # in an epoch, where a prox is a call to Python: see benchmarks/NOTES.md
PROX_SHARE = 10  # an epoch's proxes cost at most a tenth of its gradients
RAREST = 16  # proxes of an epoch at least: up to n/16 the number of epochs hardly depends on m
TENFOLD = 10.0  # by which the step falls in a first epoch from zero
LONGEST_WAIT = 25  # epochs between two certificates at most: a few per cent of the work
EPOCH_BITS = 40  # of the random numbers that an epoch may draw
STEADY = 0.75  # of the movement, left by an epoch: beyond, steps on the face take less time
HELPED = 0.01  # of the accuracy that is wanted: what a step on the face gains at least, or rests
VISIBLE = (
    1e-7  # an accuracy whose square P still shows: below, a second step would be lost in rounding
)
RISE = 0.01  # of f(0): how far above its start a run that goes well may be
GROWTH = 2.0  # of the movement from one epoch to the next, at which the objective is looked at
ROUNDING = 1e-14  # of P(x): a fall that its evaluation may feign
REMEMBERED = ("table", "g", "q")


class ExactMethod(Method):
    """The state: ``active`` features and, on these, g and q of the memory; table; x; x0; pace."""

    problem: FiniteSum
    solver: ExactProxRR
    keeps_best = True

    def __init__(self, solver: ExactProxRR, memory: SlopeTable, largest: float) -> None:
        super().__init__(memory.problem)
        self.solver, self.memory, self.largest = solver, memory, largest
        self.sets, self.stream = WorkingSets(memory), Stream(solver.seed)
        self.finish = Finish(memory) if solver.finish and can_finish(memory.problem) else None
        has_dual = self.measure.name == "gap"
        # models with groups are solved less surely than separable ones: where there is a gap, it is asked
        self._trusts_bounds = not has_dual or self.finish is None or self.finish.separable
        self.needs_proof = self.finish is not None and not has_dual
        if self.needs_proof:
            self.measure = Proof(memory.problem)
            self.certificate = self.measure.name
        able = self.finish is not None and has_dual
        smooth = able and is_smooth(cast(Problem, memory.problem))
        self.smooth = QuasiNewton(cast(Problem, memory.problem)) if smooth else None
        self.own_step = solver.own_step
        fast = Acceleration(memory.problem, largest, memory.count)
        self.acceleration = fast if solver.finish and self.own_step else None
        self.pool = np.arange(memory.count, dtype=np.uint32)
        self.compiled = ability(memory.problem.penalty, "compiled") is not None
        self.safe_step, default = SAFETY / largest, self._default_step(SAFETY / largest)
        problem = memory.problem
        setting = Setting(
            largest,
            problem.strong_convexity,
            problem.contraction,
            memory.count,
            solver.epochs,
            default,
        )
        self.schedule = bind_step(solver.step, setting, problem)
        step = self.schedule(0)
        self.careful = step > self.safe_step
        self.longest = 2.0 * self.safe_step / step if self.own_step else 1.0
        copies = f"{memory.count} visits of {problem.n} samples"
        self.header |= {
            "step": f"{step:.6g}",
            "steps per prox": f"{memory.count / self.blocks(memory):.1f}",
            "importance": copies if memory.owner.size else "off",
            "certificate": self.measure.meaning,
        }

    def blocks(self, memory: SlopeTable) -> int:
        """How many proxes an epoch has."""
        count, m = memory.count, self.solver.steps_per_prox
        if m is None and self.compiled:
            m = max(isqrt(count), min(round(PROX_SHARE * memory.sparsity), count // RAREST))
        elif m is None:
            m = count // FEW_PROXES
        return max(1, round(count / max(m, 1)))

    def _default_step(self, safe: float) -> float:
        """1/(2L), and for a prox outside the kernel no more than makes τ = γm = 1/√(L_f·μ)."""
        mu = self.problem.strong_convexity
        if self.compiled or not mu > 0:
            return safe
        m = self.memory.count / self.blocks(self.memory)
        return min(safe, 1.0 / (m * sqrt(self.problem.smoothness.rough_L_f * mu)))

    # --- an epoch ------------------------------------------------------------------------------

    def start(self, x0: Array) -> State:
        """Slopes at x0; none at zero, where the first epoch does without."""
        few = self.own_step and self.finish is not None and self.sets.first > 0
        known = self.sets.wide or few or x0.any()
        self.start_gradients = self.problem.n if known else 0
        active = everything = self.sets.everything
        state = self.memory.blank(x0)
        if known:
            slopes, g = self.sets.slopes(x0, everything)
            state, active = self.memory.state(x0, slopes, g), self.sets.begin(x0, g, few)
        state |= {name: self.sets.restrict(state[name], active) for name in ("g", "q")}
        numbers = {
            "pace": MovementMonitor().array(),
            "newton": Steps().array(),
            "momentum": np.zeros(1),
        }
        nowhere = np.empty((0, *x0.shape[1:]))
        whole = {"active": active, "x0": x0.copy(), "ahead": nowhere}
        return state | numbers | whole | beginning(self.problem)

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """A Newton step where it pays, and a shuffled epoch elsewhere; an accelerated one where that is slow."""
        if self.finish is not None:
            steps, memory = Steps.of(state["newton"]), self.sets.on(state["active"])
            x, left = self.sets.restrict(state["x"], state["active"]), self._left(state)
            begun = steps.progress != Progress()
            asked = (
                self.needs_proof and MovementMonitor.of(state["pace"]).rests
            )  # only a step can prove it
            made = epoch
            if self.smooth is not None and steps.made:
                left, made = np.inf, epoch + int(steps.made)  # passes count as the epochs do
            squarings = MovementMonitor.of(state["pace"]).squarings(self.solver.tol)
            proving, bent = self.needs_proof, self._bent(state, epoch)
            pays = asked or self.finish.pays(memory, x, made, left, squarings, proving, bent)
            if begun or (epoch >= steps.rest and pays):
                return self._newton_step(state, self.finish, x, epoch, step)
            warm = bool(state["x0"].any())  # as along a path: the features that matter are known
            slow = warm or MovementMonitor.of(state["pace"]).falls() > STEADY
            if epoch >= steps.rest and (steps.made or slow):
                # once begun, they are made in turns with epochs
                left = np.inf if steps.made or warm else left
                if self.finish.face_pays(memory, epoch, left, warm):
                    if self.finish.cost(memory, x, bent) <= self.finish.face_cost(memory):
                        return self._newton_step(state, self.finish, x, epoch, step)
                    return self._face_step(state, self.finish, x, epoch, step)
            late = self.smooth is not None and not self.smooth.has_metric
            if self.smooth is not None and epoch >= max(FOUND * late, steps.rest):
                return self._smooth_steps(state, self.smooth, epoch, step)
        fast = self.acceleration
        due = fast is not None and fast.is_due(MovementMonitor.of(state["pace"]), epoch)
        if fast is not None and (state["momentum"][0] > 0.0 or due):
            return self._accelerated_step(state, fast)
        return self._shuffled_epoch(state, epoch, step)

    def _bent(self, state: State, epoch: int) -> float:
        """The share of the rows that have curvature: those without a slope, of a hinge, have none."""
        table = state["table"]
        return np.count_nonzero(table) / max(table.size, 1) if epoch else 1.0

    def _left(self, state: State) -> float:
        """Epochs that seem to be left; none are known before the first."""
        if self.solver.tol == 0.0:
            return np.inf
        return MovementMonitor.of(state["pace"]).left()

    def _newton_step(
        self, state: State, finish: Finish, x: Array, epoch: int, step: float
    ) -> Epoch:
        """A Newton step in the active features; all that it takes, where the set is small in these."""
        steps, active = Steps.of(state["newton"]), state["active"]
        at_zero = abs(self._at_zero)
        target = max(min(self.solver.tol, LOOSEST), PRECISION) * at_zero
        part = self.sets.on(active)
        descent = finish.descent(part)
        most = STEPS if descent.at_once else 1
        move = descent.run(descent.inner(x), steps.progress, target, at_zero, most)
        finish.led(part, move.at)
        objective, stalled = move.objective, ""
        steps = steps._replace(made=steps.made + move.steps, progress=move.progress)
        if move.stuck or not (move.steps or move.progress.bound <= self.solver.tol * at_zero):
            proved = move.progress.bound <= PRECISION * at_zero
            known = not objective < steps.stuck - ROUNDING * abs(objective)
            if active.size == self.sets.size and (proved or known):
                problem = cast(Problem, self.problem)
                stalled = STALLED if proved else stalled_at(problem, move.at, at_zero)
            steps = steps._replace(rest=epoch + 1 + REST, stuck=objective)
        new, work = self._led_to(state, move.at, steps), move.passes * self.problem.n
        return Epoch(new, work, move.rounds, step, stalled)

    def _face_step(self, state: State, finish: Finish, x: Array, epoch: int, step: float) -> Epoch:
        """A step on the face of x in the active features; an epoch is due after it."""
        part = self.sets.on(state["active"])
        begun, gap = Steps.of(state["newton"]).made > 0, MovementMonitor.of(state["pace"]).checked
        tol = self.solver.tol if self.solver.tol >= VISIBLE else 0.0
        wanted = tol / gap if begun else np.inf
        at, gained, passes, _ = finish.face(part).step(x, wanted)
        finish.led(part, at)
        new = self._led_to(state, at, self._rested(state, epoch, gained, 1))
        return Epoch(new, passes * self.problem.n, 0, step)

    def _smooth_steps(self, state: State, smooth: QuasiNewton, epoch: int, step: float) -> Epoch:
        """Quasi-Newton steps, where nothing holds x at zero.

        They are made in all features, so that all are active afterwards: epochs may have left out columns
        without an entry, which a ridge holds at zero.
        """
        state = state | {"active": self.sets.everything}
        tol, first = self.solver.tol, not Steps.of(state["newton"]).made
        at, gained, passes, iterations = smooth.descend(
            state["x"], first, lambda at: self._gap_at(at) <= tol, tol * abs(self._at_zero)
        )
        between = 0 if smooth.has_metric else 1
        new = self._led_to(state, at, self._rested(state, epoch, gained, iterations, between))
        return Epoch(new, passes * self.problem.n, 0, step)

    def _gap_at(self, at: Linearisation) -> float:
        """The certificate at a point where f is known in all features."""
        known, gap = self._proved
        if known is not at:
            seen, ridge = at.x[: self.problem.features], self.problem.ridge
            value = at.value + 0.5 * ridge * float(np.vdot(seen, seen))
            gap = self.measure.from_slopes(at.x, at.slopes, at.gradient, lambda: value)
            self._proved = at, gap
        return gap

    def _rested(
        self, state: State, epoch: int, gained: float, made: int, between: int = 1
    ) -> Steps:
        """After such steps: the next ones follow so many epochs, or several more where these did not help."""
        steps = Steps.of(state["newton"])
        helped = gained > HELPED * abs(self._at_zero) * max(self.solver.tol, PRECISION)
        rest = epoch + 1 + (between if helped else REST + 1)
        return steps._replace(made=steps.made + made, rest=rest, progress=Progress())

    def _led_to(self, state: State, at: Linearisation, steps: Steps) -> State:
        """The state at a point of the active features where f is known: slopes and h are those there."""
        return state | {
            "x": self.sets.extend(at.x, state["active"]), "table": self.memory.table(at.slopes),
            "g": at.gradient, "q": np.zeros_like(at.gradient), "newton": steps.array(),
            "momentum": np.zeros(1),
        }  # fmt: skip

    def _accelerated_step(self, state: State, fast: Acceleration) -> Epoch:
        """An iteration of FISTA, in all features. The slopes are renewed by the next certificate."""
        x, new, step = fast.step(state)
        if not state["momentum"][0] > 0.0:
            zero = np.zeros(self.problem.shape)
            new |= {"active": self.sets.everything, "g": zero, "q": zero}
        pace = MovementMonitor.of(state["pace"])
        moved = _distance(x, state["x"])
        new["pace"] = pace._replace(moves=(*pace.moves[1:], moved)).array()
        return Epoch(state | new, self.problem.n, 1, step)

    def _shuffled_epoch(self, state: State, epoch: int, step: float) -> Epoch:
        pace, active = MovementMonitor.of(state["pace"]), state["active"]
        memory, first = self.sets.on(active), epoch == 0 and not state["x"].any()
        x, blocks = self.sets.restrict(state["x"], active), self.blocks(memory)
        visits, used = self._visits(epoch), step * pace.factor * self._gain(memory)

        if first:  # nothing is remembered: an epoch of ProxRR, with a step that falls
            steps = used / np.linspace(1.0, TENFOLD, blocks)
            new = memory.epoch(memory.blank(x) | kept(state), visits, steps, corrected=False)
        else:
            remembered = {name: state[name] for name in REMEMBERED} | {"x": x}
            new = memory.epoch(remembered | kept(state), visits, np.full(blocks, used))
        moved = _distance(new["x"], x)
        others = {name: state[name] for name in ("active", "x0", "momentum", "ahead")}
        new |= others | {"x": self.sets.extend(new["x"], active)}
        made = Steps.of(state["newton"])
        new["newton"] = made._replace(progress=Progress()).array()  # it was made at another x

        judged = self._judge(new, pace, moved, step)
        work = visits.size + (self.problem.n if judged is not pace else 0)
        if judged is None:  # as if the epoch had not been
            shorter = pace.shortened(self.safe_step / step)
            return Epoch(state | {"pace": shorter.array()}, work, blocks, used)
        pace = judged.after(moved, self.solver.tol, self.longest)
        new["pace"] = pace.array()
        if active.size < self.sets.size and moved <= pace.review:
            new, work = self._review(new)[0], work + self.problem.n
        elif not first:
            new = self.sets.shrink(new, state)
            if new["active"].size < active.size:
                new["pace"] = pace.unsettled().array()
        return Epoch(new, work, blocks, used)

    def _judge(
        self, new: State, pace: MovementMonitor, moved: float, step: float
    ) -> MovementMonitor | None:
        """The pace as it is where all goes well; where not, what the objective says, at the cost of a pass.

        ``None`` says that the epoch ended above the start of the run. A step that is longer than the safe
        one is looked at after its first epoch, others where the movement has grown or does not fall.
        """
        untried = self.careful and pace.moves[-1] == np.inf
        grows, steady = not moved <= GROWTH * pace.moves[-1], 0 < pace.moves[0] <= moved
        if not (untried or grows or steady):
            return pace
        with np.errstate(all="ignore"):
            objective = self.objective(new)
        limit = self._start_objective(new) + (0.0 if untried else RISE * abs(self._at_zero))
        if not objective < limit:
            return None
        return pace.steady(objective) if steady else pace._replace()

    def _visits(self, epoch: int) -> Visits:
        order = self.solver.order
        rng = self.stream.at(0 if is_fixed(order) else epoch << EPOCH_BITS)
        return visits_of(order, self.pool.copy(), rng, epoch)

    def _gain(self, memory: SlopeTable) -> float:
        """How much longer a step may be where rows are shorter."""
        if not self.own_step or memory is self.memory:
            return 1.0
        smoothness = cast(LinearModelTable, memory).smoothness
        return self.largest / smoothness if smoothness > 0 else 1.0

    def lengths(self) -> dict[str, int]:
        whole = self.problem.shape[0]
        return {"active": self.sets.size, "g": whole, "q": whole, "ahead": whole}

    def check_state(self, state: State) -> None:
        active = state["active"]
        check_visits(active, self.sets.size, "resume: active features")
        if np.any(np.diff(active.astype(np.int64)) <= 0):
            raise InputError("resume: active features must be in increasing order")
        whole = self.problem.shape[0]
        wanted = dict.fromkeys(("g", "q"), active.size + whole - self.sets.size)
        wanted["ahead"] = whole if state["momentum"][0] > 0.0 else len(state["ahead"])
        for name, length in wanted.items():
            if len(state[name]) != length:
                raise InputError(
                    f"resume: {name} of the saved state has {len(state[name])} rows, not {length}"
                )
        outside = np.ones(whole, dtype=bool)
        outside[active], outside[self.sets.size :] = False, False
        if state["x"][outside].any():
            raise InputError("resume: x must be zero but for the active features")

    # --- looking at all features ---------------------------------------------------------------

    def due(self, state: State, epoch: int, every: int | None) -> bool:
        if every is not None:
            return epoch % every == 0
        steps = Steps.of(state["newton"])
        if steps.progress != Progress() or steps.rest > epoch or self._smooth_point(state):
            return True  # after Newton's step: it may have proved something, or lack features
        if state["momentum"][0] > 0.0:
            return epoch % CHECKED == 0
        if self.needs_proof:
            return False  # epochs prove nothing
        pace = MovementMonitor.of(state["pace"])
        return pace.moves[-1] <= pace.due or epoch % LONGEST_WAIT == 0

    def certify(self, state: State) -> Check:
        """The certificate at x, from a pass that renews the slopes and their mean.

        Where the last step was one of Newton's in all features, its own pass has them.
        """
        steps, whole = Steps.of(state["newton"]), state["active"].size == self.sets.size
        newton = steps.progress != Progress()
        if newton and whole and self.finish is not None:
            at, bound = self.finish.newton(self.memory).at(state["x"]), steps.progress.bound
            bound, tol = bound / abs(self._at_zero), self.solver.tol
            return Check(self.finish.certified(at, bound, self.measure, tol), 0, 0, state)
        led = self._smooth_point(state)
        if led is not None:
            return Check(self._gap_at(led), 0, 0, state)
        if self.smooth is not None and self.smooth.has_metric and not state["x"].any():
            return Check(np.nan, 0, 0, state)  # the first steps tell more, for less
        if self._moves_from_zero(state):
            pace = MovementMonitor.of(state["pace"]).unsettled()
            return Check(np.nan, self.problem.n, 0, state | {"pace": pace.array()})
        new, slopes, g = self._review(state)
        known, tol = partial(self._value, state), self.solver.tol
        value = self.measure.from_slopes(state["x"], slopes, g, known, state.get("warm", COLD))
        if newton and value > tol and new["active"].size == state["active"].size:
            new, value = self._screened(new, slopes, g, value, steps)
        new["pace"] = MovementMonitor.of(new["pace"]).after_check(value, tol).array()
        return Check(value, self.problem.n, 0, new)

    def _moves_from_zero(self, state: State) -> bool:
        """Whether the run has not begun, at zero, and the gradient there says that this is not the end."""
        started = (
            MovementMonitor.of(state["pace"]).moves[-1] < np.inf or Steps.of(state["newton"]).made
        )
        if started or state["x"].any() or self.solver.check_every or self.sets.wide:
            return False
        holds = ability(self.problem.penalty, "holds_at_zero")
        if holds is None:
            return False
        g = self.sets.slopes(state["x"], self.sets.everything)[1][: self.problem.features]
        return not bool(np.all(holds(g)))

    def _screened(
        self, state: State, slopes: Array, g: Array, value: float, steps: Steps
    ) -> tuple[State, float]:
        """What a bound on P(x) - P* in the active features says about all of them.

        Where the others are certain to rest at zero it is one for all; else those that are not come along.
        """
        bound, at_zero = steps.progress.bound, abs(self._at_zero)
        if steps.stuck < np.inf or not self._trusts_bounds:
            return self._everything(state, g), value
        if bound > self.solver.tol * at_zero:
            return state, value  # the steps go on
        active = self.sets.add(state["active"], g, bound)
        if active.size == state["active"].size:
            free = FreeCoordinates(self.problem)
            return state, min(value, free.believed(bound / at_zero, slopes, g))
        q = self.sets.extend(state["q"], state["active"])
        found = {name: self.sets.restrict(a, active) for name, a in (("g", g), ("q", q))}
        return state | found | {"active": active}, value

    def _everything(self, state: State, g: Array) -> State:
        """The state with all features active."""
        q = self.sets.extend(state["q"], state["active"])
        return state | {"active": self.sets.everything, "g": g, "q": q}

    def _review(self, state: State) -> tuple[State, Array, Array]:
        """The state with slopes taken at x and the features that matter there; slopes and gradient."""
        x, old, at = state["x"], state["active"], self._newton_point(state)
        if at is None:
            slopes, g = self.sets.slopes(x, old)
        else:
            slopes, g = at.slopes, cast(Problem, self.problem).datafit.combined(at.slopes)
        active, news = self.sets.choose(x, g, old)
        pace = MovementMonitor.of(state["pace"]).unsettled()
        pace = pace._replace(rarity=OFTEN if news else OFTEN * pace.rarity)
        change = self.sets.restrict(g, old) - state["g"]
        q = self.sets.extend(state["q"] + change, old)  # h stays, where it is known
        new: State = {"g": self.sets.restrict(g, active), "q": self.sets.restrict(q, active)}
        new |= {"table": self.memory.table(slopes), "active": active, "pace": pace.array()}
        return state | new, slopes, g

    # --- the objective -------------------------------------------------------------------------

    def objective(self, state: State) -> float:
        return self.problem.objective(state["x"], self._value(state))

    def _value(self, state: State) -> float:
        """f(x): known at zero and after a Newton step, and elsewhere by a pass over the active features."""
        at, x = self._newton_point(state), state["x"]
        if at is None and self.problem.datafit is not None and not x.any():
            return self.problem.datafit.at_zero
        if at is None:
            return self.sets.value(x, state["active"])
        seen = x[: self.problem.features]
        return at.value + 0.5 * self.problem.ridge * float(np.vdot(seen, seen))

    def _smooth_point(self, state: State) -> Linearisation | None:
        """f at x, where quasi-Newton steps led there."""
        return None if self.smooth is None else self.smooth.at(state["x"])

    def _newton_point(self, state: State) -> Linearisation | None:
        """f at x in the active features, where a Newton step led there."""
        if self.finish is None or not Steps.of(state["newton"]).made:
            return None
        at, active = self._smooth_point(state), state["active"]
        if at is not None:
            return at
        return self.finish.last(self.sets.on(active), self.sets.restrict(state["x"], active))

    def columns(self, state: State) -> dict[str, float]:
        made = Steps.of(state["newton"]).made
        return {"active": float(state["active"].size), "newton": made} | columns(state)

    @cached_property
    def _at_zero(self) -> float:
        """f(0), what a rise of the objective is compared with."""
        fit = self.problem.datafit
        if fit is not None:
            return fit.at_zero or 1.0
        return self.problem.value(np.zeros(self.problem.shape)) or 1.0

    def _start_objective(self, state: State) -> float:
        if self._known_start is None:
            self._known_start = self.problem.objective(state["x0"])
        return self._known_start

    _known_start: float | None = None
    _proved: tuple[Linearisation | None, float] = None, np.inf


def _distance(x: Array, y: Array) -> float:
    """‖x - y‖, infinite where a step was far too large."""
    if not np.isfinite(x).all():
        return np.inf
    return float(np.sqrt(np.vdot(x - y, x - y)))
