"""One folder of shards over many hosts: the model of one machine, whatever the hosts, and errors that name a shard."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.errors import ClientError, InputError

SMALL = 12_000
"""Bytes of rows of a client: those of breast_cancer take 240 a row, so that the shards of a client lie on disk."""
PENALTY = rs.penalties.ElasticNet(l1=4e-3, l2=6e-3)
Divided = rs.federated.DividedFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("divided")
    X, y = rs.datasets.breast_cancer()
    np.savez(place / "rows.npz", X=X, y=y)
    convert(place / "rows.npz", place / "shards", Conversion(shuffle=True, shard_rows=32))
    return place / "shards"


def pooled(folder: Path, **settings: Any) -> rs.Problem:
    X, y = open_shards(folder)
    return rs.Problem(X, y, **{"penalty": PENALTY} | settings)


def solver(workers: int = 2, **settings: Any) -> Any:
    return rs.ExactDistributed(engine=rs.engines.Threads(workers), **settings)


@pytest.mark.parametrize("memory", [SMALL, 1 << 20], ids=["disk", "memory"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_model_is_that_of_one_machine(folder: Path, memory: int, intercept: bool) -> None:
    best = rs.ExactProxRR(tol=1e-12).solve(pooled(folder, fit_intercept=intercept))
    rows = Divided(folder, penalty=PENALTY, fit_intercept=intercept, clients=4, memory=memory)
    found = solver(tol=1e-9).solve(rows)
    assert found.converged
    np.testing.assert_allclose(found.x, best.x, atol=1e-4)
    above = found.trace.last()["objective"] - best.trace.last()["objective"]
    assert above <= 1e-9 * np.log(2) + 1e-14


@pytest.mark.parametrize("memory", [SMALL, 1 << 20], ids=["disk", "memory"])
def test_the_bits_do_not_depend_on_the_number_of_hosts(folder: Path, memory: int) -> None:
    rows = Divided(folder, penalty=PENALTY, clients=6, memory=memory)
    for method in (solver(tol=1e-6), rs.ExactFedRR(rounds=5, tol=0.0, scales=None)):
        runs = [
            replace(method, engine=rs.engines.Threads(workers)).solve(rows) for workers in (1, 2, 7)
        ]
        assert len({run.digest for run in runs}) == 1


def test_newton_on_disk_is_newton_in_memory(folder: Path) -> None:
    """The answers of windows are added up, and the certificate needs no pass of its own."""
    runs = [
        rs.FedNewton(tol=1e-8).solve(Divided(folder, penalty=PENALTY, clients=3, memory=memory))
        for memory in (SMALL, 1 << 20)
    ]
    assert [run.converged for run in runs] == [True, True]
    assert runs[0].epoch == runs[1].epoch
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-10)


def test_newton_reads_the_files_once_a_round(folder: Path) -> None:
    X, y = open_shards(folder, memory=SMALL)
    sites = rs.federated.Sites([lambda: (X, y)], penalty=PENALTY)
    asked = []

    def count(result: rs.Result) -> None:
        asked.append(X.reader.bytes_read)

    rs.FedNewton(tol=1e-12, rounds=5).solve(sites, callbacks=[count])
    rows = X.manifest.bytes - sum(s.files["targets"].bytes for s in X.manifest.shards)
    passes = np.diff(asked) / rows
    assert passes[1:].max() < 1.1


@pytest.mark.parametrize("loss", [rs.losses.Squared(), rs.losses.Huber(), rs.losses.SquaredHinge()])
def test_other_losses(folder: Path, loss: Any) -> None:
    best = rs.ExactProxRR(tol=1e-11).solve(pooled(folder, loss=loss, fit_intercept=True))
    rows = Divided(folder, loss, penalty=PENALTY, fit_intercept=True, clients=3, memory=SMALL)
    found = solver(tol=1e-6).solve(rows)
    assert found.converged
    above = found.trace.last()["objective"] - best.trace.last()["objective"]
    assert above <= 1e-6 * float(best.trace["objective"][0])


def test_counts_of_poisson_go_by_newton(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    np.savez(tmp_path / "m.npz", X=X, y=rng.poisson(np.exp(0.3 * X[:, 0])).astype(float))
    convert(tmp_path / "m.npz", tmp_path / "s", Conversion(shard_rows=64))
    stored, y = open_shards(tmp_path / "s")
    penalty = rs.penalties.L2(0.01)
    best = rs.ExactProxRR(tol=1e-11).solve(rs.Problem(stored, y, rs.losses.Poisson(), penalty))
    rows = Divided(tmp_path / "s", rs.losses.Poisson(), penalty, memory=2_000, clients=2)
    np.testing.assert_allclose(solver(tol=1e-9).solve(rows).x, best.x, atol=1e-5)


def test_many_features_that_matter_are_left_to_epochs(tmp_path: Path) -> None:
    """More coordinates than a Hessian is written out for, by a ridge: ExactFedRR solves it."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X: Any = sp.random(600, 2500, 0.004, format="csr", random_state=1)
    y = np.where(rng.random(600) < 0.5, 1.0, -1.0)
    np.savez(tmp_path / "m.npz", y=y, X=X.toarray())
    convert(tmp_path / "m.npz", tmp_path / "s", Conversion(shard_rows=100))
    found = solver(tol=1e-4).solve(
        Divided(tmp_path / "s", penalty=rs.penalties.L2(1e-2), clients=2)
    )
    assert found.converged
    assert "acceleration" in found.trace.header


