"""Machines where neither the package nor the home can be written: kernels compile all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reshuffle as rs

CODE = """
import sys, tempfile, warnings
if sys.argv[1] == "no temporary folder":
    def refuse(*_, **__): raise OSError(30, "Read-only file system")
    tempfile.mkdtemp = refuse
if sys.argv[1] == "read-only":  # the folder that NUMBA_CACHE_DIR names
    import os
    plain = tempfile.TemporaryFile
    def locked(*given, dir=None, **more):
        if dir is not None and str(dir).startswith(os.environ["NUMBA_CACHE_DIR"]): raise OSError(30, "read-only")
        return plain(*given, dir=dir, **more)
    tempfile.TemporaryFile = locked
import numpy as np
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from reshuffle.kernels.shuffle import shuffle
    order = np.arange(9, dtype=np.uint32)
    shuffle(order, np.random.default_rng(0).random(8), 8)
assert sorted(order) == list(range(9))
from reshuffle.solvers import compiling
print(compiling._line(), file=sys.stderr)
print(sum(shuffle.stats.cache_hits.values()), *[w.message for w in said if w.category.__name__ == "CacheWarning"], sep="|")
"""


@pytest.fixture
def locked(tmp_path: Path) -> dict[str, str]:
    """A copy of the package, and a home, where no cache can be made: a file stands in its place."""
    package = tmp_path / "package" / "reshuffle"
    shutil.copytree(
        Path(rs.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.npz")
    )
    (package / "kernels" / "__pycache__").touch()
    (tmp_path / "home").touch()
    (tmp_path / "temporary").mkdir()
    names = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | {
        "PYTHONPATH": str(package.parent), "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(tmp_path / "temporary"),
    }  # fmt: skip


def run(case: str, environment: dict[str, str]) -> tuple[int, list[str]]:
    """How many kernels were found compiled, and what was said.

    The line for who waits promises no more than is kept: what a folder of the process holds is gone with it.
    """
    command = [sys.executable, "-c", CODE, case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("kept for the next time" in done.stderr) == (case == "fill")
    hits, *said = done.stdout.strip().split("|")
    return int(hits), said


def test_kernels_compile_in_a_folder_of_the_process_and_say_so(
    locked: dict[str, str], tmp_path: Path
) -> None:
    hits, said = run("nothing can be written", locked)
    assert hits == 0
    assert len(said) == 1
    assert "NUMBA_CACHE_DIR" in said[0]
    assert list((tmp_path / "temporary").iterdir()) == []  # it is removed at the end


def test_kernels_compile_without_a_cache_where_there_is_no_folder_at_all(
    locked: dict[str, str],
) -> None:
    hits, said = run("no temporary folder", locked)
    assert hits == 0
    assert "NUMBA_CACHE_DIR" in said[0]


def test_a_cache_that_was_filled_before_is_used_where_it_cannot_be_written(
    locked: dict[str, str], tmp_path: Path
) -> None:
    environment = locked | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    assert run("fill", environment) == (0, [])
    before = sorted(p.name for p in (tmp_path / "kernels").rglob("*"))
    assert run("read-only", environment) == (1, [])
    assert sorted(p.name for p in (tmp_path / "kernels").rglob("*")) == before


# --- the environment ---------------------------------------------------------------------------


@pytest.mark.parametrize("before", [{}, {"RAY_USAGE_STATS_ENABLED": "1"}])
def test_variables_that_are_set_for_ray_are_as_they_were(
    before: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from reshuffle.engines.ray import LOOPBACK, USAGE, Cluster

    seen: list[tuple[str | None, ...]] = []

    def init(*_: object, **__: object) -> None:
        seen.append((os.environ.get(LOOPBACK), os.environ.get(USAGE)))

    for name in (LOOPBACK, USAGE):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    kept = dict(os.environ)
    cluster = Cluster()
    fake = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", fake)  # somebody else has imported it
    with pytest.raises(rs.InputError, match="before it could be bound"):
        cluster.enter(None)
    cluster.bound = True  # imported by a cluster of ours before
    cluster.enter(None)
    assert seen == [("0", before.get(USAGE, "0"))]
    assert dict(os.environ) == kept
