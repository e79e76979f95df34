"""The server of ExactFedRR with state at the clients: it holds sums over clients, and nothing of any one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from reshuffle.engines import Plain, Record
from reshuffle.federated.anderson import chosen
from reshuffle.federated.server import Prox, Server
from reshuffle.objective import Array
from reshuffle.solvers.method import State


def slot(k: int) -> str:
    """The name under which the state has the k-th image that is remembered."""
    return f"image{k}"


class Summed(Server):
    """x⁺ = prox_{γ(S/M)R}( (1/M) Σ_m z_m ), the mean extrapolated like every z_m.

    The state has x, ``point`` (the mean of the z_m), the mean images (1/M) Σ_m T_m(z_j) of the rounds j
    that are remembered, each in a slot of its own so that states share them, and ``norms`` and ``gram`` of
    the residuals, sums over clients; what the clients are to do next (``weights``, ``kept``); and the round
    after which each last took part. With ``memory`` 0 nothing is extrapolated, and clients may stay away:
    the mean then changes by what those that took part send.
    """

    sums = True

    def __init__(self, prox: Prox, totals: Array, memory: int) -> None:
        super().__init__(prox, totals)
        self.memory = memory

    @property
    def needs_all(self) -> bool:  # type: ignore[override]
        return self.memory > 0

    def start(self, x0: Array) -> State:
        empty = np.empty((0, *x0.shape))
        return {
            "x": x0,
            "point": x0,
            "first": empty if self.memory else x0[None],  # where clients that come later begin
            "norms": np.empty(0),
            "gram": np.empty(0),
            "weights": np.empty(0),
            "kept": np.zeros(3, dtype=np.int64),
            "since": np.zeros(self.totals.size, dtype=np.int64),
            "key": np.frombuffer(uuid.uuid4().bytes, dtype=np.uint8),
        } | {slot(k): empty for k in range(self.memory)}

    def letter(self, state: State) -> tuple[dict[str, Plain], dict[int, dict[str, Plain]]]:
        """What clients need to know besides x: how to go on from what they remember."""
        base, start, stop = state["kept"].tolist()
        own: dict[int, dict[str, Plain]] = {
            c: {"since": int(since), "total": float(total)}
            for c, (since, total) in enumerate(zip(state["since"], self.totals, strict=True))
        }
        key = state["key"].tobytes().hex()
        return {
            "key": key, "base": base, "start": start, "stop": stop, "weights": state["weights"],
        }, own  # fmt: skip

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        raise NotImplementedError("this server adds up what comes, and keeps no model")

    def add_up(
        self, state: State, total: Array, said: Mapping[int, Record], step: float, number: int
    ) -> State:
        """The next state, from Σ_m r_m over those that answered and what they said with it."""
        clients, count = sorted(said), self.totals.size
        since = state["since"].copy()
        new = int(np.sum(since[clients] == 0))
        since[clients] = number + 1
        image = total  # in its place: (1/M) Σ_m T_m(z)
        image /= count
        image += state["point"]
        if number and new and not self.memory:
            # they began at x, and are counted as if they had been where all began
            image += new / count * (state["x"] - state["first"][0])
        if self.memory:
            point, memory = self._extrapolated(state, image, [said[c] for c in clients])
        else:  # the clients go on from their latest image, and keep nothing more
            point, memory = image, {"kept": np.array([-1, 0, 0])}
        x = self.prox(point, step * (self.totals.sum() / count))
        return state | memory | {"x": x, "point": point, "since": since}

    def _extrapolated(
        self, state: State, image: Array, said: list[Record]
    ) -> tuple[Array, dict[str, Any]]:
        """The next mean of the z_m, and what is remembered from then on."""
        square, slopes, changes = (
            np.sum([np.asarray(record[name]) for record in said], axis=0)
            for name in ("square", "slopes", "changes")
        )
        size = len(state["norms"])
        gram = np.zeros((size, size))
        if size:
            gram[:-1, :-1] = state["gram"].reshape(size - 1, size - 1)
            gram[-1, :] = gram[:, -1] = changes
        norms = np.append(state["norms"], np.sqrt(square))
        images = [*(state[slot(k)][0] for k in range(size)), image]
        choice = chosen(norms, gram, slopes, self.memory)
        start, stop, _ = choice.kept.indices(len(images))
        empty = np.empty((0, *image.shape))
        held = [kept[None] for kept in images[start:stop]]
        slots = {slot(k): held[k] if k < len(held) else empty for k in range(self.memory)}
        inner = slice(start, stop - 1)
        return choice.point(images), slots | {
            "norms": norms[start:stop],
            "gram": gram[inner, inner].ravel(),
            "weights": choice.weights,
            "kept": np.array([choice.base, start, stop]),
        }
