"""Federated learning: the single-machine methods on the product space, with one driver."""

from reshuffle.federated.exact import ExactFedRR
from reshuffle.federated.federation import Federation
from reshuffle.federated.held_out import EarlyStopping
from reshuffle.federated.partition import split
from reshuffle.federated.site import Site
from reshuffle.federated.sites import Sites
from reshuffle.federated.solvers import FedRR, LocalSGD

__all__ = [
    "EarlyStopping",
    "ExactFedRR",
    "FedRR",
    "Federation",
    "LocalSGD",
    "Site",
    "Sites",
    "split",
]
