"""Others that learn from a stream of rows: CPU seconds and passes to P(x) - P* of 1e-2 and 1e-4 of f(0).

    python -m benchmarks.disk generate FOLDER --rows 1000000
    python -m benchmarks.stream_peers FOLDER [--passes 10] [--vw PYTHON]

ExactProxRR on the folder, SGDClassifier.partial_fit on its shards (two learning rates), and Vowpal Wabbit on the same rows as text,
which it parses in its first pass and reads from its own cache later. PYTHON is an interpreter that has `vowpalwabbit`. Elastic net,
λ1 = λ2 = 1e-3. Seconds are of the CPU, of all threads, so that they can be compared on a busy machine; the writing of the text is
not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.disk import problem_of
from reshuffle.datasets import open_shards

L1 = L2 = 1e-3
MEMORY = 64_000_000
LEVELS = (1e-2, 1e-4)
VW = """
import sys, time
import numpy as np
import vowpalwabbit
text, cache, out, passes, more = sys.argv[1:]
clock = time.process_time()
learner = vowpalwabbit.Workspace(
    f"-d {text} --cache_file {cache} --passes {passes} --loss_function logistic --l1 1e-3 --l2 1e-3 --noconstant "
    f"--holdout_off -b 18 --quiet --readable_model {out}.txt {more}"
)
learner.finish()
spent = time.process_time() - clock
weights, shift, factor = np.zeros(1000), 0.0, 1.0
for line in open(f"{out}.txt"):
    index, _, rest = line.strip().partition(":")
    if index.isdigit() and rest:
        weights[int(index)] = float(rest.split()[0])
    elif line.startswith("l1_state"):
        shift = float(line.split()[1])
    elif line.startswith("l2_state"):
        factor = float(line.split()[1])
# its penalties are applied when it predicts: weights are shrunk by l1_state, and multiplied by l2_state
np.save(out, factor * np.sign(weights) * np.maximum(np.abs(weights) - shift, 0.0))
print(spent)
"""


class Race:
    """P* and f(0), and what each learner has reached."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        whole = problem_of(folder, 1 << 40, L1, L2)
        self.problem, self.unit = whole, whole.value(np.zeros(whole.shape))
        self.best = rs.ExactProxRR(tol=1e-10).solve(whole).trace.last()["objective"]

    def tell(self, name: str, passes: float, seconds: float, x: Any) -> float:
        """Print and return (P(x) - P*)/f(0)."""
        above = (
            self.problem.objective(np.ascontiguousarray(x, dtype=float)) - self.best
        ) / self.unit
        print(f"{name:<28} {passes:6.2f} passes {seconds:8.2f} CPU s   {above:.2e}", flush=True)
        return float(above)

    def ours(self) -> None:
        for level in LEVELS:
            clock = time.process_time()
            problem = problem_of(self.folder, MEMORY, L1, L2)
            found = rs.ExactProxRR(tol=level).solve(problem)
            spent = time.process_time() - clock
            self.tell(
                f"ExactProxRR, proved {level:g}", found.trace.last()["disk_passes"], spent, found.x
            )

    def sgd(self, most: int, **rate: Any) -> None:
        from sklearn.linear_model import SGDClassifier

        X, y = open_shards(self.folder, memory=MEMORY)
        model = SGDClassifier(
            loss="log_loss", penalty="elasticnet", alpha=L1 + L2, l1_ratio=L1 / (L1 + L2), fit_intercept=False,
            average=True, random_state=0, **rate,
        )  # fmt: skip
        spent = 0.0
        for k in range(most):
            clock = time.process_time()
            for start, rows in X.matrices():
                model.partial_fit(rows, y[start : start + rows.shape[0]], classes=[-1.0, 1.0])
            spent += time.process_time() - clock
            if (
                self.tell(f"SGD {rate['learning_rate']}", k + 1, spent, model.coef_[0])
                <= LEVELS[-1]
            ):
                break

    def vw(self, python: str, most: int) -> None:
        X, y = open_shards(self.folder, memory=MEMORY)
        with tempfile.TemporaryDirectory() as place:
            text, script = Path(place) / "rows.vw", Path(place) / "run.py"
            script.write_text(VW)
            with text.open("w") as file:
                for start, rows in X.matrices():
                    cells = [
                        f"{j}:{v:.9g}"
                        for j, v in zip(rows.indices.tolist(), rows.data.tolist(), strict=True)
                    ]
                    for i, (a, b) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
                        file.write(f"{int(y[start + i])} | {' '.join(cells[a:b])}\n")
            for passes, more in ((1, ""), (most, ""), (most, "--sgd")):
                weights = f"{place}/weights.npy"
                (Path(place) / "cache").unlink(missing_ok=True)
                done = subprocess.run(
                    [python, str(script), str(text), f"{place}/cache", weights, str(passes), more],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
                self.tell(
                    f"Vowpal Wabbit {more}",
                    passes,
                    float(done.stdout.split()[-1]),
                    np.load(weights),
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--vw", default="")
    parser.add_argument("--only-vw", action="store_true")
    given = parser.parse_args()
    race = Race(given.folder)
    if not given.only_vw:
        race.ours()
        race.sgd(given.passes, learning_rate="optimal")
        race.sgd(given.passes, learning_rate="invscaling", eta0=0.1)
    if given.vw:
        race.vw(given.vw, given.passes)


if __name__ == "__main__":
    main()
