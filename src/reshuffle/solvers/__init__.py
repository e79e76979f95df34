"""Solvers: frozen hyper-parameters with one method, ``solve``."""

from reshuffle.solvers.exact import ExactProxRR
from reshuffle.solvers.fista import FISTA
from reshuffle.solvers.proxrr import ProxRR
from reshuffle.solvers.proxsgd import ProxSGD

__all__ = ["FISTA", "ExactProxRR", "ProxRR", "ProxSGD"]