# --- what is refused ---------------------------------------------------------------------------


def test_bad_arguments(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="clients must be at most the 18 shards"):
        Divided(folder, clients=19)
    with pytest.raises(InputError, match="is no folder of shards"):
        Divided(tmp_path)
    with pytest.raises(InputError, match="clients"):
        Divided(folder, clients=0)
    with pytest.raises(InputError, match="memory"):
        Divided(folder, memory=-1)
    with pytest.raises(InputError, match=r"takes rs\.federated\.DividedFolder"):
        solver().solve(pooled(folder))
    with pytest.raises(InputError, match="no step to choose"):
        rs.ExactDistributed(step=0.1)


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def test_an_unfinished_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "s")
    about = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(json.dumps(about | {"complete": False}))
    with pytest.raises(InputError, match="unfinished conversion"):
        Divided(place)
    (place / "manifest.json").write_text(json.dumps(about | {"version": 7}))
    with pytest.raises(InputError, match="version 7"):
        Divided(place)


def test_empty_shards_and_rows_without_features_are_refused(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "s")
    about = json.loads((place / "manifest.json").read_text())
    empty = [*about["shards"][:-1], about["shards"][-1] | {"rows": 0}]
    for change, words in (
        ({"shards": empty}, "shard 17 has 0 rows"),
        ({"shards": []}, "has 0 shards"),
        ({"features": 0}, "and 0 features"),
    ):
        (place / "manifest.json").write_text(json.dumps(about | change))
        with pytest.raises(InputError, match=words):
            Divided(place)


@pytest.mark.filterwarnings("ignore:FedNewton")
def test_a_run_is_resumed_to_the_same_bits(folder: Path, tmp_path: Path) -> None:
    rows = Divided(folder, penalty=PENALTY, clients=3, memory=SMALL)
    whole = solver(tol=1e-8).solve(rows)
    solver(tol=1e-8, rounds=2).solve(rows).save(tmp_path / "run.npz")
    again = solver(1, tol=1e-8).solve(rows, resume=tmp_path / "run.npz")
    assert again.digest == whole.digest


def test_the_solvers_of_one_machine_refuse_it(folder: Path) -> None:
    with pytest.raises(InputError, match="needs the data here"):
        rs.ExactProxRR().solve(Divided(folder))  # type: ignore[arg-type]


def test_a_host_needs_its_own_files_alone(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "s")
    rows = Divided(place, penalty=PENALTY, clients=3)
    for name in rows.files_of(1):
        (place / name).unlink()
    for client in (0, 2):
        load: Any = rows.sites[client].data
        X, y, *_ = load()
        assert X.shape[0] == len(y) == rows.part(client).rows
    with pytest.raises(ClientError, match=r"shards 6 to 11\): .*00006.*npy is missing"):
        solver().solve(rows)


def test_a_host_with_another_folder_of_that_name_is_refused(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "s")
    rows = Divided(place, penalty=PENALTY, clients=3)
    shutil.rmtree(place)
    X, y = rs.datasets.breast_cancer()
    np.savez(tmp_path / "m.npz", X=X[::-1], y=y[::-1])
    convert(tmp_path / "m.npz", place, Conversion(shard_rows=32))
    with pytest.raises(ClientError, match="are not those of the driver's folder"):
        solver().solve(rows)


