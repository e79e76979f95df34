"""ExactDistributed: the exact method over the hosts of a cluster, by the federated methods."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reshuffle.engines import Engine, check_engine
from reshuffle.errors import InputError, shown
from reshuffle.federated.divided_folder import DividedFolder
from reshuffle.federated.exact import ExactFedRR, newton_can
from reshuffle.federated.federation import Federation
from reshuffle.federated.newton import FedNewton
from reshuffle.federated.outcome import FederatedResult, ended
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.penalties.abilities import as_able
from reshuffle.solvers.active_features import TooWide

logger = logging.getLogger("reshuffle")

WIDEST = 2000
"""The largest number of active coordinates of Newton's rounds: an answer of a client then has 16 MB."""
NEWTON_ROUNDS, EXACT_ROUNDS = 5, 25
"""Typical numbers of rounds to 1e-6 of both methods on shuffled shards (``python -m benchmarks.distributed``: 3 to 6, and 5 to 68)."""
NEWTON_PASSES, EXACT_PASSES = 6.0, 4.0
"""How often a round reads each value: for the slopes and trial points of a Newton step; for slopes and a shuffled pass, which counts as three."""
SCATTERED, PACKED = 1.0, 0.05
"""The cost of a product in a Hessian, in readings of a value: sparse products are scattered one by one, dense ones are multiplied in blocks."""


@dataclass(frozen=True, kw_only=True)
class ExactDistributed(FederatedSolver):
    """The minimiser over the rows of a folder that hosts share, with the same certificates as on one machine.

        P(x) = (1/N) Σ_m F_m(x) + R(x),  F_m the sum over a client's shards,

    by ``FedNewton`` if the Hessian of the features that matter is small, otherwise by ``ExactFedRR``. This is decided
    by counts before the first round: the products that a Hessian takes, of all features or of those that leave zero in the
    first step, against the passes of ``ExactFedRR``. If more features turn out to matter than Newton's rounds can
    hold, ``ExactFedRR`` takes over.

    It is a separate solver, not a setting of ``ExactProxRR``: a ``Problem`` holds the targets of all rows, which
    the driver of a cluster must not hold, and steps, orders and phases of one machine do not apply here.

    Parameters
    ----------
    rounds : the most rounds to run.
    engine : "ray", "threads", or an engine object, such as ``engines.Ray(address="auto", hosts=8)``. The model does not
        depend on it, nor on the number of hosts.
    tol, seed, retries, round_timeout : as for ``ExactFedRR``.

    All clients take part in every round, and there is no ``step`` to choose.
    """

    rounds: int = 300
    tol: float = 1e-6
    engine: Engine | str = "ray"

    needs_all: ClassVar[bool] = True
    steps: ClassVar[bool] = False

    def solve(self, problem: object, x0: object = None, **settings: object) -> FederatedResult:
        """Minimise P over the rows of a ``DividedFolder``."""
        if not isinstance(problem, DividedFolder):
            raise InputError(
                "ExactDistributed takes rs.federated.DividedFolder(folder, ...), the rows of one folder; for other clients "
                f"use FedNewton or ExactFedRR, for a Problem ExactProxRR; got {shown(problem)}"
            )
        with problem.gather(check_engine(self.engine), self.policy) as gathered:
            self.check_problem(gathered)
            if self._newton_is_cheaper(gathered, problem):
                try:
                    result = self._as(FedNewton).solve(gathered, x0, **settings)
                    return ended(gathered, problem.first_index, result, self.evaluate, self.tol)
                except TooWide as error:
                    logger.warning("%s: ExactFedRR takes over", error)
            scales = "agreed" if problem.in_memory else None
            result = self._as(ExactFedRR, scales=scales).solve(gathered, x0, **settings)
            return ended(gathered, problem.first_index, result, self.evaluate, self.tol)

    def _as(self, method: Any, **more: object) -> FederatedSolver:
        """``method`` with the settings of this solver."""
        names = (
            "rounds", "tol", "seed", "engine", "retries", "round_timeout", "check_every", "eval_every", "time_limit"
        )  # fmt: skip
        made: FederatedSolver = method(**{name: getattr(self, name) for name in names}, **more)
        return made

    def _newton_is_cheaper(self, federation: Federation, folder: DividedFolder) -> bool:
        """Whether Newton's rounds are expected to take less work, and are possible."""
        if not newton_can(federation):
            return False
        if not federation.loss.curvature < np.inf:  # type: ignore[attr-defined]
            return True  # ExactFedRR has no step for this loss.
        outputs = int(np.prod(federation.shape[1:]))
        every = federation.features
        # The answer is the same for any set of active features, so no client need be asked.
        if _fewer_products(folder, every, every, outputs):
            return True
        return _fewer_products(folder, expected_active(federation), every, outputs)


def _fewer_products(folder: DividedFolder, active: int, features: int, outputs: int) -> bool:
    """Whether Newton's rounds take less work than those of ``ExactFedRR`` if ``active`` features matter."""
    if active * outputs > WIDEST:
        return False
    values = folder.values_per_row * outputs
    each = PACKED if folder.manifest.layout == "dense" else SCATTERED
    newton = NEWTON_ROUNDS * (NEWTON_PASSES * values + each * (values * active / features) ** 2 / 2)
    return newton <= EXACT_ROUNDS * EXACT_PASSES * values


def expected_active(federation: Federation) -> int:
    """An estimate of the number of features that will matter: twice those that leave zero in the first step, for which a gradient is asked for once."""
    zero, features = np.zeros(federation.shape), federation.features
    gradient = federation.mean_of(federation.say(zero, "gradient"), "gradient")[:features]
    beyond = as_able(federation.penalty).excess(zero[:features], gradient)
    pressing = np.count_nonzero(np.reshape(beyond, (features, -1)).max(axis=1) > 0.0)
    return min(features, 2 * int(pressing))
