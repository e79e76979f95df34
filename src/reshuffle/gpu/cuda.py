"""The graphics card, used through CuPy: NVRTC compiles the kernels, and CuPy's cache keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError, extra
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.device import Launch
from reshuffle.gpu.source import kernel_source
from reshuffle.validation import check_positive

OLDEST = 80
"""The lowest compute capability, times ten: cards before 8.0 have no instruction for the largest number in a warp."""
STATIC = 48 * 1024
"""Bytes of shared memory that a kernel may use without asking for more."""

SHARE = 0.8
"""The share of the free memory that rows and tables may take: the rest is for blocks of Hessians, sums of kernels, and other programs."""
DLPACK_CUDA = 2
"""The number of CUDA devices in DLPack."""


def load_cupy(purpose: str) -> ModuleType:
    """CuPy, if it is installed and finds a card; otherwise an error says which of the two is missing."""
    with extra("gpu", "cupy", purpose):
        import cupy
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InputError(
            f"{purpose} needs an NVIDIA graphics card; CUDA found none ({error})"
        ) from None
    if count == 0:
        raise InputError(f"{purpose} needs an NVIDIA graphics card; CUDA found none")
    found: ModuleType = cupy
    return found


def options_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """What NVRTC is told to compile the kernels with these settings."""
    return (
        "-std=c++20", "-default-device",  # for lambdas with parameters of any type
        "--prec-div=false", "--ftz=true",  # these two options affect float32 alone
        *(f"-DTHE_{name}={value}" for name, value in settings.items()),
    )  # fmt: skip


class CudaModule:
    """The kernels of one compilation. CuPy has one module for all compilations with the same settings, and so a limit that one of
    them sets is that of all: each may have ``most`` bytes of shared memory."""

    def __init__(self, module: Any, most: int) -> None:
        self.module, self.most = module, most
        self._kernels: dict[str, Any] = {}
        self._large: set[str] = set()

    def run(self, name: str, launch: Launch, *arguments: object) -> None:
        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels[name] = self.module.get_function(name)
        if launch.memory > STATIC and name not in self._large:
            kernel.max_dynamic_shared_size_bytes = self.most
            self._large.add(name)
        given = tuple(np.uint64(0) if a is None else a for a in arguments)
        kernel((launch.blocks,), (launch.threads,), given, shared_mem=launch.memory)


class CudaChannel:
    """A stream of copies that waits for no other stream."""

    def __init__(self, cupy: ModuleType, card: int) -> None:
        self._card = cupy.cuda.Device(card)
        with self._card:
            self._stream = cupy.cuda.Stream(non_blocking=True)

    def copy(self, array: AnyArray, into: Any) -> None:
        if array.size:
            with self._card:  # each thread has a current device of its own
                into.set(array, stream=self._stream)

    def wait(self) -> None:
        self._stream.synchronize()


class CudaDevice:
    """The current device of CuPy.

    ``memory`` is the number of bytes that rows of shards, and tables with a number for each row, may take on the card; by default four
    fifths of its free memory.
    """

    lanes = (8, 16, 32)
    ahead = 4

    def __init__(self, purpose: str = "the device", memory: int | None = None) -> None:
        if memory is not None:
            check_positive("memory", memory, integer=True)
        self._given = memory
        self.cupy = load_cupy(purpose)
        self._card = self.cupy.cuda.Device()
        capability = int(self._card.compute_capability)
        if capability < OLDEST:
            raise InputError(
                f"{purpose} needs a graphics card of compute capability 8.0 or newer; this one has "
                f"{capability // 10}.{capability % 10}"
            )

    @cached_property
    def _attributes(self) -> Mapping[str, int]:
        found: Mapping[str, int] = self._card.attributes
        return found

    @property
    def processors(self) -> int:
        return self._attributes["MultiProcessorCount"]

    @property
    def block_memory(self) -> int:
        return self._attributes["MaxSharedMemoryPerBlockOptin"]

    @property
    def processor_memory(self) -> int:
        return self._attributes["MaxSharedMemoryPerMultiprocessor"]

    @property
    def memory(self) -> int:
        if self._given is not None:
            return self._given
        with self._card:
            free = self._card.mem_info[0] + self.cupy.get_default_memory_pool().free_bytes()
        return int(SHARE * free)

    def pinned(self, size: int, dtype: object) -> AnyArray:
        import cupyx

        with self._card:
            found: AnyArray = cupyx.empty_pinned(max(size, 1), dtype)
        return found

    def channel(self) -> CudaChannel:
        return CudaChannel(self.cupy, self._card.id)

    def finish(self) -> None:
        with self._card:
            self.cupy.cuda.get_current_stream().synchronize()

    def put(self, array: object, dtype: object) -> DeviceArray:
        if not hasattr(array, "__cuda_array_interface__") and hasattr(array, "__dlpack_device__"):
            kind, _ = array.__dlpack_device__()
            array = self.cupy.from_dlpack(array) if int(kind) == DLPACK_CUDA else array
        found: DeviceArray = self.cupy.ascontiguousarray(self.cupy.asarray(array, dtype=dtype))
        return found

    def room(self, size: int, dtype: object) -> DeviceArray:
        with self._card:
            found: DeviceArray = self.cupy.empty(max(size, 1), dtype=dtype)
        return found

    def get(self, array: object) -> AnyArray:
        found: AnyArray = self.cupy.asnumpy(array)
        return found

    def order(self, array: DeviceArray) -> DeviceArray:
        found: DeviceArray = self.cupy.argsort(array)  # CuPy's sort is always stable
        return found

    def solve(self, matrix: Array, vector: Array) -> Array:
        return self.get(self.cupy.linalg.solve(*map(self.cupy.asarray, (matrix, vector))))

    def compile(self, settings: Mapping[str, str], unit: str = "round") -> CudaModule:
        options = options_of(settings)
        module = self.cupy.RawModule(code=kernel_source(unit), options=options, backend="nvrtc")
        return CudaModule(module, self.block_memory)
