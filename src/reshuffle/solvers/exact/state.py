"""The state of a run of the exact method: everything that an epoch changes, by name and with its type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.objective import Array, Visits
from reshuffle.penalties.abilities import rows
from reshuffle.solvers.exact.movement_monitor import MovementMonitor
from reshuffle.solvers.exact.newton_steps import Progress
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.prox_call import WarmStart

USUAL_PRODUCTS = 12.0
"""Products with the Hessian that a first step by conjugate gradients is expected to take."""


class NewtonState(NamedTuple):
    """Numbers of the second-order phases."""

    rest: float = 0.0
    """The epoch before which no further second-order step is tried."""
    stuck: float = np.inf
    """P(x) at the last point where no Newton step could lower it."""
    width: float = 0.0
    """The active features of the last Newton step."""
    products: float = USUAL_PRODUCTS
    """The products with the Hessian of the last step by conjugate gradients."""
    steps: float = 0.0
    """The steps by conjugate gradients so far."""
    since: float = 0.0
    """The epoch of the last step by conjugate gradients."""
    gap: float = np.inf
    """The certificate at the start of the last step by conjugate gradients or by coordinate descent; zero if it was not known."""
    columns: float = 0.0
    """The epoch after that step if it was one by coordinate descent, with a minus if P did not fall; otherwise 0."""
    iterations: float = np.inf
    """The iterations of L-BFGS that seem to be left, after a call."""
    support: float = np.inf
    """The features that were not zero after the last epoch."""
    shrinks: float = 1.0
    """``support`` after the last epoch over that before it."""
    changed: float = 0.0
    """The coordinates that became zero or left zero in the last epoch, as a share of those that are not zero."""
    progress: Progress = Progress()
    """The numbers that one Newton step hands to the next."""

    @classmethod
    def of(cls, numbers: Array) -> NewtonState:
        """The numbers from their saved ``array``."""
        own = len(cls._fields) - 1
        named = dict(zip(cls._fields, numbers[:own].tolist(), strict=False))
        return cls(**named, progress=Progress(*numbers[own:].tolist()))

    def array(self) -> Array:
        """All numbers in one array, for saving."""
        return np.array([*self[:-1], *self.progress])

    def after_epoch(self, before: Array, after: Array) -> NewtonState:
        """The numbers after an epoch from ``before`` to ``after``; the progress of Newton steps is reset."""
        was, now = before != 0.0, after != 0.0
        found, support = int(np.count_nonzero(now)), float(np.count_nonzero(rows(now)))
        changed = int(np.count_nonzero(was != now)) / max(found, 1)
        shrinks = min(support / max(self.support, 1.0), 1.0) if self.support < np.inf else 1.0
        return self._replace(
            support=support, shrinks=shrinks, changed=changed, progress=Progress()
        )  # fmt: skip

    @property
    def unfinished(self) -> bool:
        """Whether the last step was a Newton step that the next one can continue."""
        return self.progress != Progress()


@dataclass(frozen=True, eq=False)
class ExactState:
    """The state of a run. It is never changed in place; ``dataclasses.replace`` makes the next one."""

    point: Point
    start: Point
    """Where the run began."""
    active: Visits
    """The features that an epoch reads; x is zero in the others."""
    table: Array
    """The remembered slope of every function."""
    g: Array
    """The mean gradient that belongs to the table, in the active features."""
    q: Array
    """g - h, in the active features."""
    monitor: MovementMonitor = field(default_factory=MovementMonitor)
    newton: NewtonState = field(default_factory=NewtonState)
    made: Mapping[str, int] = field(default_factory=dict)
    """How many steps each phase has made."""
    momentum: float = 0.0
    """θ of the accelerated steps; 0 if none are being made."""
    ahead: Array = field(default_factory=lambda: np.empty(0))
    """The extrapolated point of the accelerated steps; empty before the first."""
    warm: WarmStart | None = None
    """The start of the next prox, for penalties whose prox is found by iterations."""

    @property
    def x(self) -> Array:
        return self.point.x

    def arrays(self, phases: Sequence[str]) -> dict[str, AnyArray]:
        """The state as a run saves it."""
        made = np.array([self.made.get(name, 0) for name in phases], dtype=np.float64)
        warm = {} if self.warm is None else self.warm.arrays()
        return warm | {
            "x": self.x, "x0": self.start.x, "active": self.active, "table": self.table, "g": self.g,
            "q": self.q, "monitor": self.monitor.array(), "newton": self.newton.array(), "made": made,
            "momentum": np.array([self.momentum]), "ahead": self.ahead,
        }  # fmt: skip

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray], phases: Sequence[str]) -> ExactState:
        """The state that ``arrays`` saved."""
        made = {name: int(count) for name, count in zip(phases, arrays["made"], strict=True)}
        return cls(
            Point(arrays["x"]), Point(arrays["x0"]), arrays["active"], arrays["table"], arrays["g"],
            arrays["q"], MovementMonitor.of(arrays["monitor"]), NewtonState.of(arrays["newton"]), made,
            float(arrays["momentum"][0]), arrays["ahead"], WarmStart.of(arrays),
        )  # fmt: skip
