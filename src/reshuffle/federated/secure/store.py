"""Saves a site's attempt as text, for a transport that starts a new process for every message.

The text holds secrets: it may be kept in the memory of the site's own node, but never in files or logs.
"""

from __future__ import annotations

import json

from reshuffle.federated.secure.header import SumHeader
from reshuffle.federated.secure.protocol import SiteRound
from reshuffle.federated.secure.rows import KeyRow


def to_text(one: SiteRound) -> str:
    """A site's attempt as text."""
    return json.dumps({
        "header": one.header.text(), "me": one.me, "done": one.done,
        "seeds": [seed.hex() for seed in (one.sealing, one.masking, one.own)],
        "rows": {client: row.packed().hex() for client, row in one.rows.items()},
        "held": {client: both.hex() for client, both in one.held.items()},
        "senders": one.senders, "survivors": one.survivors,
    })  # fmt: skip


def of_text(text: str) -> SiteRound:
    """The attempt that ``to_text`` wrote, in another process of the site."""
    found = json.loads(text)
    sealing, masking, own = (bytes.fromhex(seed) for seed in found["seeds"])
    return SiteRound(
        SumHeader.of(found["header"]),
        found["me"],
        found["done"],
        sealing,
        masking,
        own,
        rows={int(c): KeyRow.of(bytes.fromhex(row)) for c, row in found["rows"].items()},
        held={int(c): bytes.fromhex(both) for c, both in found["held"].items()},
        senders=tuple(found["senders"]),
        survivors=tuple(found["survivors"]),
    )
