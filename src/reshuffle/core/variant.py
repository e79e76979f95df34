"""Chooses the build of the core for this processor.

All variants have the same source; the bits of results depend on the variant, but on nothing else of the machine.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

VARIANTS = {
    "v3": "x86-64-v3: AVX2, FMA and what came with them",
    "base": "what every processor of the architecture can run",
}
"""The variants, the fastest first."""

SANITIZED = "san"
"""The build for tests that stops at the first invalid read, write or undefined operation; only by name."""

REBUILD = "build it with `pip install -e .` from a clone, or install reshuffle again"


def built(name: str) -> bool:
    """Whether the module of this variant lies in the package."""
    return find_spec(f"reshuffle.core._{name}") is not None


def runnable(name: str) -> bool:
    """Whether this processor can run the variant."""
    return name != "v3" or bool(import_module("reshuffle.core._probe").can_run_v3())


def chosen(wanted: str | None) -> str:
    """The variant ``wanted``, or by default the fastest that was built and that the processor can run."""
    if wanted is not None and wanted not in (*VARIANTS, SANITIZED):
        names = ", ".join([*VARIANTS, SANITIZED])
        raise ImportError(f"RESHUFFLE_CORE={wanted!r} is no variant of the core; there are {names}")
    if not built("probe"):
        raise ImportError(f"reshuffle's compiled core is not there: {REBUILD}")
    for name in VARIANTS if wanted is None else (wanted,):
        if built(name) and runnable(name):
            return name
    if wanted is None:
        raise ImportError(f"no compiled core for this processor is there: {REBUILD}")
    if built(wanted):
        raise ImportError(
            f"RESHUFFLE_CORE={wanted}: this processor cannot run it ({VARIANTS[wanted]})"
        )
    raise ImportError(f"RESHUFFLE_CORE={wanted}: this variant was not built here")


def load() -> ModuleType:
    """The compiled core. ``RESHUFFLE_CORE`` names a variant, to compare them."""
    return import_module(f"reshuffle.core._{chosen(os.environ.get('RESHUFFLE_CORE') or None)}")
