"""``reshuffle datasets``: which data files are on this machine, and where the others can be downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.filesize import decimal
from rich.table import Table

from reshuffle import datasets
from reshuffle.cli.common import Output
from reshuffle.datasets import CATALOGUE, VARIABLE, cache_folder, find


def run(*, names: Sequence[str], fetch: bool, output: Output) -> None:
    """List the data sets of these names, or all of them, after downloading them if that was requested."""
    for name in names if fetch else ():
        datasets.fetch(name, progress=output.live)
    found = [_entry(name) for name in names or CATALOGUE]
    output.console.print(_table(found))
    for place, folder in _places().items():
        output.line(f"{place}: {folder or 'names no folder'}")
    output.document(found)


def _entry(name: str) -> dict[str, Any]:
    entry, path = CATALOGUE.get(name), find(name)
    if entry is None and path is None:
        datasets.fetch(name)  # This attempt raises the error that says why.
    about = {"rows": entry.rows, "features": entry.features} if entry else {}
    return {"name": name, **about, "path": path, "bytes": path.stat().st_size if path else None}


def _places() -> dict[str, Path | None]:
    named = os.environ.get(VARIABLE)
    return {VARIABLE: Path(named) if named else None, "cache": cache_folder()}


def _table(entries: list[dict[str, Any]]) -> Table:
    table = Table()
    for title in ("name", "rows", "features", "size", "where"):
        numbers = title in ("rows", "features", "size")
        table.add_column(title, justify="right" if numbers else "left", overflow="fold")
    for entry in entries:
        path = entry["path"]
        table.add_row(
            entry["name"],
            *(f"{entry[k]:,}" if k in entry else "" for k in ("rows", "features")),
            decimal(entry["bytes"]) if path else "",
            _where(path) if path else "[dim]not here[/dim]",
        )
    return table


def _where(path: Path) -> str:
    return next((p for p, folder in _places().items() if path.parent == folder), str(path.parent))
