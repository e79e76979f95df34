"""Do the tests notice? Lines of the package are broken, one at a time.

    python -m tests.long.break_lines                 # all of them: about a quarter of an hour on one core
    python -m tests.long.break_lines sweep server    # those whose file or text contains one of the words

Each line is replaced in a temporary copy of the package, and the tests named beside it are run against that
copy, up to the first that fails. The table that is printed says which one did; a line that no test noticed
ends the command with exit code 1. For a line of the core the copy is compiled, for every processor alike: a minute each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "reshuffle"
PATIENCE = 900  # seconds for the tests of one line: a line that makes them hang is noticed
SURVIVED = "NOT NOTICED"


class Break(NamedTuple):
    """One line of the package, and what it is made to say."""

    file: str
    line: str
    """A part of exactly one line of the file."""
    broken: str
    how: str
    tests: str
    """Test files, separated by blanks."""


BREAKS = (
    Break(
        "core/sweep.hpp",
        "return weight * loss.template slope<Alone>(z, targets[i]);",
        "return s.average * loss.template slope<Alone>(z, targets[i]);",
        "sample weights are ignored",
        "solvers/test_conformance.py",
    ),
    Break(
        "core/sweep.hpp",
        "scale *= 1.0 - s.step * s.ridge * s.average * double(visits);",
        "scale *= 1.0 - s.step * s.ridge * s.average;",
        "a batch has the ridge of one sample",
        "solvers/test_conformance.py",
    ),
    Break(
        "core/exact_epoch.hpp",
        "g[j] += change;",
        "g[j] += 0.999 * change;",
        "the mean slope drifts away from the table",
        "exact/test_exact.py",
    ),
    Break(
        "core/penalties.hpp",
        "const double threshold = step * form.strengths[g] * shrink;",
        "const double threshold = step * form.strengths[g];",
        "groups are thresholded before the ridge shrinks them",
        "penalties/test_penalties.py",
    ),
    Break(
        "orders.py",
        "for last in range(pool.size - 1, 0, -PIECE):",
        "for last in range(pool.size - 2, 0, -PIECE):",
        "the last sample keeps its place",
        "solvers/test_orders.py",
    ),
    Break(
        "penalties/separable.py",
        "return float(ratios.min() * BELOW) if ratios.size else 1.0",
        "return float(ratios.max() * BELOW) if ratios.size else 1.0",
        "the dual point is not feasible",
        "penalties/test_duality.py",
    ),
    Break(
        "penalties/groups.py",
        "touched[at.labels[flat & at.inside]] = True",
        "touched[at.labels[flat & at.inside]] = False",
        "a working set may cut a group in two",
        "penalties/test_penalties.py",
    ),
    Break(
        "penalties/nuclear_norm.py",
        "threshold = step * self.strength",
        "threshold = self.strength",
        "the prox does not know its parameter",
        "penalties/test_nuclear_norm.py",
    ),
    Break(
        "losses/huber.py",
        "return min(max(z - y, -delta), delta)",
        "return min(z - y, delta)",
        "the slope is not clipped below",
        "losses/test_losses.py",
    ),
    Break(
        "losses/quantile.py",
        "return s * y + 0.5 * width * s * s",
        "return s * y + 0.25 * width * s * s",
        "the conjugate is too small",
        "losses/test_losses.py penalties/test_duality.py",
    ),
    Break(
        "orders.py",
        "return np.divide(count / constants.size, counts, out=counts), count",
        "return np.divide(1.0, counts, out=counts), count",
        "copies have the weights of the paper's text",
        "solvers/test_orders.py theory/test_theorems.py",
    ),
    Break(
        "solvers/sampling.py",
        "average = steps / count",
        "average = 1.0 / batch",
        "a short last batch counts too much",
        "solvers/test_steps.py solvers/test_minimisers.py",
    ),
    Break(
        "steps.py",
        "return min(largest, 7.0 / (contraction * (offset + epoch - half)))",
        "return 7.0 / (contraction * (offset + epoch - half))",
        "decreasing steps exceed 1/L_max",
        "solvers/test_steps.py",
    ),
    Break(
        "solvers/certificate.py",
        "if scale == 1.0 and not fit.bias:",
        "if not fit.bias:",
        "the gap forgets that the dual point was scaled",
        "penalties/test_duality.py exact/test_exact.py",
    ),
    Break(
        "solvers/resume.py",
        "        if differ:",
        "        if not differ and differ:",
        "a run is resumed on any problem",
        "solvers/test_runs.py",
    ),
    Break(
        "penalties/base.py",
        "return float(there + ridge * gap)",
        "return float(there)",
        "a duality gap trusts an inexact prox",
        "penalties/test_inexact_prox.py",
    ),
    Break(
        "solvers/certificate.py",
        "moved = float(np.linalg.norm(x - found.point)) + found.error",
        "moved = float(np.linalg.norm(x - found.point))",
        "the gradient mapping trusts an inexact prox",
        "penalties/test_inexact_prox.py",
    ),
    Break(
        "digests.py",
        'hasher.update(f"{array.dtype.str}{array.shape}".encode())',
        "pass",
        "arrays of another shape have the same digest",
        "solvers/test_runs.py",
    ),
    Break(
        "engines/base.py",
        "controls = {c: self.controls[c] for c in mine if c in self.controls}",
        "controls = {c: v for c, v in self.controls.items() if c == -1}",
        "control variates get lost on the way",
        "federated/test_engines.py federated/test_federated.py",
    ),
    Break(
        "federated/server.py",
        'return {"x": x, "controls": h + (x - found) / lengths}',
        'return {"x": x, "controls": h - (x - found) / lengths}',
        "control variates move the wrong way",
        "federated/test_contraction.py federated/test_federated.py",
    ),
    Break(
        "federated/replies.py",
        "if (reply.digest, reply.round, reply.run) != (task.digest, task.round, task.run):",
        "if (reply.round, reply.run) != (task.round, task.run):",
        "a reply to another model is taken",
        "federated/test_engines.py",
    ),
    Break(
        "trace.py",
        "return replace(self, x=self.x.copy(), trace=self.trace.copy(), state=state)",
        "return replace(self, x=self.x.copy(), trace=self.trace, state=state)",
        "a snapshot's trace goes on growing",
        "solvers/test_runs.py",
    ),
    Break(
        "core/newton.hpp",
        "is_regular(system, bends, found) && stays_inside(losses, bends, change, found.decrease);",
        "is_regular(system, bends, found);",
        "a model is believed beyond the radius it was made for",
        "exact/test_attacks.py long/test_honesty.py",
    ),
    Break(
        "core/column_major.hpp",
        "take_out_shifts(held_.data(), width_, outputs, d.data());",
        "",
        "softmax drifts along the shift that changes nothing",
        "exact/test_attacks.py",
    ),
    Break(
        "core/bind_newton.cpp",
        "end.progress.bound += system.put_back(",
        "end.progress.bound += 0.0 * system.put_back(",
        "the rounding of an intercept is not in the bound",
        "exact/test_attacks.py",
    ),
    Break(
        "solvers/exact/working_sets.py",
        "drift = np.sqrt(2.0 * fit.loss.curvature * bound * fit.column_squares)",
        "drift = np.sqrt(0.0 * bound * fit.column_squares)",
        "a bound in some features is taken for one in all",
        "exact/test_small_parts.py",
    ),
    Break(
        "solvers/exact/working_sets.py",
        "some, count = beyond[matter], support + max(self.first, support)",
        "some, count = beyond[matter], support",
        "working sets do not grow",
        "exact/test_small_parts.py",
    ),
    Break(
        "core/lower_model.hpp",
        "const double root = 1.0 - a / 6.0;",
        "const double root = 1.0 - a / 60.0;",
        "curvatures from below are too large",
        "losses/test_elementary.py",
    ),
    Break(
        "core/elementary.hpp",
        "const double r = (inside - k * log2_high) - k * log2_low;",
        "const double r = inside - k * log2_high;",
        "exp loses its last digits",
        "losses/test_elementary.py",
    ),
    Break(
        "losses/poisson.py",
        "self_concordance = 1.0",
        "self_concordance = 0.5",
        "a loss bends faster than it says",
        "losses/test_elementary.py",
    ),
    Break(
        "datasets/table.py",
        "rows = learn_from(table.y, table.aside)",
        "rows = slice(None)",
        "rows that are held out have a say",
        "cli/test_fit_command.py",
    ),
    Break(
        "core/newton.hpp",
        "            if (system.curvature.quadratic) progress.expected = -infinity;",
        "",
        "least squares needs a second Hessian",
        "exact/test_small_parts.py",
    ),
    Break(
        "losses/poisson.py",
        "mean = max(s + y, 0.0)",
        "mean = max(s, 0.0)",
        "the Poisson loss has another conjugate",
        "losses/test_losses.py losses/test_poisson.py",
    ),
)


def main(words: list[str]) -> int:
    """Break the lines that these words choose (all, where there are none); the exit code."""
    chosen = [b for b in BREAKS if not words or any(w in b.file or w in b.line for w in words)]
    stale = [problem for b in chosen for problem in stale_parts(b)]
    if stale:
        print("\n".join(stale))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(PACKAGE, copy / "reshuffle", ignore=shutil.ignore_patterns("__pycache__"))
        compile_core(copy)
        files = sorted({name for b in chosen for name in b.tests.split()})
        unbroken = first_failure(copy, files)
        if unbroken:
            print(f"the tests fail on the package as it is: {unbroken}")
            return 1
        print("| line | broken how | noticed by |\n| --- | --- | --- |")
        survivors = 0
        for b in chosen:
            noticed = broken(copy, b)
            survivors += not noticed
            line = b.line.strip().replace("|", "\\|")
            by = f"`{noticed}`" if noticed else SURVIVED
            print(f"| `{b.file}`: `{line}` | {b.how} | {by} |", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} were noticed")
    return int(survivors > 0)


def stale_parts(what: Break) -> list[str]:
    """Sentences about a line that is no longer in its file once, and about test files that are gone."""
    found = []
    if (PACKAGE / what.file).read_text().count(what.line) != 1:
        found.append(f"{what.file} must have this line exactly once: {what.line}")
    gone = [name for name in what.tests.split() if not (ROOT / "tests" / name).exists()]
    return found + [f"tests/{name} does not exist" for name in gone]


def broken(copy: Path, what: Break) -> str:
    """The test that noticed it, or nothing."""
    path = copy / "reshuffle" / what.file
    whole = path.read_text()
    path.write_text(whole.replace(what.line, what.broken))
    try:
        if what.file.startswith("core/"):
            compile_core(copy)
        return first_failure(copy, what.tests.split())
    finally:
        path.write_text(whole)
        if what.file.startswith("core/"):
            compile_core(copy)


def compile_core(copy: Path) -> None:
    """The variant for every processor, of the sources in this copy."""
    shutil.copy(ROOT / "CMakeLists.txt", copy.parent)
    build = copy.parent / "build"
    made = ["cmake", "-S", str(copy.parent), "-B", str(build), "-G", "Ninja", "-DIN_PLACE=ON"]
    for command in (made, ["ninja", "-C", str(build), "_base", "_probe"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def first_failure(copy: Path, files: list[str]) -> str:
    """The first test of these files that fails with this copy of the package."""
    settings = {
        "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}",
        "RESHUFFLE_CORE": "base",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", *(f"tests/{f}" for f in files)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{files[0]}, which did not end"
    if done.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) tests/([\w./]+)(?:::(\w+))?", done.stdout, re.MULTILINE)
    return "::".join(filter(None, found.groups())) if found else done.stdout.strip()[-500:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
