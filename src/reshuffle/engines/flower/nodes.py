"""Which node is which site: asked of every node, and held against the name that its key was registered with."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reshuffle.engines.base import Record
from reshuffle.engines.flower.messages import WHO, shortened
from reshuffle.engines.flower.records import add_record, get_record
from reshuffle.errors import InputError

POLL = 0.2
"""Seconds between two looks at the SuperLink."""
logger = logging.getLogger("reshuffle")


@dataclass(frozen=True)
class Node:
    """A node that is connected to the SuperLink."""

    id: int
    registered: str
    """The name under which its key was registered; empty where keys are not."""
    key: str
    """The beginning of the sha256 of its public key."""
    started: str
    """When it last connected: another value is another process."""

    @classmethod
    def of(cls, info: Any) -> Node:
        key = hashlib.sha256(bytes(info.public_key)).hexdigest()[:16]
        return cls(int(info.node_id), str(info.name), key, str(info.last_activated_at))


class Nodes:
    """The nodes of a grid by the names of their sites.

    A node says which site it is; the order in which nodes arrive means nothing. Where its key was registered with a
    name, it must be that name. Of two nodes that say the same, the one that was started last is taken in the middle of
    a run, since a node without a registered key has another id each time that it is started.
    """

    def __init__(self, grid: Any, sites: Sequence[str], poll: float = POLL) -> None:
        self.grid, self.sites, self.poll = grid, tuple(sites), poll
        if len(set(self.sites)) < len(self.sites) or not all(self.sites):
            raise InputError(f"sites must be different names, got {list(self.sites)}")
        self.refused: dict[Node, str] = {}
        """Why nodes are not taken."""
        self.said: dict[Node, Record] = {}
        self._asked: dict[str, Node] = {}
        self._online: dict[int, Node] = {}

    def look(self) -> None:
        """Ask nodes that are new, and hear those that have answered."""
        from flwr.app import Message, RecordDict

        self._online = {node.id: node for node in map(Node.of, self.grid.get_nodes())}
        known = {*self.said, *self.refused, *self._asked.values()}
        for node in self._online.values():
            if node in known:
                continue
            content = RecordDict()
            add_record(content, "task", {"kind": WHO})
            for number in self.grid.push_messages([Message(content, node.id, "query")]):
                if number:
                    self._asked[number] = node
        if self._asked:
            for reply in self.grid.pull_messages(list(self._asked)):
                asked = self._asked.pop(reply.metadata.reply_to_message_id, None)
                if asked is not None:
                    self._hear(asked, reply)

    def find(self, wait: float) -> dict[str, Node]:
        """A node for each site, within ``wait`` seconds; two that say the same are refused."""
        deadline, waiting = time.monotonic() + wait, ""
        while True:
            self.look()
            found = {site: self.claiming(site) for site in self.sites}
            twice = [site for site, nodes in found.items() if len(nodes) > 1]
            if twice:
                ids = " and ".join(str(node.id) for node in found[twice[0]])
                raise InputError(
                    f"site {twice[0]!r} is claimed by two nodes, {ids}: stop one of them"
                )
            missing = [site for site, nodes in found.items() if not nodes]
            if not missing:
                return {site: nodes[0] for site, nodes in found.items()}
            if time.monotonic() >= deadline:
                raise InputError(self._told(missing, wait))
            told = (
                f"waiting for {', '.join(missing)}; nodes that are connected: {len(self._online)}"
            )
            if told != waiting:
                logger.info(told)
            waiting = told
            time.sleep(self.poll)

    def at(self, site: str) -> Node | None:
        """The node of a site, as of the last look; where several claim it, the one that was started last."""
        return max(self.claiming(site), key=lambda node: node.started, default=None)

    def claiming(self, site: str) -> list[Node]:
        """Nodes that are there and say that they are this site."""
        there = set(self._online.values())
        return [
            node for node, record in self.said.items() if record["site"] == site and node in there
        ]

    def _hear(self, node: Node, reply: Any) -> None:
        """Take down which site a node says that it is, or why it is refused."""
        wrong = ""
        record: dict[str, Any] = {}
        if reply.has_error():
            wrong = f"it does not say which site it is: {shortened(str(reply.error.reason))}"
        else:
            try:
                record = get_record(reply.content, "who")
            except InputError as error:
                wrong = str(error)
        site = record.get("site")
        if not wrong and not (isinstance(site, str) and site):
            wrong = "its node configuration has no site"
        elif not wrong and node.registered and node.registered != site:
            wrong = f"its key is registered as {node.registered!r}, and it says that it is {site!r}"
        if wrong:
            self.refused[node] = wrong
            logger.warning("node %d is refused: %s", node.id, wrong)
        else:
            self.said[node] = record

    def _told(self, missing: Sequence[str], wait: float) -> str:
        others = sorted(
            {str(r["site"]) for n, r in self.said.items() if n in self._online.values()}
        )
        reasons = [f"node {node.id} is refused: {why}" for node, why in self.refused.items()]
        known = f"sites that are there: {', '.join(others) or 'none'}"
        return "; ".join(
            [
                f"sites that no node says it is, within {wait:g} s: {', '.join(missing)}",
                known,
                f"nodes that are connected: {len(self._online)}",
                *reasons[:5],
            ]
        )
