"""What rounds and problems ask of a device, and how a kernel is laid out on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Launch(NamedTuple):
    """The blocks of a kernel, the threads of each, and the bytes of their shared memory."""

    blocks: int
    threads: int
    memory: int = 0


class Kernels(Protocol):
    """Compiled kernels."""

    def run(self, name: str, launch: Launch, *arguments: Any) -> None:
        """Start a kernel. An argument is an array of the device, a numpy number, or None for no array."""
        ...


class Device(Protocol):
    """Where the clients' data lies and the kernels run."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """How many threads may share a client, in rising order."""
        ...

    @property
    def ahead(self) -> int:
        """How many visits before its turn a row is read, at most."""
        ...

    @property
    def processors(self) -> int: ...

    @property
    def block_memory(self) -> int:
        """The most bytes of shared memory that a block can have."""
        ...

    @property
    def processor_memory(self) -> int:
        """The bytes of shared memory that the blocks of a processor have together."""
        ...

    def put(self, array: Any, dtype: Any) -> Any:
        """An array on the device, of this type or (None) of its own; one that is there with it already is not copied."""
        ...

    def room(self, size: int, dtype: Any) -> Any:
        """An array on the device, whose contents do not matter."""
        ...

    def get(self, array: Any) -> NDArray[Any]:
        """The array in the memory of the processor."""
        ...

    def solve(
        self, matrix: NDArray[np.float64], vector: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """matrix⁻¹·vector, computed on the device from arrays of the processor; not finite where there is no inverse."""
        ...

    def compile(self, settings: Mapping[str, str], unit: str = "round") -> Kernels:
        """The kernels of a unit with these settings (see round_entries.cuh and problem_entries.cuh)."""
        ...


RESERVED = 1024
"""Bytes of shared memory that CUDA keeps for itself in every block."""
THREADS = {4: 896, 8: 512}
"""Threads of a processor whose registers fit, by the bytes of a number: of 65,536 registers each thread takes up to 72
where models are float32, and up to 126 where they are float64."""
LARGEST_BLOCK = 448
"""Threads of a block, at most: half of those that fit where models are float32, so that one block works while another
collects its models."""
HELD = 8
"""Entries of a row that a thread keeps in registers, at most."""
FEW = {4: 2, 8: 4}
"""Entries of a row for each thread, by the bytes of a number, at which a round was fastest on an H200: fewer threads for
each client take fewer instructions in all, and more of them wait less for each other."""


class Geometry(NamedTuple):
    """How clients are laid out: threads of each, clients of each block."""

    lanes: int
    held: int
    ahead: int
    whole: bool
    """Whether the entries that are held are all that a row has."""
    shared: bool
    """Whether the models lie in shared memory."""
    groups: int
    memory: int
    resident: int
    """Blocks that a processor works on at a time."""

    @property
    def threads(self) -> int:
        return self.lanes * self.groups


def stride_of(width: int, number: np.dtype[Any]) -> int:
    """The numbers of a model in memory: packs of 16 bytes, as collect in passes.cuh reads them."""
    pack = 16 // number.itemsize
    return -(-width // pack) * pack


def geometry(device: Device, longest: int, width: int, number: np.dtype[Any]) -> Geometry:
    """The layout for rows of at most so many entries, and models of so many numbers in memory.

    As few threads share a client as leave each with ``FEW`` entries, and of the numbers of clients in a block
    the one that lets a processor work on the most clients at a time is chosen.
    """
    enough = [k for k in device.lanes if -(-longest // k) <= FEW[number.itemsize]]
    lanes = enough[0] if enough else device.lanes[-1]
    held = max(1, min(HELD, -(-longest // lanes)))
    ahead = min(device.ahead, lanes, 4 if held <= 4 else 2)  # a row ahead takes registers too
    warp = max(device.lanes)
    per_warp = warp // lanes
    best: tuple[int, int, int, int] | None = None
    for groups in range(per_warp, LARGEST_BLOCK // lanes + 1, per_warp):
        memory = (groups * (width + 1) + width) * number.itemsize
        if memory > device.block_memory:
            break
        most = THREADS[number.itemsize] // (groups * lanes)
        resident = min(device.processor_memory // (memory + RESERVED), most)
        if resident and (best is None or resident * groups > best[0]):
            best = resident * groups, groups, memory, resident
    whole = held * lanes >= longest
    if best is None:
        groups = 2 * per_warp
        memory, resident = groups * number.itemsize, THREADS[number.itemsize] // (groups * lanes)
        return Geometry(lanes, held, ahead, whole, False, groups, memory, resident)
    return Geometry(lanes, held, ahead, whole, True, *best[1:])