@pytest.mark.parametrize("how", ["cut", "overwritten", "removed"])
def test_a_shard_that_changes_in_mid_round_ends_the_run_with_its_name(
    folder: Path, tmp_path: Path, how: str
) -> None:
    place = copied(folder, tmp_path / "s")

    def spoil(task: Any, answer: Any, reason: str) -> None:
        path = place / "00017.values.npy"
        if task.kind != "train" or task.round != 1 or not path.exists():
            return
        if how == "removed":
            path.unlink()
        elif how == "cut":
            os.truncate(path, path.stat().st_size // 2)
        else:
            content = bytearray(path.read_bytes())
            content[-3] ^= 1
            path.write_bytes(content)

    rows = Divided(place, penalty=PENALTY, clients=6, memory=SMALL, watch=spoil)
    with pytest.raises(ClientError, match=r"shards 15 to 17\): .*00017.values.npy"):
        solver(1, tol=1e-12).solve(rows)


# --- folders that nobody meant -----------------------------------------------------------------


def test_more_hosts_than_shards_and_shards_of_one_row(tmp_path: Path) -> None:
    X, y = rs.datasets.breast_cancer()
    np.savez(tmp_path / "m.npz", X=X[17:24], y=y[17:24])
    convert(tmp_path / "m.npz", tmp_path / "s", Conversion(shard_rows=1))
    penalty = rs.penalties.L2(0.1)
    best = rs.ExactProxRR(tol=1e-11).solve(pooled(tmp_path / "s", penalty=penalty))
    found = solver(40, tol=1e-9).solve(Divided(tmp_path / "s", penalty=penalty))
    np.testing.assert_allclose(found.x, best.x, atol=1e-4)


def test_clients_with_one_label_each(tmp_path: Path) -> None:
    """Rows that are sorted by label, on disk: the same minimiser."""
    X, y = rs.datasets.breast_cancer()
    order = np.argsort(y, kind="stable")
    np.savez(tmp_path / "m.npz", X=X[order], y=y[order])
    convert(tmp_path / "m.npz", tmp_path / "s", Conversion(shard_rows=32))
    best = rs.ExactProxRR(tol=1e-11).solve(pooled(tmp_path / "s"))
    rows = Divided(tmp_path / "s", penalty=PENALTY, clients=9, memory=SMALL)
    found = solver(tol=1e-8).solve(rows)
    assert found.converged
    np.testing.assert_allclose(found.x, best.x, atol=1e-3)


def test_labels_that_are_texts_and_names_of_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    lines = [f"{k % 5},{k % 3},{'yes' if (k * 7) % 11 < 5 else 'no'}" for k in range(200)]
    (tmp_path / "t.csv").write_text("a,b,label\n" + "\n".join(lines) + "\n")
    convert(tmp_path / "t.csv", tmp_path / "s", Conversion(target="label", shard_rows=50))
    rows = Divided(tmp_path / "s", penalty=rs.penalties.L2(0.01), fit_intercept=True)
    found = solver().solve(rows)
    assert found.learned is not None
    assert found.learned.classes == ("no", "yes")
    assert found.learned.names == ("a", "b")


def test_a_folder_behind_a_link_that_nobody_may_write_to(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "real")
    for path in place.iterdir():
        path.chmod(0o400)
    place.chmod(0o500)
    (tmp_path / "link").symlink_to(place)
    try:
        runs = [
            solver().solve(Divided(path, penalty=PENALTY, clients=3)).digest
            for path in (place, tmp_path / "link")
        ]
    finally:
        place.chmod(0o700)
    assert runs[0] == runs[1]


def test_numbers_of_four_bytes_give_the_same_model_to_their_rounding(
    folder: Path, tmp_path: Path
) -> None:
    convert(folder, tmp_path / "s", Conversion(number="float32", shard_rows=32))
    runs = [
        solver(tol=1e-9).solve(Divided(place, penalty=PENALTY, clients=3, memory=SMALL // 2))
        for place in (folder, tmp_path / "s")
    ]
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-4)


def test_a_manifest_that_mixes_types_is_told_by_the_size_of_the_file(
    folder: Path, tmp_path: Path
) -> None:
    """A shard of float32 in a folder of float64, with a manifest that was changed to fit."""
    place = copied(folder, tmp_path / "s")
    path, about = place / "00003.values.npy", json.loads((place / "manifest.json").read_text())
    np.save(path, np.load(path).astype(np.float32))
    about["shards"][3]["files"]["values"]["bytes"] = path.stat().st_size
    (place / "manifest.json").write_text(json.dumps(about))
    with pytest.raises(ClientError, match=r"00003.values.npy has [\d,]+ bytes and should have"):
        solver().solve(Divided(place, penalty=PENALTY, clients=3))
