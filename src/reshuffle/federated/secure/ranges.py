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
"""Bits by which a range is raised where a site's value is beyond it: a few repetitions reach any size that is met."""
HIGHEST = 200
"""A range of 2^200 and more is none: the values are those of a run that diverges."""
ROOM = 8
"""Bits by which residuals may grow from one round to the next before a range has to be raised."""
SQUARE = "square"
"""Σ_m ‖r_m‖², which bounds every entry of every r_m."""


class Ranges:
    """The exponents of the parts.

    A range is raised where a site says that it is too small, and stays. Residuals of ``ExactFedRR`` and their products shrink
    by many powers of ten over a run, and their ranges follow: ‖r_m‖² is at most the sum of all, which is known.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.exponents: dict[str, int] = {}

    def raise_for(self, names: list[str]) -> None:
        """More room for these parts."""
        for name in names:
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
