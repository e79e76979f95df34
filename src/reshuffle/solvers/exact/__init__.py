"""The exact method: shuffled epochs with control variates, and the phases that take turns with them."""

from reshuffle.solvers.exact.solver import ExactProxRR

__all__ = ["ExactProxRR"]
