"""The clients' side of a round: hosts train the models of their clients, and answer questions about f_m."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import groupby
from typing import cast

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.engines import Failure, Plain, Record, Reply, Task, checksum, digest
from reshuffle.errors import LostState
from reshuffle.federated.aboard import rounds_aboard
from reshuffle.federated.client_state import ClientStates, answer
from reshuffle.federated.curvature import Curved
from reshuffle.federated.local import ClientGroup, Local, LocalEpoch, Turn
from reshuffle.federated.newton_learned import learned
from reshuffle.federated.transport import transport_of
from reshuffle.gpu import Device, DeviceExactRounds, DeviceRounds
from reshuffle.objective import Array, FiniteSum
from reshuffle.privacy.noise import RepeatedNoise
from reshuffle.problem import Problem, as_problem
from reshuffle.randomness import Stream

SMALL = 512
"""Clients with fewer samples than this are trained together with their neighbours, in one call of the core."""
FEW = 8
"""Fewer clients than this are not worth training together."""


def whole(error: Exception) -> str:
    """The full text of an error: it reveals nothing, because the driver has the data of these clients."""
    return str(error) if isinstance(error, LostState) else f"{type(error).__name__}: {error}"


@dataclass(eq=False)
class ClientHost:
    """Trains some clients.

    A host keeps nothing between rounds that a model depends on, and can be pickled at any time.
    """

    clients: tuple[int, ...]
    problems: Sequence[FiniteSum]
    local: Local
    positions: Sequence[int]
    factors: Sequence[float]
    memory: ClientStates = field(default_factory=ClientStates)
    """The clients' own states, for methods that keep them there."""
    reason: Callable[[Exception], str] = whole
    """A function that words a failure for the driver."""
    noise: RepeatedNoise = field(default_factory=RepeatedNoise)
    """The noise of local work that adds noise."""

    def sizes(self) -> dict[int, int]:
        """N_m of each client. A user's own work is tried here, before the clock of the first round starts."""
        self.local.rehearse(self.problems[0])
        return {c: problem.n for c, problem in zip(self.clients, self.problems, strict=True)}

    def work(self, task: Task) -> list[Reply | Failure]:
        """An answer for each client of the task."""
        if digest(task.x) != task.digest:
            return [Failure(c, "the model arrived damaged") for c in task.clients]
        stream = Stream(self.local.seed, task.round)
        asked = set(task.clients)
        found: list[Reply | Failure] = []
        for members, together in self._groups:
            if asked.issuperset(members):
                models = together(Turn(task.x, task.step, task.round, stream))
                sound = bool(np.isfinite(models).all())
                found += map(partial(self._reply, task, sound=sound), members, models)
                asked.difference_update(members)
        for c in sorted(asked):
            try:
                found.append(self._trained(task, c, stream))
            except Exception as error:  # The driver decides what to do about a client that fails.
                found.append(Failure(c, self.reason(error), lost=isinstance(error, LostState)))
        return found

    def _trained(self, task: Task, client: int, stream: Stream) -> Reply | Failure:
        epoch, noise = self._epoch(client), self.noise.of(str(client))

        def passes(x: Array, control: Array | None) -> Array:
            return epoch(Turn(x, task.step, task.round, stream, control, noise))

        if "key" in task.more:
            return self._reply(task, client, *answer(client, task, passes, self.memory))
        if "learns" in task.more:
            numbers = partial(passes, task.x, None)
            more = learned(client, task, cast(Curved, self.local), numbers, self.memory)
            return self._reply(task, client, np.empty(0), more)
        return self._reply(task, client, passes(task.x, task.controls.get(client)))

    def _reply(
        self,
        task: Task,
        client: int,
        model: Array,
        more: Record | None = None,
        *,
        sound: bool = False,
    ) -> Reply | Failure:
        if not (sound or np.isfinite(model).all()):
            return Failure(client, "its model is not finite after the local work", diverged=True)
        if more is None and "transport" in task.more:  # x̂_m - x travels as the server asks for it.
            transport = transport_of(task.more["transport"])
            more = {} if transport is None else transport.pack(model - task.x, task.round)
            model = np.empty(0)
        more = more or {}
        if "wants" in task.more:
            problem, x = self.problems[self._places[client]], self.local.point(task.x)
            more = {**more, **seen(problem, task, x, self.local.told)}
        check = checksum(model, more)
        return Reply(task.run, task.round, client, task.digest, model, check, more)

    def aboard(self, device: Device, number: str) -> DeviceRounds | DeviceExactRounds:
        """The clients on a device, which does their rounds from then on."""
        group = ClientGroup(self.problems, self.positions, self.factors)
        return rounds_aboard(self.local, group, device, number)

    # --- made when first needed, and left behind when the host travels ---------------------------

    @cached_property
    def _places(self) -> dict[int, int]:
        return {c: k for k, c in enumerate(self.clients)}

    @cached_property
    def _epochs(self) -> dict[int, LocalEpoch]:
        return {}

    def _epoch(self, client: int) -> LocalEpoch:
        if client not in self._epochs:
            k = self._places[client]
            bound = self.local.bind(self.problems[k], self.positions[k], self.factors[k])
            self._epochs[client] = bound
        return self._epochs[client]

    @cached_property
    def _groups(self) -> list[tuple[list[int], LocalEpoch]]:
        """Small clients with consecutive numbers, and their common work where there is one."""
        small = [c for c in self.clients if self.problems[self._places[c]].n < SMALL]
        found: list[tuple[list[int], LocalEpoch]] = []
        for _, run in groupby(enumerate(small), key=lambda at: at[1] - at[0]):
            members = [c for _, c in run]
            places = [self._places[c] for c in members]
            group = ClientGroup(
                [self.problems[k] for k in places],
                [self.positions[k] for k in places],
                [self.factors[k] for k in places],
            )
            together = self.local.bind_group(group) if len(members) >= FEW else None
            if together is not None:
                found.append((members, together))
        return found

    def __getstate__(self) -> dict[str, object]:
        return {part.name: getattr(self, part.name) for part in fields(self)}


