"""The baseline hazard of a proportional hazards model, and survival functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.survival.cox import CoxProblem
from reshuffle.validation import as_array, check_finite


@dataclass(frozen=True, eq=False)
class Baseline:
    """Λ(t) = Σ_{t_k ≤ t} c_k/S_k: the cumulative hazard of a row whose margin is ``centre``, for each stratum.

    With Breslow's ties it is Breslow's estimator, and with Efron's the corresponding one of R's survival. It is a step
    function: constant from one time with events to the next, and after the last.
    """

    times: list[Array]
    """For each stratum, the times with events, rising."""
    hazards: list[Array]
    """Λ at these times."""
    centres: Array
    """For each stratum the margin to which Λ refers: the largest, so that nothing overflows."""

    @classmethod
    def of(cls, problem: CoxProblem, x: Array) -> Baseline:
        times, hazards, centres = [], [], []
        found = zip(problem.strata, problem.at(x), problem.centres, strict=True)
        for (_, sets), at, centre in found:
            steps = np.bincount(sets.owner, sets.counts / at.sums, sets.begins.size)
            times.append(sets.times[::-1].copy())
            hazards.append(np.cumsum(steps[::-1], dtype=np.float64))
            centres.append(at.shift + float(centre @ x))
        return cls(times, hazards, np.array(centres))

    def cumulative_hazard(self, margins: Array, times: object, stratum: int = 0) -> Array:
        """Λ(t)·exp(margin), a row for each margin and a column for each time."""
        when = as_array("times", times)
        if when.ndim != 1 or when.dtype.kind not in "fiub":
            raise InputError(f"times must be numbers in a list, got shape {when.shape}")
        check_finite("times", when)
        steps = np.append(0.0, self.hazards[stratum])
        base = steps[np.searchsorted(self.times[stratum], when, side="right")]
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.exp(margins - self.centres[stratum])[:, None] * base
        return np.where(base > 0.0, found, 0.0)

    def survival(self, margins: Array, times: object, stratum: int = 0) -> NDArray[np.float64]:
        """exp(-Λ(t)·exp(margin)): the probability of no event until t."""
        with np.errstate(under="ignore"):
            return np.exp(-self.cumulative_hazard(margins, times, stratum))
