"""Common parts of all commands: exit codes, errors as sentences, ``--json`` and ``--quiet``."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FAILED = 1
"""Exit code: the input cannot be used, a file cannot be written, a run failed, or a claim does not hold."""
USAGE = 2
"""Exit code: an option or an argument is unknown or not allowed."""
NOT_CONVERGED = 3
"""Exit code: everything was done and written, but the requested accuracy was not reached."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells. By then ``fit`` has written the model so far."""

WIDEST = 1000
"""The width of a table in characters; more than any table needs."""

Command = TypeVar("Command", bound=Callable[..., object])


class Folder(click.Path):
    """A folder for output; it is refused before any work starts if nothing can be written there."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from reshuffle.files import check_folder

        folder: Any = super().convert(value, param, ctx)
        check_folder(folder)
        return folder


class Group(click.Group):
    """A group of commands that answers bad input with a message and an exit code, and prints each warning as one line.

    A command may return its exit code. SIGTERM ends a command as Ctrl-C does: the current run returns what it has, the
    command saves it, and the exit code tells the signal.
    """

    def invoke(self, ctx: click.Context) -> None:
        with _heard() as signals:
            try:
                self._invoke(ctx)
            except click.exceptions.Exit as end:
                if not (signals and end.exit_code == INTERRUPTED):
                    raise
        if signals:
            ctx.exit(128 + signals[0])

    def _invoke(self, ctx: click.Context) -> None:
        from reshuffle.errors import ClientError, DivergenceError, InputError

        try:
            with _plain_warnings():
                code = super().invoke(ctx)
            if code:
                ctx.exit(code)
        except (InputError, ClientError, DivergenceError) as error:
            raise click.ClickException(str(error)) from None
        except MemoryError as error:
            raise click.ClickException(f"there is not enough memory: {error}") from None
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if error.errno == errno.EPIPE:
                _discard_output()  # The reader of our output has closed the pipe.
                ctx.exit(0)
            said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise click.ClickException(said) from None


@contextmanager
def _heard() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM raise ``KeyboardInterrupt``; the list that is yielded collects those that arrived.

    A process that ignores them (nohup) still does so, and nothing is changed outside the main thread.
    """
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    old = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                old[number] = signal.signal(number, interrupt)
    except ValueError:  # not the main thread, which alone can handle signals
        pass
    try:
        yield came
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _discard_output() -> None:
    """Discard unwritten output, so that the interpreter does not try to write it again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print each warning as one line without its source location, and hide warnings meant for programmers."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", kind)
        warnings.showwarning = lambda message, *_: click.echo(f"Warning: {message}", err=True)
        yield


@dataclass(frozen=True)
class Output:
    """Writes the results of a command: tables for people, or one JSON document for programs."""

    json: bool = False
    quiet: bool = False
    no_progress: bool = False

    @cached_property
    def console(self) -> Console:
        """The console for people; silent with ``--json`` and ``--quiet``."""
        from rich.console import Console

        return Console(quiet=self.json or self.quiet)

    def line(self, text: str) -> None:
        """Print a line for people, without control characters that a terminal would obey."""
        shown = "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
        self.console.print(shown, soft_wrap=True, highlight=False, markup=False)

    def table(self, table: Table) -> None:
        """Print a table at its full width: a terminal may wrap a line, but no digit is left out."""
        console, width = self.console, self.console.width
        options = console.options.update(max_width=WIDEST)
        console.width = max(console.measure(table, options=options).maximum, width)
        console.print(table)
        console.width = width

    def note(self, text: str) -> None:
        if not self.quiet:
            click.echo(f"Note: {text}", err=True)

    def document(self, found: object) -> None:
        if self.json:
            click.echo(json.dumps(as_json(found), indent=1, ensure_ascii=False))

    @property
    def live(self) -> bool:
        """Whether progress is shown."""
        return not (self.json or self.quiet or self.no_progress)


def grid(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str,
    *,
    words: Sequence[int] = (0,),
    framed: bool = True,
) -> Table:
    """A table of texts, with columns of numbers on the right; ``words`` are the places of the other columns."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title))
    if not framed:
        table.box, table.title_justify = box.SIMPLE_HEAD, "left"
    for k, column in enumerate(columns):
        table.add_column(escape(column), justify="left" if k in words else "right", no_wrap=k == 0)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def together(*options: Any) -> Callable[[Command], Command]:
    """Several options as one decorator; the help lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def output_options(command: Command) -> Command:
    """Give a command ``--json`` and ``--quiet``, which it receives as ``output``."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for machines.")
    @click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors.")
    @wraps(command)
    def wrapped(as_json: bool, quiet: bool, no_progress: bool = False, **options: object) -> object:
        if as_json and quiet:
            raise click.UsageError("--json and --quiet exclude each other")
        return command(output=Output(as_json, quiet, no_progress), **options)

    return wrapped  # type: ignore[return-value]


progress_options = together(
    click.option("--no-progress", is_flag=True, help="Show no progress bar."), output_options
)
"""``output_options`` for a command that shows a progress bar."""


def shortened(text: str, most: int = 80) -> str:
    """A name, cut where it is longer than a page or a picture has room for."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def counted(number: int, one: str, more: str) -> str:
    """A number with its noun, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else more}"


def as_json(value: object) -> Any:
    """A value as JSON can hold it: arrays become lists, infinities and NaN become null, paths become text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
