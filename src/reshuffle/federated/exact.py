"""ExactFedRR: FedRR with control variates, accelerated by the server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np

from reshuffle.engines import Cuda, check_engine
from reshuffle.errors import InputError, not_converged, warn_user
from reshuffle.federated.client_state_server import ClientStateServer
from reshuffle.federated.device_server import DeviceServer
from reshuffle.federated.federation import Federation
from reshuffle.federated.local import Corrected, Local
from reshuffle.federated.newton import FedNewton
from reshuffle.federated.plan import Plan, plan
from reshuffle.federated.rounds import Rounds
from reshuffle.federated.scales import (
    Metric,
    Rescaled,
    ScaledPenalty,
    metric,
    prox_in,
    rescaled,
    units,
)
from reshuffle.federated.server import ControlVariates, Extrapolated, Prox, Server
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.federated.transport import RandomK, TopK, transport_of
from reshuffle.orders import Order, ShuffleOnce, check_order
from reshuffle.solvers.sampling import inverse
from reshuffle.validation import check_positive

MOST_PASSES = 8
"""The most local passes of a round by default."""
FEW_VISITS = 50
"""Clients with fewer samples than this make more passes by default, since these cost little."""
CAP = 0.5
"""The largest default step, as a share of 1/L_max: at 1/L_max itself passes in a fixed order can be unstable."""
FAR_APART = 100.0
"""If the units of two unscaled columns differ by more than this factor, a warning says that rounds may be many."""


@dataclass(frozen=True, kw_only=True)
class ExactFedRR(FederatedSolver):
    """Federation shuffling with control variates: the pooled solution, whatever the split.

        client m:  from y = x, passes with  x_m ← x_m - γ(∇f_i(x_m) - ∇f_i(y) + ∇f_m(y) - h_m),
        server:    x⁺ = prox_{γ(N/M)R}( (1/M) Σ_m z_m ),    z_m = x_m - γN_m h_m,
        and then   h_m ← h_m + (x⁺ - x_m)/(γN_m) = (x⁺ - z_m)/(γN_m).

    The z_m of one round determine those of the next, so that a round is a map z ← T(z). Its fixed points
    are the solutions, for every step (docs/federated-convergence.md). The server extrapolates from the last rounds (Anderson): the next
    z is Σ_j α_j T(z_j), where Σ_j α_j = 1 and ‖Σ_j α_j (T(z_j) - z_j)‖ is least. This needs no further
    messages.

    Clients keep nothing between rounds: h_m travels with the model, so that a restarted client continues
    as if nothing had happened. A ridge inside f_i is applied by the server, within the prox.

    Parameters
    ----------
    step : γ; by default the one with which the local passes have the length γkN/M = τ = 1/√(L_f·μ), the
        parameter at which Douglas-Rachford splitting is fastest, but at most 1/(2 L_max). μ is that of
        the penalty and the ridge, and at least L_f/N. If the residual ‖T(z) - z‖ of a plain round
        doubles, or has fallen by less than a third in 50 rounds (a half in 100), the server halves a default
        step (column ``step`` of the trace); a step of yours it leaves alone, and a run that ends above its start with one beyond
        1/L_max raises ``DivergenceError``.
    local_passes : k, the stochastic passes of a round (a full one at y comes before them). By default as
        many as make γ ≤ 1/(2 L_max) when their length is τ, from 1 to 8 (or 50 M/N).
    order : of the local passes. Shuffled once, T is the same map in every round, which acceleration
        needs; ``Reshuffle()`` with ``acceleration=0`` is the method without it.
    importance : of the local passes; used where it saves work.
    acceleration : rounds that the server remembers, 0 for plain rounds. It holds twice as many copies
        of all h_m. If the residual grows, it falls back to a plain round from its best point. With
        a step that changes there is no acceleration.
    state : "server" or "clients": where h_m and the memory of the rounds are kept. With "clients" the server has sums over
        clients only, of length d, and goes through the same iterates to rounding; a client that loses its part is named. With ``acceleration=0`` clients may then stay away (``participation``).
    on_lost : what to do when a client has lost its state: "raise" a ``ClientError`` that names it, or "restart" all
        clients from x, with h_m = 0 and no memory, which costs rounds and is logged.

    transport : how residuals travel with ``state="clients"``: "float64", or in fewer bytes as "float32", "bfloat16", ``federated.TopK(share)``
        or ``federated.RandomK(share)`` (which need ``acceleration=0``). The solution is the same; rounds may be more.

    scales : "agreed" runs the method in x = S·u, with common powers of two for columns of different size, from moments that
        clients send once, and with an intercept centres dense columns that are far from zero. The minimiser is the same. It needs a penalty
        that is separable or of groups, and the default ``step``. With None columns are taken as they are.

    A run whose residual has not halved for 50 rounds when it ends says so (``ConvergenceWarning``), and what to try.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.ElasticNet(4e-3, 6e-3))
    >>> clients = rs.federated.split(problem, clients=5, by="label", seed=0)
    >>> result = rs.ExactFedRR(rounds=100, tol=1e-6, seed=0).solve(clients)
    >>> result.converged, result.epoch < 50
    (True, True)
    """

    local_passes: int | None = None
    order: Order = field(default_factory=ShuffleOnce)
    importance: bool | None = None
    acceleration: int = 10
    state: Literal["server", "clients"] = "server"
    on_lost: Literal["raise", "restart"] = "raise"
    transport: object = "float64"
    scales: Literal["agreed"] | None = "agreed"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_order(self.order)
        if self.local_passes is not None:
            check_positive("local_passes", self.local_passes, integer=True)
        if not isinstance(self.acceleration, int) or self.acceleration < 0:
            raise InputError(
                f"acceleration must be a non-negative integer, got {self.acceleration!r}"
            )
        if self.state not in ("server", "clients"):
            raise InputError(f'state must be "server" or "clients", got {self.state!r}')
        if self.on_lost not in ("raise", "restart"):
            raise InputError(f'on_lost must be "raise" or "restart", got {self.on_lost!r}')
        if self.scales not in ("agreed", None):
            raise InputError(f'scales must be "agreed" or None, got {self.scales!r}')
        transport = transport_of(self.transport)
        if transport is not None and self.state != "clients":
            raise InputError(
                f'transport={self.transport!r} needs state="clients": what is left out of a residual is kept there'
            )
        if isinstance(transport, (TopK, RandomK)) and self.acceleration:
            raise InputError(
                f"transport={self.transport!r} needs acceleration=0: a map that leaves out other coordinates in each "
                "round cannot be extrapolated"
            )
        if self.state == "clients" and not hasattr(self.step, "value"):
            raise InputError('state="clients" needs a constant step')
        if self.participation < 1 and (self.state == "server" or self.acceleration):
            raise InputError(
                "ExactFedRR needs all clients in every round: participation must be 1, or "
                'state="clients" with acceleration=0'
            )
        if self.on_missing == "average":
            raise InputError('ExactFedRR cannot leave clients out: on_missing must be "raise"')

    def check_sums(self) -> None:
        if self.state != "clients":
            raise InputError(
                'ExactFedRR needs state="clients" with secure sums: a server that holds h_m must see the reply of every single client'
            )
        super().check_sums()

    def bind(self, problem: Federation) -> Rounds:
        if self._on_device and transport_of(self.transport) is not None:
            raise InputError(
                f'transport must be "float64" with engine="cuda", got {self.transport!r}: nothing is sent'
            )
        if self._on_device and not hasattr(self.step, "value"):
            raise InputError(
                f'step must be constant with engine="cuda", got {self.step!r}: the clients\' z_m on the card belong to one '
                'step. Give a number or None, or use engine="threads"'
            )
        rounds = super().bind(problem)
        rounds.longest_step = rounds.safe_step
        if self.tol > 0.0 and newton_can(problem):
            rounds.instead = (
                f"tol={self.tol:g} was not reached: give more rounds than {self.rounds}, or take FedNewton, which needs "
                "few rounds where columns depend on each other or are more than the rows"
            )
        rounds.header |= {
            "step": f"{rounds.schedule(0):.6g}",
            "local passes": str(cast(Corrected, rounds.plan.local).passes),
            "acceleration": str(getattr(rounds.server, "memory", 0)),
        }
        return rounds

    def local(self, federation: Federation) -> Corrected:
        return Corrected(self.order, self.local_passes or 1, self.importance, self.seed)

    def plan(self, federation: Federation) -> Plan:
        one = replace(self.local(federation), passes=1)
        found = self._metric(federation)
        one = one if found is None else rescaled(one, found)
        loads = federation.loads(one)
        passes = self.local_passes or self._enough(federation, plan(federation, one, loads))
        return plan(federation, replace(one, passes=passes), [load.times(passes) for load in loads])

    def server(self, federation: Federation, work: Plan) -> Server:
        if isinstance(work.local, Rescaled):
            prox: Prox = prox_in(_penalty(federation, work.local), federation.features)
        elif self.state == "clients" and not federation.ridge:
            prox = federation.prox
        else:
            prox = federation.prox_with_ridge
        chosen = self._chosen  # only then may the server halve it
        if self._on_device:
            samples = int(work.visits.sum()) // cast(Corrected, work.local).passes
            at_clients = self.state == "clients"
            return DeviceServer(prox, work.totals, self.acceleration, chosen, samples, at_clients)
        if self.state == "clients":
            how = transport_of(self.transport)
            return ClientStateServer(prox, work.totals, self.acceleration, chosen, how)
        if self.acceleration and hasattr(self.step, "value"):  # the step is constant
            return Extrapolated(prox, work.totals, self.acceleration, adaptive=chosen)
        return ControlVariates(prox, work.totals)

    @property
    def _on_device(self) -> bool:
        """Whether the clients are on a graphics card, and their state with them."""
        return isinstance(check_engine(self.engine), Cuda)

    @property
    def _chosen(self) -> bool:
        return getattr(self.step, "value", 0.0) is None

    def _metric(self, federation: Federation) -> Metric | None:
        """The metric that the clients agree on; None if none is wanted, useful or possible."""
        if self.scales is None or not self._chosen:  # A given step has the units of the columns.
            return None
        said = federation.columns()
        if said is None:
            return None
        shape = (federation.features, *federation.shape[1:])
        found = units(said, federation.shape[0] > federation.features)
        chosen = metric(found, federation.penalty, shape)
        left = found.unit * (1.0 if chosen is None else chosen.scale)
        if left.max() > FAR_APART * left.min():
            warn_user(
                f"ExactFedRR: columns are of very different size (1 : {found.spread:.1g}), and the penalty "
                f"{type(federation.penalty).__name__} does not allow each a scale of its own: rounds may be "
                "many. Standardise the columns, or take FedNewton where it takes the penalty",
                not_converged(),
            )
        return chosen

    def default_step(self, federation: Federation, work: Plan) -> float:
        return min(
            CAP * inverse(work.smoothness),
            _length(federation, work.local) / float(work.totals.mean()),
        )

    def _enough(self, federation: Federation, work: Plan) -> int:
        """The number of passes with the default step; one if the user gave a step."""
        if not self._chosen:
            return 1
        passes = (
            work.smoothness * _length(federation, work.local) / (CAP * float(work.totals.mean()))
        )
        most = max(MOST_PASSES, int(FEW_VISITS / float(work.visits.mean())))
        return int(np.clip(np.ceil(passes), 1, most))


def newton_can(federation: Federation) -> bool:
    """Whether FedNewton accepts this federation."""
    try:
        FedNewton().check_problem(federation)
    except InputError:
        return False
    return True


def _penalty(federation: Federation, local: Rescaled) -> ScaledPenalty:
    shape = (federation.features, *federation.shape[1:])
    return ScaledPenalty.of(federation.penalty, federation.ridge, local.metric, shape)


def _length(federation: Federation, local: Local) -> float:
    """τ = 1/√(L_f·μ), for the μ of the penalty and the ridge but no less than L_f/N.

    The data has curvature too. It is not known beforehand; a τ for μ = 0 would be infinite, and for a
    μ much below L_f/N far too long on sets whose own curvature is larger.
    """
    L_f, mu = federation.smoothness_for(local).L_f, federation.strong_convexity
    if isinstance(local, Rescaled):
        mu = _penalty(federation, local).strong_convexity
    mu = max(mu, L_f / federation.n)
    return 1.0 / float(np.sqrt(L_f * mu))
