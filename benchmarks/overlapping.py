"""A warm prox of 10,000 overlapping groups, in milliseconds of the processor, on one thread.

    python -m benchmarks.overlapping

x is normal with deviation 3, the groups have ten members (patches nine). The prox begins with what that of a nearby point ended with, 1 % or 0.1 % of ‖x‖ away, and
ends where its own bound proves it: at a gap of 1e-6 of the objective at zero, ‖x‖²/2, or at an error of 1e-6 of ‖x‖, which
is a gap a million times smaller. Hard is what lies at the edge: strengths at which about all groups are small and some begin to
vanish (‖p‖ a tenth of ‖x‖ or less), and groups that overlap by nine of ten.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.timing import spent
from reshuffle import penalties as P
from reshuffle.penalties.inexact import COLD

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
MOVES = (1e-2, 1e-3)
REPEATS = 2


def windows(stride: int) -> list[list[int]]:
    return [list(range(stride * k, stride * k + 10)) for k in range(10_000)]


def patches() -> list[list[int]]:
    pixel = np.arange(102 * 102).reshape(102, 102)
    return [pixel[r : r + 3, c : c + 3].ravel().tolist() for r in range(100) for c in range(100)]


def at_random() -> list[list[int]]:
    return [RNG.choice(20_000, 10, replace=False).tolist() for _ in range(10_000)]


STRUCTURES: dict[str, tuple[list[list[int]], tuple[float, ...]]] = {
    "windows, every 7": (windows(7), (0.3, 1.0, 1.5)),
    "windows, every 5": (windows(5), (0.3, 1.0, 1.5)),
    "windows, every 1": (windows(1), (0.1, 0.2, 0.33)),
    "patches of an image": (patches(), (0.3, 0.6, 1.0)),
    "at random": (at_random(), (0.3, 0.6, 1.0)),
}


def milliseconds(psi: Any, x: Array, start: Array, gap: float) -> str:
    found = []
    best = spent(lambda: found.append(psi.prox_from(x, 1.0, start, gap)))()
    if found[0].gap > gap:
        return f"not in {1e3 * best:.0f}"
    again = (spent(lambda: psi.prox_from(x, 1.0, start, gap))() for _ in range(REPEATS))
    return f"{1e3 * min(best, *again):.0f}"


def main() -> None:
    warnings.simplefilter("ignore")  # what is not reached is told in the table
    gaps = [f"gap, {m:.1%}" for m in MOVES] + [f"error, {m:.1%}" for m in MOVES]
    table = Table("form", "groups", "strength", "‖p‖/‖x‖", *gaps)
    for form, kind in (("plain", P.OverlappingGroupLasso), ("latent", P.LatentGroupLasso)):
        for name, (groups, strengths) in STRUCTURES.items():
            x = 3.0 * RNG.standard_normal(1 + max(map(max, groups)))
            whole = float(x @ x)
            for strength in strengths:
                psi: Any = kind(strength, groups)
                first = psi.prox_from(x, 1.0, COLD, 0.5e-9 * whole)
                row = []
                for gap in (0.5e-6 * whole, 0.5e-12 * whole):
                    for move in MOVES:
                        way = RNG.standard_normal(x.size)
                        moved = x + move * way * np.sqrt(whole / (way @ way))
                        row.append(milliseconds(psi, moved, first.start, gap))
                size = float(np.linalg.norm(first.point)) / np.sqrt(whole)
                table.add_row(form, name, f"{strength:g}", f"{size:.2f}", *row)
        table.add_section()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
