"""FedRR and LocalSGD: their hyper-parameters and their local work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from reshuffle.engines import Engine, check_available, check_engine
from reshuffle.errors import InputError, shown
from reshuffle.federated.delayed import DelayedRun
from reshuffle.federated.downlink import Downlink, check_downlink
from reshuffle.federated.federation import Federation
from reshuffle.federated.local import Local, Sampled, Shuffled
from reshuffle.federated.outcome import FederatedResult, ended
from reshuffle.federated.plan import Plan, plan
from reshuffle.federated.private_rounds import (
    NoisyAveraging,
    account_of_rounds,
    check_private_rounds,
    check_public_penalty,
    private_work,
)
from reshuffle.federated.replies import Policy
from reshuffle.federated.rounds import Rounds
from reshuffle.federated.server import Averaging, Server
from reshuffle.federated.transport import Transport, dithered, transport_of
from reshuffle.orders import Order, Reshuffle, check_order
from reshuffle.penalties.abilities import check_convex
from reshuffle.privacy import Account, ClientLevel, Level, SampleLevel
from reshuffle.solvers.run import Run
from reshuffle.solvers.sampling import bind_step, inverse
from reshuffle.solvers.solver import LIMITS, BaseSolver
from reshuffle.steps import Constant, Setting, StepGiven, check_step
from reshuffle.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class FederatedSolver(BaseSolver):
    """The settings that every federated solver has.

    Parameters
    ----------
    rounds : the most rounds to run; the trace counts them in its column ``epoch``.
    engine : "threads", "ray", "cuda" (FedRR, LocalSGD and ExactFedRR on a graphics card), or an engine object such as
        ``engines.Threads(workers=2)``. The model is the same on threads and on Ray to the last bit, and
        on a graphics card up to rounding.
    participation : the fraction of clients in a round, drawn so that each takes part once before any
        takes part twice. The theory covers 1.
    retries : how often a client that did not answer is asked again in the same round.
    round_timeout : seconds that a client may take for its part of a round, from when it begins, before it
        counts as missing. A client that hangs loses its own answer and no other one.
    on_missing : "raise" a ``ClientError`` that names the missing clients, or "average" the models of those that answered,
        which solves another problem in that round, and is logged.
    evaluate : for ``Sites`` with ``test`` data: each site evaluates the model on it every ``evaluate`` rounds.
        The trace has the loss, accuracy, AUC and R² over all sites; ``federated.EarlyStopping`` stops on them. The
        final model is evaluated in any case: ``result.held_out`` is a table by site and metric.
    downlink : how x travels to the clients: "float64", or "rounded" to as many bytes a number as keep the rounding below a 64th of
        the last change of x. The next round begins at the rounded x, and the limit is the same.
    """

    rounds: int = 100
    engine: Engine | str = "threads"
    participation: float = 1.0
    retries: int = 2
    round_timeout: float | None = None
    on_missing: Literal["raise", "average"] = "raise"
    evaluate: int | None = None
    step: StepGiven = None
    downlink: Downlink = "float64"

    counted: ClassVar[str] = "rounds"
    limits: ClassVar[frozenset[str]] = LIMITS | {
        "engine", "retries", "round_timeout", "on_missing", "on_lost", "evaluate",
    }  # fmt: skip
    takes: ClassVar[Any] = Federation

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", check_step(self.step))
        check_engine(self.engine)
        check_downlink(self.downlink)
        if not (isinstance(self.participation, (int, float)) and 0 < self.participation <= 1):
            raise InputError(f"participation must be in (0, 1], got {shown(self.participation)}")
        if not isinstance(self.retries, int) or self.retries < 0:
            raise InputError(f"retries must be a non-negative integer, got {shown(self.retries)}")
        if self.round_timeout is not None:
            check_positive("round_timeout", self.round_timeout)
        if self.evaluate is not None:
            check_positive("evaluate", self.evaluate, integer=True)
        if self.on_missing not in ("raise", "average"):
            raise InputError(
                f'on_missing must be "raise" or "average", got {shown(self.on_missing)}'
            )
        if not self.steps and self.step != Constant():
            name = type(self).__name__
            raise InputError(f"{name} has no step to choose, got step={shown(self.step)}")
        if self.needs_all and (self.participation < 1 or self.on_missing == "average"):
            raise InputError(
                f"{type(self).__name__} needs all clients in every round: participation must be 1 and "
                'on_missing "raise"'
            )

    local_class: ClassVar[type[Local] | None] = None
    """The class of its local work, if ``local`` only has to make an instance of it."""
    server_class: ClassVar[type[Server]] = Averaging
    """The class of its server, if ``server`` only has to make an instance of it."""
    steps: ClassVar[bool] = True
    """Whether it has a step that a user may choose."""
    needs_all: ClassVar[bool] = False
    """Whether all clients must take part in every round."""

    @property
    def policy(self) -> Policy:
        lost: Any = getattr(self, "on_lost", "raise")
        return Policy(self.participation, self.retries, self.round_timeout, self.on_missing, lost)

    def solve(self, problem: Any, x0: object = None, **settings: Any) -> FederatedResult:
        """Minimise P over a federation, as ``Solver.solve`` does; sites are first asked about their data."""
        gather = getattr(problem, "gather", None)
        if gather is None:
            return FederatedResult.of(super().solve(problem, x0, **settings), tol=self.tol)
        if getattr(problem, "secure", None) is not None:
            self.check_sums()
        if getattr(self, "privacy", None) is not None:
            check_public_penalty(problem)
        with gather(check_engine(self.engine), self.policy) as gathered:
            result = super().solve(gathered, x0, **settings)
            return ended(gathered, problem.first_index, result, self.evaluate, self.tol)

    def check_sums(self) -> None:
        """Refuse, with secure sums, a method that needs the replies of single clients; ``Server.sums_only`` is checked again later."""
        given = getattr(self, "transport", None)
        if transport_of(given) is not None:
            raise InputError(
                f'transport must be "float64" with secure sums, got {given!r}: what is added up is an integer of 64 bits'
            )

    def loop(self, problem: Any) -> type[Run]:
        """The delayed loop if only the clients know P(x), which then comes with the replies of the next round."""
        return DelayedRun if problem.remote else Run

    def local(self, federation: Federation) -> Local:
        """The local work of each client in a round."""
        kind = self.local_class
        if not (isinstance(kind, type) and issubclass(kind, Local)):
            given = "" if kind is None else f", got {shown(kind)}"
            name = type(self).__name__
            raise InputError(
                f"{name} must have local_class = a subclass of Local, or local(federation){given}"
            )
        if kind.work is Local.work and kind.bind is Local.bind:
            raise InputError(
                f"{kind.__name__} must have work(client, x, step, number, rng, control)"
            )
        return kind(self)

    def server(self, federation: Federation, work: Plan) -> Server:
        """The server, which combines the clients' models."""
        account = self.account(federation)
        if account is not None and getattr(account.level, "noise_at", "") == "driver":
            sigma = account.multiplier * account.level.clip
            return NoisyAveraging(federation.prox, work.totals, sigma)
        how = dithered(self)
        if how is None:
            return self.server_class(federation.prox, work.totals)
        if self.server_class is not Averaging:
            raise InputError(
                f'transport must be "float64" with {self.server_class.__name__}, which is given whole models'
            )
        return Averaging(federation.prox, work.totals, how)

    def default_step(self, federation: Federation, work: Plan) -> float:
        """The constant step that is used if none is given: 1/L_max of the functions of the clients' steps."""
        return inverse(work.smoothness)

    def check_problem(self, problem: object) -> None:
        if not isinstance(problem, Federation):
            raise InputError(
                f"{type(self).__name__} takes a Federation: reshuffle.federated.split(problem, ...), or "
                "reshuffle.federated.Federation([...]) with one problem per client, or "
                "reshuffle.federated.Sites([...]) with one place of data per client; "
                f"got {shown(problem)}"
            )
        check_convex(problem.penalty, type(self).__name__)
        if self.evaluate is not None and not problem.tested:
            raise InputError(
                "evaluate is for federated.Sites with test data, and "
                + ("no site has any" if problem.remote else "this federation has none")
            )

    def plan(self, federation: Federation) -> Plan:
        """The plan of a round: the work of all clients together."""
        local, level = self.local(federation), getattr(self, "privacy", None)
        if level is not None:
            local = private_work(self, level, local, federation)
        return plan(federation, local)

    def account(self, federation: Federation) -> Account | None:
        """The privacy account of the rounds; None without privacy."""
        level = getattr(self, "privacy", None)
        return None if level is None else account_of_rounds(self, level, federation)

    def bind(self, problem: Federation) -> Rounds:
        check_available(check_engine(self.engine))
        account = self.account(problem)  # This comes before the clients are asked anything.
        work = self.plan(problem)
        steps = float(work.totals.sum()) / problem.count
        setting = Setting(
            work.smoothness if account is None else np.nan,
            problem.strong_convexity,
            problem.contraction,
            steps,
            self.rounds,
            default=self.default_step(problem, work) if account is None else np.nan,
        )
        schedule = bind_step(self.step, setting, problem)
        return Rounds(problem, self, work, self.server(problem, work), schedule, account)


