from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reshuffle.objective import FiniteSum
from reshuffle.solvers.incremental import Incremental
from reshuffle.solvers.sampling import independent, inverse, schedule_of
from reshuffle.solvers.solver import Solver
from reshuffle.steps import StepGiven, check_step
from reshuffle.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class ProxSGD(Solver):
    """Proximal SGD: sampling with replacement, a prox after every step (Algorithm 3).

        x_{k+1} = prox_{γ_k ψ}(x_k - γ_k ∇f_{i_k}(x_k)),   i_k uniform.

    An epoch is ⌈n/b⌉ steps, and the step size changes between epochs.

    Parameters
    ----------
    step : γ: a number, a schedule of ``reshuffle.steps``, or a function of the epoch. Default
        1/(2 L_max), the largest that the theorem allows.
    batch_size : samples of a step, their gradients averaged.
    importance : draw sample i with probability L_i/ΣL and weigh it L̄/L_i.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, y = np.eye(3), np.array([1.0, 2.0, 3.0])
    >>> problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=rs.penalties.L1(0.5))
    >>> result = rs.ProxSGD(epochs=10, seed=0).solve(problem)
    >>> result.trace["prox_evals"][-1]
    np.float64(30.0)
    """

    takes_weakly_convex: ClassVar[bool] = True

    step: StepGiven = None
    batch_size: int = 1
    importance: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", check_step(self.step))
        check_positive("batch_size", self.batch_size, integer=True)

    def bind(self, problem: FiniteSum) -> Incremental:
        sampling = independent(problem, self.batch_size, self.importance)
        L, steps = sampling.smoothness, sampling.steps
        schedule = schedule_of(self.step, problem, L, steps, self.epochs, 0.5 * inverse(L))
        return Incremental(problem, sampling, schedule, self.seed, prox_each_step=True)
