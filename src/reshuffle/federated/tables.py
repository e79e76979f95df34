"""A client's data as it lies at home: files, folders, functions, arrays."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.datasets.reading import load_data
from reshuffle.datasets.svmlight import read_svmlight
from reshuffle.datasets.table import Reading
from reshuffle.errors import InputError, shown

Given = tuple[Any, ...] | Mapping[str, Any]
Source = str | os.PathLike[str] | Callable[[], Given] | Given
PARTS = ("X", "y", "sample_weight", "names")


class Table(NamedTuple):
    """Rows, targets as they stand, weights and names where there are some."""

    X: Any
    y: NDArray[Any]
    sample_weight: Any = None
    names: tuple[str, ...] = ()


def load(source: Source, target: str | None = None) -> Table:
    """The table that a source stands for.

    - a file in LIBSVM format (also packed with gzip or bzip2);
    - ``.npz``: arrays X, y and, where wanted, sample_weight and names; a sparse X as scipy's ``save_npz``
      names its parts (data, indices, indptr, shape);
    - ``.csv`` or ``.parquet``: columns with names; ``target`` names the one to predict (of a CSV file the
      last, where none is named). Text becomes a column per value, and these must be the same at all sites;
    - a folder with X.npy, y.npy and, where wanted, sample_weight.npy and names.txt: X is not read into
      memory but mapped, which is the quickest to open;
    - a function that returns (X, y), (X, y, sample_weight) or a dict of these, called where the data is;
    - such a tuple or dict itself.
    """
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source), target)
    return _given(source() if callable(source) else source)


def _file(path: Path, target: str | None) -> Table:
    try:
        if path.is_dir():
            return _folder(path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                return _given({name: stored[name] for name in stored.files})
        if path.suffix in (".csv", ".parquet"):
            return _columns(path, target)
    except FileNotFoundError:
        raise InputError(f"there is no file or folder {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {error}") from None
    if not path.is_file():
        raise InputError(f"there is no file or folder {path}")
    return Table(*read_svmlight(path))


def _folder(path: Path) -> Table:
    X = np.load(path / "X.npy", mmap_mode="r", allow_pickle=False)
    y = np.load(path / "y.npy", allow_pickle=False)
    weights, names = path / "sample_weight.npy", path / "names.txt"
    return Table(
        X,
        y,
        np.load(weights, allow_pickle=False) if weights.exists() else None,
        tuple(names.read_text().split("\n")[: X.shape[1]]) if names.exists() else (),
    )


def _columns(path: Path, target: str | None) -> Table:
    """A table by its columns; of a CSV file the last is the target, where none is named."""
    if target is None and path.suffix == ".csv":
        with open(path, newline="", encoding="utf-8-sig") as file:
            target = next(csv.reader(file), [""])[-1]
    X, y, encoding = load_data(path, Reading(target=target, standardise=False))
    return Table(X, y, None, tuple(encoding.feature_names))


def _given(given: Any) -> Table:
    if isinstance(given, tuple) and 2 <= len(given) <= len(PARTS):
        given = dict(zip(PARTS, given, strict=False))
    if isinstance(given, Mapping) and "indptr" in given:
        X = sp.csr_matrix((given["data"], given["indices"], given["indptr"]), tuple(given["shape"]))
        given = {**given, "X": X}
    if not isinstance(given, Mapping) or not {"X", "y"} <= set(given):
        raise InputError(
            f"a client's data must be (X, y), or a dict with X and y, got {shown(given)}"
        )
    names = given.get("names")
    return Table(
        given["X"],
        np.asarray(given["y"]),
        given.get("sample_weight"),
        () if names is None else tuple(map(str, names)),
    )
