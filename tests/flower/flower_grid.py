"""A Grid in this process: messages are serialised as Flower does, and handed to the ClientApp's own function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.supercore.task_identity import TaskIdentity

from reshuffle.flower.client import answered

Change = Callable[[int, RecordDict], RecordDict | Error | None]
"""(node id, content of a reply) -> what comes instead; None is no reply at all."""


class LocalGrid:
    """Nodes with their configurations, in any order."""

    def __init__(
        self,
        nodes: Mapping[int, dict[str, Any]],
        config: dict[str, Any],
        change: Change | None = None,
    ) -> None:
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.nodes, self.config, self.change = dict(nodes), config, change
        self.names: dict[int, str] = {}
        self.started: dict[int, str] = {}
        self.numbers = count()
        self.states: dict[int, RecordDict] = {}
        self.waiting: dict[str, Message] = {}
        self.sent: list[tuple[int, str]] = []

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(
                node_id=number, name=self.names.get(number, ""), public_key=b"%d" % number,
                last_activated_at=self.started.get(number, "2026-01-01"),
            )
            for number in self.nodes
        ]  # fmt: skip

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        found = []
        for message in messages:
            number, node = f"m{next(self.numbers)}", message.metadata.dst_node_id
            found.append(number)
            if node not in self.nodes:
                self.waiting[number] = self._reply(number, Error(code=3, reason="Node unavailable"))
                continue
            kind = str(message.content.config_records["task"]["kind"])
            self.sent.append((node, kind))
            state = self.states.setdefault(node, RecordDict())
            context = Context(1, node, self.nodes[node], state, dict(self.config))
            asked = self._reply(number, _travelled(message.content))
            asked.metadata.__dict__["_message_id"] = number
            content: Any = _travelled(answered(asked, context).content)
            if self.change is not None and kind != "who":
                content = self.change(node, content)
            if content is not None:
                self.waiting[number] = self._reply(number, content)
        return found

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.waiting.pop(number) for number in message_ids if number in self.waiting]

    def _reply(self, number: str, what: RecordDict | Error) -> Message:
        metadata = Metadata(1, f"r{number}", 1, 1, number, "", 1.0, 100.0, "query")
        if isinstance(what, Error):
            return make_message(metadata, error=what)
        return make_message(metadata, content=what)


def _travelled(content: RecordDict) -> RecordDict:
    """The content after it was written to bytes and read again."""
    return recorddict_from_proto(recorddict_to_proto(content))
