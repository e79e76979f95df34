"""Chooses the phase that makes the next step."""

from __future__ import annotations

from collections.abc import Sequence

from reshuffle.solvers.exact.phase import Phase
from reshuffle.solvers.exact.view import View

EQUAL = 1.0 + 1e-9
"""Amounts of work whose ratio is below this count as equal, because of rounding; then the phase that is listed first acts."""


def choose(view: View, phases: Sequence[Phase]) -> Phase:
    """An unfinished phase; else, if a proof is wanted, only phases that prove; of the candidates, the one with the least cost × steps left."""
    for phase in phases:
        if phase.unfinished(view):
            return phase
    ready = [phase for phase in phases if phase.ready(view)] or list(phases)
    if view.wants_proof:
        ready = [phase for phase in ready if phase.proves] or ready
    if len(ready) == 1:
        return ready[0]
    work = [phase.cost(view) * phase.steps_left(view) for phase in ready]
    return next(phase for phase, each in zip(ready, work, strict=True) if each <= EQUAL * min(work))
