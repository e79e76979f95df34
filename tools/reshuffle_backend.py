"""What pip calls (PEP 517 and 660): scikit-build-core, and three things that it leaves to others.

- Where no C++ compiler is found, the wheel of one is required (`build_core.requirements`).
- An editable install is one line in a ``.pth`` file and modules built in the source tree, and so ``PYTHONPATH`` still
  decides which copy of the package is imported. Tests that run a changed copy rely on it; scikit-build-core's import
  hook would come first.
- A second ``pip install -e .`` compiles only what changed.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import zipfile
from pathlib import Path

from build_core import ROOT, build_in_place, compiler, requirements
from scikit_build_core import build as standard
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, list[str] | str] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """CMake and ninja where they are missing, and a compiler where that is missing."""
    return [*standard.get_requires_for_build_wheel(config_settings), *requirements()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """The same as for a wheel."""
    return [*standard.get_requires_for_build_editable(config_settings), *requirements()]


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build as scikit-build-core does, with a compiler."""
    with tempfile.TemporaryDirectory() as folder, compiler(Path(folder)):
        return standard.build_wheel(wheel_directory, config_settings, metadata_directory)


def record(name: str, content: bytes) -> str:
    """A line of RECORD: the name, the hash and the size of a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the core in place and write a wheel that holds the path of ``src``."""
    build_in_place()
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder, prepare_metadata_for_build_editable(folder, config_settings))
        contents = {
            f"{info.name}/{file.relative_to(info).as_posix()}": file.read_bytes()
            for file in sorted(info.rglob("*"))
            if file.is_file()
        }
    contents["_reshuffle.pth"] = f"{ROOT / 'src'}\n".encode()
    lines = contents[f"{info.name}/WHEEL"].decode().splitlines()
    tag = next(line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: "))
    records = "".join(record(name, content) for name, content in contents.items())
    contents[f"{info.name}/RECORD"] = f"{records}{info.name}/RECORD,,\n".encode()

    name = f"{info.name.removesuffix('.dist-info')}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        for file, content in contents.items():
            wheel.writestr(file, content)
    return name
