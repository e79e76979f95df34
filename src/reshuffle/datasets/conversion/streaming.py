"""``convert``: streams a file of any known format into a folder of shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from reshuffle.datasets.conversion.batches_source import BatchesSource, RowBatches
from reshuffle.datasets.conversion.libsvm_source import LibsvmSource
from reshuffle.datasets.conversion.npz_source import NpzSource
from reshuffle.datasets.conversion.shard_source import ShardSource
from reshuffle.datasets.conversion.shuffling import FOLDER, Buckets
from reshuffle.datasets.conversion.source import Conversion, Placed, Source
from reshuffle.datasets.conversion.table_source import TableSource
from reshuffle.datasets.libsvm import fetch
from reshuffle.datasets.reading import PACKED, TABLES, form_of, refuse_for_tables
from reshuffle.errors import FileError, InputError, shown
from reshuffle.files import Location, check_folder
from reshuffle.shards import (
    Block,
    Manifest,
    ShardWriter,
    is_shard_folder,
    read_manifest,
    write_manifest,
)
from reshuffle.shards.layout import MANIFEST
from reshuffle.shards.writer import FULL, rows_of_a_shard

SELDOM = 20
"""The manifest is rewritten whenever the number of shards has grown by 1/SELDOM, so that this stays a small part of the work."""
Progress = Callable[[str, int, int], None]
"""A function of a word for the stage, the bytes or rows so far, and their total, which is 0 if it is not known."""


def convert(
    data: Location | RowBatches,
    folder: Location,
    how: Conversion | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Stream a file, or a ``ray.data.Dataset`` of rows, into a folder of shards; the manifest of the folder at the end.

    Memory is bounded, whatever the size of the file. A conversion that was ended by a signal or a full disk continues after
    its finished shards when it is called again with the same arguments.

    Examples
    --------
    >>> import tempfile
    >>> path, folder = tempfile.mkdtemp() + "/rows", tempfile.mkdtemp() + "/shards"
    >>> with open(path, "w") as f:
    ...     _ = f.write("+1 1:0.5 3:2\\n-1 2:1\\n+1 3:1\\n")
    >>> manifest = convert(path, folder)
    >>> manifest.rows, manifest.features, manifest.stored
    (3, 3, 4)
    """
    how, target = how or Conversion(), Path(folder)
    source = _source(data, how)
    identity = source.about | {"shuffle": how.seed if how.shuffle else -1}
    manifest = _earlier(target, identity, how)
    if manifest is not None and manifest.complete:
        return manifest
    return _Run(source, target, how, identity, progress or (lambda *_: None)).go(manifest)


