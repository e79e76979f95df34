"""The paper's theory, executable: constants, shuffling radius, bounds, complexities, steps."""

from reshuffle.theory.bounds import (
    decreasing_bound,
    decreasing_steps,
    fed_bound,
    fed_heterogeneous_bound,
    fed_homogeneous_bound,
    proxrr_f_bound,
    proxrr_psi_bound,
    proxsgd_bound,
    recursion_bound,
)
from reshuffle.theory.clients import ClientConstants, client_constants
from reshuffle.theory.complexity import (
    Overtaking,
    overtaking,
    proxrr_f_complexity,
    proxrr_f_step,
    proxrr_psi_complexity,
    proxrr_psi_step,
    proxsgd_cheaper,
    proxsgd_complexity,
    proxsgd_step,
)
from reshuffle.theory.constants import Constants, constants, solve
from reshuffle.theory.prediction import Prediction, predictions
from reshuffle.theory.radius import (
    RadiusEstimate,
    shuffling_radius,
    shuffling_radius_bound,
    shuffling_radius_estimate,
)

__all__ = [
    "ClientConstants",
    "Constants",
    "Overtaking",
    "Prediction",
    "RadiusEstimate",
    "client_constants",
    "constants",
    "decreasing_bound",
    "decreasing_steps",
    "fed_bound",
    "fed_heterogeneous_bound",
    "fed_homogeneous_bound",
    "overtaking",
    "predictions",
    "proxrr_f_bound",
    "proxrr_f_complexity",
    "proxrr_f_step",
    "proxrr_psi_bound",
    "proxrr_psi_complexity",
    "proxrr_psi_step",
    "proxsgd_bound",
    "proxsgd_cheaper",
    "proxsgd_complexity",
    "proxsgd_step",
    "recursion_bound",
    "shuffling_radius",
    "shuffling_radius_bound",
    "shuffling_radius_estimate",
    "solve",
]
