"""A report as one self-contained HTML file: figures, numbers, checks and versions."""

from __future__ import annotations

import base64
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

from reshuffle import __version__
from reshuffle.experiments.recipe import Numbers, Report
from reshuffle.files import write_atomically

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
img { max-width: 100%; } table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .2rem .8rem; border-bottom: 1px solid #ccc; text-align: right; }
td { white-space: nowrap; } .words td { white-space: normal; } .wide { overflow-x: auto; }
th:first-child, td:first-child, .words td { text-align: left; }
.holds { border-left: .4rem solid #009E73; padding-left: .8rem; }
.fails { border-left: .4rem solid #D55E00; padding-left: .8rem; }
"""


def versions() -> dict[str, str]:
    """The versions and the machine with which the numbers were computed."""
    found = {"reshuffle": __version__, "Python": platform.python_version()}
    found |= {name: version(name) for name in ("numpy", "scipy", "matplotlib")}
    return found | {"system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"}


def write(report: Report, path: Path) -> None:
    """Write the page."""
    beside = " · ".join(f'<a href="{escape(f.name)}">{escape(f.name)}</a>' for f in report.files)
    parts = [
        f"<h1>{escape(report.title)}</h1>",
        f"<p><b>{escape(report.conclusion)}</b></p>" if report.conclusion else "",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in report.text.split("\n\n")),
        *map(_figure, report.figures),
        "<h2>Claims</h2>",
        *(
            f'<p class="{"holds" if check.holds else "fails"}">{escape(check.claim)}<br>'
            f"<b>{check.verdict}:</b> {escape(check.found)}"
            f"{'. ' + escape(check.known) if check.known and not check.holds else ''}</p>"
            for check in report.checks
        ),
        "<h2>Numbers</h2>",
        *map(_table, report.tables),
        f"<p>{beside}</p>" if beside else "",
        "<h2>Configuration</h2>",
        _pairs(report.configuration),
        "<h2>Versions</h2>",
        _pairs(versions()),
    ]
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f"<title>{escape(report.title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
    write_atomically(path, page.encode())


def _figure(path: Path) -> str:
    inside = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,{inside}"></p>'


def _table(numbers: Numbers) -> str:
    return (
        f'<div class="wide"><table><caption>{escape(numbers.title)}</caption>'
        + _row("th", numbers.columns)
        + "".join(_row("td", row) for row in numbers.rows)
        + "</table></div>"
    )


def _pairs(pairs: Mapping[str, str]) -> str:
    rows: Iterable[Sequence[str]] = pairs.items()
    return '<table class="words">' + "".join(_row("td", row) for row in rows) + "</table>"


def _row(cell: str, values: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(value)}</{cell}>" for value in values) + "</tr>"
