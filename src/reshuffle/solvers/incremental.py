"""The epoch of all shuffled and sampled methods: a sweep, which may be followed by a prox."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import StepWarning, warn_user
from reshuffle.objective import FiniteSum
from reshuffle.randomness import generator
from reshuffle.solvers.method import Epoch, Method, State
from reshuffle.solvers.prox_call import WarmStart, cold, columns, saved, taken_from
from reshuffle.solvers.sampling import Sampling
from reshuffle.steps import Schedule

WIPED_OUT = 0.05
"""If the prox leaves less than this share of the iterate's length, the step is far too long."""


class Incremental(Method):
    """An epoch: gradient steps over the visits; a prox after each of them, or one at the end."""

    instead: ClassVar[str] = ", or ExactProxRR(), which needs no step"
    """The end of the error's advice if the prox removes nearly all of the iterate."""

    def __init__(
        self,
        problem: FiniteSum,
        sampling: Sampling,
        schedule: Schedule,
        seed: int,
        prox_each_step: bool,
    ) -> None:
        super().__init__(problem)
        self.sampling, self.schedule = sampling, schedule
        self.seed, self.prox_each_step = seed, prox_each_step
        self.safe_step = 1.0 / sampling.smoothness if sampling.smoothness > 0 else np.inf

    def start(self, x0: Array) -> State:
        return {"x": x0} | ({} if self.prox_each_step else saved(cold(self.problem)))

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        sampling, x = self.sampling, state["x"].copy()
        visited = self.sweep(x, epoch, step)
        if self.prox_each_step:
            return Epoch(state | {"x": x}, visited, sampling.steps)
        if not np.isfinite(x).all():  # the sweep diverged; the loop reports it
            return Epoch(state | {"x": x}, visited, 0)
        length = step * sampling.steps
        before, start = state["x"], WarmStart.of(state)
        after, warm = taken_from(sampling.problem, start, before, x, length, with_ridge=False)
        if epoch == 0:
            self._warn_if_wiped_out(x, after, step)
        return Epoch(state | saved(warm) | {"x": after}, visited, 1)

    def sweep(self, x: Array, epoch: int, step: float) -> int:
        """The gradient steps of an epoch, which change x in place; returns the number of gradients."""
        sampling = self.sampling
        visits = sampling.visits(generator(self.seed, epoch), epoch)
        sampling.problem.sweep(
            x, visits, step, weights=sampling.weights, batch=sampling.batch, average=sampling.average,
            prox_step=step if self.prox_each_step else 0.0,
        )  # fmt: skip
        return int(visits.size)

    def columns(self, state: State) -> dict[str, float]:
        return columns(state)

    def _warn_if_wiped_out(self, before: Array, after: Array, step: float) -> None:
        features = slice(self.problem.features)
        left, moved = np.linalg.norm(after[features]), np.linalg.norm(before[features])
        if moved > 0 and left <= WIPED_OUT * moved:
            warn_user(
                f"the prox at the end of the epoch removed {1 - left / moved:.0%} of the iterate: "
                f"with step {step:.3g} its parameter step·n = {step * self.sampling.steps:.3g} is "
                f"too strong for this penalty; try step={self._bearable(before, step):.2g} or smaller"
                f"{self.instead}",
                StepWarning,
            )

    def _bearable(self, x: Array, step: float) -> float:
        """The step, halved until its prox leaves half of x (a shorter sweep would also leave a shorter x)."""
        features, n = slice(self.problem.features), self.sampling.steps
        half = 0.5 * np.linalg.norm(x[features])
        while step > 0 and np.linalg.norm(self.problem.prox(x, step * n)[features]) < half:
            step *= 0.5
        return step
