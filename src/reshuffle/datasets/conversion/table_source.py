"""Reads tables of numbers (CSV and Parquet) in blocks of dense rows, as a stream of pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.datasets.chunks import check_names
from reshuffle.datasets.conversion.source import Conversion, Place, Placed, Source, identity_of
from reshuffle.datasets.parquet_file import as_floats
from reshuffle.datasets.table import check_named
from reshuffle.datasets.unfit import quoted
from reshuffle.errors import InputError
from reshuffle.shards import Block

if TYPE_CHECKING:
    from pyarrow import Array as ArrowArray
    from pyarrow import NativeFile, RecordBatch, Schema
    from pyarrow.csv import CSVStreamingReader

BATCH = 1 << 16
"""Rows of a batch of a Parquet file."""
TEXT = 8 << 20
"""Bytes of a block of a CSV file."""
MOST_CLASSES = 1000
"""The most different texts of a target: more are names, not classes."""


class TableSource(Source):
    """A table whose columns are numbers, except a target that may be classes."""

    dense = True

    def __init__(self, path: str, kind: str, how: Conversion) -> None:
        try:
            import pyarrow  # noqa: F401 -- asked for here, before any work
        except ImportError:
            raise InputError(
                f'{path}: tables are converted by pyarrow: pip install "reshuffle[tables]"'
            ) from None
        self.path, self.kind, self.how = path, kind, how
        self.separator = how.separator or ("\t" if ".tsv" in path.lower() else ",")
        self._raw = None
        self._codes: dict[str, int] = {}
        names = self._column_names()
        check_names(names, path)
        check_named(names, path, how.target, {"drop": how.drop})
        self.target = str(how.target)
        self.names = tuple(n for n in names if n != self.target and n not in how.drop)
        if not self.names:
            raise InputError(f"{path} has no column besides the target")
        self.features, self.about = len(self.names), self.identity()

    def identity(self) -> dict[str, object]:
        return identity_of(
            self.path, number=self.how.number, target=self.target, dropped=list(self.how.drop), separator=self.separator
        )  # fmt: skip

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self._codes)

    def progress(self) -> tuple[int, int]:
        raw = self._raw
        return (0 if raw is None or raw.closed else raw.tell()), os.stat(self.path).st_size

    def blocks(self, place: Place) -> Iterator[Placed]:
        """All blocks; a table is read from its beginning."""
        import pyarrow

        first = 1
        try:
            for batch in self._batches():
                if batch.num_rows:
                    yield Placed(self._block(batch, first), {})
                first += batch.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            text = str(error).split("\n")[0]
            raise InputError(
                f"{self.path}: {text}. Every column that is converted must hold plain numbers: leave others out with "
                "--drop, or turn them into numbers first"
            ) from None

    # --- what pyarrow gives ------------------------------------------------------------------------

    def _opened(self) -> NativeFile:
        import pyarrow

        raw = pyarrow.OSFile(self.path)
        self._raw = raw
        codec = {".gz": "gzip", ".bz2": "bz2"}.get(os.path.splitext(self.path)[1].lower())
        return raw if codec is None else pyarrow.CompressedInputStream(raw, codec)

    def _column_names(self) -> list[str]:
        return list(self._schema().names)

    def _schema(self) -> Schema:
        import pyarrow
        from pyarrow import parquet

        try:
            if self.kind == "parquet":
                return parquet.read_schema(self.path)
            with self._csv() as stream:
                return stream.schema
        except (pyarrow.ArrowException, OSError) as error:
            text = str(error).split("\n")[0]
            raise InputError(f"{self.path} cannot be read as {self.kind}: {text}") from None

    def _csv(self, **kinds: Any) -> CSVStreamingReader:
        from pyarrow import csv

        return csv.open_csv(
            self._opened(),
            read_options=csv.ReadOptions(block_size=TEXT),
            parse_options=csv.ParseOptions(delimiter=self.separator),
            convert_options=csv.ConvertOptions(**kinds),
        )

    def _batches(self) -> Iterator[RecordBatch]:
        import pyarrow
        from pyarrow import dataset

        wanted = [*self.names, self.target]
        if self.kind == "parquet":
            self._raw = pyarrow.OSFile(self.path)
            fragment = dataset.ParquetFileFormat().make_fragment(self._raw)
            yield from fragment.to_batches(columns=wanted, batch_size=BATCH, use_threads=False)
            return
        schema = self._schema()
        kinds = dict.fromkeys(self.names, pyarrow.float64())
        text = pyarrow.types.is_string(schema.field(self.target).type)
        kinds[self.target] = pyarrow.string() if text else pyarrow.float64()
        with self._csv(column_types=kinds, include_columns=wanted) as stream:
            yield from stream

    def _block(self, batch: RecordBatch, first: int) -> Block:
        values = np.empty((batch.num_rows, len(self.names)), dtype=self.how.number)
        for j, name in enumerate(self.names):
            values[:, j] = self._numbers(batch.column(j), name, first)
        column = batch.column(len(self.names))
        return Block(values, None, None, self._targets(column, first))

    def _numbers(self, column: ArrowArray, name: str, first: int) -> NDArray[np.float64]:
        found = as_floats(column)
        if found is None:
            raise InputError(
                f"{self.path}: column {name!r} holds values of type {column.type}; convert takes numbers: leave it out with "
                f"--drop {quoted(name)}, or turn it into numbers first"
            )
        bad = ~np.isfinite(found)
        if bad.any():
            row = first + int(np.argmax(bad))
            what = "no value" if np.isnan(found[row - first]) else "an infinite value"
            raise InputError(
                f"{self.path}, row {row}: column {name!r} has {what}; fill it in or leave the row out before converting"
            )
        return found

    def _targets(self, column: ArrowArray, first: int) -> NDArray[np.float64]:
        from pyarrow import types

        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            return self._numbers(column, self.target, first)
        if column.null_count:
            raise InputError(
                f"{self.path}: the target {self.target!r} has rows without a value after row {first - 1}"
            )
        coded = column.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        for text in texts:
            self._codes.setdefault(text, len(self._codes))
        if len(self._codes) > MOST_CLASSES:
            some = ", ".join(repr(t) for t in islice(self._codes, 3))
            raise InputError(
                f"{self.path}: the target {self.target!r} has more than {MOST_CLASSES} different texts ({some}, …): "
                "classes are wanted, or numbers"
            )
        places = np.array([self._codes[text] for text in texts], dtype=np.float64)
        found: NDArray[np.float64] = places[np.asarray(coded.indices)]
        return found
