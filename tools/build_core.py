"""Compile the core beside the Python files: ``python tools/build_core.py``.

Only what changed is compiled again. ``--sanitize`` builds the variant that stops at the first invalid read, write or
undefined operation. ``pip install -e .`` calls the same function, and so the two find each other's work.

Where no C++20 compiler is found, the one in the wheel ``ziglang`` is used; `requirements` names it for pip.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ZIG = "ziglang>=0.13"  # the first with a clang (18) that knows all of C++20 that the core uses
COMPILERS = ("c++", "g++", "clang++")
TRIAL = "#include <concepts>\ntemplate <std::integral T> T same(T x) { return x; }\nint one = same(1);\n"


def can_compile(compiler: str) -> bool:
    """Whether this compiler is there and takes C++20 with its standard library (gcc 10, clang 11 or later)."""
    if shutil.which(compiler) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial.cpp")
        file.write_text(TRIAL)
        command = [compiler, "-std=c++20", "-c", str(file), "-o", str(file.with_suffix(".o"))]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def needs_zig() -> bool:
    """Whether the machine has no compiler of its own; on Windows CMake looks for Visual Studio by itself."""
    if os.environ.get("CXX") or sys.platform == "win32":
        return False
    return not any(map(can_compile, COMPILERS))


def requirements() -> list[str]:
    """What pip has to bring for want of a compiler."""
    return [ZIG] if needs_zig() else []


def script(file: Path, *command: str) -> str:
    """A shell script that runs ``command`` with the arguments it is given; written only when it changes."""
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    if not file.is_file() or file.read_text() != text:
        file.write_text(text)
        file.chmod(0o755)
    return str(file)


@contextmanager
def compiler(folder: Path) -> Iterator[None]:
    """The environment in which CMake finds a compiler: untouched, or with scripts for ``zig`` in ``folder``.

    ``-mcpu=baseline``: without it zig compiles for the processor at hand, and bits would depend on the machine.
    ``-fno-sanitize=undefined``: zig's checks of undefined behaviour are for its own debug builds.
    """
    if not needs_zig():
        yield
        return
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise SystemExit(
            f'No C++20 compiler was found: install g++ or clang++, or `pip install "{ZIG}"`.'
        )
    zig = str(Path(spec.origin).parent / "zig")
    folder.mkdir(parents=True, exist_ok=True)
    cxx = script(folder / "c++", zig, "c++", "-mcpu=baseline", "-fno-sanitize=undefined")
    tools = {name: script(folder / name, zig, name) for name in ("ar", "ranlib")}
    changed = {
        "CXX": cxx,
        "CMAKE_ARGS": " ".join(
            [
                os.environ.get("CMAKE_ARGS", ""),
                *(shlex.quote(f"-DCMAKE_{name.upper()}={path}") for name, path in tools.items()),
                "-DCMAKE_LINK_DEPENDS_USE_LINKER=OFF",  # zig's linker writes no list of what it read
            ]
        ),
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def nanobind(folder: Path) -> Path:
    """A copy of nanobind's sources at a place that stays.

    pip unpacks nanobind into a new temporary folder for each build, which would change every command and so compile
    everything again.
    """
    spec = find_spec("nanobind")
    if spec is None or spec.origin is None:
        raise SystemExit('nanobind was not found: `pip install -e ".[dev]"` brings what is needed.')
    copy = folder / f"nanobind-{version('nanobind')}"
    if not copy.is_dir():
        partial = folder / f"{copy.name}.{os.getpid()}"
        shutil.copytree(
            Path(spec.origin).parent, partial, ignore=shutil.ignore_patterns("__pycache__")
        )
        partial.rename(copy)
    return copy


def run(*command: str | Path) -> None:
    """Run a command that says itself what is wrong."""
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("reshuffle's compiled core was not built; the lines above say why.")


def build_in_place(*, sanitize: bool = False) -> None:
    """CMake and ninja, in a folder of ``build``, with the modules put into ``src/reshuffle/core``."""
    cmake, ninja = shutil.which("cmake"), shutil.which("ninja")
    if cmake is None:
        raise SystemExit('cmake was not found: `pip install -e ".[dev]"` brings what is needed.')
    kind = ("sanitized" if sanitize else "core") + ("-zig" if needs_zig() else "")
    abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    folder = ROOT / "build" / f"{kind}-{abi}"
    folder.mkdir(parents=True, exist_ok=True)
    configure: list[str | Path] = [cmake, "-S", ROOT, "-B", folder]
    configure += [
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dnanobind_ROOT={(nanobind(ROOT / 'build') / 'cmake').as_posix()}",
        "-DIN_PLACE=ON",
        f"-DSANITIZE={'ON' if sanitize else 'OFF'}",
    ]
    if sys.platform != "win32" and ninja is not None:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    with compiler(ROOT / "build" / "zig"):
        configure += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        again = (folder / "CMakeCache.txt").exists()
        if again and subprocess.run(configure, check=False).returncode:
            # The clone was moved, or a tool that the cache names is gone.
            shutil.rmtree(folder)
            again = False
        if not again:
            run(*configure)
        run(cmake, "--build", folder, "--config", "Release", "--parallel")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compile the core beside the Python files.")
    parser.add_argument(
        "--sanitize", action="store_true", help="the variant for RESHUFFLE_CORE=san"
    )
    build_in_place(sanitize=parser.parse_args().sanitize)
