"""Tables in Parquet files, by pyarrow (the extra ``tables``)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from reshuffle.datasets.chunks import ROWS, Chunk, Values, check_names
from reshuffle.datasets.source import damage
from reshuffle.errors import InputError, extra

if TYPE_CHECKING:
    from pyarrow import ChunkedArray

INDEX = re.compile(r"__index_level_\d+__")
"""The name that pandas gives to an unnamed index: row numbers, which pandas does not treat as a column either."""


def read_parquet(
    file: BinaryIO,
    where: str,
    *,
    dropped: tuple[str, ...] = (),
    dates: tuple[str, ...] = (),
    aside: tuple[str, ...] = (),
    rows: int = ROWS,
) -> Iterator[Chunk]:
    """The chunks of a table; the first may be empty, but it has the names.

    Columns that are ``dropped`` are not read; those that are ``dates`` become days since 1970-01-01, and dates
    in those that are kept ``aside`` become texts.
    """
    with extra("tables", "pyarrow", f"{where} is a Parquet file, which"):
        import pyarrow
        from pyarrow import dataset, parquet
    errors = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
    with damage(f"{where} is not a Parquet file, or is damaged", *errors):
        source = pyarrow.PythonFile(_seekable(file), mode="r")
        stored = parquet.ParquetFile(source)
        names = list(stored.schema_arrow.names)
        check_names(names, where)
        names = [name for name in names if not INDEX.fullmatch(name)]
        kept = [name for name in names if name not in dropped]
        first = 1
        yield Chunk({name: np.empty(0) for name in names}, [], where, "row")
        # stored.iter_batches is not used: it reads row groups of other types as if they had the table's types.
        fragment = dataset.ParquetFileFormat().make_fragment(source)
        for batch in fragment.to_batches(columns=kept, batch_size=rows, use_threads=False):
            places = range(first, first + batch.num_rows)
            columns = {
                name: _values(batch.column(k), name, where, name in dates, name in aside)
                for k, name in enumerate(kept)
            }
            yield Chunk(columns, places, where, "row")
            first += batch.num_rows
        said, found = stored.metadata.num_rows, first - 1
        if found != said:  # pyarrow stops at the end of the shortest column.
            raise InputError(
                f"{where} is damaged: it says that it has {said:,} rows, and has {found:,}"
            )


def _seekable(file: BinaryIO) -> object:
    """A seekable file: Parquet is read from its end, so data from a pipe or a decompressor is held in memory."""
    plain = isinstance(getattr(file, "raw", None), io.FileIO) and file.seekable()
    return file if plain else io.BytesIO(file.read())


def as_floats(column: ChunkedArray) -> NDArray[np.float64] | None:
    """A column of numbers, or of truth values, with NaN for a missing value; None if it holds something else."""
    from pyarrow import compute, types

    plain = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if not any(holds(column.type) for holds in plain):
        return None
    numbers = compute.cast(column, "float64", safe=False)
    return np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def _values(column: ChunkedArray, name: str, where: str, as_date: bool, as_text: bool) -> Values:
    from pyarrow import compute, timestamp, types

    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_boolean(kind):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if (numbers := as_floats(column)) is not None:
        return numbers
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return [None if v is None else v.strip() for v in column.to_pylist()]
    if as_date and (types.is_date(kind) or types.is_timestamp(kind)):
        moments = compute.cast(column, timestamp("us"), safe=False)
        counted = as_floats(compute.cast(moments, "int64"))
        return np.array(counted) / 86_400e6
    if as_text and types.is_temporal(kind):
        return compute.cast(column, "string").to_pylist()  # type: ignore[no-any-return]
    what = "dates or times" if types.is_temporal(kind) else f"values of type {kind}"
    raise InputError(
        f"{where}: column {name!r} holds {what}, which a linear model cannot take as they are: give --date {name} "
        f"to take dates as days, turn them into numbers first, or leave the column out with --drop {name}"
    )
