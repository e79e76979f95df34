"""Files in LIBSVM text format: by path, or by name from a folder, the cache or the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.datasets.catalogue import CATALOGUE, PAGE
from reshuffle.datasets.download import digest_of, download, recorded
from reshuffle.errors import InputError
from reshuffle.labels import encode_labels

VARIABLE = "RESHUFFLE_DATA"
Location = str | os.PathLike[str]


def cache_folder() -> Path:
    """Where downloads are kept: RESHUFFLE_CACHE, or ``reshuffle`` in the user's cache folder."""
    if named := os.environ.get("RESHUFFLE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reshuffle"


def find(name: Location, folder: Location | None = None) -> Path | None:
    """The file of that path or name, if it is here.

    Looked for as a path, then in ``folder``, in the folder that RESHUFFLE_DATA names, and in the
    cache; packed with bzip2 or gzip too.
    """
    return next((path for path in _candidates(Path(name), folder) if path.is_file()), None)


def fetch(
    name: Location,
    *,
    folder: Location | None = None,
    url: str | None = None,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """The file of that path or name, downloaded to the cache if it is not here.

    A file of the cache must have the sha256 that is known for it, or that it had when it came.

    Parameters
    ----------
    folder : where to look first.
    url : of the folder that files are downloaded from; where not given, RESHUFFLE_URL, or LIBSVM's
        page of binary classification problems.
    progress : show a bar while downloading.
    timeout : seconds to wait for the server.
    """
    entry = CATALOGUE.get(str(name))
    if found := find(name, folder):
        if found.parent == cache_folder():
            _check(found, entry.sha256 if entry else None)
        return found
    if entry is None:
        raise InputError(_missing(str(name), folder))
    base = url or os.environ.get("RESHUFFLE_URL") or PAGE
    target = cache_folder() / entry.filename
    download(
        f"{base.rstrip('/')}/{entry.filename}",
        target,
        sha256=entry.sha256,
        progress=progress,
        timeout=timeout,
    )
    return target


def load_libsvm(
    path: Location,
    *,
    folder: Location | None = None,
    progress: bool = False,
) -> tuple[sp.csr_matrix, NDArray[Any]]:
    """A file in LIBSVM text format: CSR with 32-bit indices, and targets.

    ``path`` is a file, or the name of one: of a file in ``folder``, in the folder that
    ``RESHUFFLE_DATA`` names or in the cache, else of a file that ``fetch`` can download. Two
    distinct labels become -1 and +1; anything else is returned as it stands.
    """
    X, labels = read_libsvm(fetch(path, folder=folder, progress=progress))
    return X, encode_labels(labels)[0] if np.unique(labels).size == 2 else labels


def read_libsvm(file: Path) -> tuple[sp.csr_matrix, NDArray[Any]]:
    """The same with the labels as the file has them."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(str(file))
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{file} is not in LIBSVM format, or is damaged: {error}") from None
    pointers = np.int32 if X.nnz < 2**31 else np.int64
    X = sp.csr_matrix(
        (X.data, X.indices.astype(np.int32), X.indptr.astype(pointers)), shape=X.shape
    )
    return X, labels


def _candidates(given: Path, folder: Location | None) -> Iterator[Path]:
    named = os.environ.get(VARIABLE)
    places = [Path(place) for place in (folder, named, cache_folder()) if place]
    for whole in [given, *(place / given for place in places)]:
        yield whole
        yield from (whole.with_name(whole.name + ending) for ending in (".bz2", ".gz"))


def _check(path: Path, known: str | None) -> None:
    expected = known or recorded(path)
    if expected is not None and digest_of(path) != expected:
        raise InputError(
            f"{path} does not have the sha256 {expected} that it should have; delete it, and it is "
            "downloaded again"
        )


def _missing(name: str, folder: Location | None) -> str:
    named = os.environ.get(VARIABLE)
    places = [str(place) for place in (folder, named, cache_folder()) if place]
    unset = "" if named else f" ({VARIABLE} names no folder)"
    return (
        f"no data file {name!r} here or in {', '.join(places)}{unset}, and no set of that name to "
        f"download; `reshuffle datasets` lists those there are"
    )
