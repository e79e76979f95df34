"""The exact method on a graphics card: Newton steps on growing samples, then on all rows, with a duality gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import InputError
from reshuffle.gpu import DeviceOutputs, StreamedSamples
from reshuffle.gpu.samples import Pass
from reshuffle.objective import Array
from reshuffle.solvers.exact.decrement import STALLED
from reshuffle.solvers.exact.device_models import HessianAt
from reshuffle.solvers.exact.device_newton import key_of
from reshuffle.solvers.exact.sparse_device_newton import device_newton_of
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.newton_model import within
from reshuffle.solvers.second_order import Linearisation

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

GROWS = 16
"""Each sample at the start has this many times fewer rows than the next, so that all samples together cost little beside all rows."""
FEWEST = 40
"""Rows of the smallest sample for each column: P at its minimiser is above the minimum by about a percent of f(0)."""
SMALLEST = 10_000
"""With fewer rows than this there are no samples, because Newton steps on all rows take no time."""
KNOWN = 1.0
"""Steps on a sample of m rows end when one promises less than this many times (d/m)·f(0), the error of the sample."""
STEPS = 20
"""The most steps on a sample."""
FINE = 2
"""Passes over all rows that a pass with all digits takes."""


class MethodOnDevice(Method):
    """``ExactProxRR`` on a device: steps of length 1, by passes that give P(x) and what the certificate needs."""

    keeps_best = True

    def __init__(self, solver: ExactProxRR, problem: DeviceProblem, step: str, phase: str) -> None:
        super().__init__(problem, solver)
        self.problem: DeviceProblem = problem
        self.schedule = lambda epoch: 1.0
        self.header = {"step": step, "certificate": self.measure.meaning, "phases": f"{phase} on the device"}  # fmt: skip

    def start(self, x0: Array) -> State:
        if not np.isfinite(at_zero := self.problem.datafit.at_zero):
            raise InputError(
                f"f(0) is {at_zero}: the losses overflow; bring y (or the columns of X) nearer to 1"
            )
        return {"x": x0.copy()}

    def measured(self, x: Array, at: Pass | Linearisation, gradient: Array) -> float:
        """The certificate at x, from a pass there."""
        value = at.value + self.problem.ridge_at(x)
        return self.measure.from_slopes(x, at.slopes, gradient, lambda: value)


class NewtonOnDevice(MethodOnDevice):
    """``ExactProxRR`` on a device. The state: x, the point of the Hessian, its number of rows, the promise of the last step, damping, the promise of
    the last hidden step, whether passes are fine, and the room that the pass at x had.

    Sums of rounded terms (``DeviceSamples.rounded``) lose small entries beside very large ones of their column. If a run would end by
    them, with a small gap or because no step helps, passes that sum all digits check this, and the run goes on with these if they disagree.
    """

    _is_fine = False

    def __init__(self, solver: ExactProxRR, problem: DeviceProblem) -> None:
        super().__init__(solver, problem, "Newton's", "newton")
        self.newton = device_newton_of(problem, solver.seed)

    def start(self, x0: Array) -> State:
        """At x0, or (from zero) at the minimiser of a sample."""
        x, form = super().start(x0)["x"], self.problem.form_with_ridge
        if form is not None:
            x = within(form, x)
        if not np.isfinite(self.problem.penalty.value(x[: self.problem.features])):
            x = self.problem.prox(x, 1.0)
        if not x0.any():
            x = self._sampled(x)
        return self._state(x, HessianAt(x, self.newton.first_rows))

    def _sampled(self, x: Array) -> Array:
        """The minimiser of a sample, found from that of a smaller sample."""
        samples, worked = self.newton.samples, 0.0
        columns = self.newton.columns
        least, size = max(FEWEST * columns, SMALLEST), samples.n // GROWS
        sizes = []
        while size >= least:
            sizes.append(size)
            size //= GROWS
        for level, count in enumerate(reversed(sizes)):
            part = samples.sample(count, key_of(self.solver.seed, 2 + level))
            enough = KNOWN * columns / count * abs(part.at_zero or 1.0)
            x, passes = self.solved(self.problem.with_samples(part), x, enough)
            worked += passes * count
        self.start_gradients = round(worked)
        return x

    def solved(self, problem: DeviceProblem, x: Array, enough: float) -> tuple[Array, float]:
        """The minimiser of another problem, and the passes made: steps from x until one promises at most ``enough``."""
        newton, passes = device_newton_of(problem, self.solver.seed), 0.0
        model = HessianAt(x, newton.first_rows)
        for _ in range(STEPS):
            done = newton.step(x, model)
            x, model, passes = done.x, done.model, passes + done.passes
            if done.stuck or model.promised <= enough:
                break
        return x, passes

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        rows, promised, damping, hidden, fine = state["newton"].tolist()
        if fine and not self._is_fine:
            return self.finely.advance(state, epoch, step)
        self._restore(state)
        model = HessianAt(state["bent"], int(rows), promised, damping, hidden, state["features"])
        done = self.newton.step(state["x"], model)
        made = round(done.passes * self.problem.n)
        new = self._state(done.x, done.model)
        if done.stuck and self.newton.samples.rounded:
            return Epoch(self._made_fine(new), made, done.rounds, 1.0)
        return Epoch(new, made, done.rounds, 1.0, STALLED if done.stuck else "")

    def _state(self, x: Array, model: HessianAt) -> State:
        numbers = np.array([model.rows, model.promised, model.damping, model.hidden, self._is_fine])
        state = {"x": x, "bent": model.x, "newton": numbers, "features": model.features}
        return state | {"room": self.newton.at(x).room}

    def _restore(self, state: State) -> None:
        """Restore the room that the pass at x had, so that a resumed run has the same bits."""
        if "room" in state:
            self.newton.samples.make_room(state["room"])

    def _made_fine(self, state: State) -> State:
        """The state at the same x for fine passes; nothing is known of their steps yet."""
        return {**state, "newton": np.array([state["newton"][0], np.inf, 0.0, np.inf, 1.0])}

    @cached_property
    def finely(self) -> NewtonOnDevice:
        """This method with passes that sum all digits."""
        samples = self.newton.samples
        if isinstance(samples, DeviceOutputs):
            raise TypeError("sums over several outputs are never rounded")
        made = type(self)(self.solver, self.problem.with_samples(samples.finely()))
        made._is_fine = True
        return made

    def certify(self, state: State) -> Check:
        """The duality gap, from the slopes of the step's pass at x; the gradient mapping if there is no dual."""
        x = state["x"]
        if "newton" in state and state["newton"][4] and not self._is_fine:
            return self.finely.certify(state)
        self._restore(state)
        at = self.newton.at(x)
        measure = self.measured(x, at, at.gradient)
        if measure <= self.solver.tol and self.newton.samples.rounded:
            again = self.finely.certify(state)
            then = state if again.value <= self.solver.tol else self._made_fine(state)
            return again._replace(gradients=FINE * self.problem.n, state=then)
        return Check(measure, 0, 1, state)

    def objective(self, state: State) -> float:
        fine = "newton" in state and state["newton"][4]
        return (self.finely if fine else self).newton.height(state["x"])

    def columns(self, state: State) -> dict[str, float]:
        found = {"hessian_rows": float(state["newton"][0])}
        if isinstance(samples := self.newton.samples, StreamedSamples):
            found["disk_passes"] = samples.disk_passes
        return found
