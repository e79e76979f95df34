"""The server's side of a round: it combines the clients' models into the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from reshuffle.engines import Reply, Task
from reshuffle.errors import InputError
from reshuffle.federated.downlink import Allowed, in_fewer_bytes
from reshuffle.federated.extrapolation import (
    ResidualMonitor,
    check_slots,
    extrapolated,
    remembered,
    slots,
)
from reshuffle.federated.replies import Letter, Said, Take, Unusable
from reshuffle.federated.transport import PLACES, VALUES, Transport
from reshuffle.objective import Array
from reshuffle.solvers.method import State

Prox = Callable[[Array, float], Array]


class Server:
    """Combines the clients' models. A server object is stateless: everything that it remembers between rounds is in the state.

    ``prox`` is that of R (with the ridge, if the clients' steps leave it out), ``totals`` are τ_m/γ, the lengths of
    the clients' epochs, and ``transport`` is the form in which replies travel (None for float64).
    """

    needs_all: ClassVar[bool] = False
    """Whether a round needs the models of all clients."""

    sums_only: ClassVar[bool] = False
    """Whether this class uses only the sum of the replies, so that secure sums suffice; a subclass must set this itself."""

    may_round: ClassVar[bool] = False
    """Whether the next round may begin at a rounded x; a subclass must set this itself."""

    device: ClassVar[str] = ""
    """What a session on a device must have for ``aboard``: "mean" or "exact"; empty if no round can be made there."""

    adds_up: ClassVar[bool] = False
    """Whether replies are added up as they come, and ``add_up`` makes a step of their sum instead of ``step``."""

    def __init__(self, prox: Prox, totals: Array, transport: Transport | None = None) -> None:
        self.prox, self.totals, self.transport = prox, totals, transport

    def start(self, x0: Array) -> State:
        return {"x": x0}

    def restarted(self, state: State) -> State:
        """The state from which all clients begin anew at x."""
        return self.start(state["x"])

    def message(self, state: State) -> Array:
        """The array that is sent to every client: x, unless a method sends more."""
        return state["x"]

    def controls(self, state: State) -> Array | None:
        """The control variates that are sent along, a row for each client; None for a method without them."""
        return None

    def shortened(self, state: State, step: float) -> float:
        """γ of the next round, if the server has found that the chosen one is too long."""
        return step

    def stalled(self, state: State) -> str:
        """The reason why no further round would change anything; empty if rounds still do."""
        return ""

    def rejects(self, state: State, objective: float) -> bool:
        """Whether x of this state, where P is ``objective``, is a trial point that is worse than the last one."""
        return False

    def model_decrease(self, state: State) -> float:
        """The decrease of P that the last model of P promised; infinite before the first model, 0 for a server without models."""
        return 0.0

    def doubts(self, state: State) -> str:
        """Advice for the user if the model of this state may be far off; empty otherwise."""
        return ""

    def letter(self, state: State) -> Letter:
        """Further numbers and texts for all clients, and for each."""
        return {} if self.transport is None else {"transport": self.transport.name}, {}

    def traffic(self, state: State, task: Task) -> tuple[int, int]:
        """The bytes to and from the clients of the messages that a round on a device stands for."""
        clients = list(task.clients)
        return task.nbytes(clients), len(clients) * task.x.nbytes

    def aboard(self, state: State, session: Any, task: Task) -> State:
        """The state after a round that is made on a device."""
        raise NotImplementedError

    def reply_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the model in a reply, from the one that the local work names."""
        return shape if self.transport is None else (0,)

    def takes(self, task: Task) -> Take | None:
        """How replies to a task are read, before they are added up or kept; None if they are models as they come."""
        return None if self.transport is None else partial(self.read, task, self.transport)

    def read(self, task: Task, transport: Transport, reply: Reply) -> Reply:
        """The reply with what was packed in it as its model."""
        return unpacked(transport, reply, task.x.shape)

    def add_up(self, state: State, total: Array, said: Said, step: float, number: int) -> State:
        """The next state of a server that ``adds_up``, from Σ_m of the replies and what came with them."""
        raise NotImplementedError

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        """The next state, from the models in the order of the clients; a dict of them may be emptied on the way."""
        raise InputError(f"{type(self).__name__} must have step(state, models, step)")

    def check_state(self, state: State) -> None:
        """Refuse a saved state that no run can have; see ``Method.check_state``."""
        return  # Most servers have nothing to refuse.

    def rounded(self, state: State, new: State, allowed: Allowed) -> State:
        """The state after ``state``, its x rounded so that it travels in fewer bytes (see ``downlink``)."""
        return new | {"x": in_fewer_bytes(new["x"], state["x"], allowed)}

    def consensus(self, models: Mapping[int, Array], step: float) -> Array:
        """prox_{γ(S/M)R}( (1/M) Σ_m x_m ), the prox of R + consensus on the product space."""
        total = np.zeros_like(next(iter(models.values())))
        # Models are added one after the other, so that the sum is the same on every engine.
        for model in models.values():
            total += model
        return self.agreed(self.combined(total) / len(models), list(models), step)

    def agreed(self, mean: Array, clients: Sequence[int], step: float) -> Array:
        """``consensus`` from the mean of these clients' models."""
        length = step * (self.totals[list(clients)].sum() / len(clients))
        return self.prox(mean, length)

    def combined(self, total: Array) -> Array:
        """Hook: transforms Σ_m x̂_m before it is divided and the prox is taken. The default is the identity."""
        return total


def unpacked(transport: Transport, reply: Reply, shape: tuple[int, ...]) -> Reply:
    """The reply with its packed parts as the model, of this shape."""
    try:
        found = transport.unpack(reply.more, shape, reply.round)
    except ValueError as error:
        raise Unusable(str(error)) from None
    rest = {name: part for name, part in reply.more.items() if name not in (VALUES, PLACES)}
    return replace(reply, model=found, more=rest)


class Averaging(Server):
    """x⁺ = prox_{γ(S/M)R}( mean_m x̂_m ), where clients may send x̂_m - x packed so that its mean is right."""

    sums_only = True
    may_round = True

    @property
    def device(self) -> str:  # type: ignore[override]
        return "mean" if type(self).step is Averaging.step else ""

    def aboard(self, state: State, session: Any, task: Task) -> State:
        return {"x": self.agreed(session.mean(task), task.clients, task.step)}

    def read(self, task: Task, transport: Transport, reply: Reply) -> Reply:
        found = super().read(task, transport, reply)
        return replace(found, model=task.x + found.model)

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        return {"x": self.consensus(models, step)}


class ControlVariates(Server):
    """x⁺ = prox_{γ(S/M)R}( mean_m (x̂_m - τ_m h_m) ),   h_m ← h_m + (x⁺ - x̂_m)/τ_m."""

    needs_all = True
    may_round = True

    def start(self, x0: Array) -> State:
        return {"x": x0, "controls": np.zeros((self.totals.size, *x0.shape))}

    def controls(self, state: State) -> Array:
        return state["controls"]

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        h, lengths = state["controls"], self.lengths(state, step)
        found = np.array([models[c] for c in models])
        x = self.consensus(dict(enumerate(found - lengths * h)), step)
        return {"x": x, "controls": h + (x - found) / lengths}

    def lengths(self, state: State, step: float) -> Array:
        """τ_m = γ·totals_m, a row for each client."""
        return (step * self.totals).reshape(-1, *[1] * state["x"].ndim)


class Paced(Server):
    """A server that remembers ``memory`` rounds; an ``adaptive`` one shortens γ if the residual shows that it is too long."""

    def __init__(
        self,
        prox: Prox,
        totals: Array,
        memory: int,
        adaptive: bool = False,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(prox, totals, transport)
        self.memory, self.adaptive = memory, adaptive

    def shortened(self, state: State, step: float) -> float:
        return step * ResidualMonitor.of(state).factor

    def doubts(self, state: State) -> str:
        return ResidualMonitor.of(state).doubts

    def paced(
        self, state: State, residual: float, before: float | None
    ) -> tuple[ResidualMonitor, str]:
        """The history with this residual, and the reason why the step should be halved (see ``ResidualMonitor.trouble``)."""
        pace = ResidualMonitor.of(state).after(residual)
        return pace, pace.trouble(residual, before) if self.adaptive else ""


class Extrapolated(Paced, ControlVariates):
    """Control variates, extrapolated over the last rounds; for a constant γ.

    The z_m = x̂_m - τ_m h_m determine a round: x⁺ = prox(mean z), h_m = (x⁺ - z_m)/τ_m. So a round
    is a map z ← T(z), whose fixed point is extrapolated from ``memory`` rounds (see ``extrapolation``).

    If the residual shows that γ is too long (``ResidualMonitor``), an ``adaptive`` server halves it, keeps x and
    the h_m, and begins anew.

    A set of all z_m is M·d numbers. The state holds 2·``memory`` + 1 of them, and a step needs three more.
    """

    may_round = True

    def start(self, x0: Array) -> State:
        return super().start(x0) | self._slots(x0, [], []) | {"pace": np.array(ResidualMonitor())}

    def check_state(self, state: State) -> None:
        check_slots(state, self.memory, "image", "residual")

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        x, h, lengths = state["x"], state["controls"], self.lengths(state, step)
        image, residual = _taken(models, x, h, lengths)
        images = [*remembered(state, "image", self.memory), image]
        residuals = [*remembered(state, "residual", self.memory), residual]
        before = _norm(residuals[0]) if len(residuals) == 2 else None
        pace, trouble = self.paced(state, _norm(residual), before)
        if trouble:
            z = x - lengths * h if trouble == "grew" else image
            return self._begun_anew(state, z, step, pace)
        z, kept = extrapolated(images, residuals, self.memory)
        x = self.consensus(dict(enumerate(z)), step)
        memory = self._slots(x, images[kept], residuals[kept]) | {"pace": np.array(pace)}
        return {"x": x, "controls": _controls(x, z, lengths)} | memory

    def _begun_anew(self, state: State, z: Array, step: float, pace: ResidualMonitor) -> State:
        """The state that begins anew with half the step and no memory, from the x and h_m of z."""
        x, lengths = self.consensus(dict(enumerate(z)), step), self.lengths(state, step)
        h, lengths, step = (x - z) / lengths, 0.5 * lengths, 0.5 * step
        z = x - lengths * h
        x = self.consensus(dict(enumerate(z)), step)
        return self.start(x) | {
            "controls": _controls(x, z, lengths),
            "pace": np.array(pace.anew()),
        }

    def _slots(self, x: Array, images: list[Array], residuals: list[Array]) -> State:
        shape = (self.totals.size, *x.shape)
        return slots("image", images, self.memory, shape) | slots(
            "residual", residuals, self.memory, shape
        )


def _taken(models: Mapping[int, Array], x: Array, h: Array, lengths: Array) -> tuple[Array, Array]:
    """T(z) and T(z) - z. Each model is freed after its use, so that none is held twice."""
    image, residual = np.empty_like(h), np.empty_like(h)
    taken = models.pop if isinstance(models, dict) else models.__getitem__
    for k, c in enumerate(list(models)):
        moved = lengths[k] * h[k]
        image[k] = taken(c) - moved
        residual[k] = image[k] - (x - moved)
    return image, residual


def _controls(x: Array, z: Array, lengths: Array) -> Array:
    """(x - z_m)/τ_m, which overwrites z."""
    np.subtract(x, z, out=z)
    z /= lengths
    return z


def _norm(array: Array) -> float:
    with np.errstate(over="ignore"):  # A run that diverges is reported elsewhere.
        return float(np.sqrt(sum(float(np.sum(row * row)) for row in array)))