@dataclass(frozen=True, kw_only=True)
class FedRR(FederatedSolver):
    """Federation random reshuffling: a local pass, an average, a prox (Algorithm 2 of the paper).

        client m:  x_m = x_t;  x_m ← x_m - γ∇f_{m,π_i}(x_m)  for its N_m samples, reshuffled,
        server:    x_{t+1} = prox_{γ(N/M)R}( (1/M) Σ_m x_m ).

    It is ProxRR on the product space. With ``order=ShuffleOnce()`` it is FedSO.

    Parameters
    ----------
    step : γ, as for ``ProxRR``; default 1/L_max over all clients.
    order, batch_size, importance : of the local pass, as for ``ProxRR``.
    transport : how changes x̂_m - x travel: "float64", or in fewer bytes as "float32" or "bfloat16", rounded at random so that their mean is right.
    privacy : ``privacy.ClientLevel(...)`` or ``privacy.SampleLevel(...)``. The step must be given and ``tol`` be 0;
        ``result.privacy`` tells ε, and the trace has no P(x), which would tell of the data.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.01))
    >>> clients = rs.federated.split(problem, clients=5, seed=0)
    >>> result = rs.FedRR(step=rs.steps.InverseTime(), rounds=20, seed=0).solve(clients)
    >>> int(result.trace["bytes_up"][-1]) == 20 * 5 * 30 * 8
    True
    """

    order: Order = field(default_factory=Reshuffle)
    batch_size: int = 1
    importance: bool = False
    transport: Transport | str = "float64"
    privacy: Level | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        dithered(self)  # raises an error if the transport does not fit
        check_order(self.order)
        check_positive("batch_size", self.batch_size, integer=True)
        check_private_rounds(self, ClientLevel, SampleLevel)

    def local(self, federation: Federation) -> Local:
        return Shuffled(self.order, self.batch_size, self.importance, self.seed)


