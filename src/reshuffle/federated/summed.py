"""The server of ExactFedRR with state at the clients: it holds sums over clients, and nothing of any one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import numpy as np

from reshuffle.engines import Plain, Record
from reshuffle.federated.anderson import Choice, chosen
from reshuffle.federated.server import Prox, Server
from reshuffle.objective import Array
from reshuffle.solvers.method import State


class Summed(Server):
    """x⁺ = prox_{γ(S/M)R}( (1/M) Σ_m z_m ), with Σ_m z_m extrapolated like every z_m.

    The state has x, ``images`` (Σ_m T_m(z_j) of the rounds j that are remembered), ``norms`` and ``gram``
    of the residuals, all sums over clients; what the clients are to do next (``weights``, ``kept``); and
    the round after which each last took part. With ``memory`` 0 nothing is extrapolated, and clients may
    stay away: the sum then changes by what those that took part send.
    """

    sums = True

    def __init__(self, prox: Prox, totals: Array, memory: int) -> None:
        super().__init__(prox, totals)
        self.memory = memory

    @property
    def needs_all(self) -> bool:  # type: ignore[override]
        return self.memory > 0

    def start(self, x0: Array) -> State:
        return {
            "x": x0,
            "point": self.totals.size * x0,
            "first": x0,
            "images": np.empty((0, *x0.shape)),
            "norms": np.empty(0),
            "gram": np.empty(0),
            "weights": np.empty(0),
            "kept": np.zeros(3, dtype=np.int64),
            "since": np.zeros(self.totals.size, dtype=np.int64),
            "key": np.frombuffer(uuid.uuid4().bytes, dtype=np.uint8),
        }

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
        clients = sorted(said)
        since = state["since"].copy()
        new = int(np.sum(since[clients] == 0))
        since[clients] = number + 1
        point = state["point"] + total
        if number and new:  # they began at x, and are counted as if they had been where all began
            point += new * (state["x"] - state["first"])
        if self.memory:
            choice, memory = self._choose(state, point, [said[c] for c in clients])
            point = choice.point(memory["images"])
            images = memory["images"]
            kept = choice.kept.indices(len(images))
            place = np.array([choice.base, kept[0], kept[1]])
            memory = {
                "images": images[choice.kept],
                "norms": memory["norms"][choice.kept],
                "gram": memory["gram"][kept[0] : kept[1] - 1, kept[0] : kept[1] - 1].ravel(),
                "weights": choice.weights,
                "kept": place,
            }
        else:
            memory = {name: state[name] for name in ("images", "norms", "gram", "weights")}
            memory["kept"] = np.array([-1, 0, 0])  # from the latest image, and nothing more is kept
        count = self.totals.size
        x = self.prox(point / count, step * (self.totals.sum() / count))
        return state | memory | {"x": x, "point": point, "since": since}

    def _choose(
        self, state: State, image: Array, said: list[Record]
    ) -> tuple[Choice, dict[str, Array]]:
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
        images = np.concatenate([state["images"], image[None]])
        choice = chosen(norms, gram, slopes, self.memory)
        return choice, {"images": images, "norms": norms, "gram": gram}
