"""What a method is: how one epoch goes, and what certifies its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.objective import Array, Objective
from reshuffle.solvers.certificate import certificate_of
from reshuffle.steps import Schedule

State = dict[str, NDArray[Any]]
"""All that an epoch changes: ``x``, and what else the method carries. Never changed in place."""


class Seen(NamedTuple):
    """What an epoch found out about the point that it began from."""

    objective: float
    """P(x)."""
    measure: float
    """What ``tol`` is compared with."""
    state: State
    """The state with that x again, for where it is good enough."""


class Epoch(NamedTuple):
    """What one epoch did."""

    state: State
    gradients: int
    prox_evals: int
    step: float | None = None
    """γ, where the method chose another than it was given."""
    stalled: str = ""
    """Why no further epoch would change anything, where that is so."""
    setup_seconds: float = 0.0
    """Of compilation on the way, which the trace leaves out."""
    epochs: int = 1
    """How many epochs were made at once."""
    seen: Seen | None = None
    """For a method that is ``late``."""


class Check(NamedTuple):
    """How far from optimal a state is, and what it cost to find out."""

    value: float
    gradients: int
    prox_evals: int
    state: State
    """The state again, with what the method wants to remember of the check."""


def check_arrays(state: State, fresh: State) -> None:
    """Refuse a saved state whose arrays are not like those of a fresh one."""
    if set(state) != set(fresh):
        raise InputError(f"resume: the saved state has {sorted(state)}, this run's {sorted(fresh)}")
    for name, wanted in fresh.items():
        found = state[name]
        grown = wanted.ndim and not len(wanted) and found.shape[1:] == wanted.shape[1:]
        if found.dtype != wanted.dtype or not (grown or found.shape == wanted.shape):
            raise InputError(
                f"resume: {name} of the saved state has shape {found.shape} and dtype {found.dtype}, "
                f"this run's {wanted.shape} and {wanted.dtype}"
            )


class Method(ABC):
    """A solver bound to a problem."""

    problem: Objective
    schedule: Schedule
    """γ_t of the epoch t."""
    safe_step: float = np.inf
    """A step that is worth trying where a longer one diverged; infinite where none is known."""
    certificate: str
    """The column of the trace that ``tol`` is compared with."""
    late: bool = False
    """Whether P(x) and the certificate of an epoch's end are known only when the next one is done."""
    watched: bool = False
    """Whether someone looks at every epoch, so that no more than one should be made at once."""
    keeps_best: bool = False
    """Whether the best point seen is returned rather than the last one."""
    setup_seconds: float = 0.0
    """Seconds of ``__init__`` that the trace leaves out, such as the start of a cluster."""
    start_gradients: int = 0
    """Gradients that ``start`` evaluates."""
    blame: str = ""
    """Who made it diverge, where that is known."""
    header: dict[str, str]
    """What the method chose by itself, for the header of the trace."""

    def __init__(self, problem: Objective) -> None:
        self.problem, self.header = problem, {}
        self.measure = certificate_of(problem)
        self.certificate = self.measure.name

    @abstractmethod
    def start(self, x0: Array) -> State:
        """The state before the first epoch."""

    @abstractmethod
    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """The epoch t = 0, 1, … with γ_t = step."""

    def due(self, state: State, epoch: int, every: int | None) -> bool:
        """Whether the certificate is to be computed after this many epochs."""
        return epoch % (every or 1) == 0

    def certify(self, state: State) -> Check:
        """The certificate at x, at the cost of a pass over the data and a prox."""
        return Check(self.measure.at(state["x"]), self.problem.n, 1, state)

    def objective(self, state: State) -> float:
        """P(x), for the trace."""
        return self.problem.objective(state["x"])

    def look(self, state: State) -> Seen:
        """What a method that is ``late`` can find out about x without a further epoch."""
        return Seen(np.nan, np.nan, state)

    def check_state(self, state: State) -> None:
        """Refuse a saved state that is not one of this method on this problem.

        Names, types and shapes must be those of a fresh state; an array that begins empty may have grown.
        """
        check_arrays(state, self.start(np.zeros(self.problem.shape)))

    def columns(self, state: State) -> dict[str, float]:
        """Further columns of the trace."""
        return {}

    def close(self) -> None:
        """Give back what the method holds; called once, however the run ends."""
        return  # most hold nothing
