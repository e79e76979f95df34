"""Run a command on the sanitised core: ``python tools/sanitized.py pytest tests/penalties/test_penalties.py``.

The core is built with AddressSanitizer and UndefinedBehaviorSanitizer (g++), and the first invalid read or write,
overflow of a signed integer, misaligned or null access ends the process with a report.
"""

from __future__ import annotations

import os
import subprocess
import sys

from build_core import build_in_place

CHECKS = {
    "RESHUFFLE_CORE": "san",
    "ASAN_OPTIONS": "detect_leaks=0",  # Python itself frees little at its end
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # Python's own pools would hide overruns of its objects
}


def preloaded() -> str:
    """The run-time libraries, which have to be loaded before Python is."""
    compiler = os.environ.get("CXX", "g++")
    names = (
        "libasan.so",
        "libstdc++.so",
    )  # the second: ASan looks for the real `throw` when it starts
    return " ".join(
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
        for name in names
    )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        raise SystemExit(__doc__)
    build_in_place(sanitize=True)
    os.execvpe(sys.argv[1], sys.argv[1:], os.environ | CHECKS | {"LD_PRELOAD": preloaded()})
