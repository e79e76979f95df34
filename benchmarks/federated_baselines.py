"""SCAFFOLD and Scaffnew on the package's own driver: a local part, a server, a default step each.

Both also with the server of ExactFedRR, which extrapolates over the last rounds: what is then left between the methods is what
the clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from reshuffle.errors import InputError
from reshuffle.federated import Federation
from reshuffle.federated.accelerated import Accelerated
from reshuffle.federated.anderson import extrapolated
from reshuffle.federated.local import Load, Local, LocalEpoch
from reshuffle.federated.rounds import Plan
from reshuffle.federated.server import ControlVariates, Prox, Server
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.kernels.passes import gradient_kernel
from reshuffle.objective import Array, FiniteSum
from reshuffle.orders import shuffled
from reshuffle.problem import Problem
from reshuffle.randomness import Stream, generator
from reshuffle.solvers.memory import memory_of
from reshuffle.solvers.method import State
from reshuffle.solvers.sampling import inverse

NONE = np.empty(0, dtype=np.uint32)


# --- local work ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drifting(Local):
    """One reshuffled pass along ∇f_i(x) - h_m; the ridge's part, which changes little, is that at y."""

    seed: int

    def load(self, client: FiniteSum) -> Load:
        return Load(client.n, client.n, client.smoothness.L_max)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        memory = memory_of(client, NONE, client.weights)
        slopes = memory.start(np.zeros(client.shape))["table"]

        def epoch(
            x: Array, step: float, number: int, stream: Stream, control: Array | None
        ) -> Array:
            assert control is not None
            # the exact method's block, along differences to slopes that are zero
            q = -control
            q[: client.features] += client.ridge * x[: client.features]
            state = {"table": np.zeros_like(slopes), "q": q}
            visits = shuffled(np.arange(client.n, dtype=np.uint32), stream.at(position))
            y = x.copy()
            memory.block(state, y, visits, 0, client.n, factor * step)
            return y - factor * step * client.n * q

        return epoch


@dataclass(frozen=True)
class Descent(Local):
    """Full-gradient steps along ∇f_m(x) - h_m: a number of them, or one that is drawn each round."""

    seed: int
    steps: float
    """Their number, or 1/p where they go on until a coin with probability p says stop."""
    drawn: bool

    def count(self, number: int) -> int:
        """The same for all clients."""
        if not self.drawn:
            return max(round(self.steps), 1)
        return int(generator(self.seed, number, 2).geometric(1.0 / self.steps))

    def gradients(self, visits: int, samples: int, number: int) -> int:
        return samples * self.count(number)

    def load(self, client: FiniteSum) -> Load:
        return Load(0, self.steps, client.smoothness.L_f)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        assert isinstance(client, Problem)
        fit = client.datafit
        descend, data, scratch = _descend(fit.stamp), fit.arrays, fit.scratch()

        def epoch(
            x: Array, step: float, number: int, stream: Stream, control: Array | None
        ) -> Array:
            y, count, penalised = x.copy(), self.count(number), client.features
            descend(data, y, control, client.ridge, penalised, factor * step, count, scratch)
            return y

        return epoch


@cache
def _descend(stamp: int) -> Any:
    """The steps of a round in one call: y ← y - γ(∇f_m(y) - h_m)."""
    gradient = gradient_kernel(stamp)

    @njit(nogil=True)
    def descend(data, y, h, ridge, penalised, step, count, scratch):  # type: ignore[no-untyped-def]
        for _ in range(count):
            g = -h
            g[:penalised] += ridge * y[:penalised]
            gradient(*data, y, scratch, 1.0 / data[3].size, g)
            y -= step * g

    return descend


# --- methods -------------------------------------------------------------------------------------


class ScaffoldServer(ControlVariates):
    """x⁺ = prox(mean_m y_m); c_m ← c_m - c + (x - y_m)/τ_m (option II), c their mean; h_m = c_m - c."""

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        found = np.array([models[m] for m in models])
        c = state["controls"] + (state["x"] - found) / self.lengths(state, step)
        shares = self.totals / self.totals.sum()
        mean = sum(share * one for share, one in zip(shares, c, strict=True))
        return {"x": self.consensus(models, step), "controls": c - mean}


class AcceleratedScaffold(ScaffoldServer):
    """The same, extrapolated over the last rounds: a round is a map of (x, h_1, …, h_M)."""

    def __init__(self, prox: Prox, totals: Array, memory: int) -> None:
        super().__init__(prox, totals)
        self.memory = memory

    def start(self, x0: Array) -> State:
        state = super().start(x0)
        empty = np.empty((0, 1 + self.totals.size, *x0.shape))
        return state | {"images": empty, "residuals": empty}

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        new, lengths = super().step(state, models, step), self.lengths(state, step)

        def together(of: State) -> Array:  # in the units of x
            return np.concatenate([of["x"][None], lengths * of["controls"]])

        images = np.concatenate([state["images"], together(new)[None]])
        residual = images[-1] - together(state)
        residuals = np.concatenate([state["residuals"], residual[None]])
        point, kept = extrapolated(images, residuals, self.memory)
        memory = {"images": images[kept], "residuals": residuals[kept]}
        return {"x": point[0], "controls": point[1:] / lengths} | memory


@dataclass(frozen=True, kw_only=True)
class Controlled(FederatedSolver):
    """What the two have in common: all clients take part, and γ = 1/L.

    ``acceleration`` is the number of rounds that the server extrapolates over.
    """

    acceleration: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.participation < 1 or self.on_missing == "average":
            raise InputError(f"{type(self).__name__} is here for full participation only")

    def default_step(self, federation: Federation, work: Plan) -> float:
        return inverse(work.smoothness)


@dataclass(frozen=True, kw_only=True)
class Scaffold(Controlled):
    """SCAFFOLD (Karimireddy et al. 2020), option II, global step 1.

    ``local_steps`` full-gradient steps per round, or one local pass of single samples (in an order drawn
    anew each round, which leaves acceleration little to go by). With R = 0 the former goes to the solution; a prox of R on the server leaves a drift, since ∇f(x*) is not zero.
    """

    local_steps: int | None = None

    def local(self, federation: Federation) -> Local:
        if self.local_steps is None:
            return Drifting(self.seed)
        return Descent(self.seed, self.local_steps, drawn=False)

    def server(self, federation: Federation, work: Plan) -> Server:
        if self.acceleration:
            return AcceleratedScaffold(federation.prox, work.totals, self.acceleration)
        return ScaffoldServer(federation.prox, work.totals)


@dataclass(frozen=True, kw_only=True)
class Scaffnew(Controlled):
    """Scaffnew, that is ProxSkip (Mishchenko et al. 2022): gradient steps, a round with probability p.

    ``communication`` is p; default √(μ/L), the optimal order, with γ = 1/L. Accelerated, every round has 1/p steps.
    """

    communication: float | None = None

    def local(self, federation: Federation) -> Local:
        p = self.communication
        if p is None:
            largest = max(client.smoothness.L_f for client in federation.clients)
            p = min(1.0, float(np.sqrt(federation.strong_convexity / largest)))
        # a number of steps that is drawn makes another map of every round
        return Descent(self.seed, 1.0 / p, drawn=not self.acceleration)

    def server(self, federation: Federation, work: Plan) -> Server:
        if self.acceleration:
            return Accelerated(federation.prox, work.totals, self.acceleration)
        return ControlVariates(federation.prox, work.totals)
