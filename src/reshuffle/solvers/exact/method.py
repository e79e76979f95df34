"""A run of the exact method: makes a step of the next phase, and decides when a certificate is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.solvers.certificate import Gap, Proof, certificate_of
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.accelerated import CHECKED
from reshuffle.solvers.exact.chooser import choose
from reshuffle.solvers.exact.movement_monitor import SQUARE, MovementMonitor
from reshuffle.solvers.exact.newton_bound import is_separable
from reshuffle.solvers.exact.newton_on_disk import DiskHessian, NewtonOnDisk, leaves_the_disk
from reshuffle.solvers.exact.newton_steps import can_finish
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.review import certify
from reshuffle.solvers.exact.sample_start import SampleStart, sample_start
from reshuffle.solvers.exact.shuffled import ShuffledEpoch
from reshuffle.solvers.exact.state import ExactState
from reshuffle.solvers.exact.view import RunContext, View
from reshuffle.solvers.exact.working_sets import WorkingSets
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.prox_call import cold
from reshuffle.solvers.sampling import bind_step
from reshuffle.solvers.slope_table import SlopeTable
from reshuffle.steps import Setting
from reshuffle.validation import check_visits

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

SAFETY = 0.5
"""The default step, as a share of 1/L_max; see benchmarks/NOTES.md."""
AGAIN = 0.5
"""With a ridge on several outputs a certificate is also due when the movement has fallen to this share since the last one: it
costs less than half an epoch there, and two of them tell how fast the gap falls."""
CERTIFICATES = 8.0
"""A step that costs more than this many certificates is made only after one has shown that it is needed: then they add an eighth."""
LONGEST_WAIT = 25
"""The most epochs between two certificates; certificates are then a few per cent of the work."""


class ExactMethod(Method):
    """``ExactProxRR`` on a problem."""

    keeps_best = True
    state_type = ExactState

    def __init__(
        self, solver: ExactProxRR, table: SlopeTable, largest: float, phases: Sequence[Phase]
    ) -> None:
        problem = table.problem
        self.problem, self.solver = problem, solver
        self._last: tuple[ExactState, int, Phase] | None = None
        fit = problem.datafit
        proves = any(phase.proves for phase in phases) and not (fit is not None and fit.on_disk)
        measure = certificate_of(problem)
        has_dual = measure.name == Gap.name
        self.measure = Proof(problem) if proves and not has_dual else measure
        self.certificate = self.measure.name
        trusts = not (has_dual and proves and can_finish(problem) and not is_separable(problem))
        at_once = all(getattr(phase, "at_once", True) for phase in phases)
        sets = WorkingSets(table, solver.set_rules, at_once)
        self.run = RunContext(
            solver, sets, tuple(phases), self.measure, largest, proves and not has_dual, trusts,
            SAFETY / largest,
        )  # fmt: skip
        self.safe_step = self.run.safe_step
        setting = Setting(
            largest, problem.strong_convexity, problem.contraction, table.count, solver.epochs,
            self.default_step(),
        )  # fmt: skip
        self.schedule = bind_step(solver.step, setting, problem)
        self.run.first_step = self.schedule(0)
        copies = f"{table.count} visits of {problem.n} samples"
        self.header = {
            "step": f"{self.run.first_step:.6g}",
            "steps per prox": f"{table.count / self.run.blocks(table):.1f}",
            "importance": copies if table.owner.size else "off",
            "certificate": self.measure.meaning,
            "phases": ", ".join(self.run.names),
        }

    def default_step(self) -> float:
        """1/(2L); for a prox outside the core at most the γ with τ = γm = 1/√(L_f·μ)."""
        run, mu = self.run, self.problem.strong_convexity
        if run.compiled or not mu > 0:
            return run.safe_step
        m = run.table.count / run.blocks(run.table)
        return min(run.safe_step, 1.0 / (m * sqrt(self.problem.smoothness.rough_L_f * mu)))

    # --- an epoch ------------------------------------------------------------------------------

    def start(self, x0: Array) -> ExactState:
        """The state at x0 with the slopes there; at zero the first epoch needs no slopes."""
        sets, table = self.run.sets, self.run.table
        fit = self.problem.datafit
        sampled = fit is not None and fit.on_disk and not x0.any() and self.solver.own_step
        if sampled:
            x0 = self._sampled.x
        few = self.solver.own_step and "newton" in self.run.names and sets.first > 0
        known = sets.wide or few or bool(x0.any())
        self.start_gradients = self.problem.n if known else 0
        self.start_gradients += self._sampled.gradients if sampled else 0
        point, active, begin = Point(x0.copy()), sets.everything, table.blank(x0)
        if known:
            slopes, g = self._slopes_at(point)
            begin, active = table.state(x0, slopes, g), sets.begin(x0, g, few)
        g, q = sets.restrict(begin.g, active), sets.restrict(begin.q, active)
        nowhere, none = np.empty((0, *x0.shape[1:])), dict.fromkeys(self.run.names, 0)
        return ExactState(
            point, Point(x0.copy()), active, begin.table, g, q, made=none, ahead=nowhere,
            warm=cold(self.problem), monitor=MovementMonitor(power=self._power),
        )  # fmt: skip

    @property
    def _power(self) -> float:
        """The power of the movement that the certificate falls like: 1 without strong convexity, where the dual point lags behind."""
        return SQUARE if self.problem.strong_convexity > 0.0 else 1.0

    def _slopes_at(self, point: Point) -> tuple[Array, Array]:
        """Slopes and their mean gradient; the same pass computes the Hessian if the first step on disk will need it."""
        problem = self.problem
        if NewtonOnDisk.name in self.run.names and not leaves_the_disk(problem, point.x):
            at = self.run.tool(DiskHessian, problem).at(point.x)
            point.slopes, point.gradient = at.slopes, at.gradient
        return point.slopes_on(self.run.sets, self.run.sets.everything)

    @cached_property
    def _sampled(self) -> SampleStart:
        """The start of a run on rows that lie on disk."""
        problem = self.problem
        return sample_start(problem, self.solver)

    def advance(self, state: ExactState, epoch: int, step: float) -> Epoch:
        """Chooses and makes a step of the next phase."""
        view = View(self.run, state, epoch, step)
        phase = self._chosen(view)
        done = self._made(phase, view)
        made = {**state.made, phase.name: state.made[phase.name] + done.made}
        new = replace(done.state, made=made)
        return Epoch(new, done.gradients, done.prox_evals, done.step, done.stalled)

    def _made(self, phase: Phase, view: View) -> Outcome:
        """The phase's step. What a user's phase returns is checked; if the run diverges, the message names that phase."""
        done: object = phase.step(view)
        if not isinstance(done, Outcome) or not isinstance(done.state, ExactState):
            got = type(done.state if isinstance(done, Outcome) else done).__name__
            raise InputError(
                f"phase {phase.name!r}: step must return an Outcome with a state such as view.at(x), got "
                f"{'one with ' if isinstance(done, Outcome) else ''}a {got}"
            )
        self.blame = "" if phase.built_in else f"in a step of the phase {phase.name!r}"
        return done

    # --- the certificate -----------------------------------------------------------------------

    def due(self, state: ExactState, epoch: int, every: int | None) -> bool:
        if every is not None:
            return epoch % every == 0
        newton, monitor = state.newton, state.monitor
        stepped = newton.rest > epoch and state.point.linearisation is not None
        if newton.unfinished or stepped or state.point.whole:
            return True  # the step may have proved a bound, or features may be missing
        if state.momentum > 0.0:
            return epoch % CHECKED == 0
        if self.run.needs_proof:
            return False  # epochs prove nothing
        again = (
            AGAIN * monitor.at if self.run.has_outputs_with_ridge and monitor.at < np.inf else 0.0
        )
        if monitor.moves[-1] <= max(monitor.due, again) or epoch % LONGEST_WAIT == 0:
            return True
        if not monitor.may_have_reached(self.solver.tol):
            return False
        view = View(self.run, state, epoch, self.schedule(epoch))
        return self._is_costly(self._chosen(view), view)

    def _chosen(self, view: View) -> Phase:
        """The phase of the next step, which is chosen once for each state."""
        if self._last is None or self._last[0] is not view.state or self._last[1] != view.epoch:
            self._last = view.state, view.epoch, choose(view, view.acting)
        return self._last[2]

    def _is_costly(self, phase: Phase, view: View) -> bool:
        """Whether a step of the phase costs much more than a certificate, which may show that it is not needed."""
        fit = view.part.problem.datafit
        if fit is None or fit.on_disk or phase.name == ShuffledEpoch.name:
            return False
        return phase.cost(view) > CERTIFICATES * costs.passes(fit, 1.0)

    def certify(self, state: ExactState) -> Check:
        return certify(self.run, state)

    def objective(self, state: ExactState) -> float:
        return self.run.objective(state)

    def columns(self, state: ExactState) -> dict[str, float]:
        found = {"active": float(state.active.size)}
        found |= {name: float(state.made[name]) for name in self.run.names}
        return found if state.warm is None else found | {"inner_iterations": state.warm.iterations}

    # --- saving and resuming -------------------------------------------------------------------

    def x_of(self, state: ExactState) -> Array:
        return state.x

    def saved(self, state: ExactState) -> State:
        return state.arrays(self.run.names)

    def resumed(self, arrays: State) -> ExactState:
        return ExactState.of(arrays, self.run.names)

    def lengths(self) -> dict[str, int]:
        whole = self.problem.shape[0]
        return {"active": self.run.sets.size, "g": whole, "q": whole, "ahead": whole}

    def check_state(self, state: State) -> None:
        active, size = state["active"], self.run.sets.size
        check_visits(active, size, "resume: active features")
        if np.any(np.diff(active.astype(np.int64)) <= 0):
            raise InputError("resume: active features must be in increasing order")
        whole = self.problem.shape[0]
        wanted = dict.fromkeys(("g", "q"), active.size + whole - size)
        wanted["ahead"] = whole if state["momentum"][0] > 0.0 else len(state["ahead"])
        for name, length in wanted.items():
            if len(state[name]) != length:
                raise InputError(
                    f"resume: {name} of the saved state has {len(state[name])} rows, not {length}"
                )
        outside = np.ones(whole, dtype=bool)
        outside[active], outside[size:] = False, False
        if state["x"][outside].any():
            raise InputError("resume: x must be zero but for the active features")
