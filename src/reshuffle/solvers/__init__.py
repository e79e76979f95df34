"""Solvers: frozen hyper-parameters with one method, ``solve``."""

from reshuffle.solvers.exact import ExactProxRR
from reshuffle.solvers.fista import FISTA
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.proxnewton import ProxNewton
from reshuffle.solvers.proxrr import ProxRR
from reshuffle.solvers.proxsgd import ProxSGD
from reshuffle.solvers.solver import Solver

SOLVERS = (ExactProxRR, FISTA, ProxRR, ProxSGD)
"""All solvers on one machine that take a ``Problem``; the conformance tests iterate over them."""

__all__ = [
    "FISTA",
    "Check",
    "Epoch",
    "ExactProxRR",
    "Method",
    "ProxNewton",
    "ProxRR",
    "ProxSGD",
    "Solver",
    "State",
]
