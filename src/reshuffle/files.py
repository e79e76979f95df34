"""Writing files so that a reader finds the old one or the new one, never half of it."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a temporary file beside the target, then put it in the target's place."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_csv(
    path: str | os.PathLike[str], columns: Iterable[str], rows: Iterable[Iterable[object]]
) -> None:
    """Write a CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())
