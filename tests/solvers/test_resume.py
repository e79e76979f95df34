"""Saved runs from anybody: what reaches a kernel was compared with a fresh state, and bounded before it was read."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.npz_archive import read_archive, write_archive

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 6)), np.sign(RNG.standard_normal(40))
PROBLEM = rs.Problem(X, Y, penalty=rs.penalties.L1(0.01), fit_intercept=True)
SOLVERS: dict[str, Any] = {
    "ProxRR": rs.ProxRR(epochs=4, step=0.01),
    "FISTA": rs.FISTA(epochs=4, tol=0.0),
    "ExactProxRR": rs.ExactProxRR(epochs=4, tol=0.0, finish=False),
}


@pytest.fixture(params=SOLVERS)
def saved(request: Any, tmp_path: Path) -> tuple[Any, Path]:
    solver = SOLVERS[request.param]
    replace(solver, epochs=2).solve(PROBLEM).save(tmp_path / "run")
    return solver, tmp_path / "run"


def forge(path: Path, change: Any) -> Path:
    """The file with other contents, and a checksum that fits them."""
    with read_archive(path, "saved result", 3) as stored:
        about, arrays = stored.about, stored.arrays()
    change(about, arrays)
    write_archive(path.with_name("forged"), "saved result", 3, about, arrays)
    return path.with_name("forged")


def test_every_array_of_another_shape_type_or_name_is_refused(saved: tuple[Any, Path]) -> None:
    solver, path = saved
    names = [f"state/{name}" for name in rs.Result.load(path).state]
    for name in names:
        wrong: list[Any] = [
            lambda a: a[:0] if a.ndim else a[None], lambda a: np.repeat(a, 2, axis=0),
            lambda a: a.astype(np.float32), lambda a: a[None], lambda a: np.full(a.shape, "x"),
            lambda a: a[..., None], lambda a: None,
        ]  # fmt: skip
        for spoil in wrong:

            def change(about: Any, arrays: Any, name: str = name, spoil: Any = spoil) -> None:
                found = arrays.pop(name)
                if spoil(found) is not None:
                    arrays[name] = spoil(found)

            forged = forge(path, change)
            if name == "state/ahead":  # it begins empty
                continue
            with pytest.raises(rs.InputError, match=r"resume: "):
                solver.solve(PROBLEM, resume=forged)
    with pytest.raises(rs.InputError, match=r"resume: the saved state has"):
        solver.solve(PROBLEM, resume=forge(path, lambda _, a: a.update({"state/more": np.ones(2)})))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(bad: float, saved: tuple[Any, Path]) -> None:
    solver, path = saved
    for name, array in rs.Result.load(path).state.items():
        if (
            array.dtype.kind != "f"
            or not array.size
            or (name in ("monitor", "newton") and bad == bad)
        ):
            continue

        def change(about: Any, arrays: Any, name: str = name) -> None:
            arrays[f"state/{name}"].reshape(-1)[-1] = bad

        with pytest.raises(rs.InputError, match="resume: "):
            solver.solve(PROBLEM, resume=forge(path, change))


def test_traces_that_are_none_are_refused(saved: tuple[Any, Path]) -> None:
    solver, path = saved
    columns = [f"trace/{name}" for name in rs.Result.load(path).trace]
    for column in columns:
        with pytest.raises(rs.InputError):
            solver.solve(PROBLEM, resume=forge(path, lambda _, a, c=column: a.pop(c)))
        with pytest.raises(rs.InputError):
            solver.solve(
                PROBLEM, resume=forge(path, lambda _, a, c=column: a.update({c: a[c][:0]}))
            )
    for column in ("objective", "gradients", "prox_evals", "seconds", "step", "epoch"):
        for value in (np.nan, np.inf, -1e300):

            def change(about: Any, arrays: Any, c: str = column, value: float = value) -> None:
                arrays[f"trace/{c}"][-1] = value

            with pytest.raises(rs.InputError, match="resume: "):
                solver.solve(PROBLEM, resume=forge(path, change))


def test_a_model_that_is_not_the_one_of_the_trace_is_refused(saved: tuple[Any, Path]) -> None:
    solver, path = saved

    def change(about: Any, arrays: Any) -> None:
        for name in ("state/x", "state/best"):
            if name in arrays:
                arrays[name] = arrays[name] + 100.0

    with pytest.raises(rs.InputError, match=r"resume: P\("):
        solver.solve(PROBLEM, resume=forge(path, change))


@pytest.mark.parametrize(
    "about",
    [{"epoch": -1}, {"epoch": 1e9}, {"epoch": "2"}, {"epoch": 2**60}, {"config": []}, {"config": {"seed": [1]}},
     {"header": 3}, {"fingerprint": {"data": 7}}, {"epoch": None}, {"config": None}],
)  # fmt: skip
def test_words_that_are_not_those_of_a_run_are_refused(about: Any, saved: tuple[Any, Path]) -> None:
    solver, path = saved
    with pytest.raises(rs.InputError):
        solver.solve(PROBLEM, resume=forge(path, lambda a, _: a.update(about)))


def test_a_large_array_is_refused_before_it_is_read(saved: tuple[Any, Path]) -> None:
    """64 MB where a fresh state has seven numbers: nothing of it is allocated."""
    solver, path = saved
    forged = forge(path, lambda _, arrays: arrays.update({"state/x": np.zeros(8_000_000)}))
    code = (
        "import resource, sys, numpy as np, reshuffle as rs\n"
        "from test_resume import PROBLEM, SOLVERS\n"
        "solver = SOLVERS[sys.argv[2]]\n"
        "solver.solve(PROBLEM)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "try: solver.solve(PROBLEM, resume=sys.argv[1])\n"
        "except rs.InputError as error: print(error, peak() - before < 30_000)\n"
    )
    name = type(solver).__name__
    root = Path(__file__).parents[2]
    path_of = os.pathsep.join(
        [str(root), str(root / "tests"), str(Path(__file__).parent), *sys.path]
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(forged), name], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": path_of}, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("resume: x of the saved state has shape (8000000,)")
    assert done.stdout.endswith("True\n")


def test_importance_copies_of_other_data_are_refused() -> None:
    """x = 0 on any data: once, a table for fewer copies than the kernel visits was believed."""
    even = rs.Problem(np.eye(4), [1.0, -1.0, 1.0, -1.0], penalty=rs.penalties.L1(100.0))
    uneven = rs.Problem(
        np.diag([1.0, 1.0, 1.0, 30.0]), [1.0, -1.0, 1.0, -1.0], penalty=rs.penalties.L1(100.0)
    )
    solver = rs.ExactProxRR(tol=0.0, epochs=2, importance=True, finish=False)
    result = solver.solve(even)
    with pytest.raises(rs.InputError, match="different: data"):
        replace(solver, epochs=4).solve(uneven, resume=result)
    disguised = replace(result, fingerprint=uneven.fingerprint)
    with pytest.raises(rs.InputError, match="resume: table"):
        replace(solver, epochs=4).solve(uneven, resume=disguised)
