"""The driver: one round of a federated method, whatever the engine and the local work.

    every client m:   x̂_m = its local epoch from x (and h_m, for methods that have control variates)
    the server:       x⁺ = prox_{γ(S/M)R}( mean_m x̂_m ), or what else it makes of the models

This is a method of the single machine on the product space, with ψ = (N/n)(R + consensus): the prox of
the consensus is the mean, and that of R comes with its parameter divided by M.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reshuffle.engines import Engine, Failure, Reply, Task, digest, open_session
from reshuffle.errors import ClientError, InputError
from reshuffle.federated.client import ClientHost, Held
from reshuffle.federated.federation import Federation
from reshuffle.federated.local import Load, Local
from reshuffle.federated.server import Server
from reshuffle.objective import Array
from reshuffle.orders import shuffled
from reshuffle.randomness import generator
from reshuffle.solvers.method import Epoch, Method, State
from reshuffle.solvers.sampling import inverse
from reshuffle.steps import Schedule

logger = logging.getLogger("reshuffle")

TRAFFIC = ("bytes_down", "bytes_up", "retries", "refused")


@dataclass(frozen=True)
class Policy:
    """What to do about clients that take part, or fail to."""

    participation: float = 1.0
    retries: int = 2
    timeout: float | None = None
    on_missing: Literal["raise", "average"] = "raise"


@dataclass(frozen=True, eq=False)
class Plan:
    """What the clients' work amounts to, all together."""

    local: Local
    positions: list[int]
    """Where each client's random numbers begin."""
    factors: list[float]
    totals: Array
    """τ_m/γ: the length of each client's epoch, proportional to N_m."""
    visits: Array
    smoothness: float
    """Of the functions of single steps, over all clients."""


def plan(federation: Federation, local: Local, loads: Sequence[Load] | None = None) -> Plan:
    """Make the sum of each client's steps S·N_m/N, where S counts the steps of all.

    With one sample per step and no copies that is N_m, and all factors are 1. ``loads`` are the clients',
    where they are known already.
    """
    loads = loads or [local.load(client) for client in federation.clients]
    visits = np.array([load.visits for load in loads])
    steps = np.array([load.steps for load in loads])
    totals = steps.sum() * federation.sizes / federation.n
    factors = totals / steps
    smoothness = max(f * load.smoothness for f, load in zip(factors, loads, strict=True))
    positions = np.concatenate([[0], np.cumsum(visits)[:-1]])
    return Plan(local, positions.tolist(), factors.tolist(), totals, visits, float(smoothness))


