"""LIBSVM text, some lines at a time: for files larger than memory, for pipes, and for labels as they are written."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.errors import InputError

LINES = 1 << 13
"""Lines of a block: some MB of a usual file."""
MOST = 10**8
"""The largest index that is believed: a model holds a number for each, here 0.8 GB of them."""
SHOWN = 80  # characters of a line in a message
_PAIR = re.compile(rb"\d+:[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").fullmatch
_LABEL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").fullmatch


def libsvm_blocks(
    file: BinaryIO, where: str, *, lines: int = LINES
) -> Iterator[tuple[sp.csr_matrix, NDArray[np.float64]]]:
    """Rows and labels, block by block; column j of the rows is the index j as it is written."""
    held: list[bytes] = []
    first = 1
    for number, line in enumerate(file, 1):
        held.append(line)
        if len(held) == lines:
            yield _parsed(held, first, where)
            held, first = [], number + 1
    yield _parsed(held, first, where)


def _parsed(
    lines: list[bytes], first: int, where: str
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    from sklearn.datasets import load_svmlight_file

    if not any(line.strip() for line in lines):
        return sp.csr_matrix((0, 0)), np.empty(0)
    try:
        X, labels = load_svmlight_file(
            io.BytesIO(b"".join(_plain(line) for line in lines)), zero_based=True
        )
    except (ValueError, OverflowError, MemoryError) as error:
        wrong = _first_wrong(lines)
        if wrong is None:
            raise InputError(f"{where}, lines from {first}: {error}") from None
        raise InputError(
            f"{where}, line {first + wrong} is not in LIBSVM format ('label index:value …', indices rising): "
            f"{_short(lines[wrong])}"
        ) from None
    _check(X, labels, lines, first, where)
    return X, labels


def _plain(line: bytes) -> bytes:
    """A line whose numbers are plain; Python's own ``1_0`` and ``nan`` make the parser fail."""
    return (
        b"?\n" if b"_" in line.split(b"#", 1)[0] else line if line.endswith(b"\n") else line + b"\n"
    )


def _check(X: Any, labels: Any, lines: list[bytes], first: int, where: str) -> None:
    good = np.isfinite(labels).all() and np.isfinite(X.data).all() and X.shape[1] <= MOST
    if good:
        return
    for k, line in enumerate(lines):
        words = line.split(b"#", 1)[0].split()
        if not words:
            continue
        place = f"{where}, line {first + k}"
        if _LABEL(words[0]) is None or not np.isfinite(float(words[0])):
            raise InputError(f"{place}: the label must be a finite number, got {_short(words[0])}")
        pairs = [word.split(b":") for word in words[1:] if not word.startswith(b"qid")]
        if any(not np.isfinite(float(value)) for _, value in pairs):
            raise InputError(f"{place}: values must be finite numbers, got {_short(line)}")
        if pairs and int(pairs[-1][0]) >= MOST:
            raise InputError(
                f"{place}: feature index {int(pairs[-1][0]):,} is beyond {MOST:,}; a model holds a number for each "
                "index up to the largest: number the features that there are from 1 on"
            )


def _first_wrong(lines: list[bytes]) -> int | None:
    """The first line that is not in LIBSVM format."""
    for k, line in enumerate(lines):
        words = line.split(b"#", 1)[0].split()
        if not words:
            continue
        pairs = [word for word in words[1:] if not word.startswith(b"qid:")]
        labels = words[0].split(b",")
        if not all(map(_LABEL, labels)) or len(labels) > 1 or not all(map(_PAIR, pairs)):
            return k
        indices = [int(pair.split(b":")[0]) for pair in pairs]
        if any(a >= b for a, b in pairwise(indices)) or max(indices, default=0) >= 2**31 - 1:
            return k
    return None


def _short(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\r\n")
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
