"""Federated learning: the single-machine methods on the product space, with one driver."""

from reshuffle.federated.exact import ExactFedRR
from reshuffle.federated.federation import Federation
from reshuffle.federated.newton import FedNewton
from reshuffle.federated.partition import split
from reshuffle.federated.solvers import FedRR, LocalSGD

__all__ = ["ExactFedRR", "FedNewton", "FedRR", "Federation", "LocalSGD", "split"]
