"""Reads a dataset of Ray in batches: columns of numbers, and a target that may be classes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from reshuffle.datasets.conversion.source import Conversion
from reshuffle.datasets.conversion.table_source import BATCH, TableSource

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema, Table


class RowBatches(Protocol):
    """The part of ``ray.data.Dataset`` that is used here."""

    def schema(self) -> Schema: ...

    def iter_batches(self, *, batch_size: int, batch_format: str) -> Iterable[Table]: ...


class BatchesSource(TableSource):
    """A ``ray.data.Dataset``, whose batches come to this process one after the other.

    Its rows may come in another order when it is read again, so an interrupted conversion begins anew.
    """

    def __init__(self, dataset: RowBatches, how: Conversion) -> None:
        self.dataset = dataset
        super().__init__("ray.data.Dataset", "dataset", how)

    def identity(self) -> dict[str, object]:
        return {"name": self.path, "read": uuid.uuid4().hex}

    def progress(self) -> tuple[int, int]:
        return 0, 0

    def _column_names(self) -> list[str]:
        return list(self.dataset.schema().names)

    def _batches(self) -> Iterator[RecordBatch]:
        wanted = [*self.names, self.target]
        for table in self.dataset.iter_batches(batch_size=BATCH, batch_format="pyarrow"):
            yield from table.select(wanted).combine_chunks().to_batches()
