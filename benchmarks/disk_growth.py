"""Rows on disk by their number: seconds, passes over the files and memory to a proved 1e-4, and the figure of them.

    python -m benchmarks.disk_growth measure PLACE [--largest 100000000]     # generates what is not there
    python -m benchmarks.disk_growth figure docs/images

Every size is solved in a process of its own with 64 MB for rows. Rows have 20 values in 1,000 features (float64); elastic net with
λ1 = λ2 = 1e-3. The numbers go to benchmarks/results/disk_growth.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.disk import generate, peak, problem_of
from benchmarks.figures import panels, save, style, tidy

RESULTS = Path(__file__).parent / "results" / "disk_growth.csv"
MEMORY, TOL = 64_000_000, 1e-4
"""Bytes for rows, and the accuracy that is proved, as a share of f(0)."""


def solve(folder: Path) -> dict[str, float]:
    """One fit: seconds with the opening of the folder, CPU seconds, passes over the files, the peak in MB."""
    import reshuffle as rs

    clock, cpu = time.perf_counter(), time.process_time()
    problem = problem_of(folder, MEMORY, 1e-3, 1e-3)
    result = rs.ExactProxRR(tol=TOL).solve(problem)
    row = result.trace.last()
    return {
        "rows": problem.n, "seconds": time.perf_counter() - clock, "cpu": time.process_time() - cpu,
        "disk_passes": row.get("disk_passes", 0.0), "peak": peak(), "gap": row["gap"],
        "objective": row["objective"], "proved": float(result.converged),
    }  # fmt: skip


def measure(place: Path, largest: int) -> None:
    points, rows = [], 100_000
    while rows <= largest:
        folder = place / f"rows-{rows}"
        if not folder.exists():
            generate(folder, rows, quiet=True)
        command = [sys.executable, "-m", "benchmarks.disk_growth", "solve", str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        points.append(json.loads(done.stdout))
        print({name: round(value, 6) for name, value in points[-1].items()}, flush=True)
        rows *= 10
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, points[0])
            writer.writeheader()
            writer.writerows(points)


def figure(out: Path) -> None:
    """Seconds and the peak of the process against the rows, on logarithmic axes."""
    with RESULTS.open() as file:
        points = [
            {name: float(value) for name, value in row.items()} for row in csv.DictReader(file)
        ]
    rows = [point["rows"] for point in points]
    made, (left, right) = panels(2)
    left.plot(rows, [point["seconds"] for point in points], label="to a proved 1e-4", **style(0))
    left.plot(rows, [point["cpu"] for point in points], label="of these, CPU seconds", **style(2))
    tidy(left, "rows", "seconds")
    right.plot(rows, [point["peak"] for point in points], label="peak of the process", **style(1))
    right.plot(
        rows, [256e-6 * n for n in rows], color="grey", ls="--", lw=1.2, label="the rows themselves"
    )
    tidy(right, "rows", "MB")
    for ax in (left, right):
        ax.legend(frameon=False)
    save(made, out / "disk-growth.png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["measure", "solve", "figure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--largest", type=int, default=100_000_000)
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.folder, given.largest)
    elif given.what == "figure":
        figure(given.folder)
    else:
        print(json.dumps(solve(given.folder)))


if __name__ == "__main__":
    main()
