"""Tables as text with separators (CSV, TSV), read strictly.

The standard library's reader needs no package, works on a pipe, and knows the line of every row; a faster
reader that guesses types from the first block does not. ``columns`` decides what a column holds.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from typing import BinaryIO

from reshuffle.datasets.chunks import ROWS, Chunk, check_names
from reshuffle.datasets.numbers import is_number
from reshuffle.errors import InputError

SHOWN = 80  # A message shows at most this many characters of a line.


def read_csv(
    file: BinaryIO, where: str, *, separator: str = ",", header: bool = True, rows: int = ROWS
) -> Iterator[Chunk]:
    """The chunks of a table; the first may be empty, but it has the names.

    Every row has as many values as there are names; a value is taken without the spaces around it. Lines
    without any character are skipped.
    """
    lines = _Lines(file, where)
    records = _records(lines, separator)
    first, begins = next(records, ([], 1))
    if not first:
        raise InputError(f"{where} is empty: a table begins with a line of names")
    numbered = [f"c{k}" for k in range(1, len(first) + 1)]
    names = _names(first, lines, separator, where) if header else numbered
    check_names(names, where)
    held, places = ([], []) if header else ([first], [begins])
    for record, line in records:
        if len(record) != len(names):
            raise InputError(
                f"{where}, line {line} has {len(record)} values where there are {len(names)} columns: {lines.shown()}"
            )
        held.append(record)
        places.append(line)
        if len(held) == rows:
            yield _chunk(names, held, places, where)
            held, places = [], []
    yield _chunk(names, held, places, where)


def _chunk(names: list[str], held: list[list[str]], places: list[int], where: str) -> Chunk:
    columns = zip(*held, strict=True) if held else ([] for _ in names)
    stripped = ([value.strip() for value in column] for column in columns)
    return Chunk(dict(zip(names, stripped, strict=True)), places, where)


def _records(lines: _Lines, separator: str) -> Iterator[tuple[list[str], int]]:
    """Rows, and the line on which each begins."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        lines.begin()
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{lines.where}, line {lines.first}: {_reason(error)}: {lines.shown()}"
            ) from None
        if record:
            yield record, lines.first


def _reason(error: csv.Error) -> str:
    text = str(error)
    if "field larger" in text or "unexpected end" in text:
        return "a quotation mark is opened and not closed"
    if "expected after" in text:
        return "a quotation mark stands inside a value"
    if "new-line character" in text:
        return "a carriage return stands inside a line; lines end with \\n or \\r\\n"
    return text


def _names(record: list[str], lines: _Lines, separator: str, where: str) -> list[str]:
    names = [name.strip() for name in record]
    # A spreadsheet writes this line for itself and does not show it.
    if names[0].lower().startswith("sep="):
        raise InputError(
            f"{where}: the first line, {lines.shown()}, names the separator and no columns; "
            "take it out, and give --separator"
        )
    if all(is_number(name) for name in names):
        raise InputError(
            f"{where}: the first line must name the columns, got numbers: {lines.shown()}; "
            "for a file without names give --no-header: they are then c1, c2, …"
        )
    other = [mark for mark in (";", "\t", "|", ",") if mark != separator and mark in names[0]]
    if len(names) == 1 and other:
        raise InputError(
            f"{where}: the first line is one name, {lines.shown()}; "
            f"if {other[0]!r} separates the columns, give --separator {other[0]!r}"
        )
    return [name or unnamed(k) for k, name in enumerate(names, 1)]


def unnamed(number: int) -> str:
    """The name of a column for which the header has none."""
    return f"column {number}"


class _Lines:
    """The lines of a text, checked and counted; the first line of the current row is remembered."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self.where = file, where
        self.number, self.first, self._seen = 0, 1, b""

    def begin(self) -> None:
        """Note that a row begins on the next line."""
        self.first, self._seen = self.number + 1, b""

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            if self.number == 0:
                line = line.removeprefix(codecs.BOM_UTF8)
            self.number += 1
            self._seen = self._seen or line
            if self.number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise InputError(f"{self.where} is UTF-16 text; save it as UTF-8")
            if b"\0" in line:
                raise InputError(
                    f"{self.where}, line {self.number} holds a zero byte: this is not a text file"
                )
            try:
                yield line.decode()
            except UnicodeDecodeError:
                shown = _short(line.decode(errors="replace"))
                raise InputError(
                    f"{self.where}, line {self.number} is not UTF-8 text: {shown}"
                ) from None

    def shown(self) -> str:
        """The first line of the row, for a message."""
        return _short(self._seen.decode(errors="replace"))


def _short(line: str) -> str:
    line = line.rstrip("\r\n")
    return repr(line if len(line) <= SHOWN else line[:SHOWN] + "…")
