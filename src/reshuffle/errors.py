"""The errors and warnings of the package."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.trace import Result


LONGEST = 200
"""A message shows a value in full up to this many characters."""


class InputError(ValueError):
    """An argument cannot be used: the message names it, what was given and what is wanted."""


class FileError(InputError, OSError):
    """A file cannot be read or written: the message names it and says why."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class DivergenceError(ArithmeticError):
    """A run diverged; ``result`` is its last finite state."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class ClientError(RuntimeError):
    """Clients did not take part in a round; ``clients`` are their numbers."""

    def __init__(self, message: str, clients: list[int]) -> None:
        super().__init__(message)
        self.clients = clients


class LostState(InputError):
    """A client lacks the state that it should have from earlier rounds."""


class ConversionWarning(UserWarning):
    """Data was copied to bring it into the layout that the kernels read."""


class SpeedWarning(UserWarning):
    """A user's own part is called from Python although it could be compiled."""


class StepWarning(UserWarning):
    """The chosen step is allowed, but will not do what the user probably wants."""


def shown(value: object) -> str:
    """A value as an error message shows it: in full if it is short, otherwise its type and size."""
    text = repr(value)
    if len(text) <= LONGEST and "\n" not in text:
        return text
    shape = getattr(value, "shape", None)
    size = f" of shape {shape}" if isinstance(shape, tuple) else ""
    return f"a {type(value).__name__}{size}"


def not_converged() -> type[Warning]:
    """scikit-learn's ``ConvergenceWarning``, imported on first use."""
    from sklearn.exceptions import ConvergenceWarning

    warning: type[Warning] = ConvergenceWarning
    return warning


@contextmanager
def extra(name: str, package: str, purpose: str) -> Iterator[None]:
    """For imports of an optional package: if it is missing, the error names the extra that installs it."""
    try:
        yield
    except ImportError as error:
        if (error.name or package).split(".")[0] != package:
            raise
        raise InputError(f'{purpose} needs {package}: pip install "reshuffle[{name}]"') from None


Held = list[tuple[str, type[Warning]]]
_HELD: ContextVar[Held | None] = ContextVar("held", default=None)


@contextmanager
def held_warnings() -> Iterator[Held]:
    """Collect warnings of this package in the list that is yielded, instead of showing them.

    For a layer that gives the same warning in its own words. Unlike ``warnings.catch_warnings``, it does not affect other
    threads.
    """
    held: Held = []
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the user's own line: the nearest one up the stack that is not in this package.

    Frames of scikit-learn, whose decorators and searches call the estimators, are skipped, too.
    """
    held = _HELD.get()
    if held is not None:
        held.append((message, category))
        return
    depth, frame = 2, sys._getframe(1)
    inner = ("reshuffle.", "sklearn.", "importlib.")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inner):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
