"""The plan of a round: the work of all clients together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reshuffle.federated.federation import Federation
from reshuffle.federated.local import Load, Local
from reshuffle.objective import Array


@dataclass(frozen=True, eq=False)
class Plan:
    """The work of all clients in a round."""

    local: Local
    positions: list[int]
    """Where each client's random numbers begin."""
    factors: list[float]
    totals: Array
    """τ_m/γ: the length of each client's epoch, proportional to N_m."""
    visits: Array
    smoothness: float
    """The largest smoothness constant of the functions of single steps, over all clients."""


def plan(federation: Federation, local: Local, loads: Sequence[Load] | None = None) -> Plan:
    """Make the sum of each client's steps S·N_m/N, where S counts the steps of all.

    With one sample per step and no copies that is N_m, and all factors are 1. ``loads`` are the clients',
    where they are known already.
    """
    loads = loads or federation.loads(local)
    visits = np.array([load.visits for load in loads])
    steps = np.array([load.steps for load in loads])
    totals = steps.sum() * federation.sizes / federation.n
    factors = totals / steps
    smoothness = max(f * load.smoothness for f, load in zip(factors, loads, strict=True))
    positions = np.concatenate([[0], np.cumsum(visits)[:-1]])
    return Plan(local, positions.tolist(), factors.tolist(), totals, visits, float(smoothness))
