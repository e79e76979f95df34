"""Solvers: frozen hyper-parameters with one method, ``solve``."""

from reshuffle.solvers.fista import FISTA
from reshuffle.solvers.proxrr import ProxRR
from reshuffle.solvers.proxsgd import ProxSGD

__all__ = ["FISTA", "ProxRR", "ProxSGD"]
