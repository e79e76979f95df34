"""LIBSVM text, read some lines at a time: for files larger than memory, for pipes, and for labels kept as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.core import native
from reshuffle.datasets.svmlight import LARGEST, MOST_FEATURES
from reshuffle.errors import InputError

LINES = 1 << 13
"""The number of lines in a block: a few MB of a typical file."""
SHOWN = 80  # A message shows at most this many characters of a line.
Block = tuple[sp.csr_matrix, NDArray[np.float64]]


def libsvm_blocks(file: BinaryIO, where: str, *, lines: int = LINES) -> Iterator[Block]:
    """Rows and labels, block by block; column j of the rows is the index j as it is written."""
    first = 1
    while held := list(islice(file, lines)):
        yield _parsed(held, first, where)
        first += len(held)


def _parsed(lines: list[bytes], first: int, where: str) -> Block:
    text = b"".join(lines)
    values, indices, ends, labels, fault, line, _ = native.parse_libsvm(text, MOST_FEATURES)
    if fault:
        raise InputError(_wrong(lines[line - 1], fault, first + line - 1, where))
    width = int(indices.max(initial=0)) + 1 if labels.size else 0
    return sp.csr_matrix((values, indices, ends), (labels.size, width)), labels


def _wrong(line: bytes, fault: str, number: int, where: str) -> str:
    if fault in ("label", "value"):
        return f"{where}, line {number} holds a number that is too large: {_short(line)}"
    _, indices, _, _, again, _, _ = native.parse_libsvm(line, LARGEST)
    if fault == "index" and not again:
        return (
            f"{where}, line {number}: feature index {indices.max():,} is beyond {MOST_FEATURES:,}; a model holds a number "
            "for each index up to the largest: renumber the features that occur, from 1 on"
        )
    form = "'label index:value …', numbers, indices rising"
    return f"{where}, line {number} is not in LIBSVM format ({form}): {_short(line)}"


def _short(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\r\n")
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
