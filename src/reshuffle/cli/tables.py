"""Tables that keep their numbers whole, however narrow the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDEST = 1000  # characters that a table may have


def show(console: Console, table: Table) -> None:
    """Print the table as wide as it is: a terminal may fold a line, but no digit is left out."""
    needed = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    width = console.width
    console.width = max(needed, width)
    console.print(table)
    console.width = width
