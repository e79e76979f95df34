"""Pieces of a page. Every text that comes from data is escaped here and nowhere else."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from reshuffle import __version__
from reshuffle.arrays import AnyArray
from reshuffle.report.style import STYLE


class Markup(str):
    """Text that is HTML already."""


def safe(value: object) -> str:
    """A value as HTML."""
    return value if isinstance(value, Markup) else escape(str(value))


NUMBER = r"\d[\d.,]*(?:e[-+]\d+)?"
WHOLE = re.compile(rf"{NUMBER} ?%|{NUMBER} ± {NUMBER}|\d[\d.]*e[-+]\d+")
"""Numbers that a narrow page would break over two lines: those with an exponent, a percent sign or an error."""


def text(value: object) -> str:
    """A value as HTML inside an element; its numbers are not broken over lines."""
    if isinstance(value, Markup):
        return value
    return WHOLE.sub(lambda found: f'<span class="n">{found[0]}</span>', escape(str(value)))


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """An element; ``class_`` and ``data_x`` are written without the underscore."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{''.join(map(text, content))}</{name}>")


def page(title: str, lead: str, parts: Iterable[object]) -> str:
    """The whole file."""
    foot = f"Written by reshuffle {__version__} on Python {platform.python_version()}. The page needs no network and no script."
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="reshuffle"><title>{safe(title)}</title><style>{STYLE}</style>'
    )
    header = tag("header", tag("h1", title), tag("p", lead))
    body = [header, *parts, tag("footer", tag("p", foot))]
    inside = "\n".join(map(safe, body))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{inside}\n</body></html>\n'


def section(title: str, *content: object) -> Markup:
    """A heading and its contents."""
    return tag("section", tag("h2", title), *content)


def tiles(entries: Iterable[tuple[str, str]]) -> Markup:
    """The most important numbers: a value and what it means."""
    found = [
        tag("div", tag("b", value), tag("span", what), class_="tile") for value, what in entries
    ]
    return tag("div", *found, class_="tiles")


def pairs(entries: Mapping[str, object]) -> Markup:
    """A table of names and values."""
    rows = [tag("tr", tag("td", name), tag("td", value)) for name, value in entries.items()]
    return tag("table", *rows, class_="words")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table with a heading."""
    return _wide(columns, [[tag("td", value) for value in row] for row in rows])


def _wide(columns: Iterable[object], rows: Iterable[Iterable[Markup]], **attributes: str) -> Markup:
    """A table from its headings and its cells, which scrolls sideways if the page is too narrow."""
    head = [column if isinstance(column, Markup) else tag("th", column) for column in columns]
    lines = [tag("tr", *cells) for cells in (head, *rows)]
    return tag("div", tag("table", *lines, **attributes), class_="wide")


def bars(entries: Sequence[tuple[str, str, float]]) -> Markup:
    """Signed numbers as bars from a middle line, each with its name and its unit."""
    largest = max((abs(value) for *_, value in entries), default=0.0) or 1.0
    rows = []
    for name, unit, value in entries:
        width = f"width: {100 * abs(value) / largest:.1f}%"
        less = tag("i", class_="less", style=width) if value < 0 else ""
        more = tag("i", style=width) if value > 0 else ""
        both = tag("div", tag("div", less), tag("div", more), class_="two")
        cells = _named(name, unit), tag("td", both, class_="bar"), tag("td", f"{value:.4g}")
        rows.append(tag("tr", *cells))
    return tag("table", *rows, class_="bars")


def confusion(names: Sequence[str], counts: AnyArray) -> Markup:
    """How often a class (row) was taken for another (column), shaded by its share of the row."""
    head = ["true ↓ · predicted →", *(tag("th", name, scope="col") for name in names)]
    rows = []
    for name, row in zip(names, counts.tolist(), strict=True):
        total = sum(row) or 1
        cells = [tag("td", f"{n:,}", style=f"--share: {n / total:.3f}") for n in row]
        rows.append([tag("th", name, scope="row"), *cells])
    return _wide(head, rows, class_="confusion")


def heat(columns: Sequence[str], rows: Sequence[tuple[str, str, Sequence[float]]]) -> Markup:
    """Signed numbers in a table, shaded by their size, each row with its name and its unit."""
    largest = max((abs(v) for *_, row in rows for v in row), default=0.0) or 1.0

    def cell(value: float) -> Markup:
        sign, size = "less" if value < 0 else "more", abs(value) / largest
        return tag("td", f"{value:.2g}", class_=sign, style=f"--share: {size:.3f}")

    body = [[_named(name, unit), *map(cell, row)] for name, unit, row in rows]
    return _wide(columns, body, class_="heat")


def _named(name: str, unit: str) -> Markup:
    """The first cell of a row: a name with its unit."""
    return tag("td", name, tag("small", unit), class_="name")


def figures(*entries: tuple[Markup, str]) -> Markup:
    """Pictures with captions, side by side if there is room."""
    found = [tag("figure", picture, tag("figcaption", caption)) for picture, caption in entries]
    return tag("div", *found, class_="pictures")
