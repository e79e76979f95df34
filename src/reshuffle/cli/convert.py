"""``reshuffle convert``: converts a file to a folder of shards, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reshuffle.cli.common import Output, counted
from reshuffle.datasets import Conversion
from reshuffle.datasets import convert as converted
from reshuffle.datasets.conversion.streaming import Progress
from reshuffle.shards import is_shard_folder, read_manifest


def run(data: str, folder: Path, how: Conversion, output: Output) -> None:
    """Convert, and print the contents of the folder."""
    before = read_manifest(folder).rows if is_shard_folder(folder) else 0
    if before:
        output.note(f"{folder} has {counted(before, 'row', 'rows')} of an earlier run, which stay")
    with _bar(output.live) as advance:
        manifest = converted(data, folder, how, advance)
    kind = "ones" if manifest.unit else manifest.number
    output.line(
        f"{folder}: {counted(manifest.rows, 'row', 'rows')}, {counted(manifest.features, 'feature', 'features')}, "
        f"{manifest.layout} of {kind}, {manifest.bytes:,} bytes in {counted(len(manifest.shards), 'shard', 'shards')}"
    )
    output.document(
        {
            "folder": folder, "rows": manifest.rows, "features": manifest.features, "layout": manifest.layout,
            "number": kind, "bytes": manifest.bytes, "shards": len(manifest.shards), "shuffled": how.shuffle,
        }
    )  # fmt: skip


@contextmanager
def _bar(shown: bool) -> Iterator[Progress]:
    """A progress bar on standard error, without a length if the size of the input is unknown."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=not shown)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task("converting", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield advance
