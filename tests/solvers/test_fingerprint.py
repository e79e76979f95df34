"""A run is resumed on the problem it was made with, and on no other."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.digests import digest

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 5)), np.where(np.arange(40) % 2, 1.0, -1.0)
SCALE = np.linspace(1.0, 2.0, 40)
SOLVER = rs.ProxRR(epochs=4, step=0.01)


def make(**changes: Any) -> rs.Problem:
    settings: dict[str, Any] = {
        "penalty": rs.penalties.L1(np.full(5, 0.01)),
        "ridge": 0.1,
        "sample_weight": SCALE,
    }
    settings |= changes
    return rs.Problem(settings.pop("X", X), settings.pop("y", Y), **settings)


def resumes(first: Any, second: Any) -> bool:
    saved = SOLVER.solve(first)
    return replace(SOLVER, epochs=6).solve(second, resume=saved).epoch == 6


def test_equal_content_is_the_same_problem() -> None:
    assert resumes(make(), make(X=X.copy(), penalty=rs.penalties.L1(np.full(5, 0.01))))
    assert resumes(
        make(penalty=rs.penalties.L1(0.01)), make(penalty=rs.penalties.L1(np.float64(0.01)))
    )


OTHER: dict[str, tuple[Callable[[], Any], str]] = {
    "one value": (
        lambda: make(X=np.where(np.arange(5) == 2, X + (np.arange(40) == 7)[:, None], X)),
        "data",
    ),
    "rows in another order": (
        lambda: make(X=X[::-1], y=Y[::-1], sample_weight=SCALE[::-1]),
        "data",
    ),
    "sparse": (lambda: make(X=sp.csr_matrix(X)), "data"),
    "an intercept": (lambda: make(fit_intercept=True), "."),
    "a target": (lambda: make(y=np.where(np.arange(40) == 3, -Y, Y)), "targets"),
    "weights": (lambda: make(sample_weight=None), "weights"),
    "a loss": (lambda: make(loss=rs.losses.SquaredHinge()), "loss"),
    "a strength": (
        lambda: make(penalty=rs.penalties.L1(np.r_[0.01, 0.01, 0.011, 0.01, 0.01])),
        "penalty",
    ),
    "a penalty": (lambda: make(penalty=rs.penalties.L2(0.01)), "penalty"),
    "the ridge": (lambda: make(ridge=0.2), "ridge"),
}


@pytest.mark.filterwarnings("ignore::reshuffle.errors.ConversionWarning")
@pytest.mark.parametrize("name", OTHER)
def test_another_problem_is_refused_and_the_part_named(name: str) -> None:
    other, part = OTHER[name]
    saved = SOLVER.solve(make())
    with pytest.raises(rs.InputError, match=rf"resume.*{part}"):
        replace(SOLVER, epochs=6).solve(other(), resume=saved)


def test_two_long_arrays_that_differ_in_one_entry() -> None:
    long, other = np.full(5000, 0.1), np.full(5000, 0.1)
    other[2500] = 0.2
    assert digest(rs.penalties.L1(long)) != digest(rs.penalties.L1(other))
    assert repr(rs.penalties.L1(long)) == repr(
        rs.penalties.L1(other)
    )  # which is why a repr will not do


def gradient(matrix: Any, i: int, x: Any) -> Any:
    return matrix[i] * (matrix[i] @ x - 1.0)


class Data:
    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def gradient(self, i: int, x: Any) -> Any:
        return gradient(self.matrix, i, x)


def oracle(kind: str, matrix: Any) -> rs.OracleProblem:
    functions: dict[str, Any] = {
        "closure": lambda i, x: matrix[i] * (matrix[i] @ x - 1.0),
        "partial": partial(gradient, matrix),
        "method": Data(matrix).gradient,
    }
    value: Any = lambda x: 0.5 * float(np.mean((matrix @ x - 1.0) ** 2))  # noqa: E731
    return rs.OracleProblem(40, 5, functions[kind], value, smoothness=10.0)


@pytest.mark.parametrize("kind", ["closure", "partial", "method"])
def test_a_fresh_but_equal_oracle_is_accepted_and_another_refused(kind: str) -> None:
    assert resumes(oracle(kind, X), oracle(kind, X.copy()))
    with pytest.raises(rs.InputError, match="different: functions"):
        resumes(oracle(kind, X), oracle(kind, 2.0 * X))


def test_the_digest_is_the_same_in_another_process() -> None:
    code = (
        "import numpy as np, reshuffle as rs; X = np.arange(12.0).reshape(4, 3)\n"
        "p = rs.Problem(X, [1, -1, 1, -1], penalty=rs.penalties.ElasticNet(0.1, np.ones(3)))\n"
        "o = rs.OracleProblem(4, 3, lambda i, x: X[i], lambda x: float(X.sum() @ x) if 0 else 0.0)\n"
        "print(sorted(p.fingerprint.items()), sorted(o.fingerprint.items()))"
    )
    run = partial(subprocess.run, capture_output=True, text=True, check=True)
    found = {run([sys.executable, "-c", code]).stdout for _ in range(2)}
    assert len(found) == 1


def test_a_run_that_is_neither_saved_nor_resumed_hashes_nothing(monkeypatch: Any) -> None:
    def refuse(*values: Any) -> str:
        raise AssertionError("hashed")

    monkeypatch.setattr("reshuffle.problem.digest", refuse)
    rs.ExactProxRR().solve(make())
    SOLVER.solve(make())


def test_a_pickled_result_carries_digests_and_no_data() -> None:
    wide = rs.Problem(RNG.standard_normal((2000, 50)), np.where(np.arange(2000) % 2, 1.0, -1.0))
    result = SOLVER.solve(wide)
    packed = pickle.dumps(result)
    assert len(packed) < 100_000 < wide.rows.values.nbytes
    assert dict(pickle.loads(packed).fingerprint) == dict(wide.fingerprint)


def test_a_result_of_the_old_format_loads_but_is_not_resumed(tmp_path: Path) -> None:
    import json

    saved = SOLVER.solve(make())
    saved.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    about = json.loads(str(arrays["about"])) | {"format": 1}
    for later in ("fingerprint", "kind", "version"):
        del about[later]
    del arrays["sha256"]
    np.savez(tmp_path / "old.npz", **arrays | {"about": np.array(json.dumps(about))})
    old = rs.Result.load(tmp_path / "old.npz")
    assert old.digest == saved.digest
    with pytest.raises(rs.InputError, match="resume"):
        replace(SOLVER, epochs=6).solve(make(), resume=old)


@pytest.mark.parametrize("kind", [rs.FedRR, rs.LocalSGD, rs.ExactFedRR])
def test_epochs_are_refused_by_federated_solvers_and_rounds_by_others(kind: Any) -> None:
    with pytest.raises(rs.InputError, match="counts rounds, not epochs: give rounds=5"):
        kind(epochs=5)
    for single in (rs.ProxRR, rs.ProxSGD, rs.ExactProxRR, rs.FISTA):
        with pytest.raises(rs.InputError, match="counts epochs, not rounds: give epochs=5"):
            single(rounds=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "step", [0.01, rs.steps.Constant(0.01), rs.steps.InverseTime(0.05), lambda t: 0.02]
)
def test_steps_are_accepted_alike_by_all(step: Any) -> None:
    task = make(sample_weight=None)
    for solver in (rs.ProxRR, rs.ProxSGD, rs.ExactProxRR):
        assert solver(step=step, epochs=3).solve(task).epoch >= 1
    clients = rs.federated.split(task, clients=3)
    for federated in (rs.FedRR, rs.LocalSGD, rs.ExactFedRR):
        assert federated(step=step, rounds=2).solve(clients).epoch == 2
