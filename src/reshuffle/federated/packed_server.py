"""Servers whose clients send residuals, or changes of models, in fewer bytes."""

from __future__ import annotations

from dataclasses import replace

from reshuffle.engines import Plain, Reply, Task
from reshuffle.federated.client_state_server import ClientStateServer, Sums
from reshuffle.federated.replies import Take, Unusable
from reshuffle.federated.server import Averaging, Prox
from reshuffle.federated.transport import PLACES, VALUES, Transport, name_of
from reshuffle.objective import Array
from reshuffle.solvers.method import State


class PackedServer(ClientStateServer):
    """A ``ClientStateServer`` that unpacks residuals as they come and adds them up."""

    may_round = True

    def __init__(
        self, prox: Prox, totals: Array, memory: int, adaptive: bool, transport: Transport
    ) -> None:
        super().__init__(prox, totals, memory, adaptive)
        self.transport = transport

    def sums(self, shape: tuple[int, ...], shares: Array) -> Sums:
        return PackedSums(shape, shares, self.transport)

    def reply_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (0,)

    def letter(self, state: State) -> tuple[dict[str, Plain], dict[int, dict[str, Plain]]]:
        more, own = super().letter(state)
        return more | {"transport": name_of(self.transport)}, own


class PackedAveraging(Averaging):
    """x⁺ = prox_{γ(S/M)R}( x + mean_m Q(x̂_m - x) ), for a Q whose mean is the identity."""

    may_round = True

    def __init__(self, prox: Prox, totals: Array, transport: Transport) -> None:
        super().__init__(prox, totals)
        self.transport = transport

    def reply_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (0,)

    def letter(self, state: State) -> tuple[dict[str, Plain], dict[int, dict[str, Plain]]]:
        return {"transport": name_of(self.transport)}, {}

    def takes(self, task: Task) -> Take:
        def take(reply: Reply) -> Reply:
            change, rest = unpacked(self.transport, reply, task.x.shape)
            return replace(reply, model=task.x + change, more=rest)

        return take


def unpacked(
    transport: Transport, reply: Reply, shape: tuple[int, ...]
) -> tuple[Array, dict[str, Plain]]:
    """The packed parts of a reply, and its other parts."""
    try:
        found = transport.unpack(reply.more, shape, reply.round)
    except ValueError as error:
        raise Unusable(str(error)) from None
    return found, {n: part for n, part in reply.more.items() if n not in (VALUES, PLACES)}


class PackedSums(Sums):
    """Adds up residuals as they are unpacked."""

    def __init__(self, shape: tuple[int, ...], shares: Array, transport: Transport) -> None:
        super().__init__(shape, shares)
        self.shape, self.transport = shape, transport

    def take(self, reply: Reply) -> Reply:
        residual, rest = unpacked(self.transport, reply, self.shape)
        return super().take(replace(reply, model=residual, more=rest))
