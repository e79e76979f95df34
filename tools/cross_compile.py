"""Does the core compile for another processor? ``python tools/cross_compile.py [aarch64-linux-gnu]``, with the wheel ``ziglang``.

Only to object files: Python's headers are those of this machine, which have the same word size.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

from build_core import ROOT

FLAGS = ["-std=c++20", "-O3", "-fPIC", "-fopenmp-simd", "-Wall", "-Wextra"]


def compile_for(target: str) -> None:
    """Compile every file of the core, and say which."""
    spec = find_spec("nanobind")
    if spec is None or spec.origin is None:
        raise SystemExit('nanobind was not found: `pip install -e ".[dev]"` brings what is needed.')
    include = [f"-I{sysconfig.get_path('include')}", f"-I{Path(spec.origin).parent / 'include'}"]
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted((ROOT / "src/reshuffle/core").glob("*.cpp")):
            output = str(Path(folder, f"{file.stem}.o"))
            command = [sys.executable, "-m", "ziglang", "c++", "-target", target, *FLAGS, *include]
            names = ["-DRESHUFFLE_CORE=_base", "-DNB_DOMAIN=reshuffle"]
            subprocess.run([*command, *names, "-c", str(file), "-o", output], check=True)
            print(f"{file.name} compiles for {target}")


if __name__ == "__main__":
    compile_for(sys.argv[1] if len(sys.argv) > 1 else "aarch64-linux-gnu")