@dataclass(frozen=True, kw_only=True)
class LocalSGD(FederatedSolver):
    """Local SGD: H local steps with replacement, an average, a prox.

    A client's gradients are scaled by N_m·M/N, so that the objective is that of the pooled samples.

    Parameters
    ----------
    local_steps : H; default N/M, about a local pass.
    step : γ; default 1/(L_max·H), the order that the theory of Local SGD asks for.
    batch_size : samples of a step.
    transport : as for ``FedRR``.
    privacy : ``privacy.ClientLevel(...)``. The step must be given and ``tol`` be 0;
        ``result.privacy`` tells ε, and the trace has no P(x), which would tell of the data.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.01))
    >>> clients = rs.federated.split(problem, clients=5, seed=0)
    >>> result = rs.LocalSGD(local_steps=50, rounds=20, seed=0).solve(clients)
    >>> result.message
    'all 20 rounds done'
    """

    local_steps: int | None = None
    batch_size: int = 1
    transport: Transport | str = "float64"
    privacy: ClientLevel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        dithered(self)  # raises an error if the transport does not fit
        check_positive("batch_size", self.batch_size, integer=True)
        if self.local_steps is not None:
            check_positive("local_steps", self.local_steps, integer=True)
        check_private_rounds(self, ClientLevel)

    def local(self, federation: Federation) -> Local:
        passes = federation.n / federation.count / self.batch_size
        return Sampled(self.local_steps or max(1, round(passes)), self.batch_size, self.seed)

    def default_step(self, federation: Federation, work: Plan) -> float:
        return inverse(work.smoothness * float(work.totals.mean()))
