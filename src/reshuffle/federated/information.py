"""Standard errors over sites, from one more round of FedNewton's question, whose answers add up to the information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.federated.curvature import Answer, Curved
from reshuffle.federated.federation import Federation
from reshuffle.federated.newton import FedNewton
from reshuffle.federated.newton_server import NewtonServer, Search
from reshuffle.federated.outcome import FederatedResult, Learned
from reshuffle.federated.plan import Plan
from reshuffle.federated.replies import Said
from reshuffle.federated.server import Server
from reshuffle.inference import Inference
from reshuffle.inference.sandwich import inverse
from reshuffle.objective import Array
from reshuffle.solvers.method import State

INTERCEPT = "(intercept)"
KNOWN, SQUARED = ("logistic", "poisson"), ("squared",)
"""Losses, by their names in the core: those whose dispersion is 1, and the one whose dispersion is twice the mean loss."""
METHOD = "model-based (inverse information), from sums over clients"
ABOUT = "the coefficients of the model, if it is true"
APART = 0.1
"""The largest distance of x from the minimiser, measured by a Newton step in standard errors, at which intervals of ±1.96 errors are still about right."""


class InformationServer(NewtonServer):
    """Asks once for the Hessian of all features at x, and keeps the sum of the answers."""

    sums_only = True

    def start(self, x0: Array) -> State:
        every = np.ones(self.features, dtype=bool)
        width = self.local.width(every)
        more = {"hessian": np.zeros((width, width)), "value": np.zeros(1), "gradient": x0}
        return self._state(x0, x0, every, Search()) | more

    def add_up(self, state: State, total: Array, said: Said, step: float, number: int) -> State:
        found = Answer.of(total / self.n, self.shape, len(state["hessian"]))
        done = np.array(Search.of(state)._replace(done=1.0))
        told = {"hessian": found.hessian, "gradient": found.gradient, "search": done}
        return state | told | {"value": found.values[:1]}


@dataclass(frozen=True, kw_only=True)
class Information(FedNewton):
    """The round of ``inference``."""

    rounds: int = 1

    def check_problem(self, problem: Any) -> None:
        """Refuse clients whose fit was shrunk by a ridge, before they are asked anything."""
        super().check_problem(problem)
        if problem.ridge > 0.0:
            raise InputError(
                f"the intervals of a fit with ridge={problem.ridge:g} over clients are not valid: model-based errors need a fit "
                "without a penalty"
            )

    def server(self, federation: Federation, work: Plan) -> Server:
        return InformationServer(federation, cast(Curved, work.local))


def inference(
    clients: Any, result: FederatedResult, *, level: float = 0.95, **settings: Any
) -> Inference:
    """Model-based standard errors, z, p and intervals of a model over clients or sites, without a penalty.

    One more round asks every client what ``FedNewton`` asks: the value, the gradient and the Hessian of its losses at x, as sums over
    its samples. Their sum is the information, as on the pooled data. Robust errors need the products of single gradients, which sites
    do not tell, and are not offered. Sample weights count as if their mean were 1.

    Parameters
    ----------
    clients : a federation of ``federated.split``, or ``federated.Sites``.
    result : the converged result of a federated solver for these clients.
    level : the probability with which an interval covers its coefficient.
    settings : settings of the round, such as ``engine``.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> some = X[:, [0, 1, 4]].copy("C")
    >>> clients = rs.federated.split(rs.Problem(some, y, fit_intercept=True), clients=3)
    >>> result = rs.FedNewton(tol=1e-9).solve(clients)
    >>> table = rs.federated.inference(clients, result)
    >>> table.names, table.std_error.round(2)
    (['x0', 'x1', 'x2', '(intercept)'], array([0.54, 0.25, 0.27, 0.2 ]))
    """
    if not isinstance(result, FederatedResult):
        raise InputError(
            f"result must be the result of a federated solver for these clients, got {shown(result)}"
        )
    if not result.reached:
        raise InputError(
            f"inference needs a minimiser, and the run did not converge: {result.message}"
        )
    asked = Information(**settings).solve(clients, result.x)
    learned = asked.learned or _local(clients)
    return _table(asked, learned, level)


def _local(clients: Federation) -> Learned:
    """The model of clients that are all in this process."""
    (loss, *_) = clients.losses.values()
    if loss is None:
        raise InputError("inference needs clients that are Problems")
    intercept = clients.shape[0] > clients.features
    return Learned(loss, clients.penalty, intercept, clients.n, clients.features)


def _table(asked: FederatedResult, learned: Learned, level: float) -> Inference:
    x, n, d = asked.x, learned.samples, learned.features
    value = learned.penalty.value
    probe = np.linspace(1.0, 2.0, d).reshape(-1, *[1] * (x.ndim - 1)) * np.ones_like(x[:d])
    if value(probe) != 0.0 or value(-1e6 * probe) != 0.0:
        raise InputError(
            f"the intervals of a fit with {learned.penalty!r} over sites are not valid: model-based errors need a fit without a penalty"
        )
    core = getattr(learned.loss, "core", "")
    if core not in KNOWN + SQUARED:
        raise InputError(
            f"inference over sites is for the logistic, the Poisson and the squared loss of one output, got {learned.loss!r}"
        )
    names = [*(learned.names or [f"x{j}" for j in range(d)]), *[INTERCEPT] * learned.intercept]
    phi, df = 1.0, np.inf
    if core in SQUARED:
        df = float(n - x.size)
        if df <= 0:
            raise InputError(f"{n} samples are too few for the errors of {x.size} coefficients")
        phi = 2.0 * n * float(asked.state["value"][0]) / df
    inverted = inverse(asked.state["hessian"], names)
    covariance = phi * inverted / n
    errors, missed = np.sqrt(np.diag(covariance)), np.abs(inverted @ asked.state["gradient"])
    if np.any(missed > APART * errors):
        raise InputError(
            f"result must be the minimum over these clients, and x is {np.max(missed / errors):.2g} standard errors away from it: "
            "give the result of a run over the same clients, with a smaller tol"
        )
    found = Inference(names, x, covariance, level, df, METHOD, ABOUT)
    if learned.scale is None:
        return found
    back = np.diag(np.append(1.0 / learned.scale, np.ones(int(learned.intercept))))
    if learned.intercept and learned.centre is not None:
        back[-1, :-1] = -learned.centre / learned.scale
    return found.transformed(back, names)
