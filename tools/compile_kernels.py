"""Do the kernels compile for a graphics card? ``python tools/compile_kernels.py [--for sm_90 sm_80] [--only problem] [--registers]``.

It needs no card: NVRTC, the compiler that CuPy uses, comes with ``pip install nvidia-cuda-nvrtc``. Its place is found by itself, or is
given as ``--nvrtc libnvrtc.so.13``. Every layout is compiled that the package asks for on a card with the memory of an H200, with every
type of rows; losses, types of targets and so on take turns. For "compute_90" the compiler stops before registers are
given out, which is several times faster.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle.gpu.clients import settings_of_clients
from reshuffle.gpu.cuda import options_of
from reshuffle.gpu.output_placing import settings_of_outputs
from reshuffle.gpu.placing import kernels_of
from reshuffle.gpu.row_kind import RowKind
from reshuffle.gpu.source import kernel_source
from reshuffle.losses.squared import SquaredOutputs

Case = tuple[str, dict[str, str]]
"""A unit of kernels and its settings."""
LOSSES = (
    rs.losses.Logistic(),
    rs.losses.Squared(),
    rs.losses.Huber(0.7),
    rs.losses.SquaredHinge(),
    rs.losses.Quantile(0.3, 0.5),
    rs.losses.Poisson(),
)
U16, U32, U64 = (np.dtype(kind) for kind in (np.uint16, np.uint32, np.uint64))
ONES, F32, F64 = (np.dtype(kind) for kind in (np.bool_, np.float32, np.float64))
SPARSE: tuple[
    tuple[int, float, int, bool], ...
] = (  # columns, mean and largest length of rows, whether they begin at 16 bytes
    (1000, 20.0, 20, True),  # held
    (99, 7.0, 24, True),
    (200, 20.0, 200, True),  # staged
    (1000, 20.0, 300, False),  # read where they lie
    (4000, 100.0, 300, True),  # shared by the threads of a warp
    (100_000, 20.0, 300, True),  # columns apart
    (100_000, 100.0, 300, True),
)
DENSE = ((10, True), (10, False), (256, True), (99, False), (4000, True), (20_000, True))
LONGEST = (5, 20, 40, 100, 600)
"""Entries of rows of clients: 8, 16 and 32 threads for each, with all of a row in registers and without."""
WIDTHS = (1000, 100_000)
"""Models that fit into the memory of a block, and others."""


class Card:
    """What layouts ask of an H200; compiling is writing down."""

    lanes = (8, 16, 32)
    ahead = 4
    processors = 132
    block_memory = 227 * 1024
    processor_memory = 228 * 1024

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def compile(self, settings: Mapping[str, str], unit: str = "round") -> None:
        self.cases.append((unit, dict(settings)))


def problems() -> Iterator[Case]:
    """Passes over the rows of one problem."""
    card: Any = Card()
    losses, starts, targets = cycle(LOSSES), cycle((U32, U64, U64)), cycle((F32, F64))
    biases, scaled = cycle((False, True, True)), cycle((False, False, True))

    def ask(kind: RowKind, mean: float, longest: int, aligned: bool, loss: Any) -> None:
        scales = next(scaled) and kind.features <= 1000
        kernels_of(card, kind, next(targets), loss, next(biases), mean, longest, aligned, scales)

    for shape, value, column in product(SPARSE, (ONES, F32, F64), (U16, U32)):
        features, mean, longest, aligned = shape
        if features <= 2**16 or column == U32:
            kind = RowKind(value, column, next(starts), features)
            ask(kind, mean, longest, aligned, next(losses))
    for (features, aligned), value in product(DENSE, (F32, F64)):
        kind = RowKind(value, None, U64, features)
        ask(kind, float(features), features, aligned, next(losses))
    for loss in LOSSES:
        ask(RowKind(F32, U16, U32, 1000), 20.0, 20, True, loss)
        ask(RowKind(F32, None, U64, 256), 256.0, 256, True, loss)
        ask(RowKind(F32, U32, U32, 100_000), 20.0, 300, True, loss)
    yield from card.cases


def clients() -> Iterator[Case]:
    """Local passes of clients, with control variates too."""
    losses, starts, widths = cycle(LOSSES), cycle((U32, U64, U32)), cycle(WIDTHS)
    each = product(("round", "exact"), (F32, F64), (False, True), (ONES, F32, F64), LONGEST)
    for k, (unit, number, dense, values, longest) in enumerate(each):
        if dense and values == ONES:
            continue
        column, bias = None if dense else U32, bool(k & 1)
        kind = RowKind(values, column, next(starts), next(widths) - bias)
        _, settings = settings_of_clients(
            Card(), kind, longest=longest, number=number, bias=bias,  # type: ignore[arg-type]
            ridge=unit == "round" and bool(k & 2), weighted=bool(k & 4), loss=next(losses),
        )  # fmt: skip
        yield unit, settings


def outputs() -> Iterator[Case]:
    """Losses of several outputs."""
    starts, biases = cycle((U32, U64, U64)), cycle((False, True, True))
    for loss in (rs.losses.Multinomial(), SquaredOutputs()):
        for value, column in product((ONES, F32, F64), (U16, U32, None)):
            if not (value == ONES and column is None):
                start = None if column is None else next(starts)
                kind = RowKind(value, column, start, 1000)
                yield "outputs", settings_of_outputs(kind, loss, next(biases))


def cases() -> list[Case]:
    """Every unit with every setting, once."""
    found = {repr(case): case for case in (*problems(), *clients(), *outputs())}
    return list(found.values())


def library(given: Path | None) -> ctypes.CDLL:
    """NVRTC: the given file, or that of its package."""
    if given is None:
        spec = find_spec("nvidia")
        folders = [] if spec is None else [Path(f) for f in spec.submodule_search_locations or ()]
        files = [file for f in folders for file in sorted(f.glob("*/lib/libnvrtc.so.*[0-9]"))]
        if not files:
            raise SystemExit(
                "NVRTC was not found: `pip install nvidia-cuda-nvrtc`, or give --nvrtc"
            )
        given = files[-1]
    return ctypes.CDLL(str(given))


def compiled(nvrtc: ctypes.CDLL, case: Case, target: str) -> tuple[bool, str]:
    """Whether a case compiles, and what the compiler says."""
    unit, settings = case
    options = [f"--gpu-architecture={target}", *options_of(settings)]
    if target.startswith("sm_"):
        options.append("--ptxas-options=-v")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), kernel_source(unit).encode(), f"{unit}.cu".encode(), 0, None, None
    )
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return not failed, log.value.decode()


def registers(log: str) -> Iterator[str]:
    """The registers of each kernel, and the bytes that did not fit into them."""
    pattern = r"entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers"
    for name, spilled, used in re.findall(pattern, log, re.DOTALL):
        yield f"    {name}: {used} registers, {spilled} bytes spilled"


def main() -> None:
    """Compile every case for every target, and say which do not compile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", nargs="+", default=["sm_90", "sm_80"], dest="targets")
    parser.add_argument("--only", nargs="+", help="round, exact, problem or outputs")
    parser.add_argument("--nvrtc", type=Path)
    parser.add_argument("--registers", action="store_true")
    given = parser.parse_args()
    nvrtc, failed, clock = library(given.nvrtc), 0, time.perf_counter()
    wanted = [case for case in cases() if not given.only or case[0] in given.only]
    for case, target in product(wanted, given.targets):
        unit, settings = case
        good, log = compiled(nvrtc, case, target)
        if not good:
            failed += 1
            print(f"{unit} {settings} does not compile for {target}:\n{log}", flush=True)
        elif given.registers:
            print(unit, settings, target, *registers(log), sep="\n", flush=True)
    count = len(wanted) * len(given.targets)
    print(f"{count - failed} of {count} compile, {time.perf_counter() - clock:.0f} s")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
