"""A device that is the processor: the kernels compiled by g++, with a warp of one lane and blocks of one thread."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.engines import Cuda
from reshuffle.gpu import Device, Launch, kernel_source

COMPILER = shutil.which("g++")


class HostKernels:
    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def run(self, name: str, launch: Launch, *arguments: Any) -> None:
        memory = np.empty(launch.memory // 8 + 1)
        function = getattr(self.library, name)
        function.restype = None
        function(ctypes.c_int64(launch.blocks), *map(_as_c, (memory, *arguments)))


def _as_c(argument: Any) -> Any:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    kind: Any = np.ctypeslib.as_ctypes_type(argument.dtype)
    return kind(argument.item())


class HostChannel:
    """Copies are made when they are waited for, so that whoever does not wait reads something else."""

    def __init__(self) -> None:
        self.begun: list[tuple[Any, Any]] = []

    def copy(self, array: Any, into: Any) -> None:
        assert array.shape == into.shape
        assert array.dtype == into.dtype
        self.begun.append((array, into))

    def wait(self) -> None:
        for array, into in self.begun:
            into[...] = array
        self.begun.clear()


class HostDevice:
    """``block_memory`` can be made small, so that models do not fit, and ``memory``, so that rows do not.

    What is compiled once is kept in ``build/host-kernels`` for the next tests that want it.
    """

    lanes = (1,)
    ahead = 1
    processors = 3

    def __init__(self, block_memory: int = 1 << 16, memory: int = 1 << 40) -> None:
        self.block_memory, self.memory = block_memory, memory
        self.processor_memory = 4 * block_memory
        self.launched: list[str] = []

    def put(self, array: Any, dtype: Any) -> NDArray[Any]:
        return np.ascontiguousarray(array, dtype=dtype)

    def room(self, size: int, dtype: Any) -> NDArray[Any]:
        return np.full(max(size, 1), 77, dtype=dtype)  # numbers that nobody should read

    def pinned(self, size: int, dtype: Any) -> NDArray[Any]:
        return self.room(size, dtype)

    def channel(self) -> HostChannel:
        return HostChannel()

    def finish(self) -> None:
        """Kernels end before they return."""

    def get(self, array: Any) -> NDArray[Any]:
        return np.array(array)

    def order(self, array: Any) -> NDArray[Any]:
        return np.argsort(array, kind="stable")

    def solve(self, matrix: NDArray[Any], vector: NDArray[Any]) -> NDArray[Any]:
        try:
            return np.linalg.solve(matrix, vector)
        except np.linalg.LinAlgError:
            return np.full_like(vector, np.nan)

    def compile(self, settings: Mapping[str, str], unit: str = "round") -> HostKernels:
        given = [f"-DTHE_{name}={value}" for name, value in settings.items()]
        return HostKernels(_library(kernel_source(unit), (*COMMAND, *given, "-I", str(CORE))))


def _library(source: str, command: tuple[str, ...]) -> Path:
    """The shared library of a source; its name tells everything that it was made of."""
    key = hashlib.sha256(repr((command, source, _surroundings())).encode()).hexdigest()[:32]
    library = KERNELS / f"{key}.so"
    if not library.exists():
        KERNELS.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=KERNELS) as place:  # workers may compile the same
            text, made = Path(place) / "unit.cpp", Path(place) / "unit.so"
            text.write_text(source)
            known = ("-include", str(_library_headers()))
            subprocess.run([*command, *known, str(text), "-o", str(made)], check=True)
            made.replace(library)
    return library


@cache
def _library_headers() -> Path:
    """A header that includes those of the C++ library, precompiled: half of a compilation would be spent on them."""
    key = hashlib.sha256(repr((COMMAND, HEADERS, _version())).encode()).hexdigest()[:32]
    folder = KERNELS / key
    if not folder.exists():
        with TemporaryDirectory(dir=KERNELS) as place:
            header = Path(place) / "made" / "library.hpp"
            header.parent.mkdir()
            header.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
            precompiled = ("-x", "c++-header", str(header), "-o", f"{header}.gch")
            subprocess.run([w for w in (*COMMAND, *precompiled) if w != "-shared"], check=True)
            with suppress(OSError):  # another worker was faster
                header.parent.rename(folder)
    return folder / "library.hpp"


@cache
def _version() -> str:
    told = subprocess.run([*COMMAND[:1], "-v"], capture_output=True, text=True, check=True)
    return told.stderr


@cache
def _surroundings() -> tuple[str, ...]:
    """What a library depends on besides its source: the compiler and the headers of the core."""
    return (_version(), *(path.read_text() for path in sorted(CORE.glob("*.hpp"))))


COMMAND = (str(COMPILER), "-std=c++20", "-O1", "-shared", "-fPIC", "-w")
HEADERS = ("algorithm", "bit", "cmath", "concepts", "cstdint", "limits", "type_traits", "vector")
CORE = Path(__file__).parents[1] / "src" / "reshuffle" / "core"
KERNELS = Path(__file__).parents[1] / "build" / "host-kernels"


@dataclass(frozen=True)
class OnHost(Cuda):
    """The engine "cuda" on the processor."""

    where: Any = None

    def device(self) -> Device:
        made: Device = self.where
        return made
