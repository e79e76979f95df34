from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import InputError, shown
from reshuffle.objective import FiniteSum
from reshuffle.orders import Order, Reshuffle, check_order
from reshuffle.penalties.abilities import check_convex
from reshuffle.problem import as_problem
from reshuffle.solvers.exact.accelerated import Accelerated
from reshuffle.solvers.exact.device_checks import (
    check_device,
    check_for_device,
    device_of,
    way_on_device,
)
from reshuffle.solvers.exact.lbfgs import LBFGS
from reshuffle.solvers.exact.lbfgs_on_device import method_on_device
from reshuffle.solvers.exact.method import ExactMethod
from reshuffle.solvers.exact.newton import Newton
from reshuffle.solvers.exact.newton_alone import NewtonAlone
from reshuffle.solvers.exact.newton_cg import NewtonCG
from reshuffle.solvers.exact.newton_columns import NewtonColumns
from reshuffle.solvers.exact.newton_compiled import is_light, is_small, is_strongly_held
from reshuffle.solvers.exact.newton_drivers import newton_driver
from reshuffle.solvers.exact.newton_kernel import NewtonKernel
from reshuffle.solvers.exact.newton_on_disk import NewtonOnDisk
from reshuffle.solvers.exact.newton_steps import ABILITIES as NEEDED
from reshuffle.solvers.exact.newton_steps import can_finish
from reshuffle.solvers.exact.phase import Phase
from reshuffle.solvers.exact.shuffled import ShuffledEpoch
from reshuffle.solvers.exact.working_sets import SetRules
from reshuffle.solvers.method import Method
from reshuffle.solvers.sampling import resampled
from reshuffle.solvers.slope_table import is_linear_model, slope_table_of
from reshuffle.solvers.solver import Solver
from reshuffle.steps import StepGiven, check_step
from reshuffle.validation import check_positive

PHASES: tuple[Phase, ...] = (
    Newton(), NewtonOnDisk(), NewtonKernel(), NewtonColumns(), NewtonCG(), LBFGS(), Accelerated(), ShuffledEpoch(),
)  # fmt: skip
"""The phases of the package; of two with equal work left, the first one acts."""
SHUFFLED_ALONE = (ShuffledEpoch(),)


