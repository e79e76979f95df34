"""Makes the site that a node describes: the node configuration names the data, or in a simulation the app does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
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
PATHS = ("data", "test", "audit", "state", "keys")
"""The keys that name a file or a folder."""
PARTS = ("partition-id", "num-partitions")
"""The keys that Flower itself gives to the nodes of a simulation."""
PLACE = "FLWR_HOME"
BUNDLED = "breast_cancer"
LONGEST_PART = 255
"""Bytes of a part of a path that file systems allow."""
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
    paths = {key: _path(key, str(node[key])) for key in PATHS if node.get(key)}
    state = paths.pop("state", str(_own_folder(name)))
    if settings.keeps_state:
        _make(Path(state))
    if "data" in paths:
        target = str(node.get("target") or settings.target)
        drop = list_of("drop", str(node.get("drop", "")))
        if target and target in (*drop, *settings.cells.drop):
            raise InputError(f"drop names the target {target!r}, which is needed")
        return Site(**paths, name=name, state=state, target=target or None, drop=drop)
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
    return replace(one, name=name, state=one.state or state, keys=keys)


def _path(key: str, text: str) -> str:
    """A path of the node configuration, in which ~ is the home of the user, as shells leave it inside quotation marks."""
    path = Path(text).expanduser()
    if "\0" in text or any(len(os.fsencode(part)) > LONGEST_PART for part in path.parts):
        raise InputError(
            f"{key} of the node configuration is no path: a part of it is too long, or has a null character"
        )
    return str(path)


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
