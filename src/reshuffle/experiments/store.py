"""Finished runs, kept so that a second call of a recipe need not repeat them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import reshuffle
from reshuffle.errors import InputError
from reshuffle.problem import Problem
from reshuffle.trace import Result


class Store:
    """Results in a folder, one file a run, named by a digest of all that the run depends on.

    That is the solver with its parameters, the problem, the data (``fingerprint``), and the sources
    of the package: after any change of these the run is made again.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        self.reused = self.computed = 0
        folder.mkdir(parents=True, exist_ok=True)

    def solve(self, label: str, solver: Any, problem: Any, **options: Any) -> Result:
        """``solver.solve(problem)``, or what it returned the last time."""
        path = self.path(label, solver, problem)
        try:
            result = Result.load(path)
            self.reused += 1
        except (FileNotFoundError, InputError):  # not yet, or damaged
            result = solver.solve(problem, **options)
            if result.interrupted:  # it is no finished run: the recipe ends too
                raise KeyboardInterrupt from None
            result.save(path)
            self.computed += 1
        return result

    def path(self, label: str, solver: Any, problem: Any) -> Path:
        """The file of a run."""
        about = "\n".join([repr(solver), repr(problem), self.fingerprint, sources()])
        return self.folder / f"{label}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.npz"


def fingerprint(problem: Problem) -> str:
    """sha256 of the data of a problem."""
    digest = hashlib.sha256()
    for array in (*problem.rows, problem.targets, problem.weights):
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


@cache
def sources() -> str:
    """sha256 of the package's Python files."""
    digest = hashlib.sha256()
    root = Path(reshuffle.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
