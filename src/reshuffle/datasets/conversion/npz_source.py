"""Reads matrices of numpy and scipy (``.npz``) in blocks: the members of the file are read side by side, some MB at a time."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from typing import IO

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from reshuffle.arrays import AnyArray
from reshuffle.datasets.conversion.source import Conversion, Place, Placed, Source, identity_of
from reshuffle.datasets.npz_file import DAMAGE, TARGET, read_header
from reshuffle.datasets.source import damage
from reshuffle.errors import InputError
from reshuffle.shards import Block

BLOCK = 8 << 20
"""Bytes of values of a block."""
OF_ROWS = ("sample_weight", "offset", "exposure")
"""Arrays with one number for each row that sites read besides X and y, but that shards cannot hold."""


class _Array:
    """An array of a file or of a member of a zip, read from its beginning to its end."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file = file
        self.shape, by_columns, self.dtype = read_header(file)
        if (by_columns and len(self.shape) > 1) or self.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be an array of numbers, row by row")

    def take(self, count: int, kind: DTypeLike) -> AnyArray:
        """The next entries (rows, of a matrix) as numbers of a kind."""
        each = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        content = self.file.read(count * each)
        if len(content) < count * each:
            raise EOFError("an array ends too early")
        found = np.frombuffer(content, dtype=self.dtype).astype(kind)
        return found.reshape(count, *self.shape[1:])


class NpzSource(Source):
    """A sparse matrix as ``scipy.sparse.save_npz`` writes it (CSR), or a dense member ``X``; targets in a member."""

    def __init__(self, path: str, how: Conversion) -> None:
        self.path, self.number, self._at = path, how.number, 0
        wrong = f"{path} is not a .npz file of a matrix, or is damaged"
        with damage(wrong, *DAMAGE), zipfile.ZipFile(path) as archive:
            members = [name.removesuffix(".npy") for name in archive.namelist()]
            self.dense = "indptr" not in members
            if not self.dense:
                form = str(np.load(archive.open("format.npy")).item().decode())
                if form != "csr":
                    raise InputError(
                        f"{path} holds a {form.upper()} matrix; save it as CSR: scipy.sparse.save_npz(path, X.tocsr())"
                    )
                self.rows, self.features = (int(k) for k in np.load(archive.open("shape.npy")))
            elif "X" in members:
                self.rows, self.features = _Array(archive.open("X.npy"), "X").shape
            else:
                raise InputError(
                    f"{path} must hold a CSR matrix of scipy, or a matrix X, got {', '.join(members)}"
                )
        self.target = how.target or TARGET
        if lost := [name for name in OF_ROWS if name in members and name != self.target]:
            raise InputError(
                f"{path} holds {' and '.join(lost)} beside its rows, which shards do not keep: a model of them would be another "
                "one. Fit the file as it is, in memory, or leave these arrays out of it"
            )
        if self.target not in members and not (how.target and os.path.isfile(how.target)):
            raise InputError(
                f"--target must name an array of {path} or a file of numpy (.npy), got {self.target!r}: it holds "
                f"{', '.join(members)}"
            )
        self.inside = self.target in members
        self.about = identity_of(path, number=how.number, target=self.target)

    def progress(self) -> tuple[int, int]:
        return self._at, self.rows

    def blocks(self, place: Place) -> Iterator[Placed]:
        """All blocks; a file is read from its beginning."""
        with (
            damage(f"{self.path} is damaged", *DAMAGE),
            zipfile.ZipFile(self.path) as archive,
            archive.open(f"{self.target}.npy") if self.inside else open(self.target, "rb") as file,
        ):
            labels = _Array(file, self.target)
            if labels.shape != (self.rows,):
                raise InputError(
                    f"target {self.target!r} must hold {self.rows} entries, one per row, got shape {labels.shape}"
                )
            for block in (self._dense if self.dense else self._sparse)(archive, labels):
                self._check(block)
                self._at += block.rows
                yield Placed(block, {})

    def _dense(self, archive: zipfile.ZipFile, labels: _Array) -> Iterator[Block]:
        X = _Array(archive.open("X.npy"), "X")
        most = max(BLOCK // max(8 * self.features, 1), 1)
        for start in range(0, self.rows, most):
            count = min(most, self.rows - start)
            yield Block(X.take(count, self.number), None, None, labels.take(count, float))

    def _sparse(self, archive: zipfile.ZipFile, labels: _Array) -> Iterator[Block]:
        parts = ("indptr", "indices", "data")
        starts, indices, values = (_Array(archive.open(f"{name}.npy"), name) for name in parts)
        before, done = int(starts.take(1, np.int64)[0]), 0
        if before or starts.shape != (self.rows + 1,):
            raise ValueError("indptr does not begin with 0 or has another length")
        held: AnyArray = np.empty(0, dtype=np.int64)
        while done < self.rows:
            if not held.size:
                held = starts.take(min(BLOCK // 8, self.rows - done), np.int64)
            count = max(int(np.searchsorted(held, before + BLOCK // 8, side="right")), 1)
            ends, held = held[:count], held[count:]
            indptr = np.concatenate([[0], ends - before])
            if np.any(np.diff(indptr) < 0):
                raise ValueError("indptr falls")
            stored = int(indptr[-1])
            columns, numbers = indices.take(stored, np.int64), values.take(stored, self.number)
            if stored and not 0 <= int(columns.min()) <= int(columns.max()) < self.features:
                raise ValueError("a column index lies beyond the features")
            parts_of_rows = (numbers, columns.astype(np.int32), indptr)
            X = sp.csr_matrix(parts_of_rows, (count, self.features))
            X.sum_duplicates()
            yield Block(X.data, X.indices, X.indptr.astype(np.int64), labels.take(count, float))
            before, done = int(ends[-1]), done + count

    def _check(self, block: Block) -> None:
        for name, array in (("a value", block.values), ("a target", block.targets)):
            if not np.isfinite(array).all():
                raise InputError(
                    f"{self.path} has {name} that is no finite number, after row {self._at}"
                )
