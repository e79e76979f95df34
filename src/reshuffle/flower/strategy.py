"""A strategy for Flower apps that exist already: FedAvg, followed by the prox of a penalty.

    x⁺ = prox_{τR}( Σ_m (N_m/N) x̂_m ),    τ = γ · (local steps of a client)

Clients go on as they are. Where all of them make plain gradient steps of total length τ, the pair has the same fixed point as
FedRR with that step: a neighbourhood of the minimiser, not the minimiser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from reshuffle.errors import ClientError, InputError
from reshuffle.objective import check_penalty
from reshuffle.validation import check_positive


class ProxFedAvg(FedAvg):
    """FedAvg with a penalty: sums in an order that does not change, takes all replies or none, then applies the prox.

    Parameters
    ----------
    penalty : of this package, or an object with ``prox(x, step)``. It is applied to each penalised array by itself.
    length : τ, the sum of the sizes of a client's local steps in a round.
    penalised : names of the arrays that the penalty is on; all where not given. Leave intercepts out.
    order_by : the key of a client's number in its ``MetricRecord``, by which models are added up. Where not given they are
        added by node id, which is the same in every round, but another one whenever a node without a registered key is
        started again.
    partial : average those that answered instead of raising ``ClientError``. That solves another problem in that round.
    settings : further arguments, which go to ``FedAvg``.
    """

    def __init__(
        self,
        penalty: Any,
        length: float,
        *,
        penalised: Sequence[str] | None = None,
        order_by: str | None = None,
        partial: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        check_positive("length", length)
        self.penalty, self.length = check_penalty(penalty), float(length)
        self.penalised = None if penalised is None else tuple(penalised)
        self.order_by, self.partial = order_by, partial
        self._asked: set[int] = set()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As FedAvg does, remembering which nodes are asked."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._asked = {message.metadata.dst_node_id for message in messages}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The weighted mean of the models in order, then the prox."""
        given = list(replies)
        good = [reply for reply in given if not reply.has_error()]
        missing = sorted(self._asked - {reply.metadata.src_node_id for reply in good})
        if missing and not self.partial:
            reasons = "; ".join(str(reply.error.reason) for reply in given if reply.has_error())
            raise ClientError(
                f"round {server_round}: {len(missing)} of {len(self._asked)} nodes have not answered: "
                f"{', '.join(map(str, missing))} ({reasons or 'no reply'}); partial=True averages the others",
                missing,
            )
        arrays, metrics = super().aggregate_train(server_round, sorted(good, key=self._place))
        return None if arrays is None else self._shrunk(arrays), metrics

    def _place(self, reply: Message) -> float:
        if self.order_by is None:
            return reply.metadata.src_node_id
        for record in reply.content.metric_records.values():
            place = record.get(self.order_by)
            if isinstance(place, (int, float)):
                return place
        raise InputError(f"order_by: a reply has no number {self.order_by!r} among its metrics")

    def _shrunk(self, arrays: ArrayRecord) -> ArrayRecord:
        names = tuple(arrays) if self.penalised is None else self.penalised
        unknown = [name for name in names if name not in arrays]
        if unknown:
            raise InputError(
                f"penalised: there is no array {unknown[0]!r}; there are {', '.join(arrays)}"
            )
        found = {name: array.numpy() for name, array in arrays.items()}
        for name in names:
            before = found[name]
            after = self.penalty.prox(before.astype(np.float64), self.length)
            found[name] = np.asarray(after).astype(before.dtype).reshape(before.shape)
        return ArrayRecord({name: Array(array) for name, array in found.items()})
