"""What the package raises and warns with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.trace import Result


class InputError(ValueError):
    """An argument cannot be used: the message names it, what was given and what is wanted."""


class DivergenceError(ArithmeticError):
    """A run left every bound; ``result`` is the last finite state of it."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class ClientError(RuntimeError):
    """Clients stayed away from a round; ``clients`` are their numbers."""

    def __init__(self, message: str, clients: list[int]) -> None:
        super().__init__(message)
        self.clients = clients


class ConversionWarning(UserWarning):
    """Data was copied into the layout that the kernels read."""


class StepWarning(UserWarning):
    """The chosen step is legal but will not give what its user wants."""
