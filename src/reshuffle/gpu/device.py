"""The interface of a device for rounds and problems, and the layout of a kernel on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeGuard

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.gpu.arrays import DeviceArray


class Launch(NamedTuple):
    """The blocks of a kernel, the threads of each, and the bytes of their shared memory."""

    blocks: int
    threads: int
    memory: int = 0


class Kernels(Protocol):
    """Compiled kernels."""

    def run(self, name: str, launch: Launch, *arguments: object) -> None:
        """Start a kernel. An argument is an array of the device, a numpy number, or None for no array."""
        ...


class Channel(Protocol):
    """Copies from the processor's memory to a device that run while kernels work."""

    def copy(self, array: AnyArray, into: DeviceArray) -> None:
        """Begin to copy an array into one of the device, of the same shape and type; neither may change until ``wait`` returns."""
        ...

    def wait(self) -> None:
        """Return when all copies have ended."""
        ...


class Device(Protocol):
    """The device that holds the clients' data and runs the kernels."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """The numbers of threads that may share a client, in rising order."""
        ...

    @property
    def ahead(self) -> int:
        """The largest number of visits by which a row is read ahead of its turn."""
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

    @property
    def memory(self) -> int:
        """The bytes that the rows of a folder of shards and the tables of a run may take on the device."""
        ...

    def pinned(self, size: int, dtype: object) -> AnyArray:
        """A new array in pinned memory of the processor, which the device can read directly; its contents are arbitrary."""
        ...

    def channel(self) -> Channel:
        """A new channel."""
        ...

    def finish(self) -> None:
        """Return when all kernels that were started have ended."""
        ...

    def put(self, array: object, dtype: object) -> DeviceArray:
        """The array on the device, of type ``dtype`` or (None) of its own type; not copied if it is already there with this type."""
        ...

    def room(self, size: int, dtype: object) -> DeviceArray:
        """A new array on the device, whose contents are arbitrary."""
        ...

    def get(self, array: object) -> AnyArray:
        """The array in the memory of the processor."""
        ...

    def order(self, array: DeviceArray) -> DeviceArray:
        """The indices that sort an array of the device, by a stable sort."""
        ...

    def solve(self, matrix: Array, vector: Array) -> Array:
        """matrix⁻¹·vector, computed on the device from arrays of the processor; not finite if there is no inverse."""
        ...

    def compile(self, settings: Mapping[str, str], unit: str = "round") -> Kernels:
        """The kernels of a unit with these settings (see round_entries.cuh and problem_entries.cuh)."""
        ...


RESERVED = 1024
"""Bytes of shared memory that CUDA keeps for itself in every block."""
THREADS = {4: 896, 8: 512}
"""The most threads on a processor, by the bytes of a number, so that their registers fit: each thread takes up to 72 of the
65,536 registers if models are float32, and up to 126 if they are float64."""
LARGEST_BLOCK = 448
"""The most threads of a block: half of those that fit if models are float32, so that one block works while another
collects its models."""
HELD = 8
"""The most entries of a row that a thread keeps in registers."""
FEW = {4: 2, 8: 4}
"""Entries of a row for each thread, by the bytes of a number, at which a round was fastest on an H200: fewer threads for
each client take fewer instructions in all, and more of them wait less for each other."""


class Geometry(NamedTuple):
    """How clients are laid out: the threads of each client, and the clients of each block."""

    lanes: int
    held: int
    ahead: int
    whole: bool
    """Whether the registers hold all entries of a row."""
    shared: bool
    """Whether the models lie in shared memory."""
    groups: int
    memory: int
    resident: int
    """The number of blocks that a processor works on at a time."""

    @property
    def threads(self) -> int:
        return self.lanes * self.groups


def stride_of(width: int, number: np.dtype[np.generic]) -> int:
    """The numbers of a model in memory: packs of 16 bytes, as collect in passes.cuh reads them."""
    pack = 16 // number.itemsize
    return -(-width // pack) * pack


def geometry(device: Device, longest: int, width: int, number: np.dtype[np.generic]) -> Geometry:
    """The layout for rows of at most ``longest`` entries and models of ``width`` numbers in memory.

    The fewest threads share a client that leave each with at most ``FEW`` entries. A block has the number of clients
    with which a processor works on the most clients at a time.
    """
    enough = [k for k in device.lanes if -(-longest // k) <= FEW[number.itemsize]]
    lanes = enough[0] if enough else device.lanes[-1]
    held = max(1, min(HELD, -(-longest // lanes)))
    # A row that is read ahead takes registers too.
    ahead = min(device.ahead, lanes, 4 if held <= 4 else 2)
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


def zeros(device: Device, *shape: int) -> DeviceArray:
    """float64 zeros on the device."""
    return device.put(np.zeros(shape), np.float64)


def is_device(given: object) -> TypeGuard[Device]:
    """Whether an object has the methods of a device."""
    return hasattr(given, "put") and hasattr(given, "room")
