from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.objective import Objective
from reshuffle.solvers.method import Epoch, Method, State
from reshuffle.solvers.prox_call import WarmStart, cold, columns, saved, taken_from
from reshuffle.solvers.solver import Solver
from reshuffle.trace import Result


@dataclass(frozen=True, kw_only=True)
class FISTA(Solver):
    """Accelerated proximal gradient with adaptive restart: the deterministic reference.

        x⁺ = prox_{ψ/L_f}(y - ∇f(y)/L_f),   y⁺ = x⁺ + ((θ - 1)/θ⁺)(x⁺ - x),

    θ⁺ = (1 + √(1 + 4θ²))/2, and θ back to 1 whenever ⟨y - x⁺, x⁺ - x⟩ > 0. An epoch is one
    iteration: n gradients, one prox.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, y = np.eye(3), np.array([1.0, 2.0, 3.0])
    >>> problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=rs.penalties.L1(0.5))
    >>> rs.FISTA().solve(problem).x.round(12)
    array([0. , 0.5, 1.5])

    References
    ----------
    Beck, Teboulle: A fast iterative shrinkage-thresholding algorithm, 2009.
    O'Donoghue, Candès: Adaptive restart for accelerated gradient schemes, 2015.
    """

    takes: ClassVar[object] = Objective
    takes_weakly_convex: ClassVar[bool] = True

    epochs: int = 100_000
    tol: float = 1e-12
    check_every: int = 10
    eval_every: int = 10

    def bind(self, problem: Objective) -> _Accelerated:
        return _Accelerated(problem)


def stationary(problem: Objective, mapping: float = 1e-12) -> Callable[[Result], bool]:
    """A callback that ends a run at ‖G(x)‖ ≤ mapping·max(1, ‖G(0)‖), for reference solutions.

    A gradient mapping of 1e-12 means an accuracy of about 1e-24 in P, which no difference of objectives
    can show.
    """
    level = mapping * max(1.0, problem.gradient_mapping(np.zeros(problem.shape)))
    return lambda result: problem.gradient_mapping(result.x) <= level


class _Accelerated(Method):
    def __init__(self, problem: Objective) -> None:
        super().__init__(problem)
        self.safe_step = 1.0 / problem.smoothness.L_f
        self.schedule = lambda epoch: self.safe_step

    def start(self, x0: Array) -> State:
        return {"x": x0, "y": x0, "momentum": np.ones(1)} | saved(cold(self.problem))

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        momentum = float(state["momentum"][0])
        warm, y = WarmStart.of(state), state["y"]
        x, y, momentum, warm = accelerated(self.problem, warm, state["x"], y, momentum, step)
        new = {"x": x, "y": y, "momentum": np.array([momentum])}
        return Epoch(new | saved(warm), self.problem.n, 1)

    def columns(self, state: State) -> dict[str, float]:
        return columns(state)


def accelerated(
    problem: Objective, warm: WarmStart | None, x: Array, y: Array, momentum: float, step: float
) -> tuple[Array, Array, float, WarmStart | None]:
    """One iteration from x and y: x⁺, y⁺ and θ⁺, and the warm start of the next prox."""
    point = y - step * problem.gradient(y)
    after, warm = taken_from(problem, warm, y, point, step, with_ridge=False)
    if np.vdot(y - after, after - x) > 0:  # the momentum points uphill: restart
        momentum = 1.0
    larger = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
    return after, after + ((momentum - 1.0) / larger) * (after - x), float(larger), warm
