"""Assigns nodes to sites: asks every node which site it is, and compares the answer with the name under which its key was registered."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reshuffle.engines.base import Record
from reshuffle.engines.flower.fields import INTRODUCTION, check_fields
from reshuffle.engines.flower.messages import WHO, shortened
from reshuffle.engines.flower.records import add_record, get_record
from reshuffle.errors import InputError

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.proto.node_pb2 import NodeInfo

POLL = 0.2
"""Seconds between two looks at the SuperLink."""
GRACE = 30.0
"""Seconds that a start waits, once every site has a node, for other connected nodes to say which site they are. An
introduction takes a few seconds; a node that was killed counts as connected for a minute, and never answers."""
SHORT = 16
"""Hexadecimal digits of a key's sha256 that messages show: enough for people to compare two of them."""
logger = logging.getLogger("reshuffle")


@dataclass(frozen=True)
class Node:
    """A node that is connected to the SuperLink."""

    id: int
    registered: str
    """The name under which its key was registered; empty if it was not registered."""
    key: str
    """The sha256 of its public key."""
    started: str
    """The time at which it last connected; another value means another process."""

    @classmethod
    def of(cls, info: NodeInfo) -> Node:
        key = hashlib.sha256(bytes(info.public_key)).hexdigest()
        return cls(int(info.node_id), str(info.name), key, str(info.last_activated_at))


def short(key: str) -> str:
    """The beginning of a key, for messages."""
    return key[:SHORT]


class Mailbox(Protocol):
    """The part of a Flower ``Grid`` through which messages are sent and received."""

    def get_nodes(self) -> Iterable[NodeInfo]: ...
    def push_messages(self, messages: Iterable[Message], /) -> Iterable[str]: ...
    def pull_messages(self, message_ids: Iterable[str], /) -> Iterable[Message]: ...


