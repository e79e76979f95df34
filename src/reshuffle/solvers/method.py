"""The interface of a method: one epoch, and the certificate at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reshuffle.arrays import AnyArray, Array, Visits
from reshuffle.cached import cached_property
from reshuffle.objective import Objective
from reshuffle.orders import shuffled
from reshuffle.penalties.inexact import COLD
from reshuffle.privacy import Account
from reshuffle.randomness import generator
from reshuffle.solvers.certificate import certificate_of
from reshuffle.solvers.sampling import inverse, schedule_of, smoothness_of
from reshuffle.steps import Schedule

State = dict[str, AnyArray]
"""Everything that an epoch changes, as arrays: ``x`` and whatever else the method needs. It is never changed in place."""


@dataclass(frozen=True)
class Epoch:
    """The outcome of one epoch."""

    state: Any
    """The next state, of the method's ``state_type``."""
    gradients: int
    prox_evals: int
    step: float | None = None
    """γ, if the method used another one than it was given."""
    stalled: str = ""
    """The reason why no further epoch would change anything, if that is the case."""
    setup_seconds: float = 0.0
    """Seconds of compilation during the epoch, which the trace leaves out."""
    epochs: int = 1
    """The number of epochs that were made at once."""


class Check(NamedTuple):
    """The certificate of a state, and the cost of computing it."""

    value: float
    gradients: int
    prox_evals: int
    state: object
    """The state, with what the method remembers of the check."""


class Method(ABC):
    """A solver bound to a problem."""

    problem: Any
    solver: Any
    """The solver with its hyper-parameters, if it was given."""
    state_type: ClassVar[type] = dict
    """The type of a state: a dict of arrays, or another class, for which the method must define ``x_of``, ``saved`` and ``resumed``."""
    longest_step: float = np.inf
    """If a run with a longer step than this ends above its start, the step is blamed and an error is raised."""
    certificate: str
    """The column of the trace that ``tol`` is compared with."""
    evaluates: bool = True
    """Whether P(x) and the certificate can be computed where the method runs."""
    watched: bool = False
    """Whether a trace or callbacks look at every epoch, so that epochs must be made one at a time."""
    keeps_best: bool = False
    """Whether the best point seen is returned rather than the last one."""
    takes_back: bool = False
    """Whether trial points may be rejected by the next epoch: a rise of P is then not divergence."""
    setup_seconds: float = 0.0
    """Seconds of ``__init__`` that the trace leaves out, such as the start of a cluster."""
    start_gradients: int = 0
    """Gradients that ``start`` evaluates."""
    blame: str = ""
    """Names the cause of a divergence (clients, or a phase) in the message, if it is known."""
    account: Account | None = None
    """Computes the ε spent by the epochs, for methods with differential privacy."""
    header: dict[str, str]
    """The choices that the method made by itself, for the header of the trace."""

    def __init__(self, problem: Objective, solver: object = None) -> None:
        self.problem, self.solver, self.header = problem, solver, {}
        self.measure = certificate_of(problem)
        self.certificate = self.measure.name

    # --- γ ---------------------------------------------------------------------------------------

    @cached_property
    def schedule(self) -> Schedule:
        """γ_t of the epoch t: the solver's ``step`` if it has one, else ``default_step``."""
        problem, default = self.problem, self.default_step()
        step, limit = getattr(self.solver, "step", None), getattr(self.solver, "limit", 1)
        return schedule_of(step, problem, smoothness_of(problem), problem.n, limit, default)

    def default_step(self) -> float:
        """The default γ: 1/L_max."""
        return inverse(smoothness_of(self.problem))

    @cached_property
    def safe_step(self) -> float:
        """A step that is worth trying after a longer one diverged; infinite if none is known."""
        return float(np.nan_to_num(self.default_step(), nan=np.inf, posinf=np.inf))

    # --- random numbers ----------------------------------------------------------------------------

    def random(self, epoch: int) -> np.random.Generator:
        """The random numbers of an epoch. They depend on the seed and the epoch alone, so that runs can resume."""
        return generator(self.solver.seed, epoch)

    def reshuffled(self, epoch: int) -> Visits:
        """All functions once, in the order that ``ProxRR`` uses in this epoch with the same seed."""
        return shuffled(np.arange(self.problem.n, dtype=np.uint32), self.random(epoch))

    # --- an epoch ------------------------------------------------------------------------------------

    def start(self, x0: Array) -> Any:
        """The state before the first epoch."""
        return {"x": x0}

    @abstractmethod
    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        """The epoch t = 0, 1, … with γ_t = step."""

    def due(self, state: Any, epoch: int, every: int | None) -> bool:
        """Whether the certificate is to be computed after this many epochs."""
        return epoch % (every or 1) == 0

    def certify(self, state: Any) -> Check:
        """The certificate at x, at the cost of a pass over the data and a prox."""
        value = self.measure.at(state["x"], state.get("warm", COLD))
        return Check(value, self.problem.n, 1, state)

    def objective(self, state: Any) -> float:
        """P(x), for the trace."""
        return float(self.problem.objective(state["x"]))

    def x_of(self, state: Any) -> Array:
        """The x of a state."""
        x: Array = state["x"]
        return x

    def saved(self, state: Any) -> State:
        """The state as arrays, for a result and for a file."""
        arrays: State = state
        return arrays

    def resumed(self, arrays: State) -> object:
        """The state that was saved as these arrays."""
        return arrays

    def lengths(self) -> dict[str, int]:
        """Arrays of the state whose lengths may differ from those of a fresh one, and the most they may be."""
        return {}

    def doubts(self, state: Any) -> str:
        """Advice for a run that ends here before it has converged; most methods have none."""
        return ""

    def endless(self, state: Any) -> str:
        """Why P has no minimiser, if the steps show that it has none; most methods cannot tell."""
        return ""

    def check_state(self, state: State) -> None:
        """Refuse a saved state that no run of this method on this problem can have.

        Names, types and shapes have been compared with those of a fresh state (see ``lengths``), and all numbers that are
        finite there are finite. What remains to check are numbers used as indices, and lengths that must agree.
        """
        return  # Most methods have nothing more to check.

    def columns(self, state: Any) -> dict[str, float]:
        """Further columns of the trace."""
        return {}

    def close(self) -> None:
        """Release what the method holds; called once, however the run ends."""
        return  # Most methods hold nothing.
