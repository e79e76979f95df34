"""Small tables for notebooks: HTML that follows the notebook's own style, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST = 10
"""A long table shows this many rows: half of them from its beginning, half from its end."""


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = ""
) -> str:
    """A title, a table, and a line below; all text is escaped."""
    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="white-space: nowrap">{escape(str(v))}</td>' for v in row)
        + "</tr>"
        for row in rows
    )
    heading = f"<thead><tr>{head}</tr></thead>" if columns else ""
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f'<div style="overflow-x: auto"><p><b>{escape(title)}</b></p>'
        f"<table>{heading}<tbody>{body}</tbody></table>{below}</div>"
    )


def number(value: float) -> str:
    """A number as a table shows it; empty if it is not known."""
    if value != value:
        return ""
    return f"{int(value):,}" if abs(value) < 1e15 and value == int(value) else f"{value:.6g}"


def ends(count: int) -> tuple[list[int], str]:
    """The rows of a long table to show, and a remark about the others."""
    if count <= MOST:
        return list(range(count)), ""
    half = MOST // 2
    return [
        *range(half),
        *range(count - half, count),
    ], f"{MOST} of {count:,} rows: the first and the last {half}."
