"""Penalties ψ(x) with their prox; ``abilities`` lists what else they may provide.

A new penalty is one class and one line here: the conformance tests find it in ``PENALTIES``.
"""

from dataclasses import is_dataclass
from typing import Any

from reshuffle.penalties.abilities import Able as Able
from reshuffle.penalties.abilities import Penalty as Penalty
from reshuffle.penalties.abilities import ability as ability
from reshuffle.penalties.abilities import strong_convexity as strong_convexity
from reshuffle.penalties.abilities import weak_convexity as weak_convexity
from reshuffle.penalties.adapters import FromCvxpy as FromCvxpy
from reshuffle.penalties.adapters import FromPyproximal as FromPyproximal
from reshuffle.penalties.balls import L1Ball as L1Ball
from reshuffle.penalties.balls import L2Ball as L2Ball
from reshuffle.penalties.balls import Simplex as Simplex
from reshuffle.penalties.column_groups import column_groups as column_groups
from reshuffle.penalties.coordinatewise import L1 as L1
from reshuffle.penalties.coordinatewise import L2 as L2
from reshuffle.penalties.coordinatewise import Box as Box
from reshuffle.penalties.coordinatewise import ElasticNet as ElasticNet
from reshuffle.penalties.coordinatewise import LInfBall as LInfBall
from reshuffle.penalties.coordinatewise import NonNegative as NonNegative
from reshuffle.penalties.coordinatewise import Zero as Zero
from reshuffle.penalties.fused_lasso import FusedLasso as FusedLasso
from reshuffle.penalties.graph_fused_lasso import GraphFusedLasso as GraphFusedLasso
from reshuffle.penalties.graph_fused_lasso import TotalVariation2D as TotalVariation2D
from reshuffle.penalties.group_lasso import GroupLasso as GroupLasso
from reshuffle.penalties.group_lasso import MultitaskLasso as MultitaskLasso
from reshuffle.penalties.group_lasso import SparseGroupLasso as SparseGroupLasso
from reshuffle.penalties.latent_group_lasso import LatentGroupLasso as LatentGroupLasso
from reshuffle.penalties.nuclear_norm import NuclearNorm as NuclearNorm
from reshuffle.penalties.ordered import SLOPE as SLOPE
from reshuffle.penalties.ordered import Monotone as Monotone
from reshuffle.penalties.overlapping import OverlappingGroupLasso as OverlappingGroupLasso
from reshuffle.penalties.polyhedron import Polyhedron as Polyhedron
from reshuffle.penalties.psd_cone import PSDCone as PSDCone
from reshuffle.penalties.separable import Separable as Separable
from reshuffle.penalties.sums import Sum as Sum
from reshuffle.penalties.weakly_convex import MCP as MCP
from reshuffle.penalties.weakly_convex import SCAD as SCAD
from reshuffle.penalties.weakly_convex import LogSum as LogSum

PENALTIES: tuple[type[Any], ...] = tuple(
    part for part in list(globals().values()) if isinstance(part, type) and is_dataclass(part)
)
"""Every penalty of the package."""
