"""Which build of the core this processor can run.

Every variant is the same source; bits depend on the variant and on nothing else of the machine.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

VARIANTS = ("v3", "base")
"""From the fastest on: x86-64-v3 (AVX2 and FMA), and what every processor of the architecture can run."""


def load() -> ModuleType:
    """The first variant that was built and that the processor can run.

    ``RESHUFFLE_CORE`` names one, to compare them.
    """
    wanted = os.environ.get("RESHUFFLE_CORE")
    probe = import_module("reshuffle.core._probe")
    for name in [wanted] if wanted else VARIANTS:
        if name == "base" or probe.can_run_v3():
            try:
                return import_module(f"reshuffle.core._{name}")
            except ModuleNotFoundError:
                continue
    raise ImportError(
        f"no compiled core for this processor among {wanted or ', '.join(VARIANTS)}: install reshuffle again, with "
        "`pip install -e .` from a clone"
    )
