"""The exact method on a graphics card for losses of several outputs: Newton steps, or L-BFGS if there are many coordinates.

Newton's model of features × outputs coordinates is minimised on the processor. Beyond ``MANY`` of them a ridge is needed: L-BFGS
in the metric of one block for each output (``quasi_newton``), computed from a sample of rows, with passes on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import DeviceOutputs
from reshuffle.objective import Array
from reshuffle.solvers.exact.decrement import STALLED
from reshuffle.solvers.exact.device_newton import SMALL, DeviceNewton, key_of
from reshuffle.solvers.exact.newton_on_device import NewtonOnDevice
from reshuffle.solvers.exact.quasi_newton import QuasiNewton
from reshuffle.solvers.method import Epoch, State
from reshuffle.solvers.second_order import Linearisation, SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

ROWS_OF_BLOCKS = 100
"""The rows in the sample for each column of a block: its error is then about a tenth, and it costs less than an iteration."""
NOTHING = np.empty(0)


class KeptPasses(SecondOrder):
    """Passes of Newton steps on a device, which keep the last ones."""

    def __init__(self, newton: DeviceNewton) -> None:
        self.newton, self._made = newton, 0

    @property
    def passes(self) -> int:
        return self._made

    def linearise(self, x: Array) -> Linearisation:
        at = self.newton.at(x)
        self._made += 1
        return Linearisation(x, NOTHING, at.slopes, NOTHING, at.gradient, at.value)


class DeviceQuasiNewton(QuasiNewton):
    """L-BFGS whose passes are made on the device."""

    block_cost = 0.0
    """Zero, because blocks of a sample of rows cost less than a pass."""

    def __init__(self, newton: DeviceNewton, seed: int) -> None:
        super().__init__(newton.problem, KeptPasses(newton))
        self.newton, self.seed = newton, seed

    def grams(self, at: Linearisation, shared: bool) -> Iterator[Array]:
        samples = self.newton.samples
        if not isinstance(samples, DeviceOutputs):
            raise TypeError("a metric of blocks is for several outputs")
        wanted = ROWS_OF_BLOCKS * samples.width
        if not samples.loss.quadratic and 2 * wanted <= samples.n:
            samples = samples.sample(wanted, key_of(self.seed, 1))
        found = samples.blocks(at.x)
        if len(found) == 1 and not shared:
            return (found[0].copy() for _ in range(self.l2.shape[1]))
        return iter(found.mean(axis=0, keepdims=True) if shared else found)

    def inverse(self, H: Array) -> Array:
        if len(H) <= SMALL:
            return super().inverse(H)
        return self.newton.samples.device.solve(H, np.eye(len(H)))


class OutputsByLBFGS(NewtonOnDevice):
    """``ExactProxRR`` on a device, where ψ is a ridge: an epoch is a call of L-BFGS. The state: x, and the calls so far."""

    def __init__(self, solver: ExactProxRR, problem: DeviceProblem) -> None:
        super().__init__(solver, problem)
        self.header |= {"step": "L-BFGS's", "phases": "lbfgs on the device"}
        self.lbfgs = DeviceQuasiNewton(self.newton, solver.seed)

    def start(self, x0: Array) -> State:
        x = super().start(x0)["x"]
        return {"x": x, "calls": np.array([0.0 if not x.any() else 1.0])}

    def solved(self, problem: DeviceProblem, x: Array, enough: float) -> tuple[Array, float]:
        lbfgs = DeviceQuasiNewton(DeviceNewton(problem, self.solver.seed), self.solver.seed)
        found = lbfgs.descend(x, not x.any(), lambda at: True, enough)
        return found.at.x, found.passes

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """One call, until the duality gap is small enough. In a first call from zero all classes share one block."""
        tol, calls = self.solver.tol, float(state["calls"][0])

        def enough(at: Linearisation) -> bool:
            return bool(self.certify({"x": at.x}).value <= tol)

        target = tol * abs(self.newton.samples.at_zero)
        found = self.lbfgs.descend(state["x"], calls == 0.0, enough, target)
        stalled = "" if found.iterations else STALLED
        new = {"x": found.at.x, "calls": np.array([calls + 1.0])}
        return Epoch(new, found.passes * self.problem.n, found.iterations, 1.0, stalled)

    def columns(self, state: State) -> dict[str, float]:
        return {}
