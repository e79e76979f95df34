"""The exact method on a graphics card by L-BFGS, for a ridge on more features than a Hessian can have.

Newton steps by conjugate gradients would need a pass for each product with the Hessian; L-BFGS also takes one pass for each
iteration, but learns from all of them. The iterations are those of the processor (``quasi_newton``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu.wide_samples import wide
from reshuffle.interruption import listen
from reshuffle.objective import Array
from reshuffle.solvers.exact.decrement import STALLED
from reshuffle.solvers.exact.device_checks import way_on_device
from reshuffle.solvers.exact.device_newton import key_of
from reshuffle.solvers.exact.lbfgs_of_outputs import OutputsByLBFGS
from reshuffle.solvers.exact.newton_on_device import GROWS, SMALLEST, MethodOnDevice, NewtonOnDevice
from reshuffle.solvers.exact.quasi_newton import Descended, QuasiNewton
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.second_order import Linearisation, SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

ROUGH = 1e-2
"""Iterations on a sample end at this accuracy, over f(0): with so many features, a sixteenth of the rows hardly determines the minimum better."""

NO_MARGINS = np.empty(0)


@dataclass(eq=False)
class DeviceSecondOrder(SecondOrder):
    """The methods of ``SecondOrder`` that ``QuasiNewton`` calls, by passes over samples on a device."""

    fit: Any
    """``WideSamples``, whose arrays lie on the device instead of the processor."""
    made: int = 0
    """Passes over all rows so far."""

    @property
    def passes(self) -> int:
        return self.made

    def linearise(self, x: Array) -> Linearisation:
        listen()
        self.made += 1
        value, gradient, slopes, bends = self.fit.linearised(x)
        return Linearisation(x, NO_MARGINS, slopes, bends, gradient, value)

    def hessian_product(self, at: Linearisation, v: Array) -> Array:
        listen()
        self.made += 1
        found: Array = self.fit.product(at.curvatures, v)
        return found

    def mean_curvature(self, at: Linearisation) -> float:
        total, n = float(self.fit.weighted(at.curvatures).sum()), int(self.fit.n)
        return total / n

    def array(self, numbers: Array) -> Array:
        found: Array = self.fit.device.put(numbers, np.float64)
        return found

    def dot(self, a: Array, b: Array) -> float:
        return float((a * b).sum())


class LBFGSOnDevice(MethodOnDevice):
    """``ExactProxRR`` on a device, where ψ is a ridge. The state: x."""

    def __init__(self, solver: ExactProxRR, problem: DeviceProblem) -> None:
        super().__init__(solver, problem, "L-BFGS", "lbfgs")
        self.descent = descent_on(problem)
        self._last: tuple[Array, Linearisation] | None = None

    def start(self, x0: Array) -> State:
        """At x0, or (from zero) near the minimiser of a sample."""
        x, samples = super().start(x0)["x"], self.problem.datafit
        count = samples.n // GROWS
        if not x0.any() and count >= SMALLEST:
            part = self.problem.with_samples(samples.sample(count, key_of(self.solver.seed, 2)))
            found = self._call(descent_on(part), x, lambda at: True, ROUGH)
            x = np.asarray(samples.device.get(found.at.x))
            self.start_gradients = found.passes * count
        return {"x": x}

    def _call(self, descent: QuasiNewton, x: Array, enough: Any, tol: float) -> Descended:
        at_zero = abs(self.problem.datafit.at_zero or 1.0)
        return descent.descend(descent.second_order.array(x), False, enough, tol * at_zero)

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """One call, until the duality gap is small enough or no step lowers P."""
        x, tol = state["x"], float(self.solver.tol)
        found = self._call(self.descent, x, lambda at: self._gap(at) <= tol, tol)
        new = np.asarray(self.problem.datafit.device.get(found.at.x))
        self._last = new, found.at
        stalled = STALLED if not found.iterations and not self._gap(found.at) <= tol else ""
        return Epoch({"x": new}, found.passes * self.problem.n, found.iterations, 1.0, stalled)

    def _gap(self, at: Linearisation) -> float:
        """The certificate at a point, from the slopes of the pass that was made there."""
        get = self.problem.datafit.device.get
        return self.measured(np.asarray(get(at.x)), at, np.asarray(get(at.gradient)))

    def certify(self, state: State) -> Check:
        return Check(self._gap(self._at(state["x"])), 0, 1, state)

    def objective(self, state: State) -> float:
        value = self._at(state["x"]).value + self.problem.ridge_at(state["x"])
        return self.problem.objective(state["x"], value)

    def _at(self, x: Array) -> Linearisation:
        """f at x; the end point of the last call needs no new pass."""
        if self._last is None or not np.array_equal(self._last[0], x):
            order = self.descent.second_order
            self._last = x, order.linearise(order.array(x))
        return self._last[1]


def descent_on(problem: DeviceProblem) -> QuasiNewton:
    """L-BFGS on the rows of a problem."""
    return QuasiNewton(problem, DeviceSecondOrder(wide(problem.datafit)))


def method_on_device(solver: ExactProxRR, problem: DeviceProblem) -> Method:
    """The method for a problem on a device."""
    if way_on_device(problem) != "lbfgs":
        return NewtonOnDevice(solver, problem)
    return (OutputsByLBFGS if problem.datafit.outputs else LBFGSOnDevice)(solver, problem)
