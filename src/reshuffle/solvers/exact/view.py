"""What a phase sees of a run: its fixed parts, its state, and estimates of the work left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties import ability
from reshuffle.penalties.abilities import rows
from reshuffle.problem import Problem
from reshuffle.randomness import Stream, generator
from reshuffle.solvers.certificate import Measure
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.state import ExactState
from reshuffle.solvers.exact.working_sets import WorkingSets
from reshuffle.solvers.second_order import Linearisation
from reshuffle.solvers.slope_table import SlopeTable, is_linear_model

if TYPE_CHECKING:
    from reshuffle.solvers.exact.phase import Phase
    from reshuffle.solvers.exact.solver import ExactProxRR

FEW_PROXES = 8
"""Proxes in an epoch if each is a call to Python; see benchmarks/NOTES.md."""
PROX_SHARE = 10
"""The proxes of an epoch cost at most 1/PROX_SHARE of its gradients."""
RAREST = 16
"""The fewest proxes in an epoch: with up to n/16 steps for each prox, the number of epochs hardly depends on it."""
FIRST_EPOCHS = 1.0
"""Epochs that a run usually takes before its error begins to fall steadily."""
EPOCHS_PER_DIGIT = 1.5
"""Epochs that a run usually takes for each digit of accuracy."""
CHEAP_NEWTON = 8.0
"""If a Newton step costs at most this many epochs, a few epochs followed by Newton steps cost less than L-BFGS."""
FINEST = 1e-13
"""Smaller tolerances count as this: P is not known more exactly."""
EXPECTED_VISITS = 5000.0
"""Further visits that a run is expected to take, so that a run on few rows is expected to take more epochs."""
UNHELD = 10.0
"""Without a dual point this many times as many epochs are expected: no penalty holds x, and epochs converge slowly."""
ON_DISK = ("newton_on_disk", "shuffled")
"""Phases for rows on disk, in the order of preference."""
SECOND_ORDER = ("newton", "newton_kernel", "newton_columns", "newton_cg", "lbfgs")
"""Phases whose steps count as second-order ones."""

Tool = TypeVar("Tool")


@dataclass(eq=False)
class RunContext:
    """The parts of a run that stay the same throughout."""

    solver: ExactProxRR
    sets: WorkingSets
    phases: tuple[Phase, ...]
    measure: Measure
    largest: float
    """L of the functions that an epoch visits, without the ridge."""
    needs_proof: bool
    """Whether only a Newton step can bound P(x) - P*."""
    trusts_bounds: bool
    """Whether the bound of a Newton step is believed without computing the duality gap."""
    safe_step: float
    """1/(2L), a step with which no epoch is known to diverge."""
    first_step: float = 0.0
    """γ of the first epoch."""
    tools: dict[Callable[[Problem], object], tuple[Problem, Any]] = field(default_factory=dict)

    @property
    def table(self) -> SlopeTable:
        """The slope table of all features."""
        return self.sets.table

    @property
    def problem(self) -> FiniteSum:
        return self.table.problem

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the phases that may act."""
        return tuple(phase.name for phase in self.phases)

    @cached_property
    def has_outputs_with_ridge(self) -> bool:
        """Whether there are several outputs, and ψ is a ridge, so that L-BFGS can act."""
        fit = self.problem.datafit
        return "lbfgs" in self.names and fit is not None and bool(fit.outputs)

    @cached_property
    def at_zero(self) -> float:
        """|f(0)|, which accuracies are relative to."""
        fit = self.problem.datafit
        value = self.problem.value(np.zeros(self.problem.shape)) if fit is None else fit.at_zero
        return abs(value or 1.0)

    @cached_property
    def stream(self) -> Stream:
        """The random numbers of the epochs."""
        return Stream(self.solver.seed)

    def tool(self, kind: Callable[[Problem], Tool], problem: Problem) -> Tool:
        """``kind(problem)``; the last object of each kind is kept, with its cached results."""
        found = self.tools.get(kind)
        if found is None or found[0] is not problem:
            found = self.tools[kind] = problem, kind(problem)
        tool: Tool = found[1]
        return tool

    def blocks(self, table: SlopeTable) -> int:
        """How many proxes an epoch on this table has."""
        count, m = table.count, self.solver.steps_per_prox
        if m is None and self.compiled:
            m = max(isqrt(count), min(round(PROX_SHARE * table.sparsity), count // RAREST))
        elif m is None:
            m = count // FEW_PROXES
        return max(1, round(count / max(m, 1)))

    @cached_property
    def compiled(self) -> bool:
        """Whether the core takes the prox itself."""
        return ability(self.problem.penalty, "compiled") is not None

    def objective(self, state: ExactState) -> float:
        """P(x)."""
        value = state.point.value_on(self.sets, state.active)
        return self.problem.objective(state.x, value)

    def start_objective(self, state: ExactState) -> float:
        """P at the start of the run."""
        if state.start.value is None:
            state.start.value = self.problem.value(state.start.x)
        return self.problem.objective(state.start.x, state.start.value)

    def gap(self, point: Point) -> float:
        """The certificate at a point where f is known in all features; the point keeps it."""
        if point.gap is None:
            slopes, g = point.slopes_on(self.sets, self.sets.everything)
            value = point.value_on(self.sets, self.sets.everything)
            point.gap = self.measure.from_slopes(point.x, slopes, g, lambda: value)
        return point.gap


@dataclass(frozen=True, eq=False)
class View:
    """The run, its state, the number of the epoch and γ. Derived values are computed once."""

    run: RunContext
    state: ExactState
    epoch: int
    step: float

    @cached_property
    def part(self) -> SlopeTable:
        """The slope table in the active features."""
        return self.run.sets.on(self.state.active)

    @cached_property
    def model(self) -> Problem:
        """The problem in the active features, for phases that act only on linear models."""
        problem = self.part.problem
        if not is_linear_model(problem):
            raise AttributeError("the functions are known by their gradients alone")
        return problem

    @cached_property
    def x(self) -> Array:
        return self.run.sets.restrict(self.state.x, self.state.active)

    def random(self) -> np.random.Generator:
        """Random numbers for a phase of your own. They depend on the seed and the epoch alone, so that runs can resume."""
        return generator(self.run.solver.seed, self.epoch)

    @property
    def acting(self) -> Sequence[Phase]:
        """The phases that may make the next step. On rows that lie on disk these are Newton steps on disk or, if they are not ready, shuffled epochs."""
        fit = self.part.problem.datafit
        if fit is None or not fit.on_disk:
            return self.run.phases
        able = [phase for phase in self.run.phases if phase.name in ON_DISK]
        return [phase for phase in able if phase.ready(self)][:1] or able

    # --- how far it has come -------------------------------------------------------------------------

    @property
    def second_order_steps(self) -> int:
        """Steps that second-order phases have made."""
        return sum(self.state.made.get(name, 0) for name in SECOND_ORDER)

    @property
    def resting(self) -> bool:
        """Whether second-order steps pause, after one that did not help."""
        return self.epoch < self.state.newton.rest

    @property
    def warm(self) -> bool:
        """Whether the run began away from zero, as along a path: the features that matter are then known."""
        return bool(self.state.start.x.any())

    @property
    def wants_proof(self) -> bool:
        """Whether x hardly moves any more and only a Newton step can prove that it is near the minimum."""
        return self.run.needs_proof and self.state.monitor.at_rest

    @property
    def unknown(self) -> bool:
        """Whether the rate of convergence is still unknown, both of epochs and of L-BFGS."""
        made = self.state.made
        known = made.get("shuffled", 0) or made.get("accelerated", 0)
        return not (known or (self.led_by_lbfgs and made["lbfgs"]))

    @property
    def led_by_lbfgs(self) -> bool:
        """Whether L-BFGS continues to the end once it has begun."""
        return self.run.has_outputs_with_ridge

    @property
    def digits(self) -> float:
        """The wanted accuracy, in decimal digits."""
        return max(-float(np.log10(max(self.run.solver.tol, FINEST))), 1.0)

    @property
    def expected_epochs(self) -> float:
        """Epochs that a run usually takes, as far as is known before the first.

        An epoch leaves a share of about 1 - 1/(1 + κ) of the error, with κ = L/(nμ). The losses add curvature to that of the ridge, so √κ is
        closer to what is observed. For penalties with kinks, κ says little.
        """
        run, each = self.run, EPOCHS_PER_DIGIT
        smooth = "lbfgs" in run.names and run.problem.strong_convexity > 0.0
        if smooth and (self.led_by_lbfgs or not self.newton_is_cheap):
            ill = run.largest / (self.part.count * run.problem.strong_convexity)
            each = 1.0 + float(np.sqrt(ill))
        return FIRST_EPOCHS + each * self.digits + EXPECTED_VISITS / self.part.count

    @cached_property
    def epochs_left(self) -> float:
        """Shuffled epochs that seem to be left; infinite if they make no progress."""
        if self.unknown:
            return self.expected_epochs * (UNHELD if self.run.needs_proof else 1.0)
        begun = self.led_by_lbfgs and self.second_order_steps > 0
        if begun or self.run.solver.tol == 0.0:
            return np.inf
        return self.state.monitor.left()

    @cached_property
    def epoch_cost(self) -> float:
        return costs.epoch(self.part, self.run.blocks(self.part))

    @property
    def work_left(self) -> float:
        """Nanoseconds of the epochs that are left."""
        return self.epochs_left * self.epoch_cost

    @cached_property
    def newton_cost(self) -> float:
        """Nanoseconds of a Newton step. Rows with zero slope, as for a hinge, have no curvature either."""
        expected = self._expected_support() if self.unknown else 0
        return costs.newton(self.model, self.x, self.curved, expected)

    @property
    def newton_is_cheap(self) -> bool:
        """Whether a Newton step costs no more than a few epochs, after which it is made in any case."""
        return "newton" in self.run.names and self.newton_cost <= CHEAP_NEWTON * self.epoch_cost

    @cached_property
    def curved(self) -> float:
        """The share of the rows that have curvature."""
        table = self.state.table
        return np.count_nonzero(table) / max(table.size, 1) if self.epoch else 1.0

    def _expected_support(self) -> int:
        """The expected number of active features that will not be zero, from the gradient alone, before any epoch.

        About half of those that ψ does not hold at zero against the gradient will stay zero once the others are in the model.
        """
        holds, state = ability(self.model.penalty, "holds_at_zero"), self.state
        g = state.g
        if state.point.gradient is not None and not g.any():
            g = self.run.sets.restrict(state.point.gradient, state.active)
        if holds is None or not g.any():
            return 0
        wanted = np.count_nonzero(rows(~holds(g[: state.active.size])))
        return min(int(wanted) // 2, self.model.n)

    # --- where a step leads ----------------------------------------------------------------------------

    def moved_to(self, at: Linearisation, **others: Any) -> ExactState:
        """The state at a point of the active features where f is known; slopes and h are taken there."""
        state, sets = self.state, self.run.sets
        return replace(
            state, point=Point(sets.extend(at.x, state.active), at), table=self.run.table.table(at.slopes),
            g=at.gradient, q=np.zeros_like(at.gradient), momentum=0.0, monitor=state.monitor.elsewhere(), **others,
        )  # fmt: skip

    def at(self, x: Array) -> ExactState:
        """The state at x, with all features active and all slopes renewed, by one pass over the data."""
        return self.with_slopes(x, *self.run.sets.slopes(x, self.run.sets.everything))

    def with_slopes(self, x: Array, slopes: Array, g: Array, **others: Any) -> ExactState:
        """``at`` with known slopes at x and known mean gradient, without a pass."""
        return self.moved_everywhere(
            Point(x, slopes=slopes, gradient=g, whole=True), slopes, g, **others
        )

    def moved_everywhere(self, point: Point, slopes: Array, g: Array, **others: Any) -> ExactState:
        """The state at a point where f is known in all features."""
        return replace(
            self.state, point=point, active=self.run.sets.everything, table=self.run.table.table(slopes), g=g,
            q=np.zeros_like(g), momentum=0.0, monitor=self.state.monitor.elsewhere(), **others,
        )  # fmt: skip
