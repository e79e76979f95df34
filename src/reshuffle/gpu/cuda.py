"""The graphics card, through CuPy: kernels are compiled by NVRTC, and kept in CuPy's cache."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError, extra
from reshuffle.gpu.device import Launch
from reshuffle.gpu.source import kernel_source

OLDEST = 80
"""The kernels need compute capability 8.0: older cards have no instruction for the largest number in a warp."""
STATIC = 48 * 1024
"""Bytes of shared memory that a kernel has without asking for more."""

DLPACK_CUDA = 2
"""The number of CUDA devices in DLPack."""


def load_cupy(purpose: str) -> Any:
    """CuPy, if it is installed and sees a card; otherwise an error says which of the two is missing."""
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
    return cupy


class CudaModule:
    """The kernels of one compilation."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._kernels: dict[tuple[str, int], Any] = {}

    def run(self, name: str, launch: Launch, *arguments: object) -> None:
        kernel = self._kernels.get((name, launch.memory))
        if kernel is None:
            kernel = self._kernels[name, launch.memory] = self.module.get_function(name)
            if launch.memory > STATIC:
                kernel.max_dynamic_shared_size_bytes = launch.memory
        given = tuple(np.uint64(0) if a is None else a for a in arguments)
        kernel((launch.blocks,), (launch.threads,), given, shared_mem=launch.memory)


class CudaDevice:
    """The current device of CuPy."""

    lanes = (8, 16, 32)
    ahead = 4

    def __init__(self, purpose: str = "the device") -> None:
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

    def put(self, array: Any, dtype: object) -> Any:
        if not hasattr(array, "__cuda_array_interface__") and hasattr(array, "__dlpack_device__"):
            kind, _ = array.__dlpack_device__()
            array = self.cupy.from_dlpack(array) if int(kind) == DLPACK_CUDA else array
        return self.cupy.ascontiguousarray(self.cupy.asarray(array, dtype=dtype))

    def room(self, size: int, dtype: object) -> Any:
        return self.cupy.empty(max(size, 1), dtype=dtype)

    def get(self, array: object) -> AnyArray:
        found: AnyArray = self.cupy.asnumpy(array)
        return found

    def order(self, array: Any) -> Any:
        return self.cupy.argsort(array)  # CuPy has no other sort than a stable one

    def solve(self, matrix: Array, vector: Array) -> Array:
        return self.get(self.cupy.linalg.solve(*map(self.cupy.asarray, (matrix, vector))))

    def compile(self, settings: Mapping[str, str], unit: str = "round") -> CudaModule:
        given = tuple(f"-DTHE_{name}={value}" for name, value in settings.items())
        options = (
            "-std=c++20", "-default-device",  # for lambdas with parameters of any type
            "--prec-div=false", "--ftz=true",  # of float32 alone
            *given,
        )  # fmt: skip
        module = self.cupy.RawModule(code=kernel_source(unit), options=options, backend="nvrtc")
        return CudaModule(module)
