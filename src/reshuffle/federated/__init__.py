"""Federated learning: the single-machine methods on the product space, with one driver."""

from reshuffle.federated.distributed import ExactDistributed
from reshuffle.federated.divided_folder import DividedFolder
from reshuffle.federated.exact import ExactFedRR
from reshuffle.federated.federation import Federation
from reshuffle.federated.held_out import EarlyStopping
from reshuffle.federated.information import inference
from reshuffle.federated.local import Load, Local
from reshuffle.federated.newton import FedNewton
from reshuffle.federated.outcome import FederatedResult, Learned
from reshuffle.federated.partition import split
from reshuffle.federated.plan import Plan
from reshuffle.federated.quality import Quality
from reshuffle.federated.secure import Secure
from reshuffle.federated.server import Averaging, ControlVariates, Server
from reshuffle.federated.site import Site
from reshuffle.federated.sites import Sites
from reshuffle.federated.solvers import FederatedSolver, FedRR, LocalSGD
from reshuffle.federated.transport import RandomK, TopK

__all__ = [
    "Averaging",
    "ControlVariates",
    "DividedFolder",
    "EarlyStopping",
    "ExactDistributed",
    "ExactFedRR",
    "FedNewton",
    "FedRR",
    "FederatedResult",
    "FederatedSolver",
    "Federation",
    "Learned",
    "Load",
    "Local",
    "LocalSGD",
    "Plan",
    "Quality",
    "RandomK",
    "Secure",
    "Server",
    "Site",
    "Sites",
    "TopK",
    "inference",
    "split",
]
