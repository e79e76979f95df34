"""Rounds of very many clients on a device; those of FedRR, FedSO and LocalSGD: x ↦ mean_m x_m."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.checks import check_passes, check_positions
from reshuffle.gpu.clients import WARP, DeviceClients, LocalPasses
from reshuffle.gpu.device import Launch
from reshuffle.gpu.stream import jumps, stream_state

PLACES = 1 << 16
"""Places of samples have 16 bits while they are shuffled in shared memory."""
SHUFFLING = 64 * 1024
"""Bytes of shared memory of a block that shuffles: three blocks of this size fit on a processor at a time."""


class ClientRounds:
    """The visits of each round, which are those of every other engine.

    ``positions`` say where each client's random numbers begin in the stream of a round. A round visits the samples ``repeats`` times.
    """

    def __init__(
        self,
        clients: DeviceClients,
        passes: LocalPasses,
        seed: int,
        positions: NDArray[np.int64],
        repeats: int = 1,
    ) -> None:
        sizes, visits = np.diff(clients.first), passes.visits
        check_passes(passes.order, passes.batch, visits, passes.averages, sizes)
        check_positions(positions, repeats * visits)
        self.clients, self.passes, self.seed = clients, passes, seed
        device = clients.device
        ends = np.concatenate([[0], np.cumsum(visits)])
        self.total = int(ends[-1])
        # A permutation of n samples takes n - 1 random numbers.
        self._draws = [
            (
                device.put(ends + p * self.total, np.int64),
                device.put(positions + p * (sizes - 1), np.int64),
            )
            for p in range(repeats)
        ]
        self.bounds = self._draws[0][0]
        self.averages = device.put(passes.averages, clients.number)
        self._jumps = device.put(jumps(), np.uint64)
        self._fixed = self._drawn(0) if passes.fixed or passes.order == "cyclic" else None
        alike = bool(np.all(visits == visits[0]))
        self._everyone = None if alike else self._by_size(np.arange(clients.clients))

    def visits(self, number: int) -> object:
        """The visits of a round, on the device."""
        return self._drawn(number) if self._fixed is None else self._fixed

    def in_turn(self, chosen: NDArray[np.int64] | None) -> tuple[DeviceArray | None, int]:
        """The order in which the chosen clients, or all, are worked on (None: by number), on the device, and their number."""
        order = self._everyone if chosen is None else self._by_size(chosen)
        if order is None:
            return None, self.clients.clients
        return self.clients.device.put(order, np.int64), len(order)

    def _by_size(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The clients with the most visits first, because the clients of a block wait for each other."""
        return chosen[np.argsort(-self.passes.visits[chosen], kind="stable")]

    def _drawn(self, number: int) -> object:
        """The visits of a round, drawn on the device; they equal those drawn on the processor."""
        clients, repeats = self.clients, len(self._draws)
        if self.passes.order == "cyclic":
            rows = np.tile(np.arange(self.total, dtype=np.uint32), repeats)
            return clients.device.put(rows, np.uint32)
        name, launch = self._drawing()
        visits = clients.kept_room("visits", repeats * self.total, np.uint32)
        for bounds, positions in self._draws:
            clients.kernels.run(
                name, launch, clients.first_on_device, bounds, positions, np.int64(clients.clients),
                *stream_state(self.seed, number), self._jumps, visits,
            )  # fmt: skip
        # While the kernel works, the state of the next round is found, which takes the processor a tenth of a millisecond.
        stream_state(self.seed, number + 1)
        return visits

    def _drawing(self) -> tuple[str, Launch]:
        """The kernel that draws visits: permutations are made in shared memory if they fit there."""
        device, largest = self.clients.device, int(np.diff(self.clients.first).max())
        lanes = max(device.lanes)
        if self.passes.order == "draw":
            return "draw_visits", self._launch(min(4 * WARP, 4 * lanes))
        fitting = min(device.block_memory, SHUFFLING) // (2 * largest) - 2
        threads = min(4 * lanes, max(fitting // lanes, 0) * lanes)
        if threads and largest < PLACES:
            return "shuffle_shared", self._launch(threads, 2 * largest * (threads + 2))
        return "shuffle_global", self._launch(lanes)

    def _launch(self, threads: int, memory: int = 0) -> Launch:
        return Launch(-(-self.clients.clients // threads), threads, memory)


class DeviceRounds(ClientRounds):
    """The mean of the clients' models, round after round."""

    def mean(
        self, x: Array, step: float, number: int, chosen: NDArray[np.int64] | None = None
    ) -> Array:
        """(1/M) Σ_m x_m over the chosen clients, or over all, in the round ``number``."""
        clients = self.clients
        at = clients.device.put(np.ascontiguousarray(x, dtype=np.float64), clients.number)
        changes = clients.device.get(self.start(at, step, number, chosen))[: clients.width]
        return x + changes.reshape(x.shape) / (clients.clients if chosen is None else len(chosen))

    def start(
        self, x: object, step: float, number: int, chosen: NDArray[np.int64] | None = None
    ) -> DeviceArray:
        """Start a round from an x on the device; returns the array that will hold Σ_m (x_m - x)."""
        clients, batch, real = self.clients, self.passes.batch, self.clients.number.type
        visits = self.visits(number)
        order, count = self.in_turn(chosen)
        launch, models, sums = clients.room_for(count)
        groups = launch.blocks * clients.layout.groups
        coefs = clients.kept_room("coefs", groups * batch, clients.number) if batch > 1 else None
        clients.kernels.run(
            "local_passes", launch, *clients.samples, visits, self.bounds, self.averages, order, np.int64(count), x,
            np.int32(clients.features), np.int32(batch), np.uint32(0), real(step), real(clients.ridge), models, coefs, sums,
        )  # fmt: skip
        return clients.add_blocks(sums, launch.blocks)
