"""LIBSVM text, some lines at a time: for files larger than memory, for pipes, and for labels as they are written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.datasets.svmlight import LINE, MOST_FEATURES
from reshuffle.errors import InputError

LINES = 1 << 13
"""Lines of a block: some MB of a usual file."""
SHOWN = 80  # characters of a line in a message
Block = tuple[sp.csr_matrix, NDArray[np.float64]]


def libsvm_blocks(file: BinaryIO, where: str, *, lines: int = LINES) -> Iterator[Block]:
    """Rows and labels, block by block; column j of the rows is the index j as it is written."""
    held: list[bytes] = []
    first = 1
    for number, line in enumerate(file, 1):
        if not LINE.fullmatch(line):
            raise InputError(_wrong(line, number, where))
        held.append(line)
        if len(held) == lines:
            yield _parsed(held, first, where)
            held, first = [], number + 1
    yield _parsed(held, first, where)


def _parsed(lines: list[bytes], first: int, where: str) -> Block:
    """A block; where it cannot be read, its lines one by one, to find the one that is wrong."""
    try:
        X, labels = _read(b"".join(lines))
        good = np.isfinite(labels).all() and np.isfinite(X.data).all()
        if good and X.shape[1] <= MOST_FEATURES + 1:
            return X, labels
    except (ValueError, OverflowError):
        pass
    for number, line in enumerate(lines, first):
        _check(line, number, where)
    raise InputError(f"{where}: lines {first} to {first + len(lines) - 1} cannot be read")


def _read(text: bytes) -> tuple[Any, NDArray[np.float64]]:
    from sklearn.datasets import load_svmlight_file

    if not text.strip():
        return sp.csr_matrix((0, 0)), np.empty(0)
    X, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    return X, labels


def _check(line: bytes, number: int, where: str) -> None:
    """Refuse a line that has the form of one, and cannot be a row."""
    try:
        X, labels = _read(line)
    except (ValueError, OverflowError):
        raise InputError(_wrong(line, number, where)) from None
    if not (np.isfinite(labels).all() and np.isfinite(X.data).all()):
        raise InputError(f"{where}, line {number} holds a number that is too large: {_short(line)}")
    if X.shape[1] > MOST_FEATURES + 1:
        raise InputError(
            f"{where}, line {number}: feature index {X.shape[1] - 1:,} is beyond {MOST_FEATURES:,}; a model holds a number "
            "for each index up to the largest: number the features that there are from 1 on"
        )


def _wrong(line: bytes, number: int, where: str) -> str:
    form = "'label index:value …', numbers, indices rising"
    return f"{where}, line {number} is not in LIBSVM format ({form}): {_short(line)}"


def _short(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\r\n")
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