def seen(
    problem: FiniteSum, task: Task, x: Array, told: Callable[[Array], Array] = np.asarray
) -> dict[str, Plain]:
    """The answers about f_m at x that the task asks for (see ``answers``), as the local work lets them be sent."""
    # Values may overflow at points that are too far out.
    with np.errstate(over="ignore", invalid="ignore"):
        found = answers(problem, str(task.more.get("wants", "")), x)
    return {
        name: told(part) if isinstance(part, np.ndarray) else float(told(np.array(part)))
        for name, part in found.items()
    }


ARRAYS = ("gradient", "rising")
"""The answers that are as long as a model. A server that keeps sums adds them up."""


def answers(problem: FiniteSum, wanted: str, x: Array) -> dict[str, Plain]:
    """A client's answers about f_m at x, all of them means over its samples.

    ``value``: f_m(x). ``gradient``: ∇f_m(x) without the ridge. ``rising``: that of the samples whose slope is
    positive, and by how much their losses are above their infimum. ``floor``: the mean of l*(0, y_i), which is minus the
    infimum of the losses. ``means``: those of the features.
    """
    found: dict[str, Plain] = {}
    words = wanted.split()
    if "value" in words:
        found["value"] = float(problem.value(x))
    if "gradient" in words:
        gradient = problem.gradient(x)
        gradient[: problem.features] -= problem.ridge * x[: problem.features]
        found["gradient"] = gradient
    if {"rising", "floor", "means"} & set(words):
        found |= _of_rows(as_problem(problem), words, x)
    return found


def _of_rows(problem: Problem, words: list[str], x: Array) -> dict[str, Plain]:
    """The parts of an answer that a generalised linear model alone can give."""
    fit, found = problem.datafit, dict[str, Plain]()
    if "rising" in words:
        rising, conjugates = np.zeros(fit.shape), 0.0
        for _, some in fit.windows():  # This takes one pass if the rows are on disk.
            slopes = np.maximum(some.slopes(x)[0], 0.0)
            rising += some.combined(slopes) * (some.n / fit.n)
            # l(z) = z·s - l*(s) is summed over the samples whose slope is positive; the others add l*(0) to both sums.
            zero = np.zeros(slopes.shape)
            conjugates += some.conjugates(slopes, 1.0) - some.conjugates(zero, 1.0)
        found["rising"] = rising
        found["rising_excess"] = float(np.vdot(x, rising)) - conjugates / fit.n
    if "floor" in words:
        found["floor"] = fit.conjugates(np.zeros((fit.n, *fit.outputs)), 1.0) / fit.n
    if "means" in words:
        found["means"] = fit.column_means()
    return found
