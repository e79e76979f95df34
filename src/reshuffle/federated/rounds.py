"""The driver: one round of a federated method, whatever the engine and the local work.

    every client m:   x̂_m = its local epoch from x (and h_m, for methods that have control variates)
    the server:       x⁺ = prox_{γ(S/M)R}( mean_m x̂_m ), or another combination of the models

This is a method of the single machine on the product space, with ψ = (N/n)(R + consensus): the prox of
the consensus is the mean, and that of R comes with its parameter divided by M.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.engines import Task, check_engine, digest
from reshuffle.engines.number_bytes import WHOLE, width_of
from reshuffle.errors import ClientError, InputError
from reshuffle.federated.aboard import is_on_device
from reshuffle.federated.certificate import FederatedGap, RoundedMapping, certificate_for
from reshuffle.federated.client_state_server import Sums
from reshuffle.federated.delayed import Reported, RoundEpoch
from reshuffle.federated.federation import NONE, Federation, Totals
from reshuffle.federated.held_out import HeldOutMetrics
from reshuffle.federated.plan import Plan
from reshuffle.federated.replies import TRAFFIC, Found, Gathering, Said
from reshuffle.federated.server import Server
from reshuffle.objective import Array
from reshuffle.orders import shuffled
from reshuffle.privacy import Account
from reshuffle.randomness import generator
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.sampling import inverse
from reshuffle.steps import Schedule

if TYPE_CHECKING:
    from reshuffle.federated.solvers import FederatedSolver

logger = logging.getLogger("reshuffle")


class Rounds(Method):
    """A round as an epoch of the solvers' loop."""

    problem: Federation
    measure: FederatedGap | RoundedMapping

    def __init__(
        self,
        federation: Federation,
        solver: FederatedSolver,
        work: Plan,
        server: Server,
        schedule: Schedule,
        account: Account | None,
    ) -> None:
        super().__init__(federation)
        self.plan, self.server, self.schedule, self.account = work, server, schedule, account
        self.metric = work.local.metric
        self.policy, self.seed, self.tol = solver.policy, solver.seed, solver.tol
        engine, self.rounds_x = check_engine(solver.engine), solver.downlink == "rounded"
        named = type(engine).__name__
        if self.rounds_x and not vars(type(server)).get("may_round"):
            raise InputError(
                f'downlink must be "float64" with {type(server).__name__}, which does not say that its x may be rounded (may_round)'
            )
        evaluate = solver.evaluate
        self.held_out = None if evaluate is None else HeldOutMetrics(federation, evaluate)
        # With noise L_max and P(x) must not be computed from the data.
        self.safe_step = inverse(work.smoothness) if account is None else np.inf
        self.instead = ""
        self.run = uuid.uuid4().hex
        self.header |= {"clients": str(federation.count), "samples": str(federation.n)}
        clock = time.perf_counter()
        self.session = federation.open(engine, work)
        self.setup_seconds = time.perf_counter() - clock
        self.letter = federation.letter(work)
        self.evaluates = not federation.remote and account is None
        self.measure = certificate_for(federation)
        self.certificate, self.certifies = self.measure.name, self.tol > 0.0
        told = "value" if federation.tells and account is None else ""
        more = self.measure.wants if self.certifies else ""
        self.wants = " ".join(dict.fromkeys(f"{told} {more}".split()))
        if not self.evaluates and self.wants:
            self.letter[0]["wants"] = self.wants
        self.on_device = is_on_device(self.session, server, self.policy, named, self.rounds_x)
        plain = Gathering(
            self.session,
            named,
            self.policy,
            self.policy.on_missing == "average" and not server.needs_all,
            federation.called,
            federation.watch,
            lambda message: server.reply_shape(work.local.reply_shape(message)),
        )
        if federation.masked and not vars(type(server)).get("sums_only"):
            raise InputError(
                f"{type(server).__name__} combines the replies of single clients, and with secure sums there are none: use FedRR, "
                'LocalSGD, ExactFedRR(state="clients") or FedNewton'
            )
        self.gathering = federation.gatherer(plain)
        if federation.masked and self.policy.fewest(federation.count) < 2:
            raise InputError(
                f"participation={self.policy.participation:g} leaves a round with one of {federation.count} sites, and the sum of one is its own "
                "value: secure sums need at least two in every round"
            )

    def start(self, x0: Array) -> State:
        held = {} if self.held_out is None else self.held_out.start()
        new = self.server.start(x0 if self.metric is None else self.metric.inner(x0))
        return self._outside(new) | {"x": x0, "traffic": np.zeros(len(TRAFFIC))} | held

    def check_state(self, state: State) -> None:
        self.server.check_state(self._inside(state))

    def _inside(self, state: State) -> State:
        """The state as the server has it: in another metric x is called ``inner`` outside."""
        if self.metric is None:
            return state
        return {name: part for name, part in state.items() if name != "inner"} | {
            "x": state["inner"]
        }

    def _outside(self, state: State) -> State:
        if self.metric is None:
            return state
        return state | {"x": self.metric.outer(state["x"]), "inner": state["x"]}

    def columns(self, state: State) -> dict[str, float]:
        held = {} if self.held_out is None else self.held_out.columns(state)
        return dict(zip(TRAFFIC, state["traffic"].tolist(), strict=True)) | held

    # --- a round ---------------------------------------------------------------------------------

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """Configure the round, ask the clients, combine their replies; the prox of R is the server's last step."""
        inside = self._inside(state)
        given, step = step, self.server.shortened(inside, step)
        task = self._configure(inside, epoch, step)
        if self.on_device:
            return self._aboard(inside, task)
        found, sums = self._ask(task)
        state = state | {"traffic": state["traffic"] + found.traffic}
        if found.lost:
            told = found.told(self.problem.called)
            logger.warning("round %d: %s; all clients begin anew from x", epoch, told)
            anew = self._outside(self.server.restarted(inside))
            return self.advance(state | anew, epoch, given)
        if found.diverged:
            self.blame = found.diverged
            return Epoch(state | {"x": np.full_like(state["x"], np.nan)}, 0, 0)
        reported, answered = self._reported(state, found, sums), sorted(found.replies)
        inner = self._combine(inside, found, sums, step, epoch)
        if self.rounds_x and np.isfinite(inner["x"]).all():
            inner = self.server.rounded(inside, inner, self._allowed)
        new = self._outside(inner) | {"traffic": state["traffic"]}
        if self.held_out is not None:
            new |= self.held_out.after(epoch + 1, state | new)
        gradients, stalled = self._gradients(answered, epoch), self.server.stalled(inner)
        return RoundEpoch(new, gradients, 1, step, stalled, reported=reported)

    def _aboard(self, state: State, task: Task) -> Epoch:
        """A round on a device; its traffic is that of the messages it stands for."""
        clients, sent = list(task.clients), np.array([*self.server.traffic(state, task), 0, 0])
        inner = self.server.aboard(state, self.session, task)
        new = self._outside(inner) | {"traffic": state["traffic"] + sent}
        if not np.isfinite(new["x"]).all():
            self.blame = "the mean of the clients' models is not finite after the local work"
        gradients, stalled = self._gradients(clients, task.round), self.server.stalled(inner)
        return RoundEpoch(new, gradients, 1, task.step, stalled)

    def _configure(self, state: State, epoch: int, step: float) -> Task:
        """The task of a round: the clients that take part, x, their control variates, and the server's letter."""
        chosen, x = self._participants(epoch), self.server.message(state)
        held = self.server.controls(state)
        controls = {} if held is None else {c: held[c] for c in chosen}
        more, own = self.server.letter(state)
        always, each = self.letter
        told = {c: {**each.get(c, {}), **own.get(c, {})} for c in chosen} if own or each else {}
        return Task(
            self.run, epoch, step, x, digest(x), tuple(chosen), controls,
            more={**always, **more}, own=told, width=width_of(x) if self.rounds_x else WHOLE,
        )  # fmt: skip

    def _allowed(self, x: Array) -> bool:
        """Whether ψ is finite at an x of the server."""
        x = x if self.metric is None else self.metric.outer(x)
        return bool(np.isfinite(self.problem.penalty.value(x[: self.problem.features])))

    def _ask(self, task: Task) -> tuple[Found, Sums | None]:
        """The replies, which are added up as they come if the server needs only sums."""
        read = self.server.takes(task)
        if not self.server.adds_up:
            return self.gathering(task, read), None
        shape = self.plan.local.reply_shape(task.x)
        sums = Sums(shape, self.problem.sizes / self.problem.n, read)
        return self.gathering(task, sums.take), sums

    def _combine(
        self, state: State, found: Found, sums: Sums | None, step: float, epoch: int
    ) -> State:
        """The server's step: x⁺ = prox_{γ(S/M)R}( mean_m x̂_m ), or its own combination of the models."""
        if sums is not None:
            return self.server.add_up(state, sums.model.value(), found.said, step, epoch)
        models = {c: found.replies[c].model for c in sorted(found.replies)}
        found.replies.clear()  # A server that takes them out of ``models`` can then free them.
        return self.server.step(state, models, step)

    def _gradients(self, answered: list[int], epoch: int) -> int:
        """Gradients that the clients evaluated, with those for the certificate."""
        visits, samples = self.plan.visits[answered].sum(), self.problem.sizes[answered].sum()
        found = self.plan.local.gradients(int(visits), int(samples), epoch)
        return found + (int(samples) if not self.evaluates and self.certifies else 0)

    def certify(self, state: State) -> Check:
        # Values may overflow at a trial point that is too far out.
        with np.errstate(over="ignore", invalid="ignore"):
            check = super().certify(state)
            objective = self.objective(state) if check.value <= self.tol else np.nan
        return check._replace(value=self._trusted(state, check.value, objective))

    def doubts(self, state: State) -> str:
        return self.server.doubts(self._inside(state)) or self.instead

    # --- what the clients say of x, where the driver cannot know ---------------------------------

    def objective(self, state: State) -> float:
        return super().objective(state) if self.evaluates else np.nan

    def ask_about(self, state: State) -> Reported:
        """The clients' answers about x, asked for at the end of a run."""
        if not self.wants or self.account is not None:
            return Reported(np.nan, np.nan, state)
        try:
            found = self.problem.say(state["x"], self.wants)
        except ClientError as error:  # The model exists all the same.
            logger.warning("P(x) of the last round is not known: %s", error)
            return Reported(np.nan, np.nan, state)
        return self._report(state, found)

    def _reported(self, state: State, found: Found, sums: Sums | None) -> Reported | None:
        """P(x) and the certificate, if all clients took part."""
        if self.evaluates or self.account or len(found.replies) < self.problem.count:
            return None
        totals = (
            {} if sums is None else {name: total.value() for name, total in sums.totals.items()}
        )
        return self._report(state, found.said, totals)

    def _report(self, state: State, said: Said, totals: Totals = NONE) -> Reported:
        x, objective, measure = state["x"], np.nan, np.nan
        if self.problem.tells:
            objective = self.problem.objective(x, self.problem.value_of(said))
        if self.certifies:
            measure = self.measure.of(x, said, totals)
        return Reported(objective, self._trusted(state, measure, objective), state)

    def _trusted(self, state: State, measure: float, objective: float) -> float:
        """The measure; infinite at a trial point that will not be the result.

        A gap also bounds P at every better point; the gradient mapping holds for x alone. If columns differ in size, it can be tiny
        far from the minimum: so a server with models of P must also find that little is left to gain.
        """
        if not isinstance(self.measure, RoundedMapping):
            return measure
        inside = self._inside(state)
        if self.server.rejects(inside, objective):
            return np.inf
        promised = self.server.model_decrease(inside)
        return max(measure, promised / self._unit) if promised > 0.0 else measure

    @cached_property
    def _unit(self) -> float:
        """f(0), to which accuracies are relative."""
        zero = np.zeros(self.problem.shape)
        return self.problem.value_of(self.problem.say(zero, "value")) or 1.0

    def close(self) -> None:
        """Close the session, except one of sites, which was opened before the run and is still needed after it."""
        if not self.problem.remote:
            self.session.close()

    # --- clients -------------------------------------------------------------------------------

    def _participants(self, number: int) -> list[int]:
        """All clients, or the next few in a random order in which each client comes once."""
        count = self.problem.count
        everyone, few = np.arange(count, dtype=np.uint32), self.policy.few(count)
        if few >= count:
            return everyone.tolist()
        turn, at = divmod(number, self.policy.turns(count))
        order = shuffled(everyone, generator(self.seed, turn, 1))
        return sorted(order[at * few : (at + 1) * few].tolist())
