"""A strategy for existing Flower apps: FedAvg, followed by the prox of a penalty.

    x⁺ = prox_{τR}( Σ_m (N_m/N) x̂_m ),    τ = γ · (local steps of a client)

Clients need no change. If all of them make plain gradient steps of total length τ, the rounds have the same fixed point as
FedRR with that step: near the minimiser, but not the minimiser itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from reshuffle.engines.flower.records import received
from reshuffle.errors import ClientError, InputError
from reshuffle.objective import check_penalty
from reshuffle.validation import check_finite, check_positive

logger = logging.getLogger("reshuffle")


class ProxFedAvg(FedAvg):
    """FedAvg with a penalty: sums in an order that does not change, takes all replies or none, then applies the prox.

    Parameters
    ----------
    penalty : a penalty of this package, or an object with ``prox(x, step)``. It is applied to each penalised array by itself.
    length : τ, the sum of the sizes of a client's local steps in a round.
    penalised : the names of the arrays to which the penalty applies, by default all. Leave intercepts out.
    order_by : the key of a client's number in its ``MetricRecord``, by which models are added up. By default they are
        added by node id, which is the same in every round, but changes whenever a node without a registered key is
        restarted.
    partial : average those that answered instead of raising ``ClientError``. That solves another problem in that round.
    settings : further arguments, which go to ``FedAvg``.
    """

    def __init__(
        self,
        penalty: object,
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
        self._shapes: dict[str, tuple[int, ...]] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Do what FedAvg does, and remember which nodes are asked and the shapes of the arrays."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._asked = {message.metadata.dst_node_id for message in messages}
        self._shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The weighted mean of the models in order, then the prox."""
        given = list(replies)
        good, refused = self._sound([reply for reply in given if not reply.has_error()])
        for why in refused:
            logger.warning("round %d: a reply is refused: %s", server_round, why)
        missing = sorted(self._asked - set(map(_node, good)))
        told = [str(reply.error.reason) for reply in given if reply.has_error()]
        reasons = "; ".join(told + refused)
        if missing and not self.partial:
            raise ClientError(
                f"round {server_round}: {len(missing)} of {len(self._asked)} nodes have not answered: "
                f"{', '.join(map(str, missing))} ({reasons or 'no reply'}); partial=True averages the others",
                missing,
            )
        if good and not sum(self._examples(reply) for reply in good) > 0:
            raise ClientError(
                f"round {server_round}: {self.weighted_by_key!r} is 0 at all nodes, so that there is no mean",
                sorted(map(_node, good)),
            )
        arrays, metrics = super().aggregate_train(server_round, self._ordered(good))
        return None if arrays is None else self._shrunk(arrays), metrics

    def _sound(self, replies: Sequence[Message]) -> tuple[list[Message], list[str]]:
        """The replies that can be averaged, and for each other node the reason why its reply cannot."""
        nodes, shapes = list(map(_node, replies)), dict(self._shapes)
        good: list[Message] = []
        refused: dict[int, str] = {}
        for reply in sorted(replies, key=_node):
            try:
                if self._asked and _node(reply) not in self._asked:
                    raise InputError("it was not asked")
                if nodes.count(_node(reply)) > 1:
                    raise InputError("it answered twice")
                shapes = self._checked(reply, shapes)
                good.append(reply)
            except InputError as error:
                refused[_node(reply)] = str(error)
        return good, [f"node {node}: {why}" for node, why in refused.items()]

    def _checked(
        self, reply: Message, shapes: dict[str, tuple[int, ...]]
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of a reply's arrays, which must be ``shapes`` where these are known."""
        self._examples(reply)
        found: dict[str, tuple[int, ...]] = {}
        for record in reply.content.array_records.values():
            for name, array in record.items():
                numbers = received(name, array)
                check_finite(f"the array {name!r}", numbers)
                found[name] = numbers.shape
        if shapes and found != shapes:
            raise InputError(f"its arrays must have the shapes {shapes}, got {found}")
        return found

    def _examples(self, reply: Message) -> float:
        for weight in _numbers(reply, self.weighted_by_key):
            if 0 <= weight < inf:
                return weight
        raise InputError(f"its metrics must have {self.weighted_by_key!r}, a number of at least 0")

    def _ordered(self, replies: Sequence[Message]) -> list[Message]:
        """The replies in the order in which they are added up, which must not depend on chance."""
        found = sorted(replies, key=self._place)
        for one, other in pairwise(found):
            if not self._place(one) < self._place(other):
                raise InputError(
                    f"order_by: {self.order_by!r} must be another number at each node, and {_node(one)} and {_node(other)} "
                    f"say {self._place(one)} and {self._place(other)}"
                )
        return found

    def _place(self, reply: Message) -> float:
        if self.order_by is None:
            return _node(reply)
        for place in _numbers(reply, self.order_by):
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


def _node(reply: Message) -> int:
    return reply.metadata.src_node_id


def _numbers(reply: Message, key: str) -> list[float]:
    """The numbers of this key in the metrics of a reply."""
    found = [record.get(key) for record in reply.content.metric_records.values()]
    return [number for number in found if isinstance(number, (int, float))]
