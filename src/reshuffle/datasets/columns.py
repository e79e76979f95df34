"""Finds the kind of a table's column: numbers, categories, or values that a linear model cannot use directly."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.chunks import Chunk, Texts, Values, lacking
from reshuffle.datasets.numbers import is_number, spelled
from reshuffle.datasets.unfit import mixed, quoted, refuse_unfit
from reshuffle.errors import InputError

LEVELS = 1000
"""A column may have at most this many categories unless it is declared to hold categories."""


@dataclass
class Column:
    """A column, collected chunk by chunk.

    Texts are kept as numbers of levels, in the order in which they came, until there are too many of them to be
    categories; from then on only their values as numbers are kept. ``forced`` says that they are categories.
    """

    name: str
    missing: frozenset[str]
    forced: bool = False
    levels: dict[str, int] = field(default_factory=dict)
    seen_at: list[str] = field(default_factory=list)
    """The place in the file at which each level was first seen."""
    lacking_at: str = ""
    """The place of the first missing value; empty if none is missing."""
    lacking: int = 0
    stranger: tuple[str, str] | None = None
    """The first value that is not a number after the column was taken for numbers, and its place."""
    strangers: int = 0
    _parts: list[AnyArray] = field(default_factory=list)
    _numbers: bool = False
    """Whether the parts hold numbers instead of codes of levels."""

    def add(self, values: Values, chunk: Chunk) -> None:
        absent = lacking(values, self.missing)
        self.lacking += int(np.count_nonzero(absent))
        if not self.lacking_at and absent.any():
            self.lacking_at = chunk.place(int(np.argmax(absent)))
        if isinstance(values, np.ndarray):
            self._become_numbers()
            wrong = np.isinf(values)
            if wrong.any():
                place = chunk.place(int(np.argmax(wrong)))
                raise InputError(f"{place}: column {self.name!r} is infinite")
            self._parts.append(values)
        elif self._numbers:
            numbers, odd = spelled(values, absent)
            self.strangers += len(odd)
            if odd and self.stranger is None:
                self.stranger = str(values[odd[0]]), chunk.place(odd[0])
            self._parts.append(numbers)
        else:
            self._parts.append(self._codes(values, absent, chunk))
            if len(self.levels) > LEVELS and not self.forced:
                self._become_numbers()

    def _codes(self, texts: Texts, absent: NDArray[np.bool_], chunk: Chunk) -> NDArray[np.int32]:
        levels, before = self.levels, len(self.levels)
        given = zip(texts, absent.tolist(), strict=True)
        codes = np.array(
            [-1 if t is None or gone else levels.setdefault(t, len(levels)) for t, gone in given],
            dtype=np.int32,
        )
        if len(levels) > before:
            found, first = np.unique(codes, return_index=True)
            self.seen_at += [chunk.place(int(row)) for row in first[found >= before]]
        return codes

    def _become_numbers(self) -> None:
        """Replace the codes by the numbers that their levels spell."""
        if self._numbers:
            return
        self.strangers, self.stranger = self.not_numbers()
        found = [float(text) if is_number(text) else np.nan for text in self.levels]
        values = np.array([*found, np.nan])  # The last is the value of code -1.
        self._parts, self._numbers = [values[codes] for codes in self._parts], True

    @property
    def rows(self) -> int:
        return sum(part.size for part in self._parts)

    def kind(self) -> str:
        """ "number" or "category"; raises ``InputError`` if it is neither."""
        given = self.rows - self.lacking
        if not given:
            raise InputError(
                f"column {self.name!r} holds no value at all; leave it out with --drop {quoted(self.name)}"
            )
        if self.forced:
            return "category"
        wrong, first = self.not_numbers()
        if not wrong or first is None:
            return "number"
        if wrong < given / 2:
            raise InputError(mixed(self.name, *first, wrong, given))
        refuse_unfit(self.name, list(self.levels), first, given, too_many=self._numbers)
        return "category"

    def not_numbers(self) -> tuple[int, tuple[str, str] | None]:
        """How many values are texts that are not numbers, and the first of them with its place."""
        if self._numbers:
            return self.strangers, self.stranger
        texts = list(self.levels)
        odd = [k for k, text in enumerate(texts) if not is_number(text)]
        if not odd:
            return 0, None
        wrong = sum(int(np.isin(codes, odd).sum()) for codes in self._parts)
        return wrong, (texts[odd[0]], self.seen_at[odd[0]])

    def place_of(self, level: str) -> str:
        """The place at which a level was first seen."""
        return self.seen_at[self.levels[level]] if level in self.levels else "a row"

    def numbers(self) -> NDArray[np.float64]:
        """The values of a column of numbers, with NaN for a missing value."""
        self._become_numbers()
        return np.concatenate(self._parts) if self._parts else np.empty(0)

    def categories(self) -> tuple[list[str], NDArray[np.int32]]:
        """The sorted levels, and for each row the number of its level, -1 if its value is missing."""
        if self._numbers:
            values = self.numbers()
            known = ~np.isnan(values)
            found, places = np.unique(values[known], return_inverse=True)
            codes = np.full(values.size, -1, dtype=np.int32)
            codes[known] = places
            return [number_name(value) for value in found], codes
        ordered = sorted(self.levels)
        place = {text: k for k, text in enumerate(ordered)}
        rank = np.array([*(place[text] for text in self.levels), -1], dtype=np.int32)
        parts = np.concatenate(self._parts) if self._parts else np.empty(0, dtype=np.int32)
        return ordered, rank[parts]


def most_frequent(codes: NDArray[np.int32]) -> int:
    """The level that most rows have; the first of several."""
    return int(np.argmax(np.bincount(codes[codes >= 0])))


def number_name(value: float) -> str:
    """A number as the name of a category."""
    return str(int(value)) if value == int(value) else repr(float(value))
