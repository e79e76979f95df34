"""Data files of every known format, for a fit and for predictions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray, DataMatrix
from reshuffle.datasets.catalogue import CATALOGUE
from reshuffle.datasets.chunks import Chunk, Values, listed, several
from reshuffle.datasets.csv_file import read_csv
from reshuffle.datasets.encoding import Note, TableEncoding
from reshuffle.datasets.libsvm import fetch
from reshuffle.datasets.libsvm_blocks import libsvm_blocks
from reshuffle.datasets.npz_file import read_matrix, target_of
from reshuffle.datasets.opening import open_shards
from reshuffle.datasets.parquet_file import read_parquet
from reshuffle.datasets.rows_encoding import Encoding, RowsEncoding
from reshuffle.datasets.source import STDIN, binary_format, opened, told
from reshuffle.datasets.table import (
    Columns,
    Data,
    LearnFrom,
    Reading,
    everything,
    read_columns,
    read_table,
)
from reshuffle.errors import InputError
from reshuffle.files import Location
from reshuffle.shards import Block, is_shard_folder

FORMATS = ("csv", "parquet", "libsvm", "npz")
ENDINGS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}
TABLES = ("csv", "parquet")
PACKED = (".gz", ".bz2", ".xz")


def load_data(
    path: Location,
    reading: Reading | None = None,
    learn_from: LearnFrom = everything,
) -> Data:
    """Rows and targets of a CSV, Parquet, LIBSVM or NPZ file, compressed or not; "-" is standard input.

    ``learn_from`` returns, from the targets and the columns kept ``aside``, the rows from which scales, fillings and categories of a table are
    learned, so that held-out rows have no influence.

    Examples
    --------
    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "pets.csv")
    >>> with open(file, "w") as f:
    ...     _ = f.write("kind,weight,home\\ncat,4,yes\\ndog,20,no\\ncat,5,yes\\n")
    >>> X, y, encoding = load_data(file, Reading(target="home", standardise=False))
    >>> encoding.feature_names, y.tolist()
    (['kind=cat', 'kind=dog', 'weight'], ['yes', 'no', 'yes'])
    >>> X.tolist()
    [[1.0, 0.0, 4.0], [0.0, 1.0, 20.0], [1.0, 0.0, 5.0]]
    """
    reading = reading or Reading()
    if is_shard_folder(path):
        _refuse_options_of_tables(reading, os.fspath(path), "shards")
        rows, y = open_shards(path)
        return Data(rows, y, RowsEncoding(rows.shape[1]))
    where, default = told(path), "libsvm" if reading.target is None else "csv"
    with _opened(path, reading, default) as (file, form, reading):
        if form in TABLES:
            return read_table(_chunks(file, where, form, reading), reading, where, learn_from)
        _refuse_options_of_tables(reading, where, form)
        if form == "npz":
            X, others = read_matrix(file, where)
            y = target_of(others, reading.target, X.shape[0], where)
            return Data(X, y, RowsEncoding(X.shape[1]))
        return _libsvm(file, where)


def form_of(path: Location, default: str) -> str:
    """The format of a file, by its first bytes or its name."""
    found = None
    if os.path.isfile(path):
        with opened(path) as file:
            found = binary_format(file)
    return found or _by_name(path, default)


def is_table(path: Location) -> bool:
    """Whether the name of a file says that it is a table of named columns."""
    return _by_name(path, "") in TABLES


def column_names(path: Location, reading: Reading) -> list[str]:
    """The names of the columns of a CSV or Parquet file, without reading its rows."""
    with _opened(path, reading, "csv") as (file, form, reading):
        return list(next(_chunks(file, told(path), form, reading)).columns)


def load_columns(path: Location, reading: Reading) -> Columns:
    """The columns of a CSV or Parquet file and its target, before anything is encoded."""
    with _opened(path, reading, "csv") as (file, form, reading):
        return read_columns(_chunks(file, told(path), form, reading), reading, told(path))


def stream(
    path: Location, encoding: Encoding, note: Note, reading: Reading | None = None
) -> Iterator[Any]:
    """Rows of a file for a model with this encoding, some at a time, in constant memory (NPZ: all at once).

    ``reading`` may give another ``format`` or ``separator`` than that of the model's file.
    """
    return (part.X for part in stream_parts(path, encoding, note, reading))


def stream_parts(
    path: Location, encoding: Encoding, note: Note, reading: Reading | None = None
) -> Iterator[Part]:
    """As ``stream``, with the columns that ``reading`` keeps ``aside`` and the labels of a LIBSVM file."""
    where, given = told(path), reading or Reading()
    if is_shard_folder(path):
        yield from _of_shards(path, encoding)
        return
    table = isinstance(encoding, TableEncoding)
    with _opened(path, given, "csv" if table else "libsvm") as (file, form, _):
        if table != (form in TABLES):
            kinds = ("a table", "rows without names (LIBSVM or NPZ)")
            mine, theirs = kinds if table else kinds[::-1]
            raise InputError(
                f"the model was fitted on {mine}; {where} is read as {form}, which is {theirs}"
            )
        if isinstance(encoding, TableEncoding):
            how = Reading(
                separator=given.separator or encoding.separator, header=encoding.header,
                dates=encoding.dates, aside=given.aside,
            )  # fmt: skip
            for chunk in _chunks(file, where, form, how):
                _check_aside(chunk, given.aside)
                if len(chunk):
                    kept = {name: chunk.columns[name] for name in given.aside}
                    yield Part(encoding.rows(chunk, note), kept, chunk=chunk)
                else:
                    encoding.check(chunk)
            return
        _refuse_options_of_tables(given, where, form)
        if form == "npz":
            X, others = read_matrix(file, where)
            if X.shape[1] != encoding.features:
                raise InputError(
                    f"{where} has {X.shape[1]} columns; the model knows {encoding.features}"
                )
            yield Part(X, {}, others.get("y"))
        else:
            for rows, *_ in libsvm_blocks(file, where):
                yield Part(encoding.rows(_as_written(rows), note, where), {}, rows.targets)


def _of_shards(path: Location, encoding: Encoding) -> Iterator[Part]:
    X, y = open_shards(path)
    if isinstance(encoding, TableEncoding) or X.shape[1] != encoding.features:
        raise InputError(
            f"the model was not fitted on rows like those of {os.fspath(path)}: {X.shape[1]} features without names"
        )
    for start, part in X.matrices():
        yield Part(part, {}, y[start : start + part.shape[0]])


class Part(NamedTuple):
    """Some rows of a file in the form that the model takes, with the columns kept aside and the labels if known."""

    X: DataMatrix
    aside: Mapping[str, Values]
    y: AnyArray | None = None
    chunk: Chunk | None = None
    """The unencoded rows of the table."""


def _check_aside(chunk: Chunk, wanted: tuple[str, ...]) -> None:
    for name in wanted:
        if name not in chunk.columns:
            raise InputError(
                f"--keep, --score, --offset and --exposure must find their columns in {chunk.where}, which lacks {name!r}"
                f"{several(name, list(chunk.columns))}; its columns are {listed(list(chunk.columns))}"
            )


def _refuse_options_of_tables(reading: Reading, where: str, form: str) -> None:
    refuse_for_tables(where, form, {
        "--impute": reading.impute, "--categorical": reading.categorical, "--drop": reading.drop,
        "--date": reading.dates, "--groups, --time, --offset, --exposure and --keep": reading.aside,
        "--drop-missing-target": reading.drop_missing_target,
    })  # fmt: skip


def refuse_for_tables(where: str, form: str, options: Mapping[str, object]) -> None:
    """Refuse options, if they are given, that a file of this format has no use for."""
    for option, value in options.items():
        if value:
            raise InputError(f"{option}: this is for tables, and {where} is read as {form}")


@contextmanager
def _opened(
    path: Location, reading: Reading, default: str
) -> Iterator[tuple[BinaryIO, str, Reading]]:
    """The bytes of a file, its format, and how to read it: what is not given, the first bytes and the name tell."""
    if reading.separator is None and ".tsv" in os.fspath(path).lower():
        reading = replace(reading, separator="\t")
    with opened(_located(path, reading, default)) as file:
        yield file, reading.format or binary_format(file) or _by_name(path, default), reading


def _located(path: Location, reading: Reading, default: str) -> Location:
    """The path of the file; the name of a known LIBSVM data set takes precedence over a file of that name."""
    if str(path) in CATALOGUE and default == "libsvm":
        return fetch(path, progress=True)
    if str(path) == STDIN or (os.path.exists(path) and not os.path.isdir(path)):
        return path
    if os.path.isdir(path):
        raise InputError(f"{os.fspath(path)} is a folder; give a file")
    if (reading.format or _by_name(path, default)) != "libsvm":
        raise InputError(f"there is no file {os.fspath(path)!r}")
    return fetch(path, progress=True)


def _by_name(path: Location, default: str) -> str:
    name = os.fspath(path).lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    return next((form for ending, form in ENDINGS.items() if name.endswith(ending)), default)


def _chunks(file: BinaryIO, where: str, form: str, reading: Reading) -> Iterator[Chunk]:
    if form == "parquet":
        return read_parquet(
            file, where, dropped=reading.drop, dates=reading.dates, aside=reading.aside
        )
    return read_csv(file, where, separator=reading.separator or ",", header=reading.header)


def _as_written(rows: Block) -> sp.csr_matrix:
    """Rows of LIBSVM text as a matrix in which column j is the index j."""
    indices, indptr = np.asarray(rows.indices), np.asarray(rows.indptr)
    width = int(indices.max(initial=0)) + 1 if rows.rows else 0
    return sp.csr_matrix((rows.values, indices, indptr), (rows.rows, width))


def _libsvm(file: BinaryIO, where: str) -> Data:
    found = [rows for rows, *_ in libsvm_blocks(file, where) if rows.rows]
    if not found:
        raise InputError(f"{where} is empty")
    rows = Block.join(found)
    X = _as_written(rows)
    first = 0 if X[:, :1].nnz else 1
    encoding = RowsEncoding(X.shape[1] - first, first)
    if not encoding.features:
        raise InputError(f"{where} has labels and no features")
    return Data(encoding.rows(X, lambda text: None, where), rows.targets, encoding)
