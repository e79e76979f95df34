"""Schedules of step sizes, which become pure functions from the epoch to γ once bound to a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.validation import check_positive

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Setting:
    """The constants of a run on which a step may depend, as named in the paper."""

    smoothness: float
    """L_max of the functions that single steps use (batches, importance copies)."""
    strong_convexity: float
    """μ."""
    contraction: float
    """a = μ_f + 2μ_ψ: an epoch divides ‖x - x*‖² by 1 + γan, up to O(γ³)."""
    steps: float
    """n, the number of gradient steps in an epoch."""
    epochs: int
    """T, the number of epochs."""
    default: float
    """The largest constant step that the theory of the method allows."""


@runtime_checkable
class Step(Protocol):
    """``bind`` returns the map from the epoch t = 0, 1, … to γ_t."""

    needs_horizon: ClassVar[bool]
    """Whether γ_t depends on T, so that a resumed run must keep its number of epochs."""

    def bind(self, setting: Setting) -> Schedule: ...


@dataclass(frozen=True)
class Constant:
    """γ_t = value; by default the largest step that the theory of the method allows.

    That is 1/L_max for one prox per epoch and 1/(2 L_max) for proximal SGD.
    """

    value: float | None = None
    needs_horizon: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("step", self.value, optional=True)

    def bind(self, setting: Setting) -> Schedule:
        value = setting.default if self.value is None else float(self.value)
        return lambda epoch: value


@dataclass(frozen=True)
class InverseTime:
    """γ_t = initial/(1 + rate·t), the O(1/t) of the paper's experiments.

    By default, ``initial`` is the method's constant step and ``rate`` = initial·μ·n/2, so that
    γ_t tends to 2/(μnt); with μ = 0 the default rate is 1.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.1))
    >>> steps = rs.ProxRR(step=rs.steps.InverseTime(0.1, rate=1.0), epochs=3).solve(problem).trace["step"]
    >>> steps[1:].round(4)
    array([0.1   , 0.05  , 0.0333])
    """

    initial: float | None = None
    rate: float | None = None
    needs_horizon: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("initial", self.initial, optional=True)
        check_positive("rate", self.rate, optional=True)

    def bind(self, setting: Setting) -> Schedule:
        initial = setting.default if self.initial is None else self.initial
        rate = self.rate
        if rate is None:
            rate = initial * setting.strong_convexity * setting.steps / 2.0 or 1.0
        return lambda epoch: initial / (1.0 + rate * epoch)


@dataclass(frozen=True)
class Decreasing:
    """The paper's schedule for strongly convex ψ, with the constants that its proof needs.

    With a = 2μ (or μ_f + 2μ_ψ when a ridge is inside f), t0 = ⌈T/2⌉ and s = 7 L_max/(2an),

        γ_t = 1/L_max                                 if t ≤ t0 or T ≤ 7 L_max/(an),
        γ_t = min{1/L_max, 7/(an(s + t - t0))}        otherwise.

    The text of the paper has 7/(μn(s + t - t0)), twice what its lemma gives, and does not clip.

    Parameters
    ----------
    strong_convexity : μ; by default it is taken from the problem.
    """

    strong_convexity: float | None = None
    needs_horizon: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("strong_convexity", self.strong_convexity, optional=True)

    def bind(self, setting: Setting) -> Schedule:
        given = self.strong_convexity
        contraction = setting.contraction if given is None else 2.0 * given
        if not contraction > 0:
            raise InputError(
                "step Decreasing() needs a strongly convex penalty or a ridge (μ > 0); "
                "give Decreasing(strong_convexity=...) or use InverseTime()"
            )
        largest = setting.default
        contraction *= setting.steps  # a·n
        half, offset = ceil(setting.epochs / 2), 3.5 / (largest * contraction)

        def schedule(epoch: int) -> float:
            if epoch <= half or setting.epochs <= 2.0 * offset:
                return largest
            return min(largest, 7.0 / (contraction * (offset + epoch - half)))

        return schedule


@dataclass(frozen=True)
class Custom:
    """γ_t = function(t), a user's own schedule."""

    function: Schedule
    needs_horizon: ClassVar[bool] = False

    def bind(self, setting: Setting) -> Schedule:
        return self.function


StepGiven = Step | Schedule | float | None
"""The argument ``step`` of a solver: a number, a schedule, a function of the epoch, or None for the default."""


def check_step(step: object) -> Step:
    """The schedule of a number, a schedule of this module, a function of the epoch, or ``None`` for the default."""
    if step is None:
        return Constant(None)
    if isinstance(step, type):
        raise InputError(f"step must be an instance, got the class {step.__name__}")
    if isinstance(step, Step):
        return step
    if callable(step):
        return Custom(step)
    if isinstance(step, bool) or not isinstance(step, (int, float, np.floating, np.integer)):
        raise InputError(f"step must be a number, a schedule or a function, got {shown(step)}")
    return Constant(float(step))


def checked(schedule: Schedule) -> Schedule:
    """The schedule, which refuses a γ that is not positive and finite and names its epoch."""

    def positive(epoch: int) -> float:
        value = schedule(epoch)
        check_positive(f"step at epoch {epoch}", value)
        return float(value)

    return positive
