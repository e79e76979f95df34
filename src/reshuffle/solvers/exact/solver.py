from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum
from reshuffle.orders import Order, Reshuffle, check_order
from reshuffle.problem import Problem
from reshuffle.solvers.exact.method import ExactMethod
from reshuffle.solvers.exact.newton_alone import NewtonMethod
from reshuffle.solvers.exact.newton_compiled import is_small, is_strongly_held
from reshuffle.solvers.exact.newton_drivers import descent_on
from reshuffle.solvers.exact.newton_steps import ABILITIES as NEEDED
from reshuffle.solvers.exact.newton_steps import can_finish
from reshuffle.solvers.method import Method
from reshuffle.solvers.sampling import resampled
from reshuffle.solvers.slope_table import slope_table_of
from reshuffle.solvers.solver import Solver
from reshuffle.steps import check_step
from reshuffle.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class ExactProxRR(Solver):
    """Proximal random reshuffling with control variates: the true minimiser, without tuning.

    With slopes remembered from earlier visits (∇̃f_i), their mean g, and h that tends to ∇f(x*),

        x ← x - γ(∇f_i(x) - ∇̃f_i + g - h)            for the m samples of a block,
        x̂ = x,   x ← prox_{γmψ}(x̂ - γmh),   h ← h + (x - x̂)/(γm)   at its end.

    At x = x*, h = ∇f(x*) nothing moves, whatever γ and m: a constant step goes to the solution.
    From zero the first epoch is one of ProxRR. Where the penalty holds many features at zero, epochs read
    the others alone (``working_sets``); every certificate looks at all.

    Parameters
    ----------
    tol : as for every solver. A check is one pass that also renews all slopes; it is made when the iterate
        has slowed down enough, or every ``check_every`` epochs where that is given.
    step : γ: a number, a schedule of ``reshuffle.steps`` or a function of the epoch, where the default
        1/(2 L_max) of the resampled functions (and of the shorter rows of a working set; twice that where
        it proves faster) is not wanted. It is halved when the run blows up or no longer slows down.
    steps_per_prox : m. Default for penalties whose prox runs inside the kernel: √n, or more where an
        epoch's proxes would cost a tenth of its gradients, up to n/16; n/8 for others (whose step is
        also at most 1/(m√(L_f·μ)) at first). m = n is one prox per epoch.
    order : of the visits, ``Reshuffle()`` or ``ShuffleOnce()``.
    importance : visit samples with large L_i more often; by default when that saves work.
    finish : make proximal Newton steps where these cost no more than a few epochs, by counts: at once on
        small sets, and once epochs have found what matters on large ones. They see no scale of columns
        and end with a proved bound. ``False`` is the shuffled method alone.

    threads : of the passes over all rows in storage order (certificates, Newton steps), where these are
        more than some thousands. The bits do not depend on the number; without one, sums are made in one piece.

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
    eval_every: int | None = None
    step: Any = None
    steps_per_prox: int | None = None
    order: Order = field(default_factory=Reshuffle)
    importance: bool | None = None
    finish: bool = True
    threads: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", check_step(self.step))
        if self.steps_per_prox is not None:
            check_positive("steps_per_prox", self.steps_per_prox, integer=True)
        check_order(self.order)
        if self.threads is not None:
            check_positive("threads", self.threads, integer=True)

    def _by_newton(self, problem: FiniteSum) -> bool:
        """Whether Newton steps are all that is made: on small sets, and where no other step is safe.

        Who chose a step wants to see it made.
        """
        fit = problem.datafit
        if self.finish and self.own_step and (is_small(problem) or is_strongly_held(problem)):
            return True
        if fit is None or fit.loss.curvature < np.inf:
            return False
        if not (self.finish and can_finish(problem)):
            needs = "finish=True" if not self.finish else f"a penalty with {', '.join(NEEDED)}"
            raise InputError(
                f"{fit.loss!r} has no bound on its curvature: ExactProxRR takes it by Newton steps "
                f"alone, which need {needs}"
            )
        return True

    @property
    def own_step(self) -> bool:
        """Whether the method chooses its step: none was given."""
        return getattr(self.step, "value", 0.0) is None

    def bind(self, problem: FiniteSum) -> Method:
        if self.threads is not None and problem.datafit is not None:
            fit = replace(problem.datafit, threads=self.threads)
            problem = cast(Problem, problem).with_datafit(fit)
        if self._by_newton(problem):
            whole = cast(Problem, problem)
            return NewtonMethod(self, whole, descent_on(whole))
        owner, weights, largest = resampled(problem, self.importance)
        if not largest > 0:
            problem.smoothness.require()  # all rows are zero: a ridge is all there is, and any step will do
            largest = 1.0
        return ExactMethod(self, slope_table_of(problem, owner, weights), largest)