class Nodes:
    """The nodes of a grid by the names of their sites.

    A node says which site it is; the order in which nodes arrive does not matter. If its key was registered with a
    name, that must be the name of the site. If two nodes claim the same site during a run, the one that was started last
    is taken, since a node without a registered key has a new id each time that it is started. If keys are registered,
    a site keeps the key that it had at the start until the end of the run; a site with a key of an earlier run, ``pinned``,
    may have no other key from the start.
    """

    def __init__(
        self, grid: Mailbox, sites: Sequence[str], poll: float = POLL, grace: float = GRACE
    ) -> None:
        self.grid, self.sites, self.poll, self.grace = grid, tuple(sites), poll, grace
        if len(set(self.sites)) < len(self.sites) or not all(self.sites):
            raise InputError(f"sites must be different names, got {list(self.sites)}")
        self.pinned: Mapping[str, str] = {}
        """The key that each site had in earlier runs."""
        self.refused: dict[Node, str] = {}
        """For each node that was refused, the reason."""
        self.said: dict[Node, Record] = {}
        self._asked: dict[str, Node] = {}
        self._online: dict[Node, None] = {}
        self._keys: dict[str, str] = {}
        self._latest: dict[str, Node] = {}

    def look(self) -> None:
        """Ask the new nodes which site they are, and read the answers that have come."""
        from flwr.app import Message, RecordDict

        self._online = dict.fromkeys(map(Node.of, self.grid.get_nodes()))
        known = {*self.said, *self.refused, *self._asked.values()}
        for node in [node for node in self._online if node not in known]:
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
        """Find a node for each site within ``wait`` seconds; two nodes that claim the same site are refused.

        Once each site has a node, the nodes that have not yet said which site they are get ``grace`` seconds to do so.
        """
        deadline, complete, waiting = time.monotonic() + wait, 0.0, ""
        while True:
            self.look()
            now = time.monotonic()
            found = {site: self.claiming(site) for site in self.sites}
            for site, nodes in found.items():
                if len(nodes) > 1:
                    ids = " and ".join(str(node.id) for node in nodes)
                    raise InputError(
                        f"site {site!r} is claimed by two nodes, {ids}: stop one of them"
                    )
            missing = [site for site, nodes in found.items() if not nodes]
            silent = self.silent()
            complete = 0.0 if missing else complete or now
            if not missing and (not silent or now - complete >= self.grace):
                break
            if missing and now >= deadline:
                raise InputError(self._told(missing, wait))
            told = (
                f"waiting for {', '.join(missing)}; nodes that are connected: {len(self._online)}"
                if missing
                else f"waiting for {len(silent)} more connected nodes to say which site they are"
            )
            if told != waiting:
                logger.info(told)
            waiting = told
            time.sleep(self.poll)
        for node in silent:
            logger.warning("node %d has not said within %g s which site it is", node.id, self.grace)
        self._latest = {site: nodes[0] for site, nodes in found.items()}
        self._keys = {
            site: node.key
            for site, node in self._latest.items()
            if node.registered or site in self.pinned
        }
        return dict(self._latest)

    @property
    def keys(self) -> Mapping[str, str]:
        """The registered key that each site had at the start."""
        return self._keys

    def silent(self) -> list[Node]:
        """The connected nodes that have not yet said which site they are."""
        return [node for node in self._asked.values() if node in self._online]

    def at(self, site: str) -> Node | None:
        """The node of a site, as of the last look; where several claim it, the one that was started last.

        A site whose key was registered at the start has no node with another key.
        """
        key = self._keys.get(site, "")
        start = f"site {site!r} had the key {short(key)} at the start of the run"
        for other in [n for n in self.claiming(site) if key and n.key != key]:
            self._refuse(other, f"{start}, and its key is {short(other.key)}")
            del self.said[other]
        node = max(self.claiming(site), key=lambda node: node.started, default=None)
        before = self._latest.get(site)
        if node is not None and before is not None and node != before:
            logger.info(
                "site %s: now node %d, key %s, started again", site, node.id, short(node.key)
            )
        if node is not None:
            self._latest[site] = node
        return node

    def claiming(self, site: str) -> list[Node]:
        """The connected nodes that claim to be this site."""
        return [node for node in self._here() if self.said[node]["site"] == site]

    def _here(self) -> list[Node]:
        """The connected nodes that have said which site they are."""
        return [node for node in self.said if node in self._online]

    def _refuse(self, node: Node, wrong: str) -> None:
        self.refused[node] = wrong
        logger.warning("node %d is refused: %s", node.id, wrong)

    def _hear(self, node: Node, reply: Message) -> None:
        """Record which site a node claims to be, or why the node is refused."""
        try:
            self.said[node] = self._claim(node, reply)
        except InputError as error:
            self._refuse(node, str(error))

    def _claim(self, node: Node, reply: Message) -> Record:
        """A node's introduction, if it may be the site that it says it is."""
        if reply.has_error():
            told = shortened(str(reply.error.reason))
            raise InputError(f"it does not say which site it is: {told}")
        try:
            record = get_record(reply.content, "who")
            check_fields(record, INTRODUCTION)
        except InputError as error:
            raise InputError(f"its introduction is refused: {shortened(str(error))}") from None
        site = str(record["site"])
        if not site:
            raise InputError("its node configuration has no site")
        if node.registered and node.registered != site:
            raise InputError(
                f"its key is registered as {node.registered!r}, and it says that it is {site!r}"
            )
        if self.pinned.get(site, node.key) != node.key:
            raise InputError(
                f"site {site!r} had the key {short(self.pinned[site])} in earlier runs, and the key of this node is "
                f"{short(node.key)}; if the site has made itself a new key, name it in new-keys"
            )
        return record

    def _told(self, missing: Sequence[str], wait: float) -> str:
        others = sorted({_plain(str(self.said[node]["site"])) for node in self._here()})
        reasons = [f"node {node.id} is refused: {why}" for node, why in self.refused.items()]
        return "; ".join([
            f"sites that no node says it is, within {wait:g} s: {', '.join(missing)}",
            f"sites that are there: {', '.join(others) or 'none'}",
            f"nodes that are connected: {len(self._online)}",
            *reasons[:5],
        ])  # fmt: skip


def _plain(name: str) -> str:
    """A name from a node, in quotation marks if it could be mistaken for something else in a log."""
    return name if name.isprintable() and name == name.strip() else shortened(repr(name))
