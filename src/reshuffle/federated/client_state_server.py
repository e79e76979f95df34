"""The server of ExactFedRR with state at the clients: it holds sums over clients, and nothing about a single client."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import replace

import numpy as np

from reshuffle.engines import Plain, Record, Reply
from reshuffle.errors import InputError
from reshuffle.federated.downlink import Allowed
from reshuffle.federated.extrapolation import (
    PIECE,
    ResidualMonitor,
    check_slots,
    chosen,
    remembered,
    slots,
)
from reshuffle.federated.host import ARRAYS
from reshuffle.federated.replies import Letter, Said, Take
from reshuffle.federated.server import Paced
from reshuffle.objective import Array
from reshuffle.solvers.method import State

ONWARD = (1.0, 0.0)
"""The value of ``anew`` for a round that continues the last one: τ stays, and clients continue from the rounds in ``kept``."""


class ClientStateServer(Paced):
    """x⁺ = prox_{γ(S/M)R}( (1/M) Σ_m z_m ), the mean extrapolated like every z_m.

    The state has x, ``point`` (the mean of the z_m), the mean images (1/M) Σ_m T_m(z_j) of the rounds j
    that are remembered (large ones in temporary files), and ``norms`` and ``gram`` of the residuals, sums over
    clients; the instructions for the clients (``weights``, ``kept``, ``anew``); and the round
    after which each client last took part. With ``memory`` 0 nothing is extrapolated, and clients may stay away:
    the mean then changes by what those that took part send.

    If the residual shows that γ is too long (``ResidualMonitor``), an ``adaptive`` server halves it and keeps x
    and the h_m: z_m ← x - ½(x - z_m) at every client, and likewise for the mean z. Then x = prox_τ(z) is prox_{τ/2} of the new mean.
    """

    sums_only = True
    may_round = True
    adds_up = True

    @property
    def needs_all(self) -> bool:  # type: ignore[override]
        return self.memory > 0

    def start(self, x0: Array) -> State:
        state: State = {
            "x": x0,
            "point": x0,
            "first": x0[None][: 0 if self.memory else 1],  # Clients that join later begin here.
            "norms": np.empty(0),
            "gram": np.empty(0),
            "weights": np.empty(0),
            "kept": np.zeros(3, dtype=np.int64),
            "since": np.zeros(self.totals.size, dtype=np.int64),
            "key": np.frombuffer(uuid.uuid4().bytes, dtype=np.uint8),
            "pace": np.array(ResidualMonitor()),
            "anew": np.array(ONWARD),
        }
        return state | slots("image", [], self.memory, x0.shape)

    def restarted(self, state: State) -> State:
        factor = ResidualMonitor.of(state).factor
        return self.start(state["x"]) | {"pace": np.array(ResidualMonitor(factor))}

    def check_state(self, state: State) -> None:
        count = check_slots(state, self.memory, "image")
        if (len(state["norms"]), len(state["gram"])) != (count, max(count - 1, 0) ** 2):
            raise InputError(
                f"resume: the saved state remembers {count} rounds, and {len(state['norms'])} residuals with "
                f"{len(state['gram'])} products"
            )

    def rounded(self, state: State, new: State, allowed: Allowed) -> State:
        """Begin as every server does; but after a change of the step, the z_m of the clients must follow from x to the last digit."""
        onward = tuple(new["anew"].tolist()) == ONWARD
        return super().rounded(state, new, allowed) if onward else new

    def letter(self, state: State) -> Letter:
        """Further numbers for the clients: how to continue from the rounds that they remember."""
        base, start, stop = state["kept"].tolist()
        ratio, back = state["anew"].tolist()
        own: dict[int, dict[str, Plain]] = {
            c: {"since": int(since), "total": float(total)}
            for c, (since, total) in enumerate(zip(state["since"], self.totals, strict=True))
        }
        more, _ = super().letter(state)
        return more | {
            "key": state["key"].tobytes().hex(), "base": base, "start": start, "stop": stop,
            "weights": state["weights"], "ratio": ratio, "back": int(back),
        }, own  # fmt: skip

    def add_up(self, state: State, total: Array, said: Said, step: float, number: int) -> State:
        """The next state, from Σ_m r_m over the clients that answered and the numbers that they sent with it."""
        clients, count = sorted(said), self.totals.size
        since = state["since"].copy()
        new = int(np.sum(since[clients] == 0))
        since[clients] = number + 1
        image = total  # It now holds (1/M) Σ_m T_m(z).
        image /= count
        image += state["point"]
        if number and new and not self.memory:
            # These clients began at x, and are counted as if they had begun with all others.
            image += new / count * (state["x"] - state["first"][0])
        length = step * (self.totals.sum() / count)
        if self.memory:
            changed = self._accelerated(state, image, [said[c] for c in clients], length)
        else:  # The clients continue from their latest image and keep nothing else.
            changed = {"x": self.prox(image, length), "point": image, "kept": np.array([-1, 0, 0])}
        return state | changed | {"since": since}

    def _accelerated(self, state: State, image: Array, said: list[Record], length: float) -> State:
        """The changed parts of the state: the next mean of the z_m, and the history."""
        square, slopes, changes = (
            np.sum([np.asarray(record[name]) for record in said], axis=0)
            for name in ("square", "slopes", "changes")
        )
        size, norm = len(state["norms"]), float(np.sqrt(square))
        pace, trouble = self.paced(state, norm, float(state["norms"][0]) if size == 1 else None)
        if trouble:
            return self._begun_anew(state, image, trouble == "grew", length, pace)
        gram = np.zeros((size, size))
        if size:
            gram[:-1, :-1] = state["gram"].reshape(size - 1, size - 1)
            gram[-1, :] = gram[:, -1] = changes
        norms = np.append(state["norms"], norm)
        images = [*remembered(state, "image", self.memory), image]
        choice = chosen(norms, gram, slopes, self.memory)
        point = choice.point(images)
        start, stop, _ = choice.kept.indices(len(images))
        images[-1] = spilled(image)
        inner = slice(start, stop - 1)
        return slots("image", images[start:stop], self.memory, image.shape) | {
            "x": self.prox(point, length),
            "point": point,
            "norms": norms[start:stop],
            "gram": gram[inner, inner].ravel(),
            "weights": choice.weights,
            "kept": np.array([choice.base, start, stop]),
            "pace": np.array(pace),
            "anew": np.array(ONWARD),
        }

    def _begun_anew(
        self, state: State, image: Array, back: bool, length: float, pace: ResidualMonitor
    ) -> State:
        """The state that begins anew with half the step, from the x and h_m of this round (``back``) or of the next."""
        z, last = state["point"] if back else image, len(state["norms"])
        x = self.prox(z, length)
        none = np.empty(0)
        return slots("image", [], self.memory, x.shape) | {
            "x": x, "point": x - 0.5 * (x - z), "norms": none, "gram": none, "weights": none,
            "kept": np.array([last, last + 1, last + 1]),
            "pace": np.array(pace.anew()),
            "anew": np.array([0.5, float(back)]),
        }  # fmt: skip


class Total:
    """Σ v in twice the precision: a rounded sum and the sum of its rounding errors (Knuth's two-sum).

    The error is some 2^-100 of Σ|v|, so that, rounded to double, sums in any order agree except in the rarest
    cases.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.high, self.low = np.zeros(shape), np.zeros(shape)

    def add(self, v: Array) -> None:
        high, low, more = self.high.reshape(-1), self.low.reshape(-1), v.reshape(-1)
        for start in range(0, high.size, PIECE):
            at = slice(start, start + PIECE)
            a, b = high[at], more[at]
            total = a + b
            rest = total - a
            low[at] += (a - (total - rest)) + (b - rest)
            high[at] = total

    def value(self) -> Array:
        """The sum, after which nothing can be added."""
        self.high += self.low
        self.low = np.empty(0)
        return self.high


class Sums:
    """Adds up the arrays of replies and forgets them: residuals with weight 1, gradients (``ARRAYS``) with weight N_m/N.

    Each reply is first read by ``read``, if one is given.
    """

    def __init__(self, shape: tuple[int, ...], shares: Array, read: Take | None = None) -> None:
        self.shares, self.read = shares, read
        self.model = Total(shape)
        self.totals: dict[str, Total] = {}

    def take(self, reply: Reply) -> Reply:
        """The reply without the arrays that were added up."""
        reply = reply if self.read is None else self.read(reply)
        self.model.add(reply.model)
        for name in ARRAYS:
            part = reply.more.get(name)
            if part is not None:
                total = self.totals.setdefault(name, Total(np.shape(part)))
                total.add(float(self.shares[reply.client]) * np.asarray(part))
        rest = {name: part for name, part in reply.more.items() if name not in ARRAYS}
        return replace(reply, model=np.empty(0), more=rest)


SMALL = 1 << 19
"""An array of fewer bytes than this is not worth a temporary file."""


def spilled(array: Array) -> Array:
    """The array, mapped from an unnamed file that is deleted with it.

    The file lies where ``tempfile`` puts it (``TMPDIR``). If the disk is full, the array stays in memory.
    """
    if array.nbytes < SMALL:
        return array
    try:
        with tempfile.TemporaryFile(prefix="reshuffle-") as file:
            file.write(np.ascontiguousarray(array).data)
            file.flush()
            return np.memmap(file, array.dtype, "r", shape=array.shape).view(np.ndarray)
    except OSError:
        return array
