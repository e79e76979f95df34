"""Machines where nothing can be written: a fit needs no folder; and variables that are set for others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reshuffle as rs
from reshuffle.core import native

CODE = """
import tempfile
def refuse(*_, **__): raise OSError(30, "Read-only file system")
for name in ("mkdtemp", "mkstemp", "TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory"):
    setattr(tempfile, name, refuse)
import numpy as np, reshuffle as rs
X = np.random.default_rng(0).standard_normal((50, 4))
problem = rs.Problem(X, np.sign(X[:, 0]), penalty=rs.penalties.L1(0.1))
assert rs.ExactProxRR(tol=1e-8).solve(problem).converged
rs.ProxRR(epochs=2).solve(problem)
"""


def test_a_fit_writes_nothing_anywhere(tmp_path: Path) -> None:
    """A copy of the package and a home that cannot be written: the core was built before."""
    package = tmp_path / "package" / "reshuffle"
    shutil.copytree(
        Path(rs.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.npz")
    )
    core = Path(native.__file__).parent
    for module in core.glob("_*.so"):  # an editable install keeps them elsewhere
        shutil.copy(module, package / "core")
    (tmp_path / "home").touch()
    before = sorted(path for path in tmp_path.rglob("*"))
    environment = os.environ | {
        "PYTHONPATH": str(package.parent), "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(tmp_path / "home"),
    }  # fmt: skip
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert sorted(path for path in tmp_path.rglob("*")) == before


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
