"""Common parts of all commands: exit codes, errors as sentences, ``--json`` and ``--quiet``."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

FAILED = 1
"""Exit code: the input cannot be used, a file cannot be written, a run failed, or a claim does not hold."""
USAGE = 2
"""Exit code: an option or an argument is unknown or not allowed."""
NOT_CONVERGED = 3
"""Exit code: everything was done and written, but the requested accuracy was not reached."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells. By then ``fit`` has written the model so far."""

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

    SIGTERM ends a command as Ctrl-C does: the current run returns what it has, the command saves it, and the
    exit code tells the signal.
    """

    def invoke(self, ctx: click.Context) -> object:
        from reshuffle.cli.signals import heard

        with heard() as signals:
            try:
                done = self._invoke(ctx)
            except click.exceptions.Exit as end:
                if not (signals and end.exit_code == INTERRUPTED):
                    raise
        if signals:
            ctx.exit(128 + signals[0])
        return done

    def _invoke(self, ctx: click.Context) -> object:
        from reshuffle.errors import ClientError, DivergenceError, InputError

        try:
            with _plain_warnings():
                return super().invoke(ctx)
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
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"Warning: {message}", err=True)


@dataclass(frozen=True)
class Output:
    """Writes the results of a command: tables for people, or one JSON document for programs."""

    json: bool = False
    quiet: bool = False

    @cached_property
    def console(self) -> Console:
        """The console for people; silent with ``--json`` and ``--quiet``."""
        from rich.console import Console

        return Console(quiet=self.json or self.quiet)

    def line(self, text: str) -> None:
        """Print a line for people, without control characters that a terminal would obey."""
        shown = "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
        self.console.print(shown, soft_wrap=True, highlight=False, markup=False)

    def note(self, text: str) -> None:
        if not self.quiet:
            click.echo(f"Note: {text}", err=True)

    def document(self, found: object) -> None:
        if self.json:
            click.echo(json.dumps(as_json(found), indent=1, ensure_ascii=False))

    @property
    def live(self) -> bool:
        return not (self.json or self.quiet)


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
    def wrapped(*args: object, as_json: bool, quiet: bool, **options: object) -> object:
        if as_json and quiet:
            raise click.UsageError("--json and --quiet exclude each other")
        return command(*args, output=Output(as_json, quiet), **options)

    return wrapped  # type: ignore[return-value]


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
