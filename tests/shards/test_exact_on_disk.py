"""The exact method on rows that lie on disk: certified minimisers, in few passes over the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import runner

import reshuffle as rs
from benchmarks.disk import generate
from reshuffle.cli import main
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.errors import InputError

pytestmark = pytest.mark.usefixtures("a9a_file")

MEMORY = 500_000


@pytest.fixture(scope="module")
def a9a(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exact") / "a9a"
    convert("a9a", place, Conversion(shuffle=True, shard_rows=1000))
    return place


@pytest.fixture(scope="module")
def by_label(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worst order for windows: all rows of one label first."""
    place = tmp_path_factory.mktemp("sorted")
    lines = Path(rs.datasets.fetch("a9a")).read_text().splitlines()
    (place / "rows").write_text("\n".join(sorted(lines, key=lambda line: line[0])) + "\n")
    convert(place / "rows", place / "shards", Conversion(shard_rows=1000))
    return place / "shards"


def minimum(folder: Path, **settings: Any) -> float:
    """P* by the same method in memory, to 1e-11."""
    problem = rs.Problem(*open_shards(folder), **settings)
    result = rs.ExactProxRR(tol=1e-11).solve(problem)
    assert result.converged
    return float(problem.objective(result.x))


PENALTIES = [
    rs.penalties.ElasticNet(l1=2e-3, l2=1e-3),
    rs.penalties.L1(5e-3),
    rs.penalties.L2(1e-3),
    rs.penalties.GroupLasso(5e-3, np.arange(123) // 3),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("intercept", [False, True])
def test_few_passes_prove_the_minimum(a9a: Path, penalty: Any, intercept: bool) -> None:
    settings: dict[str, Any] = {"penalty": penalty, "fit_intercept": intercept}
    problem = rs.Problem(*open_shards(a9a, memory=MEMORY), **settings)
    result = rs.ExactProxRR(tol=1e-6).solve(problem)
    best = minimum(a9a, **settings)
    at_zero = problem.datafit.at_zero
    assert result.converged
    assert -1e-9 <= (problem.objective(result.x) - best) / at_zero <= 1e-6
    assert result.trace.last()["disk_passes"] <= (9.0 if intercept else 6.0)
    assert result.trace["newton_on_disk"][-1] >= 1


@pytest.mark.parametrize("loss", [rs.losses.Squared(), rs.losses.Huber(), rs.losses.SquaredHinge()])
def test_other_losses(a9a: Path, loss: Any) -> None:
    settings: dict[str, Any] = {
        "penalty": rs.penalties.ElasticNet(l1=2e-3, l2=1e-3),
        "loss": loss,
        "ridge": 1e-3,
    }
    problem = rs.Problem(*open_shards(a9a, memory=MEMORY), **settings)
    result = rs.ExactProxRR(tol=1e-6).solve(problem)
    assert result.converged
    best = minimum(a9a, **settings)
    assert abs(problem.objective(result.x) - best) <= 1e-6 * problem.datafit.at_zero


def test_shuffled_epochs_alone_converge_on_disk(a9a: Path, by_label: Path) -> None:
    for folder in (a9a, by_label):
        settings: dict[str, Any] = {"penalty": rs.penalties.L2(1e-2)}
        problem = rs.Problem(*open_shards(folder, memory=MEMORY), **settings)
        result = rs.ExactProxRR(tol=1e-5, phases=["shuffled"], epochs=60).solve(problem)
        assert result.converged
        assert problem.objective(result.x) - minimum(folder, **settings) <= 1e-5 * np.log(2)
        assert "newton_on_disk" not in result.trace


def test_the_disk_is_left_as_soon_as_the_rest_fits(tmp_path: Path) -> None:
    """Of 1,000 features an L1 penalty leaves some fifty: the rows are compacted to these, and Newton steps are made there."""
    generate(tmp_path / "rows", 30_000, quiet=True)
    settings: dict[str, Any] = {"penalty": rs.penalties.ElasticNet(l1=4e-3, l2=1e-4)}
    problem = rs.Problem(*open_shards(tmp_path / "rows", memory=4_000_000), **settings)
    assert problem.datafit.on_disk
    result = rs.ExactProxRR(tol=1e-7).solve(problem)
    row = result.trace.last()
    assert result.converged
    assert row["active"] < 300
    assert row["disk_passes"] <= 6.0
    assert row["newton"] + row["shuffled"] + row["newton_cg"] >= 1
    assert problem.objective(result.x) - minimum(tmp_path / "rows", **settings) <= 1e-7 * np.log(2)


def test_where_there_is_no_dual_nothing_is_claimed(a9a: Path) -> None:
    """On disk there is no Newton bound: the gradient mapping ends the run, and the message says what it is worth."""
    problem = rs.Problem(*open_shards(a9a, memory=MEMORY), penalty=rs.penalties.NonNegative())
    result = rs.ExactProxRR(tol=1e-5).solve(problem)
    assert "not a bound" in result.message
    best = minimum(a9a, penalty=rs.penalties.NonNegative())
    assert problem.objective(result.x) - best <= 1e-5


def test_several_outputs(a9a: Path) -> None:
    X, _ = open_shards(a9a, memory=MEMORY)
    y = np.arange(len(X)) % 3
    problem = rs.Problem(X, y, rs.losses.Multinomial(), penalty=rs.penalties.L2(1e-2))
    result = rs.ExactProxRR(tol=1e-5, epochs=60).solve(problem)
    assert result.converged


def test_a_start_of_ones_own(a9a: Path) -> None:
    problem = rs.Problem(*open_shards(a9a, memory=MEMORY), penalty=rs.penalties.L2(1e-3))
    near = rs.ExactProxRR(tol=1e-8).solve(problem).x
    again = rs.ExactProxRR(tol=1e-6).solve(problem, near)
    assert again.converged
    assert again.trace.last()["disk_passes"] <= 2.0


def test_clients_on_disk(a9a: Path, tmp_path: Path) -> None:
    """FedRR and ExactFedRR over folders find what they find over arrays; so does a site that names a folder."""
    convert("a1a", tmp_path / "a1a", Conversion(shard_rows=200))
    penalty = rs.penalties.L2(1e-2)
    clients = []
    for memory in (60_000, 1 << 30):
        X, y = open_shards(tmp_path / "a1a", memory=memory)
        clients.append([rs.Problem(X, y), rs.Problem(X, -y)])
    assert clients[0][0].datafit.on_disk
    exact = [
        rs.ExactFedRR(rounds=300, tol=1e-5, scales=None).solve(
            rs.federated.Federation(c, penalty=penalty)
        )
        for c in clients
    ]
    assert all(result.converged for result in exact)
    np.testing.assert_allclose(exact[0].x, exact[1].x, atol=5e-3)
    with pytest.raises(InputError, match="scales must be None"):
        rs.ExactFedRR(rounds=2).solve(rs.federated.Federation(clients[0], penalty=penalty))
    runs = [
        rs.FedRR(rounds=5, step=1e-2, tol=0.0, seed=1).solve(
            rs.federated.Federation(clients[0], penalty=penalty)
        )
        for _ in range(2)
    ]
    assert np.array_equal(runs[0].x, runs[1].x)


def test_the_command_fits_and_predicts_from_a_folder(a9a: Path, tmp_path: Path) -> None:
    done = runner().invoke(
        main, ["convert", "a1a", str(tmp_path / "rows"), "--json", "--shard-rows", "300"]
    )
    about = json.loads(done.stdout)
    assert (about["rows"], about["number"], about["shards"]) == (1605, "ones", 6)
    fitted = runner().invoke(
        main,
        ["fit", str(tmp_path / "rows"), "--l1", "0.01", "--out", str(tmp_path / "fit"), "--json"],
    )
    assert fitted.exit_code == 0, fitted.output
    said = runner().invoke(
        main,
        [
            "predict",
            str(tmp_path / "fit" / "model.npz"),
            str(tmp_path / "rows"),
            "--out",
            str(tmp_path / "p.csv"),
        ],
    )
    assert said.exit_code == 0, said.output
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1606
    again = runner().invoke(main, ["convert", "a9a", str(tmp_path / "rows")])
    assert again.exit_code == 1
    assert "give an empty folder" in again.output
