"""Penalties ψ(x) with their prox, one small file each."""

from reshuffle.penalties.base import Conjugate, Penalty, Separable
from reshuffle.penalties.box import Box
from reshuffle.penalties.elastic_net import ElasticNet
from reshuffle.penalties.group_lasso import GroupLasso
from reshuffle.penalties.l1 import L1
from reshuffle.penalties.l1_ball import L1Ball
from reshuffle.penalties.l2 import L2
from reshuffle.penalties.non_negative import NonNegative
from reshuffle.penalties.nuclear_norm import NuclearNorm
from reshuffle.penalties.zero import Zero

__all__ = [
    "L1",
    "L2",
    "Box",
    "Conjugate",
    "ElasticNet",
    "GroupLasso",
    "L1Ball",
    "NonNegative",
    "NuclearNorm",
    "Penalty",
    "Separable",
    "Zero",
]
