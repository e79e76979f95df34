"""The files of LIBSVM's page of binary classification problems that are known by name, or by their content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reshuffle.datasets.download import digest_of

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


@dataclass(frozen=True)
class Entry:
    """A file of that page.

    If its sha256 is not known, a download must have its shape, and the sha256 of the first download is kept.
    """

    name: str
    rows: int
    features: int
    file: str = ""
    """Its name on the page, if it differs."""
    sha256: str | None = None

    @property
    def filename(self) -> str:
        return self.file or self.name

    @property
    def most_bytes(self) -> int:
        """More than the file can have: 24 characters for each entry of the matrix, and at most 1 GiB."""
        return min(self.rows * (16 + 24 * self.features), 1 << 30)


_KNOWN = {
    "a1a": "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e",
    "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    "mushrooms": "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
}
_ADULT = (1605, 2265, 3185, 4781, 6414, 11220, 16100, 22696, 32561)
_WEB = (2477, 3470, 4912, 7366, 9888, 17188, 24692, 49749)
_OTHERS = (
    ("mushrooms", 8124, 112, False),
    ("phishing", 11055, 68, False),
    ("cod-rna", 59535, 8, False),
    ("german.numer", 1000, 24, False),
    ("ijcnn1", 49990, 22, True),
    ("real-sim", 72309, 20958, True),
    ("rcv1_train.binary", 20242, 47236, True),
    ("covtype.libsvm.binary.scale", 581012, 54, True),
)


def _entries() -> dict[str, Entry]:
    listed = [(f"a{k}a", rows, 123, False) for k, rows in enumerate(_ADULT, 1)]
    listed += [(f"w{k}a", rows, 300, False) for k, rows in enumerate(_WEB, 1)]
    return {
        name: Entry(name, rows, features, f"{name}.bz2" if packed else "", _KNOWN.get(name))
        for name, rows, features, packed in [*listed, *_OTHERS]
    }


CATALOGUE = _entries()
"""The entries by name, in the order of a listing."""


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
