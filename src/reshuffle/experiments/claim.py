"""The paper's claim about its Figure 1, made precise enough to fail.

'All methods behave more or less the same way [per data pass]. However, the algorithm that we
propose needs only a small fraction of proximal operator evaluations.'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reshuffle.experiments.recipe import ClaimCheck, Curve, Numbers

ALIKE = 3.0  # Up to this factor in passes is taken as 'more or less the same'.
FRACTION = 0.01  # At most this share of the prox evaluations is taken as 'a small fraction'.
LEAST = 0.1  # All methods must reduce the initial gap to at most this share of it.


@dataclass(frozen=True)
class Rung:
    """An accuracy that all methods reach, and the work of each method to reach it."""

    accuracy: float
    passes: dict[str, float]
    prox_evals: dict[str, float]

    def slowdown(self, ours: str) -> float:
        """Passes of our method, relative to the fastest of the others."""
        return self.passes[ours] / min(v for k, v in self.passes.items() if k != ours)

    def saving(self, ours: str) -> float:
        """Prox evaluations of the most frugal other method, relative to ours."""
        return min(v for k, v in self.prox_evals.items() if k != ours) / self.prox_evals[ours]


def ladder(curves: Mapping[str, Curve]) -> list[Rung]:
    """The accuracies start·10^{-k/2}, k = 1, 2, …, that every method reaches."""
    start = float(next(iter(curves.values())).median[0])
    rungs = []
    for k in range(1, 60):
        accuracy = start * 10.0 ** (-k / 2)
        rows = {name: curve.first(accuracy) for name, curve in curves.items()}
        found = {name: row for name, row in rows.items() if row is not None}
        if len(found) < len(rows):
            break
        rungs.append(
            Rung(
                accuracy,
                {name: float(curves[name].passes[row]) for name, row in found.items()},
                {name: float(curves[name].prox_evals[row]) for name, row in found.items()},
            )
        )
    return rungs


def check(curves: Mapping[str, Curve], ours: str) -> list[ClaimCheck]:
    """The three parts of the claim, each checked at every accuracy of the ladder."""
    rungs, start = ladder(curves), float(curves[ours].median[0])
    reached = rungs[-1].accuracy if rungs else start
    slowest = max((rung.slowdown(ours) for rung in rungs), default=np.inf)
    least = min((rung.saving(ours) for rung in rungs), default=0.0)
    return [
        ClaimCheck(
            f"All methods reach a tenth of the gap at the start ({LEAST * start:.2g}).",
            reached <= LEAST * start,
            f"all reach {reached:.2g}",
        ),
        ClaimCheck(
            f"Per data pass they behave alike: at equal accuracy {ours} takes at most {ALIKE:g} "
            "times the passes of the fastest other method.",
            slowest <= ALIKE,
            f"{slowest:.2f} times in the worst case",
        ),
        ClaimCheck(
            f"{ours} needs a small fraction of the prox evaluations: at equal accuracy at most "
            f"1/{1 / FRACTION:.0f} of what any other method needs.",
            least >= 1 / FRACTION,
            f"1/{least:,.0f} in the worst case" if least else "not reached",
        ),
    ]


def numbers(curves: Mapping[str, Curve], ours: str) -> Numbers:
    """Work at equal accuracy."""
    names = list(curves)
    columns = ["P - P*", *(f"passes, {name.split()[0]}" for name in names)]
    columns += [f"prox, {name.split()[0]}" for name in names] + ["fewer prox"]
    rows = [
        [
            f"{rung.accuracy:.1e}",
            *(f"{rung.passes[name]:.0f}" for name in names),
            *(f"{rung.prox_evals[name]:,.0f}" for name in names),
            f"{rung.saving(ours):,.0f}×",
        ]
        for rung in ladder(curves)
    ]
    return Numbers("Work at equal accuracy (medians over seeds)", columns, rows)
