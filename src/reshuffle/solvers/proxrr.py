from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum
from reshuffle.orders import Order, Reshuffle, check_order
from reshuffle.privacy import Account, SampleLevel
from reshuffle.privacy.settings import check_private
from reshuffle.randomness import generator
from reshuffle.solvers.incremental import Incremental
from reshuffle.solvers.private import NoisyPass, PrivateEpochs
from reshuffle.solvers.sampling import inverse, permuted, schedule_of
from reshuffle.solvers.solver import Solver
from reshuffle.steps import StepGiven, check_step
from reshuffle.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class ProxRR(Solver):
    """Proximal random reshuffling: one prox per epoch (Algorithm 1 of the paper).

    With a permutation π of the n functions, drawn each epoch (ProxRR) or once (ProxSO),

        x_t^{i+1} = x_t^i - γ_t ∇f_{π_i}(x_t^i),   i = 0, …, n-1,
        x_{t+1}   = prox_{γ_t n ψ}(x_t^n).

    Parameters
    ----------
    step : γ: a number, a schedule of ``reshuffle.steps``, or a function of the epoch. Default
        1/L_max, the largest that the theorems allow.
    order : ``Reshuffle()`` (ProxRR), ``ShuffleOnce()`` (ProxSO) or ``Cyclic()``.
    prox : "epoch", or "step" for a prox with parameter γ after each step, the paper's
        'RR (heuristic)', which has no convergence theory.
    batch_size : samples of a step. There are ⌈n/b⌉ steps; each function is ⌈n/b⌉/n times the sum
        over its batch, so that the mean over the epoch is f even if the last batch is shorter.
    importance : visit sample i ⌈L_i/L̄⌉ times with corrected weights, so that the step may be
        about 1/(2L̄) instead of 1/L_max.
    privacy : ``privacy.SampleLevel(...)``: gradients are clipped and noised, and ``result.privacy`` tells ε. The step must
        be given, ``tol`` must be 0, and the trace has no P(x), which would reveal data.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, y = np.eye(3), np.array([1.0, 2.0, 3.0])
    >>> problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=rs.penalties.L1(0.5))
    >>> solver = rs.ProxRR(step=rs.steps.InverseTime(initial=0.5, rate=0.1), epochs=400, seed=0)
    >>> solver.solve(problem).x.round(2)
    array([0. , 0.5, 1.5])

    References
    ----------
    Mishchenko, Khaled, Richtárik: Proximal and Federated Random Reshuffling, ICML 2022.
    """

    takes_weakly_convex: ClassVar[bool] = True

    step: StepGiven = None
    order: Order = field(default_factory=Reshuffle)
    prox: Literal["epoch", "step"] = "epoch"
    batch_size: int = 1
    importance: bool = False
    privacy: SampleLevel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", check_step(self.step))
        check_order(self.order)
        check_positive("batch_size", self.batch_size, integer=True)
        if self.prox not in ("epoch", "step"):
            raise InputError(f'prox must be "epoch" or "step", got {self.prox!r}')
        check_private(self, SampleLevel)

    def bind(self, problem: FiniteSum) -> Incremental:
        if self.privacy is not None:
            return self._private(problem, self.privacy)
        sampling = permuted(
            problem, self.order, self.batch_size, self.importance, generator(self.seed, 0)
        )
        L, steps = sampling.smoothness, sampling.steps
        schedule = schedule_of(self.step, problem, L, steps, self.epochs, inverse(L))
        return Incremental(problem, sampling, schedule, self.seed, self.prox == "step")

    def _private(self, problem: FiniteSum, level: SampleLevel) -> PrivateEpochs:
        level.check_units(problem.n)
        allocated = -(-problem.n // self.batch_size) if hasattr(self.order, "allocate") else None
        account = Account(level, level.multiplier(self.epochs), steps=allocated)
        sigma, first = account.multiplier * level.clip, generator(self.seed, 0)
        noisy = NoisyPass.of(problem, self.order, self.batch_size, first, level.clip, sigma)
        unknown = np.nan  # nothing may be computed from the data
        steps = noisy.sampling.steps
        schedule = schedule_of(self.step, problem, unknown, steps, self.epochs, unknown)
        return PrivateEpochs(problem, noisy, schedule, self.seed, self.prox == "step", account)