@dataclass(frozen=True, kw_only=True)
class ExactProxRR(Solver):
    """Proximal random reshuffling with control variates: the true minimiser, without tuning.

    With slopes remembered from earlier visits (∇̃f_i), their mean g, and h that tends to ∇f(x*),

        x ← x - γ(∇f_i(x) - ∇̃f_i + g - h)            for the m samples of a block,
        x̂ = x,   x ← prox_{γmψ}(x̂ - γmh),   h ← h + (x - x̂)/(γm)   at its end.

    x = x*, h = ∇f(x*) is a fixed point for every γ and m: a constant step converges to the solution.
    From zero the first epoch is one of ProxRR. If the penalty holds many features at zero, epochs read only
    the others (``working_sets``); every certificate checks all features.

    Parameters
    ----------
    tol : as for every solver. A check is one pass that also renews all slopes; it is made when the iterate
        has slowed down enough, or every ``check_every`` epochs if that is given.
    step : γ: a number, a schedule of ``reshuffle.steps`` or a function of the epoch. The default is
        1/(2 L_max) of the resampled functions (and of the shorter rows of a working set), or twice that if
        it proves faster. It is halved when the run blows up or no longer slows down.
    steps_per_prox : m. Default for penalties whose prox runs inside the kernel: √n, or more where an
        epoch's proxes would cost a tenth of its gradients, up to n/16; n/8 for others (whose step is
        also at most 1/(m√(L_f·μ)) at first). m = n is one prox per epoch.
    order : of the visits, ``Reshuffle()`` or ``ShuffleOnce()``.
    importance : visit samples with large L_i more often; by default when that saves work.
    finish : ``False`` makes shuffled epochs alone: the same as ``phases=["shuffled"]``.
    phases : the phases that may act, by name or as objects of your own (``reshuffle.solvers.exact.Phase``); by default
        ``"newton"``, ``"newton_on_disk"``, ``"newton_kernel"``, ``"newton_columns"``, ``"newton_cg"``, ``"lbfgs"``, ``"accelerated"`` and ``"shuffled"``. Which one
        makes the next step is decided by counts of work. Newton steps do not depend on the scale of columns and
        end with a proved bound; they act at once on small sets, and on large ones once epochs have found the
        features that matter.
    device : ``"cuda"`` makes the passes over all rows on the graphics card of this computer (extra ``gpu``), to which the rows are copied
        unless they are there (``DeviceProblem``); rows of shards that do not fit are copied in every pass. A ``reshuffle.gpu.CudaDevice`` may be
        given in its place. Newton steps are made alone, with a Hessian of a sample of the rows, and the
        certificate is the duality gap if there is one, computed in float64. More than 4,000 features are possible for penalties that hold features
        at zero and for a ridge, for which L-BFGS is used; more than 4,000 coordinates with several outputs only for a ridge.
    threads : the number of threads for passes over all rows in storage order (certificates, Newton steps), used if there
        are several thousand rows or more. The bits do not depend on the number; without it, sums are made in one piece.

    The column ``active`` of the trace counts the features that epochs read, and a column for each phase its steps.

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
    eval_every: int | None = None
    step: StepGiven = None
    steps_per_prox: int | None = None
    order: Order = field(default_factory=Reshuffle)
    importance: bool | None = None
    finish: bool = True
    phases: Sequence[str | Phase] | None = None
    threads: int | None = None
    device: object = None

    set_rules: ClassVar[SetRules] = SetRules()
    """How boldly working sets leave out features."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", check_step(self.step))
        if self.steps_per_prox is not None:
            check_positive("steps_per_prox", self.steps_per_prox, integer=True)
        check_order(self.order)
        if self.threads is not None:
            check_positive("threads", self.threads, integer=True)
        if self.phases is not None:
            if not self.finish:
                raise InputError(
                    "give phases or finish=False, which is phases=['shuffled'], not both"
                )
            object.__setattr__(self, "phases", checked_phases(self.phases))
        if self.device is not None:
            check_device(self)

    def check_problem(self, problem: object) -> None:
        if isinstance(problem, DeviceProblem):
            check_device(self)
            check_convex(problem.penalty, type(self).__name__)
            way_on_device(problem)
            return
        super().check_problem(problem)
        if self.device is not None:
            check_for_device(problem)
            device_of(self.device)  # raises an error if there is no card

    def _able(self, problem: FiniteSum) -> tuple[Phase, ...]:
        """Those of the allowed phases that can act on this problem."""
        found = tuple(phase for phase in self._allowed if phase.able(problem, self))
        if not found:
            names = [phase.name for phase in self._allowed]
            raise InputError(f"phases: none of {names} can act on {problem!r}; add 'shuffled'")
        return found

    @property
    def _allowed(self) -> tuple[Phase, ...]:
        if not self.finish:
            return SHUFFLED_ALONE
        return PHASES if self.phases is None else resolved(self.phases)

    def _newton_alone(self, problem: FiniteSum) -> Newton | None:
        """The Newton phase if it makes all steps: on small sets, and if no other step is safe; otherwise None.

        If the user chose a step or gave a phase, the phases take turns as usual.
        """
        fit, allowed = problem.datafit, self._allowed
        if fit is not None and fit.on_disk:
            self._check_on_disk(fit)
            return None
        newton = next((phase for phase in allowed if isinstance(phase, Newton)), None)
        built_in = all(type(phase) in map(type, PHASES) for phase in allowed)
        at_once = newton is not None and newton.at_once and built_in and self.own_step
        if at_once and (is_small(problem) or is_light(problem) or is_strongly_held(problem)):
            return newton
        if fit is not None and not fit.loss.curvature < np.inf:
            if newton is None or not can_finish(problem):
                needs = "finish=True" if not self.finish else "the phase 'newton'"
                needs = f"a penalty with {', '.join(NEEDED)}" if newton else needs
                raise InputError(
                    f"{fit.loss!r} has no bound on its curvature: ExactProxRR takes it by Newton steps "
                    f"alone, which need {needs}"
                )
            return newton
        return newton if len(allowed) == 1 and newton and can_finish(problem) else None

    def _check_on_disk(self, fit: Datafit) -> None:
        """Refuse what needs all rows in memory: on disk, shuffled epochs are needed until the rest fits into memory."""
        if not fit.loss.curvature < np.inf:
            raise InputError(
                f"{fit.loss!r} has no bound on its curvature and is taken by Newton steps alone, which need all rows in "
                "memory: give open_shards more memory"
            )
        if not any(phase.name == "shuffled" for phase in self._allowed):
            raise InputError("phases must have 'shuffled' where rows lie on disk")

    @property
    def own_step(self) -> bool:
        """Whether the method chooses its step: none was given."""
        return getattr(self.step, "value", 0.0) is None

    def bind(self, problem: FiniteSum | DeviceProblem) -> Method:
        if isinstance(problem, DeviceProblem):
            return method_on_device(self, problem)
        if self.device is not None:
            there = DeviceProblem.of(as_problem(problem), device_of(self.device))
            return method_on_device(self, there)
        if self.threads is not None and is_linear_model(problem):
            problem = problem.with_datafit(replace(problem.datafit, threads=self.threads))
        newton = self._newton_alone(problem)
        if newton is not None and is_linear_model(problem):
            return NewtonAlone(self, problem, newton_driver(problem, newton.at_once))
        owner, weights, largest = resampled(problem, self.importance)
        if not largest > 0:
            problem.smoothness.require()  # all rows are zero: P is constant plus ψ, and any step will do
            largest = 1.0
        table = slope_table_of(problem, owner, weights)
        return ExactMethod(self, table, largest, self._able(problem))


def checked_phases(phases: object) -> tuple[str | Phase, ...]:
    """Check a list of names and phases; refuse other things, and names that occur twice."""
    known = [phase.name for phase in PHASES]
    if isinstance(phases, str) or not isinstance(phases, Sequence) or not phases:
        raise InputError(f"phases must be a list of names or phases, got {shown(phases)}")
    for phase in phases:
        if isinstance(phase, str) and phase not in known:
            raise InputError(f"phases must be of {known} or your own, got {phase!r}")
        named = isinstance(phase, Phase) and isinstance(getattr(phase, "name", None), str)
        if not (isinstance(phase, str) or named):
            raise InputError(
                f"a phase of your own must extend Phase and have a name, got {shown(phase)}"
            )
    names = [phase.name for phase in resolved(phases)]
    if len(set(names)) < len(names):
        raise InputError(f"phases must have different names, got {names}")
    return tuple(phases)


def resolved(phases: Sequence[str | Phase]) -> tuple[Phase, ...]:
    """The phases that these names stand for, and those that were given."""
    known = {phase.name: phase for phase in PHASES}
    return tuple(known[phase] if isinstance(phase, str) else phase for phase in phases)
