"""The clients' side of a round: hosts train the models of their clients, and answer questions about f_m."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import numpy as np

from reshuffle.engines import Failure, Plain, Record, Reply, Task, checksum, digest
from reshuffle.errors import LostState
from reshuffle.federated.aboard import rounds_aboard
from reshuffle.federated.client_state import ClientStates, answer
from reshuffle.federated.curvature import Curved
from reshuffle.federated.local import ClientGroup, GroupEpoch, Local, LocalEpoch
from reshuffle.federated.newton_learned import learned
from reshuffle.federated.transport import Packed, transport_of
from reshuffle.gpu import Device, DeviceExactRounds, DeviceRounds
from reshuffle.objective import Array, FiniteSum
from reshuffle.privacy.noise import RepeatedNoise
from reshuffle.problem import Problem, as_problem
from reshuffle.randomness import Stream

SMALL = 512
"""Clients with fewer samples than this are trained together with their neighbours, in one call of the core."""
FEW = 8
"""Fewer clients than this are not worth training together."""


Source = Callable[[], FiniteSum]
"""A function that makes a client's problem. It is sent to the host and called there."""


def whole(error: Exception) -> str:
    """The full text of an error: it reveals nothing, because the driver has the data of these clients."""
    return str(error) if isinstance(error, LostState) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, eq=False)
class Held:
    """A source whose problem already exists."""

    problem: FiniteSum

    def __call__(self) -> FiniteSum:
        return self.problem


@dataclass(eq=False)
class ClientHost:
    """Trains some clients, each given by the source of its data, which is loaded when it is first needed.

    A host keeps nothing between rounds that a model depends on, and can be pickled at any time.
    """

    clients: tuple[int, ...]
    sources: Sequence[Source]
    local: Local
    positions: Sequence[int]
    factors: Sequence[float]
    memory: ClientStates = field(default_factory=ClientStates)
    """The clients' own states, for methods that keep them there."""
    folders: Mapping[int, str | os.PathLike[str]] = field(default_factory=dict)
    """The folders in which clients' states are saved."""
    reason: Callable[[Exception], str] = whole
    """A function that words a failure for the driver."""
    noise: RepeatedNoise = field(default_factory=RepeatedNoise)
    """The noise of local work that adds noise."""
    _work: _Work | None = field(default=None, init=False, repr=False)
    _problems: list[FiniteSum] | None = field(default=None, init=False, repr=False)

    @property
    def problems(self) -> list[FiniteSum]:
        if self._problems is None:
            self._problems = [source() for source in self.sources]
        return self._problems

    def sizes(self) -> dict[int, int]:
        """N_m of each client. A user's own work is tried here, before the clock of the first round starts."""
        self.local.rehearse(self.problems[0])
        return {c: problem.n for c, problem in zip(self.clients, self.problems, strict=True)}

    def work(self, task: Task) -> list[Reply | Failure]:
        """An answer for each client of the task."""
        if digest(task.x) != task.digest:
            return [Failure(c, "the model arrived damaged") for c in task.clients]
        if self._work is None:
            self._work = _Work(self)
        stream = Stream(self.local.seed, task.round)
        asked = set(task.clients)
        found: list[Reply | Failure] = []
        for members, together in self._work.groups:
            if asked.issuperset(members):
                models = together(task.x, task.step, stream)
                sound = bool(np.isfinite(models).all())
                found += map(partial(self._reply, task, sound=sound), members, models)
                asked.difference_update(members)
        for c in sorted(asked):
            try:
                epoch = self._work.epoch(c)
                if "key" in task.more:
                    passes = partial(_passes, epoch, task, stream)
                    model, more = answer(c, task, passes, self.memory, self.folders.get(c))
                elif "learns" in task.more:
                    numbers = partial(_passes, epoch, task, stream, task.x, None)
                    work = cast(Curved, self.local)
                    folder = self.folders.get(c)
                    more = learned(c, task, work, numbers, self.memory, folder)
                    model = np.empty(0)
                else:
                    model = _passes(epoch, task, stream, task.x, task.controls.get(c))
                    more = None
                found.append(self._reply(task, c, model, more))
            except LostState as error:
                found.append(Failure(c, self.reason(error), lost=True))
            except Exception as error:  # The driver decides what to do about a client that fails.
                found.append(Failure(c, self.reason(error)))
        return found

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
        if more is None and "transport" in task.more:
            model, more = np.empty(0), changes(task, model)
        if "wants" in task.more:
            problem, x = self.problems[self.clients.index(client)], self.local.point(task.x)
            more = {**(more or {}), **seen(problem, task, x, self.local.told)}
        more = more or {}
        check = checksum(model, more)
        return Reply(task.run, task.round, client, task.digest, model, check, more)

    def aboard(self, device: Device, number: str) -> DeviceRounds | DeviceExactRounds:
        """The clients on a device, which does their rounds from then on."""
        group = ClientGroup(self.problems, self.positions[0], self.factors)
        return rounds_aboard(self.local, group, self.positions, device, number)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_work": None, "_problems": None, "memory": ClientStates()}


def _passes(
    epoch: LocalEpoch, task: Task, stream: Stream, x: Array, control: Array | None
) -> Array:
    return epoch(x, task.step, task.round, stream, control)


def changes(task: Task, model: Array) -> Packed:
    """x̂_m - x in the form in which the server asks for it."""
    transport = transport_of(task.more["transport"])
    return {} if transport is None else transport.pack(model - task.x, task.round)


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


class _Work:
    """The clients' epochs, made when they are first needed, and groups of small clients."""

    def __init__(self, host: ClientHost) -> None:
        self.host = host
        self.places = {c: k for k, c in enumerate(host.clients)}
        self.epochs: dict[int, LocalEpoch] = {}
        self.groups: list[tuple[list[int], GroupEpoch]] = []
        for members in _neighbours([c for c in host.clients if self._problem(c).n < SMALL]):
            places = [self.places[c] for c in members]
            group = ClientGroup(
                [host.problems[k] for k in places],
                host.positions[places[0]],
                [host.factors[k] for k in places],
            )
            together = host.local.bind_group(group) if len(members) >= FEW else None
            if together is not None:
                self.groups.append((members, together))

    def epoch(self, client: int) -> LocalEpoch:
        if client not in self.epochs:
            k = self.places[client]
            position, factor = self.host.positions[k], self.host.factors[k]
            problem, noise = self.host.problems[k], self.host.noise.of(str(client))
            self.epochs[client] = self.host.local.bind_noisy(problem, position, factor, noise)
        return self.epochs[client]

    def _problem(self, client: int) -> FiniteSum:
        return self.host.problems[self.places[client]]


def _neighbours(clients: Sequence[int]) -> list[list[int]]:
    """The runs of consecutive numbers."""
    runs: list[list[int]] = []
    for c in clients:
        if runs and runs[-1][-1] == c - 1:
            runs[-1].append(c)
        else:
            runs.append([c])
    return runs


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
