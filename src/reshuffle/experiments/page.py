"""A report as one self-contained HTML file: figures, numbers, checks and versions."""

from __future__ import annotations

import base64
import os
import platform
from importlib.metadata import version
from pathlib import Path

from reshuffle import __version__
from reshuffle.experiments.recipe import ClaimCheck, Numbers, Report
from reshuffle.files import write_atomically
from reshuffle.report import html


def versions() -> dict[str, str]:
    """The versions and the machine with which the numbers were computed."""
    found = {"reshuffle": __version__, "Python": platform.python_version()}
    found |= {name: version(name) for name in ("numpy", "scipy", "matplotlib")}
    return found | {"system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"}


def write(report: Report, path: Path) -> None:
    """Write the page."""
    pictures = [file for file in report.files if file.suffix == ".png"]
    files = [file for file in report.files if file not in pictures]
    parts = [
        *(html.tag("p", paragraph) for paragraph in report.text.split("\n\n")),
        *map(_figure, pictures),
        html.section("Claims", *map(_claim, report.checks)),
        html.section("Numbers", *map(_table, report.tables)),
        html.tag("p", *(html.tag("a", f"{file.name} ", href=file.name) for file in files)),
        html.section("Configuration", html.pairs(report.configuration)),
        html.section("Versions", html.pairs(versions())),
    ]
    page = html.page(report.title, report.conclusion, parts)
    write_atomically(path, page.encode())


def _figure(path: Path) -> html.Markup:
    inside = base64.b64encode(path.read_bytes()).decode()
    picture = f'<img alt="{html.safe(path.stem)}" style="max-width: 100%" src="data:image/png;base64,{inside}">'
    return html.tag("p", html.Markup(picture))


def _claim(check: ClaimCheck) -> html.Markup:
    why = f". {check.known}" if check.known and not check.holds else ""
    verdict = html.tag("b", f"{check.verdict}:")
    kind = "proof" if check.holds else "proof open"
    return html.tag(
        "p", check.claim, html.Markup("<br>"), verdict, f" {check.found}{why}", class_=kind
    )


def _table(numbers: Numbers) -> html.Markup:
    return html.tag(
        "div",
        html.tag("p", html.tag("b", numbers.title)),
        html.table(numbers.columns, numbers.rows),
    )
