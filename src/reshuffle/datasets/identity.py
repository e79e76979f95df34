"""Recognises known data sets by the content of a file, never by its name alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reshuffle.datasets.catalogue import CATALOGUE
from reshuffle.datasets.download import digest_of


class Identity(NamedTuple):
    """The identity of a file."""

    name: str | None
    """The name of the known set with its sha256, or ``None``."""
    label: str
    """Its name in messages."""


def identity(path: Path) -> Identity:
    """The set of the catalogue that this file is, by its sha256.

    A file that only bears the name of a set is described by that name and a warning.
    """
    digest = digest_of(path)
    for entry in CATALOGUE.values():
        if entry.sha256 == digest:
            return Identity(entry.name, entry.name)
    stem = path.name.removesuffix(".bz2").removesuffix(".gz")
    known = CATALOGUE.get(stem)
    if known is None:
        beside = ""
    elif known.sha256 is None:
        beside = ", whose sha256 is not known"
    else:
        beside = f", NOT the set {stem}, which has another sha256"
    return Identity(None, f"the file {path.name} (sha256 {digest[:12]}…{beside})")
