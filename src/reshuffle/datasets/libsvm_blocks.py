"""LIBSVM's text format, read strictly: ``label index:value index:value …``, a line for each sample.

``core/libsvm.hpp`` says what a line may be. What Python would also take for a number (``1_0``, ``nan``, digits of other
scripts) is refused with its line. Some MB of whole lines are parsed at a time, so that a file may be larger than memory, or
a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import BinaryIO, NamedTuple

from reshuffle.core import native
from reshuffle.errors import InputError
from reshuffle.shards import Block

MOST_FEATURES = 10_000_000  # A vector of this length takes 80 MB.
LARGEST = 2**31 - 1  # The largest index that the index arrays can hold.
PIECE = 4 << 20
"""Bytes that are parsed at a time, within some 20 ms, so that an interruption is noticed soon."""
LONGEST = 256 << 20
"""The most bytes of a line: a row with ten million values is shorter."""
SHOWN = 80  # A message shows at most this many bytes of a wrong line.


class LibsvmBlock(NamedTuple):
    """Some samples, with indices as written, and the numbers of bytes and lines before them."""

    rows: Block
    offset: int
    lines: int


def libsvm_blocks(
    file: BinaryIO,
    where: str,
    *,
    largest: int = MOST_FEATURES,
    most: float = inf,
    offset: int = 0,
    lines: int = 0,
) -> Iterator[LibsvmBlock]:
    """The samples of a text, block by block; a block that has only comments is empty.

    Parameters
    ----------
    largest : the largest index that is accepted.
    most : the most bytes that the text may have.
    offset, lines : the bytes and lines before the place at which the file is read on.
    """
    for text in _whole_lines(file, where, most):
        values, indices, ends, labels, fault, line, at = native.parse_libsvm(text, largest)
        if fault:
            start = text[at : at + SHOWN].split(b"\n")[0].decode("ascii", "replace").strip()
            raise InputError(f"{where}, line {lines + line} {_wrong(fault, largest)}: {start!r}")
        yield LibsvmBlock(Block(values, indices, ends, labels), offset, lines)
        offset, lines = offset + len(text), lines + line


def _whole_lines(file: BinaryIO, where: str, most: float) -> Iterator[bytes]:
    """As many whole lines as a piece holds; a line that is longer comes alone."""
    held: list[bytes] = []
    read = length = 0
    while text := file.read(int(min(PIECE, most + 1 - read))):
        read += len(text)
        if read > most:
            raise InputError(
                f"{where} unpacks to more than {most:,} bytes: that is no data; unpack it first if it is"
            )
        cut = text.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, text[:cut]])
            held, length = [], 0
        held.append(text[cut:])
        length += len(held[-1])
        if length > LONGEST:
            raise InputError(
                f"{where} has a line of more than {LONGEST:,} bytes: that is no row in LIBSVM format"
            )
    if last := b"".join(held):
        yield last


def _wrong(fault: str, largest: int) -> str:
    """What the core found wrong with a line, in words."""
    return {
        "form": "is not in LIBSVM format ('label index:value …')",
        "order": "is not in LIBSVM format, since its indices do not rise",
        "index": f"has a feature index beyond {largest:,}; a model holds a number for each index up to the largest: renumber "
        "the features that occur, from 1 on",
        "label": "has a label that is too large for a number",
        "value": "has a value that is too large for a number",
    }[fault]