class _Run:
    """One conversion."""

    def __init__(
        self, source: Source, folder: Path, how: Conversion, identity: Mapping[str, object], progress: Progress
    ) -> None:  # fmt: skip
        self.source, self.folder, self.how = source, folder, how
        self.identity, self.progress = identity, progress

    def go(self, manifest: Manifest | None) -> Manifest:
        if not self.how.shuffle:
            place = {} if manifest is None else manifest.source["place"]
            return self._write(manifest, self.source.blocks(place), "converting")
        if manifest is None:
            packed = str(self.identity.get("name", "")).endswith(PACKED)
            count = Buckets.needed(int(str(self.identity.get("bytes", 0))), packed)
        else:
            count = int(manifest.source["buckets"])
        buckets = Buckets(self.folder, count, self.source.dense, self.how.number, self.how.seed)
        if manifest is None:
            self._deal(buckets)
        done = self._write(manifest, buckets.blocks(), "shuffling", buckets=count)
        buckets.remove()
        return done

    def _deal(self, buckets: Buckets) -> None:
        """The first pass: deal rows into buckets. If it was interrupted, it begins anew."""
        try:
            buckets.begin()
            for _ in buckets.deal(self.source.blocks({})):
                self.progress("dealing rows into buckets", *self.source.progress())
        except OSError as error:
            buckets.remove()
            if error.errno not in FULL:
                raise
            raise FileError(
                f"the disk of {self.folder} is full: a shuffled conversion needs room for the rows twice. Nothing is kept; make "
                "room and run the same command again",
                error.errno,
            ) from None

    def _write(
        self, manifest: Manifest | None, blocks: Iterator[Placed], what: str, **source: object
    ) -> Manifest:
        writer, skip, start, noted = None, 0, 0, 0
        if manifest is not None:
            writer = ShardWriter(self.folder, manifest)
            skip, noted = (int(manifest.source.get(name, 0)) for name in ("skip", "features"))
            start = manifest.rows - skip
        for block, place in blocks:
            if writer is None:
                writer = ShardWriter(self.folder, self._first(block, source))
            dropped = min(skip, block.rows)
            written = writer.append(block.part(dropped, block.rows) if dropped else block)
            begin, start, skip = start, start + block.rows, skip - dropped
            shards = len(writer.manifest.shards)
            if written and shards % max(shards // SELDOM, 1) == 0:
                here = place if not self.how.shuffle else {}
                used = writer.manifest.rows - (begin if here else 0)
                features = max(self.source.features, writer.manifest.features)
                writer.note(features=features, place=here, skip=used)
            done = (writer.manifest.rows, 0) if self.how.shuffle else self.source.progress()
            self.progress(what, *done)
        if writer is None:
            raise InputError(f"{self.identity['name']} holds no row")
        features = max(self.source.features, writer.manifest.features, noted)
        if not features:
            raise InputError(f"{self.identity['name']} has labels and no features")
        classes = self.source.classes or tuple(writer.manifest.classes)
        return writer.finish(features=features, classes=classes, names=self.source.names)

    def _first(self, block: Block, source: dict[str, object]) -> Manifest:
        """The manifest of a folder in which there is no shard yet."""
        rows = self.how.shard_rows or rows_of_a_shard(block)
        about = {"identity": self.identity, "place": {}, "skip": 0} | source
        manifest = Manifest(
            "dense" if self.source.dense else "csr", self.how.number, self.source.features, rows,
            classes=self.source.classes, names=self.source.names, source=about,
        )  # fmt: skip
        write_manifest(self.folder, manifest)
        return manifest


def _source(data: Location | RowBatches, how: Conversion) -> Source:
    if not isinstance(data, (str, os.PathLike)):
        return _batches(data, how)
    if is_shard_folder(data):
        return ShardSource(Path(data), how)
    path = os.fspath(data)
    form = how.format or form_of(
        path, "csv" if how.target and not path.endswith(".npz") else "libsvm"
    )
    if form == "libsvm":
        path = os.fspath(fetch(path, progress=False))
    elif not os.path.isfile(path):
        raise InputError(f"there is no file {path!r}")
    if form in TABLES:
        return TableSource(path, form, how)
    refuse_for_tables(path, form, {"--drop": how.drop, "--separator": how.separator})
    if form == "npz":
        return NpzSource(path, how)
    if how.target:
        raise InputError(f"--target: {path} is read as LIBSVM text, whose labels are the target")
    return LibsvmSource(path, how)


def _batches(data: RowBatches, how: Conversion) -> Source:
    if not (
        callable(getattr(data, "iter_batches", None)) and callable(getattr(data, "schema", None))
    ):
        raise InputError(
            f"data must be the name of a file or of a folder, or a ray.data.Dataset of rows, got {shown(data)}"
        )
    if how.format or how.separator:
        raise InputError("format and separator are for files, and a dataset was given")
    if how.shuffle:
        raise InputError(
            "shuffle: a dataset of unknown size is not dealt into buckets; convert it first, and then the folder into "
            "another one with shuffle=True"
        )
    return BatchesSource(data, how)


def _earlier(folder: Path, identity: dict[str, object], how: Conversion) -> Manifest | None:
    """The manifest that an earlier call left in the folder; a folder with other contents is refused."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not is_shard_folder(folder):
        for name in os.listdir(folder):
            if name != FOLDER and not name.startswith(f".{MANIFEST}"):
                raise InputError(
                    f"{folder} must be empty or hold an unfinished conversion; it holds {name!r}"
                )
        return None
    manifest = read_manifest(folder)
    rows = how.shard_rows or manifest.shard_rows
    if manifest.source.get("identity") != identity or rows != manifest.shard_rows:
        state = "a conversion" if manifest.complete else "an unfinished conversion"
        raise InputError(
            f"{folder} holds {state} of another file, of one that has changed since, or with other options: give an "
            "empty folder"
        )
    return manifest
