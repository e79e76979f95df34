"""Rounds of FedRR, FedSO and LocalSGD on a device: x ↦ mean_m x_m."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.checks import check_passes, check_positions
from reshuffle.gpu.clients import DeviceClients, LocalPasses


class DeviceRounds:
    """The mean of the clients' models, round after round; the visits are those of every other engine.

    ``positions`` say where each client's random numbers begin in the stream of a round.
    """

    def __init__(
        self,
        clients: DeviceClients,
        passes: LocalPasses,
        seed: int,
        positions: NDArray[np.int64],
    ) -> None:
        sizes = np.diff(clients.first)
        check_passes(passes.order, passes.batch, passes.visits, passes.averages, sizes)
        check_positions(positions, passes.visits)
        self.clients, self.passes, self.seed = clients, passes, seed
        device = clients.device
        self._bounds = clients.bounds(passes.visits)
        self._total = int(passes.visits.sum())
        self._positions = device.put(positions, np.int64)
        self._averages = device.put(passes.averages, clients.number)
        self._fixed = self._first_visits() if passes.fixed else None
        alike = bool(np.all(passes.visits == passes.visits[0]))
        self._everyone = None if alike else self._by_size(np.arange(clients.clients))

    def mean(
        self, x: Array, step: float, number: int, chosen: NDArray[np.int64] | None = None
    ) -> Array:
        """(1/M) Σ_m x_m over the chosen clients, or over all, in the round ``number``."""
        visits = self.visits(number)
        order = self._everyone if chosen is None else self._by_size(chosen)
        changes = self.clients.sum_of_changes(
            x, step, visits, self._bounds, self._averages, self.passes.batch, order
        )
        count = self.clients.clients if chosen is None else len(chosen)
        return x + changes.reshape(x.shape) / count

    def start(self, x: object, step: float, number: int) -> DeviceArray:
        """Start a round of all clients from an x on the device; returns the array that will hold Σ_m (x_m - x)."""
        visits = self.visits(number)
        return self.clients.start_passes(
            x, step, visits, self._bounds, self._averages, self.passes.batch, self._everyone
        )

    def visits(self, number: int) -> object:
        """The visits of a round, on the device."""
        return self._drawn(number) if self._fixed is None else self._fixed

    def _by_size(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The clients with the most visits first, because the clients of a block wait for each other."""
        return chosen[np.argsort(-self.passes.visits[chosen], kind="stable")]

    def _first_visits(self) -> object:
        return self.clients.in_order() if self.passes.order == "cyclic" else self._drawn(0)

    def _drawn(self, number: int) -> object:
        return self.clients.drawn(
            self.passes.order, self._bounds, self._positions, self._total, self.seed, number
        )
