"""FedNewton: second-order rounds, for models with at most a few thousand coordinates that matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from reshuffle.errors import InputError
from reshuffle.federated.curvature import Curved
from reshuffle.federated.federation import Federation
from reshuffle.federated.newton_packed import LearningServer
from reshuffle.federated.newton_server import NewtonServer
from reshuffle.federated.plan import Plan
from reshuffle.federated.rounds import Rounds
from reshuffle.federated.server import Server
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.federated.transport import RandomK, Transport, transport_of
from reshuffle.penalties import ability
from reshuffle.solvers.exact.newton_steps import ABILITIES


@dataclass(frozen=True, kw_only=True)
class FedNewton(FederatedSolver):
    """Federated proximal Newton steps: the pooled solution in a handful of rounds, whatever the split.

        client m:  Σ_i l_i(x), its gradient, and its Hessian on the active features A,
        server:    x⁺ = argmin_u ⟨∇f(x), u - x⟩ + ½(u - x)ᵀ∇²f(x)(u - x) + ψ(u)  over A,

    with the sums over all clients. In the next round clients evaluate f at x⁺ and at parts of the way to it; if P does not
    fall as the model promised, the server takes the best of these parts of the step instead, or adds curvature to every sample
    (damping). So a failed step costs one round.

    For a active features a client sends a(a + 1)/2 numbers besides the d of its gradient. With an ℓ1 or group penalty, A has the features
    that are not zero or may soon leave zero, otherwise all features. A Hessian reveals more about a client's samples than a model
    does: see docs/federated-convergence.md.

    Parameters
    ----------
    rounds : the most rounds to run. The run ends earlier if no step lowers P(x) any further.

    transport : how derivatives travel: "float64", or in fewer bytes as "float32", "bfloat16" or ``federated.TopK(share)``. Clients then send
        compressed changes of their Hessians, which they and the server remember (FedNL), and of their gradients in float32. The limit is the same;
        "bfloat16" takes hardly more rounds, ``TopK`` does. If a client loses its part, all begin anew from x.

    All clients take part in every round, and there is no ``step`` to choose.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.ElasticNet(4e-3, 6e-3))
    >>> clients = rs.federated.split(problem, clients=5, by="label", seed=0)
    >>> result = rs.FedNewton(rounds=9, tol=1e-6).solve(clients)
    >>> result.converged
    True
    """

    rounds: int = 30
    transport: Transport | str = "float64"

    needs_all: ClassVar[bool] = True
    steps: ClassVar[bool] = False
    on_lost: ClassVar[str] = "restart"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(transport_of(self.transport), RandomK):
            raise InputError(
                f'transport of FedNewton must be "float64", "float32", "bfloat16" or federated.TopK(share), got {self.transport!r}: a Hessian of which '
                "random entries are known leads to more rounds than it saves bytes"
            )

    def check_problem(self, problem: Any) -> None:
        super().check_problem(problem)
        if not problem.tells:
            raise InputError(
                "FedNewton compares the values of the losses at its trial points, and these sites do not tell them: "
                "objective must be True, or use ExactFedRR"
            )
        for name, loss in problem.losses.items():
            if loss is None:
                raise InputError(
                    f"FedNewton needs second derivatives, and {name} is no Problem: use ExactFedRR"
                )
            if not loss.convex:
                raise InputError(
                    f"FedNewton needs a convex loss, and {loss!r} is none: fit it where all rows are, by ExactProxRR"
                )
            if type(loss).second is None:
                raise InputError(
                    f"FedNewton needs second derivatives, and {loss!r} has no second(z, y): "
                    "use ExactFedRR"
                )
        lacks = [name for name in ABILITIES if ability(problem.penalty, name) is None]
        if lacks:
            raise InputError(
                f"FedNewton needs a penalty that can be part of a quadratic model, and {problem.penalty!r} "
                f"lacks {', '.join(lacks)}: use ExactFedRR"
            )

    def bind(self, problem: Federation) -> Rounds:
        rounds = super().bind(problem)
        rounds.keeps_best = rounds.takes_back = True
        return rounds

    def local(self, federation: Federation) -> Curved:
        return Curved(federation.shape, federation.features, self.seed)

    def server(self, federation: Federation, work: Plan) -> Server:
        how, local = transport_of(self.transport), cast(Curved, work.local)
        rounds = self.downlink == "rounded"
        kind = NewtonServer if how is None else LearningServer
        return kind(federation, local, rounds, how)

    def default_step(self, federation: Federation, work: Plan) -> float:
        return 1.0
