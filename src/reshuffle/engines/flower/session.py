"""Rounds over a Flower Grid: a message to each client, and its reply or the reason for its absence."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reshuffle.engines.base import Failure, Host, Reply, Task
from reshuffle.engines.flower.messages import answer_of, shortened, task_content
from reshuffle.engines.flower.nodes import Node, Nodes
from reshuffle.errors import InputError
from reshuffle.validation import check_positive

if TYPE_CHECKING:
    from flwr.app import Message

WATCH = 2.0
"""The seconds between two checks that the nodes at work are still the same processes."""
LATE = 0.1
"""How late an answer may be noticed, as a part of the time that it took: a SuperLink spends about 15 ms of CPU time on each look,
which adds up where sites train for hours."""
REMIND = 300.0
"""Seconds until the log names a site that has been asked and has not answered. A message takes seconds where the machines are
idle; Flower itself reports a node that is lost after one minute."""
logger = logging.getLogger("reshuffle")


@dataclass(frozen=True, eq=False)
class Flower:
    """Clients on the nodes of a Flower SuperLink, for use inside a ServerApp.

    Client m is the m-th site of ``nodes``. Each node opens its own data, so the description of hosts is not used.

    Parameters
    ----------
    nodes : the assignment of nodes to sites.
    patience : seconds that a round waits for a node that is not connected before its client counts as missing; asked
        again (``retries``) it waits once more.
    largest : the largest number of bytes of an answer.
    remind : seconds after which the log names a site that is connected and has not answered; each time that they have
        passed it does so again. Flower's node waits without end for a ClientApp that ended without a word.
    """

    nodes: Nodes
    patience: float = 120.0
    largest: int = 2**28
    remind: float = REMIND

    def __post_init__(self) -> None:
        check_positive("patience", self.patience)
        check_positive("remind", self.remind)
        check_positive("largest", self.largest, integer=True)

    def open(
        self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]
    ) -> FlowerSession:
        if len(sizes) != len(self.nodes.sites):
            raise InputError(
                f"engine Flower has the sites {', '.join(self.nodes.sites)}, got {len(sizes)} clients"
            )
        return FlowerSession(self)


class FlowerSession:
    """One run. It holds nothing at the nodes, so that there is nothing to close."""

    def __init__(self, engine: Flower) -> None:
        self.engine, self.nodes, self.grid = engine, engine.nodes, engine.nodes.grid
        self.sizes: dict[int, int] = {}

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        return list(self.stream(task, timeout))

    def stream(self, task: Task, timeout: float | None) -> Iterator[Reply | Failure]:
        """The answers of ``run_round``, one client at a time, in the order in which they come."""
        places = self._places(task.clients)
        asked: dict[str, tuple[int, Node]] = {}
        for client in task.clients:
            node = places.get(client)
            if node is None:
                reason = (
                    f"no node that is connected to the SuperLink says that it is {self.nodes.sites[client]!r} "
                    f"(waited for {self.engine.patience:g} s)"
                )
                yield Failure(client, reason)
            elif number := self._push(task, client, node):
                asked[number] = client, node
            else:
                yield Failure(client, f"the SuperLink takes no message for node {node.id}")
        yield from self._answers(task, asked, timeout)

    def close(self) -> None:
        """Nothing to do: the SuperLink ends the run when the ServerApp ends."""

    # --- inside --------------------------------------------------------------------------------

    def _places(self, clients: Sequence[int]) -> dict[int, Node]:
        """The nodes of these clients; the call waits for nodes that are not connected."""
        deadline = time.monotonic() + self.engine.patience
        while True:
            self.nodes.look()
            at = {client: self.nodes.at(self.nodes.sites[client]) for client in clients}
            found = {client: node for client, node in at.items() if node is not None}
            if len(found) == len(at) or time.monotonic() >= deadline:
                return found
            time.sleep(self.nodes.poll)

    def _push(self, task: Task, client: int, node: Node) -> str:
        from flwr.app import Message

        kind = "train" if task.kind == "train" else "query"
        message = Message(task_content(task, client), node.id, kind, group_id=str(task.round))
        return next(iter(self.grid.push_messages([message])), "")

    def _answers(
        self, task: Task, asked: dict[str, tuple[int, Node]], timeout: float | None
    ) -> Iterator[Reply | Failure]:
        began = looked = reminded = time.monotonic()
        while asked:
            for message in self.grid.pull_messages(list(asked)):
                known = asked.pop(message.metadata.reply_to_message_id, None)
                # Any other message answers nothing that was asked in this attempt.
                if known is not None:
                    yield self._answer(task, message, *known)
            now = time.monotonic()
            if timeout is not None and now - began >= timeout:
                for client, _ in asked.values():
                    yield Failure(client, f"no answer within {timeout:g} s")
                return
            if now - looked >= WATCH:
                looked = now
                yield from self._restarted(asked)
            if now - reminded >= self.engine.remind:
                reminded = now
                self._remind(task, asked, now - began)
            if asked:
                time.sleep(min(max(self.nodes.poll, LATE * (now - began)), WATCH))

    def _answer(self, task: Task, message: Message, client: int, node: Node) -> Reply | Failure:
        if message.has_error():
            reason = shortened(str(message.error.reason)) or f"error {message.error.code}"
            return Failure(client, f"node {node.id}: {reason}")
        return answer_of(message.content, client, self.engine.largest, task)

    def _restarted(self, asked: dict[str, tuple[int, Node]]) -> Iterator[Failure]:
        """The clients whose node has been restarted, so that the reply of the process that was asked may never come."""
        self.nodes.look()
        for number, (client, node) in list(asked.items()):
            now = self.nodes.at(self.nodes.sites[client])
            if now is not None and now != node:
                del asked[number]
                yield Failure(client, "its node was started again in the middle of the round")

    def _remind(self, task: Task, asked: dict[str, tuple[int, Node]], seconds: float) -> None:
        """Log the sites for which the round waits, and what can be done about it."""
        for client, node in asked.values():
            logger.warning(
                "round %d: no answer for %.0f s from site %s, whose node %d is connected. If its SuperNode is not at work "
                "(see its log), start it again there: it is then asked again",
                task.round, seconds, self.nodes.sites[client], node.id,
            )  # fmt: skip
