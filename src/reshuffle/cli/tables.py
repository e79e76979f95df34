"""Tables whose numbers are never truncated, however narrow the terminal is."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDEST = 1000  # The width of a table in characters; more than any table needs.


def show(console: Console, table: Table) -> None:
    """Print the table at its full width: a terminal may wrap a line, but no digit is left out."""
    needed = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    width = console.width
    console.width = max(needed, width)
    console.print(table)
    console.width = width
