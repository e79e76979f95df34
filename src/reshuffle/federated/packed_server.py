"""The server of ExactFedRR whose clients send residuals in fewer bytes."""

from __future__ import annotations

from dataclasses import replace

from reshuffle.engines import Plain, Reply
from reshuffle.federated.client_state_server import ClientStateServer, Sums
from reshuffle.federated.replies import Unusable
from reshuffle.federated.server import Prox
from reshuffle.federated.transport import PLACES, VALUES, Transport, name_of
from reshuffle.objective import Array
from reshuffle.solvers.method import State


class PackedServer(ClientStateServer):
    """The sums of ``ClientStateServer``, of residuals that are unpacked as they come."""

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


class PackedSums(Sums):
    """Adds up residuals as they are unpacked."""

    def __init__(self, shape: tuple[int, ...], shares: Array, transport: Transport) -> None:
        super().__init__(shape, shares)
        self.shape, self.transport = shape, transport

    def take(self, reply: Reply) -> Reply:
        try:
            residual = self.transport.unpack(reply.more, self.shape, reply.round)
        except ValueError as error:
            raise Unusable(str(error)) from None
        rest = {name: part for name, part in reply.more.items() if name not in (VALUES, PLACES)}
        return super().take(replace(reply, model=residual, more=rest))
