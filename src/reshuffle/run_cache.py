"""A cache of finished runs, so that a second call need not repeat them."""

from __future__ import annotations

import hashlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import reshuffle
from reshuffle.digests import digest
from reshuffle.errors import InputError
from reshuffle.objective import Objective
from reshuffle.trace import Result


class RunCache:
    """Results in a folder, one file per run, named by a digest of everything on which the run depends.

    That is the solver with its parameters, the content of the problem, the sources of the package, and
    the files that define classes of your own: after any change of these the run is repeated.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reused = self.computed = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"folder {folder} cannot be created: {error}") from None

    def solve(self, label: str, solver: Any, problem: Objective, **options: object) -> Result:
        """``solver.solve(problem)``, or its stored result."""
        known = self.find(label, solver, problem)
        if known is not None:
            return known
        result: Result = solver.solve(problem, **options)
        keep(result, self.path(label, solver, problem))
        self.computed += 1
        return result

    def find(self, label: str, solver: object, problem: Objective) -> Result | None:
        """The stored result of the same run; ``None`` if there is none or its file is damaged."""
        try:
            result = Result.load(self.path(label, solver, problem))
        except (FileNotFoundError, InputError):
            return None
        self.reused += 1
        return result

    def path(self, label: str, solver: object, problem: Objective) -> Path:
        about = digest(
            solver, dict(problem.fingerprint), _own_code(solver), _own_code(problem), sources()
        )
        short = re.sub(r"[^\w.+-]+", "-", label).strip("-.")[:60] or "run"
        return self.folder / f"{short}-{about[:16]}.npz"


def keep(result: Result, path: Path) -> None:
    """Save a finished run. A run interrupted by Ctrl-C is not kept."""
    if result.interrupted:
        raise KeyboardInterrupt
    result.save(path)


def _own_code(part: object) -> list[str]:
    """The sources of those classes of a part that are not the package's: their files, or their functions."""
    found = []
    named = (
        getattr(type(part), name, None) for name in ("method_class", "local_class", "server_class")
    )
    kinds = [type(part), *(kind for kind in named if isinstance(kind, type))]
    for kind in dict.fromkeys(base for each in kinds for base in each.__mro__):
        if kind.__module__.partition(".")[0] in ("reshuffle", "builtins", "abc", "typing"):
            continue
        try:
            found.append(hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest())
        except (OSError, TypeError):  # The class was defined interactively: there is no file.
            functions = [v for v in vars(kind).values() if hasattr(v, "__code__")]
            found.append(digest(*functions))
    return found


@cache
def sources() -> str:
    """sha256 of the package's Python files."""
    hasher = hashlib.sha256()
    root = Path(reshuffle.__file__).parent
    for path in sorted(root.rglob("*.py")):
        hasher.update(str(path.relative_to(root)).encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()
