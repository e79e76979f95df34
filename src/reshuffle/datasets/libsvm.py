"""Files in LIBSVM text format, by path, or by name from a folder, the cache or LIBSVM's page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray
from reshuffle.datasets.catalogue import CATALOGUE, PAGE, Entry
from reshuffle.datasets.download import digest_of, download, recorded
from reshuffle.datasets.libsvm_blocks import MOST_FEATURES
from reshuffle.datasets.svmlight import read_svmlight
from reshuffle.errors import InputError
from reshuffle.files import Location
from reshuffle.labels import encode_labels
from reshuffle.validation import check_positive

VARIABLE = "RESHUFFLE_DATA"


def cache_folder() -> Path:
    """Where downloads are kept: RESHUFFLE_CACHE, or ``reshuffle`` in the user's cache folder."""
    if named := os.environ.get("RESHUFFLE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reshuffle"


def find(name: Location, folder: Location | None = None) -> Path | None:
    """The file of that path or name, or None if it is not on this machine.

    It is looked for as a path, then in ``folder``, in the folder that RESHUFFLE_DATA names, and in the
    cache; it may be compressed with bzip2 or gzip. A file in the current folder that only happens to have the name of a set
    of the catalogue is not that set, unless it has its sha256: name it as ``./a1a`` to read it.
    """
    return next((path for path in _candidates(name, folder) if _is_file(path)), None)


def fetch(
    name: Location,
    *,
    folder: Location | None = None,
    url: str | None = None,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """The file of that path or name, downloaded to the cache if it is not on this machine.

    A file of the cache must have the sha256 that is known for it, or that it had when it was downloaded.

    Parameters
    ----------
    folder : where to look first.
    url : the address of the folder from which files are downloaded; by default RESHUFFLE_URL, or LIBSVM's
        page of binary classification problems.
    progress : show a bar while downloading.
    timeout : seconds to wait for the server.
    """
    entry = CATALOGUE.get(os.fspath(name))
    if found := find(name, folder):
        if found.parent == cache_folder():
            expected = (entry and entry.sha256) or recorded(found)
            if expected and digest_of(found) != expected:
                raise InputError(
                    f"{found} does not have the sha256 {expected} that it should have; delete it, and it is "
                    "downloaded again"
                )
        return found
    if entry is None:
        raise InputError(_missing(str(name), folder))
    base = url or os.environ.get("RESHUFFLE_URL") or PAGE
    target = cache_folder() / entry.filename
    download(
        f"{base.rstrip('/')}/{entry.filename}",
        target,
        sha256=entry.sha256,
        check=lambda path: _check_entry(path, entry),
        most=entry.most_bytes,
        progress=progress,
        timeout=timeout,
    )
    return target


def load_libsvm(
    path: Location,
    *,
    folder: Location | None = None,
    progress: bool = False,
    n_features: int | None = None,
    max_features: int = MOST_FEATURES,
) -> tuple[sp.csr_matrix, AnyArray]:
    """A file in LIBSVM text format: CSR with 32-bit indices, and targets.

    ``path`` is a file, or the name of one: of a file in ``folder``, in the folder that
    ``RESHUFFLE_DATA`` names or in the cache, else of a file that ``fetch`` can download. Two
    distinct labels become -1 and +1; anything else is returned as it stands.

    Parameters
    ----------
    n_features : the number of columns of the matrix; by default the largest index in the file.
    max_features : the largest index that is accepted. One number in a file decides how long every vector of a
        run is, so it is bounded.
    """
    check_positive("max_features", max_features, integer=True)
    if n_features is not None:
        check_positive("n_features", n_features, integer=True)
    file = fetch(path, folder=folder, progress=progress)
    X, labels = read_svmlight(file, n_features=n_features, max_features=max_features)
    return X, encode_labels(labels)[0] if np.unique(labels).size == 2 else labels


def _candidates(name: Location, folder: Location | None) -> Iterator[Path]:
    given, entry = Path(name), CATALOGUE.get(os.fspath(name))
    if not given.name:
        return
    if entry is None:
        yield from _packed(given)
    elif _is_file(given) and entry.sha256 is not None and digest_of(given) == entry.sha256:
        yield given
    for place in _places(folder):
        yield from _packed(place / given)


def _places(folder: Location | None) -> list[Path]:
    """The folders in which a name is looked for."""
    return [Path(place) for place in (folder, os.environ.get(VARIABLE), cache_folder()) if place]


def _packed(path: Path) -> Iterator[Path]:
    """The names that a file may have, compressed or not."""
    yield path
    yield from (path.with_name(path.name + ending) for ending in (".bz2", ".gz"))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # No file can have this name.
        return False


def _check_entry(path: Path, entry: Entry) -> None:
    """Refuse a file that is not the set of the catalogue: its shape differs, or it does not have two classes."""
    X, labels = read_svmlight(path)
    rows, features, classes = *X.shape, np.unique(labels).size
    if rows != entry.rows or features > entry.features or classes != 2:
        raise InputError(
            f"it has {rows:,} rows, {features:,} features and {classes} classes; {entry.name} has "
            f"{entry.rows:,}, {entry.features:,} and 2"
        )


def _missing(name: str, folder: Location | None) -> str:
    places = ", ".join(map(str, _places(folder)))
    unset = "" if os.environ.get(VARIABLE) else f" ({VARIABLE} names no folder)"
    return (
        f"no data file {name!r} here or in {places}{unset}, and no set of that name to "
        f"download; `reshuffle datasets` lists those there are"
    )
