"""The ranges of the parts of an answer, chosen by the driver from sums alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from reshuffle.errors import InputError
from reshuffle.federated.secure.fixed_point import SPAN, exponent_of
from reshuffle.federated.secure.parts import MODEL
from reshuffle.objective import Array

GROWS = 12
"""Bits by which a range is raised if a site's value exceeds it: a few repetitions reach any realistic size."""
HIGHEST = 200
"""The largest exponent of a range: larger values mean that the run diverges."""
ROOM = 8
"""Bits by which residuals may grow from one round to the next before a range has to be raised."""
SQUARE = "square"
"""Σ_m ‖r_m‖², which bounds every entry of every r_m."""


class Ranges:
    """The exponents of the parts.

    A range is raised where a site says that it is too small, and falls again with the sum, to no less than its start: one trial
    point of a Newton step that is far out must not leave all later sums coarse. A sum may be small where the values of sites
    cancel, and a range that fell for that has to be raised again; it then waits for twice as many sums before it falls next.
    Residuals of ``ExactFedRR`` and their products shrink by many powers of ten over a run, and their ranges follow: ‖r_m‖² is
    at most the sum of all, which is known.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.exponents: dict[str, int] = {}
        self._patience: dict[str, int] = {}
        """Sums for which a range stays before it falls, by the name of its part."""
        self._stayed: dict[str, int] = {}
        self._fell: set[str] = set()
        """The parts whose ranges fell after the latest sum."""

    def raise_for(self, names: list[str]) -> None:
        for name in names:
            if name in self._fell:
                self._patience[name] = 2 * self._patience.get(name, 0) + 1
                self._fell.remove(name)
            raised = self.exponents.get(name, self.start) + GROWS
            if raised > HIGHEST:
                raise InputError(
                    f"{name} of a site is beyond 2^{HIGHEST}, or not finite: no fixed point holds it. The run may diverge, "
                    "or its features may need other units"
                )
            self.exponents[name] = raised

    def follow(self, totals: Mapping[str, Array]) -> None:
        """Ranges for the next round, from the sums of this one."""
        if SQUARE not in totals:
            self._fall(totals)
            return
        norm = sqrt(max(float(totals[SQUARE]), 0.0))
        if norm == 0.0:
            return
        older = max(
            (float(np.abs(totals[name]).max(initial=0.0)) / norm for name in ("slopes", "changes")),
            default=0.0,
        )
        sizes = {MODEL: norm, SQUARE: norm * norm}
        sizes |= dict.fromkeys(("slopes", "changes"), norm * max(norm, older))
        for name, size in sizes.items():
            if size > 0.0:
                self.exponents[name] = max(exponent_of(size) + ROOM, -SPAN)

    def _fall(self, totals: Mapping[str, Array]) -> None:
        """Lower the ranges that are wider by a raise, or more, than these sums need."""
        self._fell.clear()
        for name, total in totals.items():
            needed = exponent_of(float(np.abs(total).max(initial=0.0))) + ROOM
            lower = max(needed, self.start)
            if self.exponents.get(name, self.start) < lower + GROWS:
                continue
            stayed = self._stayed.get(name, 0)
            falls = stayed >= self._patience.get(name, 0)
            self._stayed[name] = 0 if falls else stayed + 1
            if falls:
                self.exponents[name] = lower
                self._fell.add(name)
