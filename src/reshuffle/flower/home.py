"""A site as its node describes it: the node configuration names the data, or in a simulation the app."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from reshuffle.cli.sites_file import is_sites, settings_of
from reshuffle.datasets import breast_cancer
from reshuffle.digests import digest
from reshuffle.errors import InputError
from reshuffle.federated import Site
from reshuffle.flower.settings import RunSettings
from reshuffle.flower.written import list_of

KEYS = ("site", "data", "test", "audit", "state", "target", "drop", "keys")
"""The keys that a node configuration may have."""
PARTS = ("partition-id", "num-partitions")
"""The keys that Flower itself gives to the nodes of a simulation."""
PLACE = "FLWR_HOME"
BUNDLED = "breast_cancer"
LONGEST = 40
"""Characters of a site's name in the name of a folder; each may take four bytes, and file systems allow 255."""


def name_of(node: Mapping[str, object], settings: RunSettings) -> str:
    """The name of the site of a node; empty if its configuration does not name one."""
    if "site" in node:
        return str(node["site"])
    part = node.get(PARTS[0])
    names = settings.names
    return names[part] if isinstance(part, int) and 0 <= part < len(names) else ""


def site_of(node: Mapping[str, object], settings: RunSettings) -> Site:
    """The site of a node."""
    name = name_of(node, settings)
    unknown = [key for key in node if key not in (*KEYS, *PARTS)]
    if unknown:
        raise InputError(
            f"node configuration: {unknown[0]!r} is not known; there are {', '.join(KEYS)}"
        )
    if not name:
        raise InputError(
            'the node configuration must name the site: site="north" data="/data/north.csv"'
        )
    state = str(node.get("state") or _own_folder(name))
    if settings.keeps_state:
        _make(Path(state))
    if node.get("data"):
        texts = {key: str(node[key]) for key in ("test", "audit", "target") if node.get(key)}
        texts.setdefault("target", settings.target)
        drop = list_of("drop", str(node.get("drop", "")))
        if texts["target"] and texts["target"] in (*drop, *settings.cells["drop"]):
            raise InputError(f"drop names the target {texts['target']!r}, which is needed")
        return Site(
            str(node["data"]), name, texts.get("test"), texts.get("audit"), state, texts["target"] or None, drop,
            str(node["keys"]) if node.get("keys") else None,
        )  # fmt: skip
    if PARTS[0] not in node:
        raise InputError(
            'the node configuration must say where its data lies: data="/data/north.csv"'
        )
    return _simulated(int(str(node[PARTS[0]])), name, state, settings)


def _simulated(part: int, name: str, state: str, settings: RunSettings) -> Site:
    """The site that a node of a simulation plays."""
    count, source = len(settings.names), settings.simulation
    if source == BUNDLED:
        X, y = breast_cancer()
        rest = slice(part, None, 2 * count), slice(part + count, None, 2 * count)
        train, test = ((np.ascontiguousarray(X[rows]), y[rows]) for rows in rest)
        return Site(train, name, test, state=state, keys=settings.keys or None)
    if not is_sites(source):
        raise InputError(
            f"simulation must be {BUNDLED}, a sites.toml or a folder of files, got {source!r}"
        )
    _, sites = settings_of(source)
    if len(sites) != count:
        raise InputError(
            f"{source} has {len(sites)} sites, and the app has {count}: {settings.sites}"
        )
    one = sites[part]
    keys = one.keys or settings.keys or None
    return Site(one.data, name, one.test, one.audit, one.state or state, one.target, one.drop, keys)


def _make(state: Path) -> None:
    """Make the folder of a client's state. The error goes to the server, and does not say where the folder is."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(
            f"state of the node configuration must be a folder that can be made and written to: {error.strerror}"
        ) from None
    if not os.access(state, os.W_OK | os.X_OK):
        raise InputError("state of the node configuration is a folder that cannot be written to")


def _own_folder(name: str) -> Path:
    """The folder of a client's state if its configuration names none: beside Flower's own files.

    A name with other characters, or a long one, is shortened, and told apart from others by its digest.
    """
    home = Path(os.environ.get(PLACE) or Path.home() / ".flwr")
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)
    if safe != name or len(name) > LONGEST:
        safe = f"{safe[:LONGEST]}-{digest(name)[:8]}"
    return home / "reshuffle" / safe
