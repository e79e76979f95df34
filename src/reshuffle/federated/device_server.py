"""The server of ExactFedRR for clients on a device: a ``ClientStateServer`` that also holds the clients' memory.

The clients remember of a round only ``Points``: an anchor, and one number for each row. The state has these as
arrays, so that a run can resume; the device keeps copies of those that the next round needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.engines import Task
from reshuffle.errors import InputError
from reshuffle.federated.client_state_server import ClientStateServer
from reshuffle.federated.extrapolation import check_slots, remembered
from reshuffle.federated.replies import Letter
from reshuffle.federated.server import Prox
from reshuffle.gpu import DeviceExactRounds, Points, Residual, combined
from reshuffle.objective import Array
from reshuffle.solvers.method import State

IMAGE = ("image_anchors", "image_rows", "image_coefs")
RESIDUAL = ("residual_anchors", "residual_rows", "residual_coefs", "residual_margins", "residual_total")  # fmt: skip
"""The names in a state of the remembered parts of a round; the number of the round follows each name."""


Parts = tuple[AnyArray, ...]


class DeviceServer(ClientStateServer):
    """x⁺ = prox_{γ(S/M)R}( (1/M) Σ_m z_m ) and the extrapolated z, from sums over the clients on a device.

    ``samples`` is the number of rows on the device. With ``at_clients`` the messages that a round stands for are those
    of ``state="clients"``, otherwise those of ``state="server"``.
    """

    sums_only = False
    device = "exact"

    def __init__(
        self, prox: Prox, totals: Array, memory: int, adaptive: bool, samples: int, at_clients: bool
    ) -> None:
        super().__init__(prox, totals, memory, adaptive)
        self.samples, self.at_clients = samples, at_clients

    @property
    def _held(self) -> int:
        """The number of rounds that clients remember: the one just done, and those from which it was extrapolated."""
        return self.memory + 1

    def start(self, x0: Array) -> State:
        return super().start(x0) | self._written([], [], x0.size)

    # --- a round ---------------------------------------------------------------------------------

    def aboard(self, state: State, session: Any, task: Task) -> State:
        rounds: DeviceExactRounds = session.exact
        x = task.x.reshape(-1)
        asked = np.array(task.clients, dtype=np.int64)
        chosen = None if len(asked) == self.totals.size else asked
        images, residuals = self._images(state, rounds), self._residuals(state, rounds)
        z = self._begun(state, rounds, x, images, residuals, asked)
        found = rounds.residuals(z, x, task.step, task.round, chosen)
        _, start, stop = state["kept"].tolist()
        images, residuals = [*images[start:stop], found.image], residuals[start:stop]
        said: dict[str, float | Array] = {"square": 0.0}
        if self.memory:
            residuals = [*residuals, found.residual]
            said = _products(rounds, residuals)
        none = {name: np.zeros_like(part) for name, part in said.items()}
        told = dict.fromkeys(task.clients, none) | {task.clients[0]: said}
        total = found.residual.total.reshape(task.x.shape).copy()
        new = self.add_up(state, total, told, task.step, task.round)
        here = rounds.copies.here
        written = self._written(
            [(*image[:2], here(image.coefs)) for image in images],
            [
                (*r.points[:2], here(r.points.coefs), here(r.margins), r.total[None])
                for r in residuals
            ],
            x.size,
        )
        rounds.copies.only(written.values())
        return new | written

    def _begun(
        self,
        state: State,
        rounds: DeviceExactRounds,
        x: Array,
        images: list[Points],
        residuals: list[Residual],
        asked: NDArray[np.int64],
    ) -> Points:
        """The z at the start of the round, computed as in ``client_state``; clients that take part for the first time have z_m = x."""
        if not images:
            return rounds.start(x)
        base, (ratio, back) = int(state["kept"][0]), state["anew"].tolist()
        weights = np.zeros(len(images))
        weights[base] = 1.0
        for i, weight in enumerate(state["weights"]):
            weights[i] += weight
            weights[i + 1] -= weight
        z = combined(weights.tolist(), images)
        if back:
            z = combined([1.0, -1.0], [z, residuals[base].points])
        if ratio != 1.0:  # τ has changed, and h_m must stay the same.
            z = Points(x - ratio * (x - z.anchors), z.anchor_of, ratio * z.coefs)
        new = asked[state["since"][asked] == 0]
        return z.anchored(x.reshape(1, -1), new, self.totals.size)

    # --- messages --------------------------------------------------------------------------------

    def letter(self, state: State) -> Letter:
        return super().letter(state) if self.at_clients else ({}, {})

    def traffic(self, state: State, task: Task) -> tuple[int, int]:
        """The bytes with h_m or with the letter, and of the models or of the residuals with their products."""
        clients, size = list(task.clients), task.x.nbytes
        if not self.at_clients:
            return task.nbytes(clients) + len(clients) * size, len(clients) * size
        _, start, stop = state["kept"].tolist()
        changes = len(remembered(state, "image_coefs", self._held)[start:stop])
        return task.nbytes(clients), len(clients) * (size + 8 + 16 * changes)

    # --- the state -------------------------------------------------------------------------------

    def check_state(self, state: State) -> None:
        super().check_state(state)
        for name, parts in (("image", IMAGE), ("residual", RESIDUAL)):
            count, size = check_slots(state, self._held, *parts[2:]), self.totals.size
            for k in range(self._held):
                anchors, rows = state[f"{name}_anchors{k}"], state[f"{name}_rows{k}"]
                good = len(anchors) > 0 if k < count else not len(anchors) + len(rows)
                good &= len(rows) in (0, size)
                if not good or (len(rows) and not 0 <= rows.min() <= rows.max() < len(anchors)):
                    raise InputError(
                        f"resume: the anchors of the saved {name} {k} must be those of {size} clients"
                    )

    def _images(self, state: State, rounds: DeviceExactRounds) -> list[Points]:
        return [
            Points(anchors, rows, rounds.copies.there(coefs))
            for anchors, rows, coefs in self._slots(state, IMAGE)
        ]

    def _residuals(self, state: State, rounds: DeviceExactRounds) -> list[Residual]:
        there = rounds.copies.there
        return [
            Residual(Points(anchors, rows, there(coefs)), there(margins), total[0])
            for anchors, rows, coefs, margins, total in self._slots(state, RESIDUAL)
        ]

    def _slots(self, state: State, parts: tuple[str, ...]) -> list[list[AnyArray]]:
        """The parts of each round that the state remembers."""
        return [
            [state[f"{part}{k}"] for part in parts]
            for k in range(self._held)
            if len(state[f"{parts[2]}{k}"])
        ]

    def _written(self, images: Sequence[Parts], residuals: Sequence[Parts], width: int) -> State:
        """The parts of the remembered rounds as entries of a state; free slots hold arrays of length 0."""
        no_vector, no_rows = np.empty((0, width)), np.empty(0, dtype=np.int32)
        no_numbers = np.empty((0, self.samples))
        image: Parts = (no_vector, no_rows, no_numbers)
        residual: Parts = (*image, no_numbers, no_vector)
        state: State = {}
        for names, kept, free in ((IMAGE, images, image), (RESIDUAL, residuals, residual)):
            for k in range(self._held):
                parts = kept[k] if k < len(kept) else free
                state |= {f"{name}{k}": part for name, part in zip(names, parts, strict=True)}
        return state


def _products(rounds: DeviceExactRounds, residuals: list[Residual]) -> dict[str, float | Array]:
    """‖r‖² of the newest residual, its products with all changes, and those of the newest change with all changes."""
    newest, pairs = residuals[-1], pairwise(residuals)
    changes = [combined([1.0, -1.0], [after.points, before.points]) for before, after in pairs]
    square = rounds.product(newest.points, newest)
    slopes = [rounds.product(change, newest) for change in changes]
    found: list[float] = []
    if changes:
        last = residuals[-2]
        moved = Residual(changes[-1], newest.margins - last.margins, newest.total - last.total)
        found = [rounds.product(change, moved) for change in changes]
    return {"square": max(square, 0.0), "slopes": np.array(slopes), "changes": np.array(found)}
