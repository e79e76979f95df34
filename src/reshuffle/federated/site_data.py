"""Loads a client's data at its site from files, folders, functions or arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray, DataMatrix
from reshuffle.datasets import open_shards
from reshuffle.datasets.npz_file import read_npz
from reshuffle.datasets.reading import is_table
from reshuffle.datasets.svmlight import read_svmlight
from reshuffle.errors import InputError, shown
from reshuffle.federated.columns import Cells, SiteColumns, read
from reshuffle.files import opened
from reshuffle.shards import is_shard_folder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Given = tuple[object, ...] | Mapping[str, object]
Source = str | os.PathLike[str] | Callable[[], Given] | Given
PARTS = ("X", "y", "sample_weight", "names")
SHIFTS = ("offset", "exposure")
"""Further parts, for which a dict or a file is needed: see ``Problem``."""
SPARSE = ("data", "indices", "indptr", "shape", "format", "_is_array")
"""The names that scipy's ``save_npz`` gives to the parts of X."""


class SiteTable(NamedTuple):
    """Rows, unencoded targets, and weights and names if there are any.

    A table of named columns has ``columns`` in place of X: all sites must first agree on its encoding.
    """

    X: DataMatrix | None
    y: AnyArray
    sample_weight: object = None
    names: tuple[str, ...] = ()
    columns: SiteColumns | None = None
    offset: object = None
    exposure: object = None

    @property
    def shifts(self) -> dict[str, object]:
        known = {"offset": self.offset, "exposure": self.exposure}
        return {name: values for name, values in known.items() if values is not None}


PLAIN = Cells()
"""The default settings: tables are read unchanged."""


def load(
    source: Source, target: str | None = None, cells: Cells = PLAIN, drop: Sequence[str] = ()
) -> SiteTable:
    """The table that a source stands for.

    - a file in LIBSVM format (also packed with gzip, bzip2 or xz);
    - ``.npz``: arrays X, y and optionally sample_weight, names, offset and exposure; a sparse X has the parts of scipy's
      ``save_npz`` (data, indices, indptr, shape);
    - ``.csv``, ``.tsv`` or ``.parquet``, packed or not: columns with names; ``target`` names the one to predict (the
      last by default). Text becomes a column per value that occurs at any site; ``cells`` says which columns
      are read and whether missing values are filled in, ``drop`` names columns of this site that are left out;
    - a folder that ``reshuffle convert`` has made: rows stay on disk, and windows of them are read;
    - a folder with X.npy, y.npy and optionally sample_weight.npy and names.txt: X is not read into
      memory but mapped, which is the fastest to open;
    - a function that returns (X, y), (X, y, sample_weight) or a dict of these, called where the data is;
    - such a tuple or dict itself.
    """
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source), target, cells, drop)
    found = _given(source() if callable(source) else source)
    _refuse_cells(cells, drop)
    return found


def _refuse_cells(cells: Cells, drop: Sequence[str]) -> None:
    """Refuse settings of tables for data that is a matrix."""
    if cells != PLAIN or drop:
        raise InputError(
            "impute, drop, columns, categories, missing and the columns of offset and exposure are for tables (CSV or Parquet "
            "files), and its data is a matrix: leave them out, or prepare its rows before; offset and exposure may be "
            "arrays beside X and y"
        )


def _file(path: Path, target: str | None, cells: Cells, drop: Sequence[str]) -> SiteTable:
    try:
        if is_table(path) and not path.is_dir():
            columns, y, shifts = read(path, target, cells, drop)
            return SiteTable(None, y, None, (), columns, **shifts)
        _refuse_cells(cells, drop)
        if path.is_dir():
            return _folder(path)
        if path.suffix == ".npz":
            with opened(path) as file:
                return _given(read_npz(file, str(path)))
    except FileNotFoundError:
        raise InputError(f"there is no file or folder {path}") from None
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {error}") from None
    if not path.is_file():
        raise InputError(f"there is no file or folder {path}")
    return SiteTable(*read_svmlight(path))


def _folder(path: Path) -> SiteTable:
    if is_shard_folder(path):
        return SiteTable(*open_shards(path))
    for name in ("X.npy", "y.npy"):
        if not (path / name).is_file():
            raise InputError(
                f"{path} is a folder without {name}: a folder of data has X.npy and y.npy, or was made by reshuffle convert"
            )
    X = np.load(path / "X.npy", mmap_mode="r", allow_pickle=False)
    y = np.load(path / "y.npy", allow_pickle=False)
    more = {
        name: np.load(path / f"{name}.npy", allow_pickle=False)
        for name in ("sample_weight", *SHIFTS)
        if (path / f"{name}.npy").exists()
    }
    file = path / "names.txt"
    names = file.read_text(encoding="utf-8").splitlines() if file.exists() else None
    return SiteTable(X, y, names=_names(names, X), **more)


def _given(given: object) -> SiteTable:
    if isinstance(given, tuple) and 2 <= len(given) <= len(PARTS):
        given = dict(zip(PARTS, given, strict=False))
    if isinstance(given, Mapping) and "indptr" in given:
        given = {**{k: v for k, v in given.items() if k not in SPARSE}, "X": _sparse(given)}
    if not isinstance(given, Mapping) or not {"X", "y"} <= set(given):
        raise InputError(
            f"a client's data must be (X, y), or a dict with X and y, got {shown(given)}"
        )
    known = (*PARTS, *SHIFTS)
    if unknown := [name for name in given if name not in known]:
        raise InputError(
            f"a client's data must be {', '.join(known[:-1])} or {known[-1]}, got {shown(unknown[0])} as well"
        )
    X, names = given["X"], given.get("names")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # This is a data frame.
        names = list(X.columns) if names is None else names
        if np.asarray(X).dtype.kind not in "fiub":
            raise InputError(
                "X is a data frame with columns that do not hold numbers: write it to a CSV or Parquet file and give the "
                "path, which takes texts and missing cells, or turn them into numbers first"
            )
    more = {name: given[name] for name in ("sample_weight", *SHIFTS) if name in given}
    return SiteTable(X, np.asarray(given["y"]), names=_names(names, X), **more)


def _sparse(given: Mapping[str, Any]) -> object:
    """A matrix from the parts that scipy's ``save_npz`` writes, which are checked here for the first time."""
    try:
        parts = (given["data"], given["indices"], given["indptr"])
        X = sp.csr_matrix(parts, (int(given["shape"][0]), int(given["shape"][1])))
        X.check_format(full_check=True)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as error:
        raise InputError(
            f"data, indices, indptr and shape are not those of a matrix: {error}"
        ) from None
    # Files of old versions hold the format as bytes.
    if str(given.get("format", "csr")) not in ("csr", "b'csr'"):
        raise InputError(f"a sparse X must be stored by rows (csr), got {given['format']!s}")
    return X


def _names(given: Iterable[object] | None, X: ArrayLike) -> tuple[str, ...]:
    """One name for each column, if there are names."""
    if given is None:
        return ()
    names, shape = tuple(map(str, given)), np.shape(X)
    if len(shape) == 2 and len(names) != shape[1]:
        raise InputError(f"names must name each of {shape[1]} columns, got {len(names)}")
    return names