class Rounds(Method):
    """A round as an epoch of the solvers' loop."""

    problem: Federation

    def __init__(
        self,
        federation: Federation,
        work: Plan,
        server: Server,
        schedule: Schedule,
        engine: Engine,
        policy: Policy,
        *,
        seed: int,
    ) -> None:
        super().__init__(federation)
        self.plan, self.server, self.schedule = work, server, schedule
        self.engine, self.policy, self.seed = engine, policy, seed
        self.safe_step = inverse(work.smoothness)
        self.run = uuid.uuid4().hex
        self.header |= {"clients": str(len(federation.clients)), "samples": str(federation.n)}
        clock = time.perf_counter()
        self.session = open_session(engine, federation.sizes.tolist(), self.make_host)
        self.setup_seconds = time.perf_counter() - clock
        for c, size in enumerate(federation.sizes):
            found = self.session.sizes.get(c)
            if found != size:
                self.session.close()
                raise InputError(f"client {c} reports {found} samples, not {size}")

    def start(self, x0: Array) -> State:
        return self.server.start(x0) | {"traffic": np.zeros(len(TRAFFIC))}

    def check_state(self, state: State) -> None:
        self.server.check_state(state)

    def columns(self, state: State) -> dict[str, float]:
        return dict(zip(TRAFFIC, state["traffic"].tolist(), strict=True))

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        chosen, x = self._participants(epoch), state["x"]
        held = self.server.controls(state)
        controls = {} if held is None else {c: held[c] for c in chosen}
        task = Task(self.run, epoch, step, x, digest(x), tuple(chosen), controls)
        models, traffic = self._collect(task)
        new = self.server.step(state, models, step) | {"traffic": state["traffic"] + traffic}
        answered = list(models)
        visits, samples = self.plan.visits[answered].sum(), self.problem.sizes[answered].sum()
        return Epoch(new, self.plan.local.gradients(int(visits), int(samples), epoch), 1)

    def close(self) -> None:
        self.session.close()

    # --- clients -------------------------------------------------------------------------------

    def make_host(self, clients: Sequence[int]) -> ClientHost:
        return ClientHost(
            tuple(clients),
            [Held(self.problem.clients[c]) for c in clients],
            self.plan.local,
            [self.plan.positions[c] for c in clients],
            [self.plan.factors[c] for c in clients],
        )

    def _participants(self, number: int) -> list[int]:
        """All clients, or the next few of a random order in which each comes once."""
        everyone = np.arange(len(self.problem.clients), dtype=np.uint32)
        few = max(1, round(self.policy.participation * everyone.size))
        if few >= everyone.size:
            return everyone.tolist()
        turns = -(-everyone.size // few)
        order = shuffled(everyone, generator(self.seed, number // turns, 1))
        turn = number % turns
        return sorted(order[turn * few : (turn + 1) * few].tolist())

    def _collect(self, task: Task) -> tuple[dict[int, Array], Array]:
        """The models, in the order of the clients, asking again where one is missing or wrong."""
        models: dict[int, Array] = {}
        reasons: dict[int, str] = {}
        traffic = np.zeros(len(TRAFFIC))
        size = task.x.nbytes * (2 if task.controls else 1)
        for attempt in range(self.policy.retries + 1):
            asked = [c for c in task.clients if c not in models]
            if not asked:
                break
            wanted = set(asked)
            traffic[0] += len(asked) * size
            traffic[2] += len(asked) if attempt else 0
            for answer in self._ask(task.part(asked)):
                if isinstance(answer, Failure):
                    reasons[answer.client] = answer.reason
                elif answer.client in wanted and self._belongs(answer, task):
                    models[answer.client] = answer.model
                    traffic[1] += answer.model.nbytes
                else:
                    traffic[3] += 1
                    reasons[answer.client] = "its reply belongs to another run, round or model"
        missing = [c for c in task.clients if c not in models]
        if missing:
            self._handle_missing(missing, reasons, task, len(models))
        return {c: models[c] for c in task.clients if c in models}, traffic

    def _ask(self, task: Task) -> list[Reply | Failure]:
        """What the engine brings back, refused where it is something else."""
        answers = self.session.run_round(task, self.policy.timeout)
        if not isinstance(answers, list) or not all(
            isinstance(a, (Reply, Failure)) for a in answers
        ):
            name, kind = type(self.engine).__name__, type(answers).__name__
            raise InputError(
                f"engine {name}: run_round must return a list of Reply and Failure, got a {kind}"
            )
        return answers

    def _belongs(self, reply: Reply, task: Task) -> bool:
        same = (reply.run, reply.round, reply.digest) == (task.run, task.round, task.digest)
        model: object = reply.model
        good = type(model) is np.ndarray and model.dtype == np.float64  # a mask would be lost
        return same and good and reply.model.shape == task.x.shape

    def _handle_missing(
        self, missing: list[int], reasons: dict[int, str], task: Task, answered: int
    ) -> None:
        told = "; ".join(f"client {c}: {reasons.get(c, 'no answer')}" for c in missing[:5])
        text = f"round {task.round}: {len(missing)} of {len(task.clients)} clients missing ({told})"
        if self.policy.on_missing == "raise" or not answered or self.server.needs_all:
            raise ClientError(text, missing)
        logger.warning("%s; averaging the %d that answered", text, answered)
