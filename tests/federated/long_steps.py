"""ExactFedRR with a default step that is too long, to see what the server makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import reshuffle as rs
from reshuffle.federated.federation import Federation
from reshuffle.federated.plan import Plan
from reshuffle.solvers.sampling import inverse


@dataclass(frozen=True, kw_only=True)
class LongSteps(rs.ExactFedRR):
    """The default step is ``share``/L_max, in eight local passes."""

    local_passes: int | None = 8
    share: float = 1.5

    def default_step(self, federation: Federation, work: Plan) -> float:
        return self.share * inverse(work.smoothness)
