"""The interface of a phase of the exact method: a step, its cost, whether it is ready, and how many are left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from reshuffle.objective import FiniteSum
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.state import ExactState

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR
    from reshuffle.solvers.exact.view import RunContext, View


class Outcome(NamedTuple):
    """The outcome of a step of a phase."""

    state: ExactState
    gradients: int
    prox_evals: int = 0
    step: float | None = None
    """γ, if the phase used another than it was given."""
    stalled: str = ""
    """The reason why no further step would change anything; empty if steps go on."""
    made: int = 1
    """The number of steps made, for the phase's column of the trace."""


class Phase(ABC):
    """A kind of step. A phase holds only settings; everything that a step changes is in the state.

    A phase of your own must have ``name`` and ``step``. By default it is able and ready, its step costs one pass over
    the data, and all its steps together are assumed to cost as much as the epochs that are left: it is then preferred to
    shuffled epochs, but not to Newton steps that cost less.
    """

    name: ClassVar[str]
    """The name of the phase, and of its column of the trace."""
    proves: ClassVar[bool] = False
    """Whether a step may prove a bound on P(x) - P* when there is no duality gap."""

    @property
    def built_in(self) -> bool:
        """Whether this phase is part of the package."""
        return type(self).__module__.startswith("reshuffle.")

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        """Whether the phase can act on this problem at all; asked once for each run."""
        return True

    def skips_zero(self, run: RunContext) -> bool:
        """Whether a first step from zero is cheaper and more informative than a certificate there."""
        return False

    def unfinished(self, view: View) -> bool:
        """Whether the phase made the last step and its next step continues that one."""
        return False

    def ready(self, view: View) -> bool:
        """Whether a step can be made now."""
        return True

    def cost(self, view: View) -> float:
        """Nanoseconds of a step, from ``costs``."""
        fit = view.part.problem.datafit
        return view.epoch_cost if fit is None else costs.passes(fit, 1.0)

    def steps_left(self, view: View) -> float:
        """How many steps seem to be left to the minimum."""
        return view.work_left / self.cost(view)

    @abstractmethod
    def step(self, view: View) -> Outcome:
        """One step, from the state of the view to the next one."""
