"""Local work: what each client computes in a round. Each kind is an epoch of a single-machine method on the client's own samples.

A client knows its data, N_m, and two numbers of the whole federation that the driver tells it: where
its random numbers begin, and a factor that makes the sum of its steps proportional to N_m.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError
from reshuffle.gpu import LocalPasses
from reshuffle.objective import Array, FiniteSum, Visits
from reshuffle.orders import (
    Allocation,
    Cyclic,
    Order,
    Reshuffle,
    ShuffleOnce,
    in_windows,
    is_fixed,
    visits_of,
    with_replacement,
)
from reshuffle.privacy.noise import RepeatedNoise
from reshuffle.randomness import Stream
from reshuffle.solvers.sampling import permuted, resampled, smoothness_of
from reshuffle.solvers.slope_table import slope_table_of
from reshuffle.validation import check_vector

if TYPE_CHECKING:
    from reshuffle.federated.scales import Metric

Work = TypeVar("Work", bound="Local")
BLIND = 0.01
"""Passes count as cancelling each other if they move x by less than this share of a step along the slope; on a quadratic they move it by a step or more."""


class Turn(NamedTuple):
    """A client's turn in a round."""

    x: Array
    step: float
    """γ."""
    number: int
    """The number of the round."""
    stream: Stream
    """The random numbers of the round."""
    control: Array | None = None
    """The control variate, for methods that have one."""
    noise: RepeatedNoise | None = None
    """The client's own noise, for work that adds noise."""


LocalEpoch = Callable[[Turn], Array]
"""Makes a client's model, or the models of a group of clients, in order."""


KINDS: dict[str, type[Any]] = {}
"""The kinds of local work that can be sent to sites, by name."""
ORDERS: Mapping[str, type[Order]] = {
    kind.__name__: kind for kind in (Reshuffle, ShuffleOnce, Cyclic, Allocation)
}
DEVICE_ORDERS: Mapping[type[Order], str] = {
    Reshuffle: "shuffle",
    ShuffleOnce: "shuffle",
    Cyclic: "cyclic",
}
"""The orders that kernels of a device support, and their names there."""
MAYBE = {"": None, "yes": True, "no": False}


def travels(kind: type[Work]) -> type[Work]:
    """Register a kind of local work for sites: a dataclass of plain settings, of which ``inner`` may be another local work."""
    KINDS[kind.__name__] = kind
    return kind


class Load(NamedTuple):
    """The work of a client's round, in numbers."""

    visits: int
    """The random numbers that it may draw; for most kinds also the gradients that it evaluates."""
    steps: float
    smoothness: float
    """The smoothness constant of the functions of its steps, for a factor of 1."""

    def times(self, passes: int) -> Load:
        """The load of this many passes."""
        return Load(passes * self.visits, passes * self.steps, self.smoothness)


class ClientGroup(NamedTuple):
    """Clients with consecutive numbers, and where the random numbers of each begin."""

    problems: Sequence[FiniteSum]
    positions: Sequence[int]
    factors: Sequence[float]


class Local(ABC):
    """A kind of local work."""

    seed: int
    """The seed of the run, from which the random numbers of every client come."""
    tells_constants: ClassVar[bool] = True
    """Whether a client may tell the constants of its functions (L_max, L_f), from which steps are chosen."""
    solver: object = None
    """The solver with its hyper-parameters, if the work was made by ``local_class``."""

    def __init__(self, solver: Any) -> None:
        self.solver, self.seed = solver, solver.seed

    def rehearse(self, client: FiniteSum) -> None:
        """Try a user's own work on the first sample, so that it is compiled before the first round."""
        if type(self).work is not Local.work:
            zero = np.zeros(client.shape)
            self.bind(client.first(), 0, 1.0)(Turn(zero, 1.0, 0, Stream(self.seed, 0), zero))

    def bind_group(self, group: ClientGroup) -> LocalEpoch | None:
        """The work of many small clients in one call, with the same result to the last bit; None if there is no such call."""
        return None

    def device_passes(self, group: ClientGroup) -> LocalPasses | None:
        """The work of these clients in the form that the kernels of a device take; None if they have no kernel for it."""
        return None

    def device_fit(self, client: FiniteSum) -> Datafit | None:
        """The samples that a device visits for this client: its own, unless the work uses others; None if it has no rows."""
        return client.datafit

    def gradients(self, visits: int, samples: int, number: int) -> int:
        """The number of gradients that clients with this many visits and samples evaluate in a round."""
        return visits

    def length(self, client: FiniteSum) -> float:
        """τ_m/γ: the number of gradient steps of a round, by default the number of samples."""
        return float(client.n)

    def work(
        self,
        client: FiniteSum,
        x: Array,
        step: float,
        number: int,
        rng: np.random.Generator,
        control: Array | None,
    ) -> Array:
        """The model that a client makes of x in the round ``number``. A local work needs no other method.

        ``x`` and ``control``, which the server sends along, are copies that may be changed. ``step`` is γ times
        the factor that makes the sum of the client's steps proportional to N_m. ``rng`` has the client's own random
        numbers, N_m of them (as many as ``load`` has visits).
        """
        raise InputError(
            f"{type(self).__name__} must have work(client, x, step, number, rng, control)"
        )

    def load(self, client: FiniteSum) -> Load:
        """The work of a round, in numbers."""
        return Load(client.n, self.length(client), self.smoothness(client))

    def smoothness(self, client: FiniteSum) -> float:
        """L of the functions of single steps; by default L_max of the samples."""
        return smoothness_of(client)

    def view(self, client: FiniteSum) -> FiniteSum:
        """The functions on which its steps are made: those of the client, unless the work uses other coordinates."""
        return client

    def point(self, message: Array) -> Array:
        """The x that a message is about: the message itself, unless the work says otherwise."""
        return message

    @property
    def metric(self) -> Metric | None:
        """The metric in which the server works, if it is not that of x."""
        return None

    def told(self, numbers: Array) -> Array:
        """Hook: transforms the numbers about f_m at x that a client sends. The default is the identity."""
        return numbers

    def reply_shape(self, message: Array) -> tuple[int, ...]:
        """The shape of a client's answer to this message: that of a model, unless the work says otherwise."""
        return message.shape

    def blocks(self, message: Array) -> tuple[int, ...]:
        """The lengths of the parts of a client's answer that are of different size, each with a range of its own in fixed point."""
        return (int(np.prod(self.reply_shape(message))),)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        """The work of one client; its random numbers begin at ``position``."""
        name = f"{type(self).__name__}: work"

        def epoch(turn: Turn) -> Array:
            rng, sent = turn.stream.at(position), turn.control
            sent = None if sent is None else sent.copy()
            model = self.work(client, turn.x.copy(), factor * turn.step, turn.number, rng, sent)
            return check_vector(name, model, turn.x.shape).astype(np.float64, copy=False)

        return epoch


