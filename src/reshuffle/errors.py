"""The errors and warnings of the package."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reshuffle.trace import Result


LONGEST = 200
"""A value in a message is shown whole up to this many characters."""


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
    """Clients stayed away from a round; ``clients`` are their numbers."""

    def __init__(self, message: str, clients: list[int]) -> None:
        super().__init__(message)
        self.clients = clients


class LostState(InputError):
    """A client has not the state that it should have of earlier rounds."""


class ConversionWarning(UserWarning):
    """Data was copied into the layout that the kernels read."""


class SpeedWarning(UserWarning):
    """A part of one's own is called from Python where it could be compiled."""


class StepWarning(UserWarning):
    """The chosen step is legal but will not give what its user wants."""


def shown(value: Any) -> str:
    """A value as an error message shows it: whole where it is short, by its type where it is not."""
    text = repr(value)
    if len(text) <= LONGEST and "\n" not in text:
        return text
    shape = getattr(value, "shape", None)
    size = f" of shape {shape}" if isinstance(shape, tuple) else ""
    return f"a {type(value).__name__}{size}"


def not_converged() -> type[Warning]:
    """scikit-learn's ``ConvergenceWarning``, loaded where it is needed."""
    from sklearn.exceptions import ConvergenceWarning

    warning: type[Warning] = ConvergenceWarning
    return warning


@contextmanager
def extra(name: str, package: str, purpose: str) -> Iterator[None]:
    """Imports of an optional package: where it is missing, an error that says which extra brings it."""
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
    """Warnings of this package are kept in the list that is given, not shown.

    For a layer that says the same in its own words. Other threads are not concerned, which is more than
    ``warnings.catch_warnings`` can promise.
    """
    held: Held = []
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)


def warn_user(message: str, category: type[Warning]) -> None:
    """A warning at the user's own line: the nearest one up the stack that is not in this package.

    Frames of scikit-learn, whose decorators and searches call the estimators, are passed over too.
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
