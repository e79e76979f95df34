"""Reads matrices of numpy and scipy (``.npz``) in blocks: the members of the file are read side by side, some MB at a time."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.conversion.source import Place, Placed, Source, identity_of
from reshuffle.datasets.matrix_file import TARGET
from reshuffle.datasets.npz_file import DAMAGE, read_header
from reshuffle.datasets.source import damage
from reshuffle.errors import InputError
from reshuffle.shards import Block

BLOCK = 8 << 20
"""Bytes of values of a block."""
OF_ROWS = ("sample_weight", "offset", "exposure")
"""Arrays with one number for each row that sites read besides X and y, but that shards cannot hold."""


class _Array:
    """An array of a zip file, read from its beginning to its end."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self.file = archive.open(f"{name}.npy")
        self.shape, by_columns, self.dtype = read_header(self.file)
        if (by_columns and len(self.shape) > 1) or self.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be an array of numbers, row by row")

    def take(self, count: int) -> AnyArray:
        """The next entries (rows, of a matrix)."""
        each = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        content = self.file.read(count * each)
        if len(content) < count * each:
            raise EOFError("an array ends too early")
        return np.frombuffer(content, dtype=self.dtype).reshape(count, *self.shape[1:])


class NpzSource(Source):
    """A sparse matrix as ``scipy.sparse.save_npz`` writes it (CSR), or a dense member ``X``; targets in a member."""

    def __init__(self, path: str, number: str, target: str | None) -> None:
        self.path, self.number, self._at = path, number, 0
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
                self.rows, self.features = _Array(archive, "X").shape
            else:
                raise InputError(
                    f"{path} must hold a CSR matrix of scipy, or a matrix X, got {', '.join(members)}"
                )
        self.target = target or TARGET
        if lost := [name for name in OF_ROWS if name in members and name != self.target]:
            raise InputError(
                f"{path} holds {' and '.join(lost)} beside its rows, which shards do not keep: a model of them would be another "
                "one. Fit the file as it is, in memory, or leave these arrays out of it"
            )
        if self.target not in members and not (target and os.path.isfile(target)):
            raise InputError(
                f"--target must name an array of {path} or a file of numpy (.npy), got {self.target!r}: it holds "
                f"{', '.join(members)}"
            )
        self.inside = self.target in members
        self.about = identity_of(path, number=number, target=self.target)

    def progress(self) -> tuple[int, int]:
        return self._at, self.rows

    def blocks(self, place: Place) -> Iterator[Placed]:
        """All blocks; a file is read from its beginning."""
        with damage(f"{self.path} is damaged", *DAMAGE), zipfile.ZipFile(self.path) as archive:
            for block in self._dense(archive) if self.dense else self._sparse(archive):
                self._check(block)
                self._at += block.rows
                yield Placed(block, {})

    def _dense(self, archive: zipfile.ZipFile) -> Iterator[Block]:
        X, labels = _Array(archive, "X"), _Targets(self, archive)
        most = max(BLOCK // max(8 * self.features, 1), 1)
        for start in range(0, self.rows, most):
            count = min(most, self.rows - start)
            yield Block(X.take(count).astype(self.number), None, None, labels.take(count))

    def _sparse(self, archive: zipfile.ZipFile) -> Iterator[Block]:
        starts, indices, values = (_Array(archive, name) for name in ("indptr", "indices", "data"))
        labels = _Targets(self, archive)
        before, done = int(starts.take(1)[0]), 0
        if before or starts.shape != (self.rows + 1,):
            raise ValueError("indptr does not begin with 0 or has another length")
        held: AnyArray = np.empty(0, dtype=np.int64)
        while done < self.rows:
            if not held.size:
                held = starts.take(min(BLOCK // 8, self.rows - done)).astype(np.int64)
            count = max(int(np.searchsorted(held, before + BLOCK // 8, side="right")), 1)
            ends, held = held[:count], held[count:]
            indptr = np.concatenate([[0], ends - before])
            if np.any(np.diff(indptr) < 0):
                raise ValueError("indptr falls")
            stored = int(indptr[-1])
            columns, numbers = indices.take(stored), values.take(stored)
            if stored and not 0 <= int(columns.min()) <= int(columns.max()) < self.features:
                raise ValueError("a column index lies beyond the features")
            X = sp.csr_matrix(
                (numbers.astype(self.number), columns.astype(np.int32), indptr),
                (count, self.features),
            )
            X.sum_duplicates()
            yield Block(X.data, X.indices, X.indptr.astype(np.int64), labels.take(count))
            before, done = int(ends[-1]), done + count

    def _check(self, block: Block) -> None:
        for name, array in (("a value", block.values), ("a target", block.targets)):
            if not np.isfinite(array).all():
                raise InputError(
                    f"{self.path} has {name} that is no finite number, after row {self._at}"
                )


class _Targets:
    """The targets, from a member of the file or from a file of their own."""

    def __init__(self, source: NpzSource, archive: zipfile.ZipFile) -> None:
        self.at = 0
        self.member = _Array(archive, source.target) if source.inside else None
        self.whole: Any = (
            None if source.inside else np.load(source.target, mmap_mode="r", allow_pickle=False)
        )
        shape = self.member.shape if self.member is not None else np.asarray(self.whole).shape
        if shape != (source.rows,):
            raise InputError(
                f"target {source.target!r} must hold {source.rows} entries, one per row, got shape {shape}"
            )

    def take(self, count: int) -> NDArray[np.float64]:
        """The next ``count`` targets."""
        start, self.at = self.at, self.at + count
        if self.member is not None:
            return self.member.take(count).astype(np.float64)
        return np.asarray(self.whole[start : self.at], dtype=np.float64)
