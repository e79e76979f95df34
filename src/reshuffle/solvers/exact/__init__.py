"""The exact method: shuffled epochs with control variates, and the phases that take turns with them.

``Phase``, ``Outcome`` and ``View`` are what a phase of one's own needs.
"""

from reshuffle.solvers.exact.newton import Newton
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.solver import PHASES, ExactProxRR
from reshuffle.solvers.exact.view import View

__all__ = ["PHASES", "ExactProxRR", "Newton", "Outcome", "Phase", "View"]
