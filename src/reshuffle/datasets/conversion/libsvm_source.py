"""LIBSVM text as blocks: some MB of whole lines at a time, parsed by the core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, BinaryIO

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.core import native
from reshuffle.datasets.conversion.source import Place, Placed, Source, identity_of
from reshuffle.datasets.source import DAMAGE, PACKED
from reshuffle.datasets.svmlight import LARGEST, MOST_FEATURES, SHOWN
from reshuffle.errors import InputError
from reshuffle.shards import Block

PIECE = 4 << 20
"""Bytes that are parsed at a time: a fraction of a second, so that an interruption is heard."""
LONGEST = 256 << 20
"""Bytes of one line at most: a row with ten million values is shorter."""


class LibsvmSource:
    """A file in LIBSVM format, packed or not. Indices begin with 0 or with 1, as the first block says."""

    def __init__(self, path: str, number: str, first_index: int | None) -> None:
        self.path, self.number, self.first = path, number, first_index
        self.given = first_index is not None
        self.width = 0
        self.size, self._at = os.stat(path).st_size, 0
        with open(path, "rb") as file:
            start = file.read(6)
        self.unpack = next((u for magic, u in PACKED.items() if start.startswith(magic)), None)

    def source(self) -> Source:
        """What the converter reads."""
        about = identity_of(self.path, number=self.number, first_index=self.first)
        return Source(
            self.blocks, dense=False, progress=self.progress, features=lambda: self.width, about=about
        )  # fmt: skip

    def progress(self) -> tuple[int, int]:
        return self._at, self.size

    def blocks(self, place: Place) -> Iterator[Placed]:
        """The blocks from a place on."""
        if place:
            self.first = place["first"]
        with open(self.path, "rb") as raw, self._plain(raw) as file:
            offset, lines = (place["offset"], place["lines"]) if place else (0, 0)
            if offset:
                file.seek(offset)
            for text in self._pieces(file):
                self._at = raw.tell()
                values, indices, ends, labels, fault, line, at = native.parse_libsvm(text, LARGEST)
                if fault:
                    raise InputError(_wrong(self.path, fault, lines + line, text[at : at + SHOWN]))
                if labels.size:
                    here = {"offset": offset, "lines": lines, "first": self._base(indices)}
                    block = self._block(values, indices, ends, labels, lines)
                    yield Placed(block, here if self.unpack is None else {})
                offset, lines = offset + len(text), lines + line

    def _plain(self, raw: BinaryIO) -> Any:
        """The text of the file, unpacked where it is packed."""
        return nullcontext(raw) if self.unpack is None else self.unpack(raw)

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        """Whole lines; what is wrong with a packed file is an ``InputError``."""
        try:
            yield from _lines(file, self.path)
        except DAMAGE as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot read {self.path}: {error or 'it ends too early'}") from None

    def _base(self, indices: AnyArray) -> int:
        if self.first is None:
            self.first = 0 if indices.size and indices.min() == 0 else 1
        return self.first

    def _block(
        self, values: AnyArray, indices: AnyArray, ends: AnyArray, labels: AnyArray, lines: int
    ) -> Block:
        base = self._base(indices)
        if base:
            if indices.size and indices.min() < base:
                hint = "has no index 0" if not self.given else "should begin with index 1"
                raise InputError(
                    f"{self.path} has a feature with the index 0 after line {lines}, and its beginning {hint}: give "
                    "--first-index 0 and convert it into an empty folder"
                )
            indices = indices - base
        self.width = max(self.width, int(indices.max(initial=-1)) + 1)
        if self.width > MOST_FEATURES:
            raise InputError(
                f"{self.path} has a feature with the index {self.width:,}, and a model holds a number for each up to the "
                f"largest: number the features that there are from 1 on ({MOST_FEATURES:,} at most)"
            )
        return Block(values.astype(self.number, copy=False), indices, np.asarray(ends), labels)


def _lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Whole lines, as many as some MB hold, or a longer one alone."""
    held: list[bytes] = []
    length = 0
    while text := file.read(PIECE):
        cut = text.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, text[:cut]])
            held, length = [], 0
        held.append(text[cut:])
        length += len(held[-1])
        if length > LONGEST:
            raise InputError(
                f"{path} has a line of more than {LONGEST:,} bytes: that is no row in LIBSVM format"
            )
    if last := b"".join(held):
        yield last


def _wrong(path: str, fault: str, line: int, text: bytes) -> str:
    start = text.split(b"\n")[0].decode("ascii", "replace").strip()
    what = {
        "form": "is not in LIBSVM format ('label index:value …')",
        "order": "has indices that do not rise",
        "index": "has an index that is too large",
        "label": "has a label that is too large for a number",
        "value": "has a value that is too large for a number",
    }[fault]
    return f"{path}, line {line} {what}: {start!r}"
