"""Columns of text that a linear model should not take as categories, and what to do about each."""

from __future__ import annotations

import re
from collections.abc import Callable

from reshuffle.datasets.dates import readable
from reshuffle.datasets.numbers import is_beyond
from reshuffle.errors import InputError, shown

FEW = 20
"""A text column with more distinct values than this, and than half its rows, holds names or free text, not categories."""
LONGEST = 40
"""A date, a time or a number has at most this many characters."""
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?|\d{1,2}:\d{2}(:\d{2})?"
    r"|\d{1,2}[-. ] ?[^\W\d]{3,9}[-. ,] ?\d{2,4}|[^\W\d]{3,9}\.? \d{1,2}, \d{4}"
    r"|\d{4}[-/ ]?Q[1-4]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?[- /](\d{1,2},?[- /])?\d{2,4}"
)
"""The pattern of dates and times."""
DRESSED = re.compile(r"[\d.,'_%$€£¥\s+-]*")
"""The pattern of numbers written with a decimal comma, thousands separators, a currency or a percent sign."""
DRESS = set(",%$€£¥'_")
"""The characters that distinguish such numbers from plain ones."""
SPACED = re.compile(r"[+-]?[\d.,]+(\s[\d.,]+)+")
"""The pattern of numbers with spaces between thousands."""


def refuse_unfit(
    column: str, texts: list[str], first: tuple[str, str], given: int, *, too_many: bool
) -> None:
    """Refuse dates, numbers that are not plainly written, and free text.

    ``texts`` are the different values, ``first`` one of them with its place, ``given`` the rows that have a value;
    ``too_many`` says that there are more values than are known.
    """
    name = quoted(column)
    if found := _most(texts, lambda text: DATE.fullmatch(text[:LONGEST]) is not None):
        first_remedy = (
            f"give --date {name} to take dates as days"
            if readable(found)
            else f"write dates as 2024-01-31 and give --date {name} to take them as days"
        )
        raise InputError(
            f"column {column!r} holds dates or times ({shown(found)}, {first[1]}), which a linear model cannot take as "
            f"they are: {first_remedy}, turn them into numbers yourself (month, hour), or leave "
            f"them out with --drop {name}"
        )
    if found := _most(texts, _dressed):
        raise InputError(
            f"column {column!r} holds numbers that are not plainly written ({shown(found)}, {first[1]}): write them with "
            "a point and without units or thousands, like 1234.5, and below 1e308; or take every value as a category with "
            f"--categorical {name}"
        )
    if too_many or len(texts) > max(FEW, given / 2):
        count = "more than 1,000" if too_many else f"{len(texts):,}"
        raise InputError(
            f"column {column!r} holds free text or names: {count} different values in {given:,} rows, like "
            f"{shown(first[0][:60])} ({first[1]}). Leave it out with --drop {name}, take each value as a category with "
            f"--categorical {name}, or turn texts into numbers first, with scikit-learn's TfidfVectorizer for instance"
        )


def mixed(column: str, text: str, place: str, wrong: int, given: int) -> str:
    """The message about a text in a column of numbers."""
    return (
        f"{place}: column {column!r} holds {shown(text[:60])}, where {given - wrong:,} of {given:,} values are numbers. "
        f"Correct it; or give --missing {quoted(text[:60])} with --impute if it stands for no value; or --categorical "
        f"{quoted(column)} to take every value as a category"
    )


def quoted(name: str) -> str:
    """A name, quoted for a shell."""
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"


def _most(texts: list[str], like: Callable[[str], bool]) -> str:
    """The first text that matches, if most texts match."""
    found = [text for text in texts if like(text)]
    return found[0][:LONGEST] if len(found) > len(texts) / 2 else ""


def _dressed(text: str) -> bool:
    if len(text) > LONGEST or is_beyond(text):
        return is_beyond(text)
    plain = DRESSED.fullmatch(text) is not None and any(c.isdigit() for c in text)
    return plain and (not DRESS.isdisjoint(text) or SPACED.fullmatch(text) is not None)
