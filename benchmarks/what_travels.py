"""The figure of docs/federated.md: what travels between the driver and a site, with the bytes of a real run.

python -m benchmarks.what_travels docs/images/what-travels.png
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import reshuffle as rs
from reshuffle.plotting import COLOURS

ROWS = (
    ("hello", "who are you?", "N_m, features, names, classes,\nfingerprint, version, mean weight"),
    ("load", "what was agreed, the local work", "L_max, L̄, L_f, loads of the work"),
    ("train", "x, γ, h_m", "x̂_m;  f_m(x), ∇f_m(x) where asked for"),
    ("value", "x, at the end", "f_m(x), ∇f_m(x)"),
)


def measured() -> dict[tuple[str, str], list[int]]:
    """Bytes of each kind of message at one of three sites, from its own audit file."""
    X, y = rs.datasets.breast_cancer()
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        audit = Path(folder) / "audit.jsonl"
        parts = [slice(0, 200), slice(200, 400), slice(400, 569)]
        homes = [
            rs.federated.Site((X[p], y[p]), audit=audit if k == 1 else None)
            for k, p in enumerate(parts)
        ]
        sites = rs.federated.Sites(homes, penalty=rs.penalties.L2(0.01))
        rs.ExactFedRR(rounds=5, tol=1e-12).solve(sites)
        for line in map(json.loads, audit.read_text().splitlines()):
            found[line["kind"], line["way"]].append(line["bytes"])
    return found


def draw(path: Path) -> None:
    """Two boxes, the messages between them."""
    sizes = measured()
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    ax = figure.add_subplot()
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    ax.axis("off")
    for left, title, text in (
        (0, "driver", "x, steps, checkpoint,\nthe prox of R,\nwho is late or wrong"),
        (78, "site m", "rows and labels,\nlocal passes,\naudit file\n\nnothing of these\ntravels"),
    ):
        ax.add_patch(
            FancyBboxPatch((left + 1, 6), 20, 88, boxstyle="round,pad=0.6", fc="#f2f5f8", ec="0.5")
        )
        ax.text(left + 11, 88, title, ha="center", weight="bold")
        ax.text(left + 11, 50, text, ha="center", va="center", fontsize=9)
    for k, (kind, asked, told) in enumerate(ROWS):
        top = 92 - 23 * k
        times = len(sizes[kind, "in"])
        label = (
            kind
            if times == 1
            else f"{kind}, {'every round' if kind == 'train' else f'{times} times'}"
        )
        ax.text(50, top, label, ha="center", weight="bold", fontsize=9)
        for way, text, height, colour in (
            ("in", asked, top - 5, COLOURS[0]),
            ("out", told, top - 13, COLOURS[1]),
        ):
            ends = ((24, height), (76, height)) if way == "in" else ((76, height), (24, height))
            ax.annotate(
                "", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.6}
            )
            size = max(sizes[kind, way])
            ax.text(
                50,
                height + 0.8,
                f"{text}  ({size} B)".replace("\n", " "),
                ha="center",
                fontsize=7.5,
            )
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