@travels
@dataclass(frozen=True)
class Shuffled(Local):
    """One pass over the samples in shuffled order (FedRR, FedSO)."""

    order: Order
    batch: int
    importance: bool
    seed: int

    def load(self, client: FiniteSum) -> Load:
        rng = Stream(self.seed, 0).at(0)
        sampling = permuted(client, Reshuffle(), self.batch, self.importance, rng)
        count = round(sampling.steps / sampling.average)
        return Load(count, sampling.steps, sampling.smoothness)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        first = Stream(self.seed, 0).at(position)
        sampling = permuted(client, self.order, self.batch, self.importance, first)
        average = factor * sampling.average
        problem, weights, batch = sampling.problem, sampling.weights, sampling.batch

        def epoch(turn: Turn) -> Array:
            model = turn.x.copy()
            visits = sampling.visits(turn.stream.at(position), turn.number)
            problem.sweep(model, visits, turn.step, weights=weights, batch=batch, average=average)
            return model

        return epoch

    def bind_group(self, group: ClientGroup) -> LocalEpoch | None:
        plain = type(self.order) is Reshuffle and not self.importance
        fits = [p.datafit for p in group.problems if p.datafit is not None]
        if not plain or any(fit.on_disk for fit in fits) or len(fits) < len(group.problems):
            return None
        sizes, ridge = np.array([fit.n for fit in fits]), group.problems[0].ridge
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        steps = -(-sizes // self.batch)
        averages = np.array(group.factors) * (steps / sizes)
        together = Datafit.join(fits)

        def epoch(turn: Turn) -> Array:
            uniforms = turn.stream.at(group.positions[0]).random(together.n)
            return together.sweep_clients(
                turn.x, bounds, uniforms, turn.step, ridge, self.batch, averages
            )

        return epoch

    def device_passes(self, group: ClientGroup) -> LocalPasses | None:
        order = DEVICE_ORDERS.get(type(self.order))
        if order is None or self.importance:
            return None
        sizes = np.array([problem.n for problem in group.problems])
        averages = np.array(group.factors) * (-(-sizes // self.batch) / sizes)
        return LocalPasses(order, is_fixed(self.order), self.batch, sizes, averages)


@travels
@dataclass(frozen=True)
class Sampled(Local):
    """A number of steps on samples drawn with replacement (Local SGD)."""

    steps: int
    batch: int
    seed: int

    def load(self, client: FiniteSum) -> Load:
        return Load(self.steps * self.batch, self.steps, smoothness_of(client))

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        def epoch(turn: Turn) -> Array:
            model, rng = turn.x.copy(), turn.stream.at(position)
            visits = with_replacement(self.steps * self.batch, client.n, rng)
            client.sweep(model, visits, turn.step, batch=self.batch, average=factor / self.batch)
            return model

        return epoch

    def device_passes(self, group: ClientGroup) -> LocalPasses | None:
        visits = np.full(len(group.problems), self.steps * self.batch)
        return LocalPasses("draw", False, self.batch, visits, np.array(group.factors) / self.batch)


@travels
@dataclass(frozen=True)
class Corrected(Local):
    """Passes along differences to the slopes at x, plus their mean, less h (ExactFedRR).

    They should leave x unchanged only if ∇f_m(x) = h_m. Since steps in some orders can cancel each other, passes
    that move x by less than a hundredth of one step along ∇f_m(x) - h_m are replaced by that step.
    """

    order: Order
    passes: int
    importance: bool | None
    seed: int

    def gradients(self, visits: int, samples: int, number: int) -> int:
        return visits + samples  # This is the pass at y.

    def load(self, client: FiniteSum) -> Load:
        owner, _, largest = resampled(client, self.importance)
        visits = owner.size or client.n
        return Load(visits, visits, largest).times(self.passes)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        owner, weights, _ = resampled(client, self.importance)
        slopes = slope_table_of(client, owner, weights)
        pool = np.arange(owner.size or client.n, dtype=np.uint32)
        order = in_windows(self.order, client.datafit)

        def draw(rng: np.random.Generator, number: int) -> list[Visits]:
            return [visits_of(order, pool.copy(), rng, number) for _ in range(self.passes)]

        fixed = draw(Stream(self.seed, 0).at(position), 0) if is_fixed(self.order) else None

        def epoch(turn: Turn) -> Array:
            x, step, state = turn.x, factor * turn.step, slopes.start(turn.x)
            slope = state.g if turn.control is None else state.g - turn.control
            y, length, q = x.copy(), step * pool.size, slope
            drawn = draw(turn.stream.at(position), turn.number) if fixed is None else fixed
            for visits in drawn:
                before = y.copy()
                slopes.block(state._replace(q=q), y, visits, 0, visits.size, step)
                moved = (before - y) / length  # This is the mean of the changes of the slopes.
                y -= length * q
                q = q + moved
            if np.abs(y - x).max() < BLIND * factor * turn.step * np.abs(slope).max():
                return x - step * slope  # The passes all but cancel each other.
            return y

        return epoch

    def device_passes(self, group: ClientGroup) -> LocalPasses | None:
        order = DEVICE_ORDERS.get(type(self.order))
        if order is None:
            return None
        visits = np.array([self.load(problem).visits for problem in group.problems])
        sizes, factors = visits // self.passes, np.array(group.factors)
        return LocalPasses(order, is_fixed(self.order), 1, sizes, factors, self.passes)

    def device_fit(self, client: FiniteSum) -> Datafit | None:
        """The rows of ``view``; a copy of a sample is a row of its own, with its weight."""
        view = self.view(client)
        fit, (owner, weights, _) = view.datafit, resampled(view, self.importance)
        if fit is None or fit.on_disk or not owner.size:
            return fit
        own = weights * fit.weights[owner] if fit.weights.size else weights
        taken = fit.take(owner)
        return taken.on_samples(taken.rows, taken.targets, own, taken.offsets)


# --- the same work as a record of names and numbers ----------------------------------------------


def described(local: Local) -> dict[str, Plain]:
    """Local work of this package as a record; a user's own work cannot be sent in this way."""
    name = type(local).__name__
    if KINDS.get(name) is not type(local):
        raise InputError(
            f"{name} is not known to sites: use FedRR, LocalSGD, ExactFedRR or FedNewton"
        )
    settings = {word: getattr(local, word) for word in _settings(type(local))}
    inner = settings.pop("inner", None)
    if inner is not None:
        more = {f"around_{word}": value for word, value in settings.items()}
        return described(inner) | {"around": name} | more
    return {"work": name} | {word: _plain(word, value) for word, value in settings.items()}


def local_of(record: Record) -> Local:
    """The local work that a record describes."""
    kind, around = _kind(record.get("work"), False), record.get("around")
    local: Local = kind(**{word: _meant(word, record[word]) for word in _settings(kind)})
    if around is None:
        return local
    outer = _kind(around, True)
    own = {word: record[f"around_{word}"] for word in _settings(outer) if word != "inner"}
    wrapped: Local = outer(inner=local, **own)
    return wrapped


def _kind(name: object, around: bool) -> type[Any]:
    """The kind of this name, which must be one that changes the reply of an inner one if it is ``around``."""
    kind = KINDS.get(str(name))
    if kind is None or ("inner" in _settings(kind)) is not around:
        raise InputError(f"there is no local work {name!r}")
    return kind


def _settings(kind: type[Any]) -> list[str]:
    return [setting.name for setting in fields(kind) if setting.init]


def _plain(name: str, value: Any) -> Plain:
    """A setting as it is written in a record."""
    if name == "order":
        if ORDERS.get(type(value).__name__) is not type(value):
            raise InputError(f"order {value!r} is not known to sites: use {', '.join(ORDERS)}")
        return type(value).__name__
    if name == "importance":
        return next(word for word, meant in MAYBE.items() if meant is value)
    return np.array(value) if isinstance(value, tuple) else value


def _meant(name: str, value: Any) -> Any:
    """The setting that a record has under this name."""
    if name == "order":
        return ORDERS[value]()
    if name == "importance":
        return MAYBE[value]
    return tuple(int(length) for length in value) if name == "shape" else value
