"""Problems whose rows lie on disk: the same numbers as in memory, whoever asks, and errors that name a file."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.datasets import Conversion, convert, load_libsvm, open_shards
from reshuffle.errors import FileError, InputError
from reshuffle.orders import Reshuffle, ShuffleOnce, Windows

pytestmark = pytest.mark.usefixtures("a9a_file")

MEMORY = 500_000
"""Bytes of rows at a time: a9a takes two million."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shards") / "a9a"
    convert("a9a", place, Conversion(shuffle=True, shard_rows=500))
    return place


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dense")
    X, y = rs.datasets.breast_cancer()
    np.savez(place / "m.npz", X=X, y=y)
    convert(place / "m.npz", place / "shards", Conversion(shard_rows=64))
    return place / "shards"


def both(folder: Path, memory: int = MEMORY, **settings: Any) -> tuple[rs.Problem, rs.Problem]:
    """The problem on disk, and the same in memory."""
    X, y = open_shards(folder, memory=memory)
    whole, _ = open_shards(folder)
    settings = {"penalty": rs.penalties.ElasticNet(l1=2e-3, l2=1e-3)} | settings
    on_disk, in_memory = rs.Problem(X, y, **settings), rs.Problem(whole, y, **settings)
    assert on_disk.datafit.on_disk
    assert not in_memory.datafit.on_disk
    return on_disk, in_memory


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_pass_is_that_of_memory(
    folder: Path, dense: Path, intercept: bool, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    for place, memory in ((folder, MEMORY), (dense, 40_000)):
        n = open_shards(place)[0].shape[0]
        weights = rng.uniform(0.5, 2.0, n) if weighted else None
        on_disk, in_memory = both(place, memory, fit_intercept=intercept, sample_weight=weights)
        x = 0.1 * rng.normal(size=on_disk.shape)
        ours, theirs = on_disk.datafit, in_memory.datafit
        table = theirs.slopes(x)[0]
        v = rng.normal(size=on_disk.shape)
        for f, g in (
            (ours.value(x), theirs.value(x)), (ours.at_zero, theirs.at_zero), (on_disk.gradient(x), in_memory.gradient(x)),
            (ours.margins(x), theirs.margins(x)), (ours.slopes(x)[0], table), (ours.slopes(x)[1], theirs.slopes(x)[1]),
            (ours.combined(table), theirs.combined(table)), (ours.conjugates(table, 0.5), theirs.conjugates(table, 0.5)),
            (ours.column_means(), theirs.column_means()), (ours.column_counts, theirs.column_counts),
            (ours.curvature_product(v, 0.3), theirs.curvature_product(v, 0.3)),
            (ours.bent_product(table**2, v), theirs.bent_product(table**2, v)),
            (ours.squared_norms(), theirs.squared_norms()), (on_disk.smoothness.L_max, in_memory.smoothness.L_max),
            (on_disk.smoothness.L_mean, in_memory.smoothness.L_mean),
        ):  # fmt: skip
            np.testing.assert_allclose(f, g, rtol=1e-9, atol=1e-11)
        if not weighted:
            np.testing.assert_allclose(ours.column_squares, theirs.column_squares, rtol=1e-9)


def test_a_sweep_makes_the_same_steps(folder: Path) -> None:
    on_disk, in_memory = both(folder, ridge=1e-3)
    visits = rs.orders.order_on(Reshuffle(), on_disk.datafit).visits(
        np.arange(on_disk.n, dtype=np.uint32), np.random.default_rng(1), 0
    )
    assert np.array_equal(np.sort(visits), np.arange(on_disk.n))
    runs = []
    for problem in (on_disk, in_memory):
        x = np.zeros(problem.shape)
        problem.sweep(x, visits, 0.01)
        table, y, q = np.zeros(problem.n), np.zeros(problem.shape), np.full(problem.shape, 1e-3)
        problem.block(y, visits, 0.01, table, q)
        runs.append((x, table, y))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_window_of_an_order(seed: int) -> None:
    """Rows of a window are visited together, shards stay whole, and the same seed gives the same visits."""
    order = Windows(window=40, shard=10)
    pool = np.arange(200, dtype=np.uint32)
    visits = order.visits(pool.copy(), np.random.default_rng(seed), 0)
    assert np.array_equal(visits, order.visits(pool.copy(), np.random.default_rng(seed), 0))
    assert np.array_equal(np.sort(visits), pool)
    sizes = [set((visits[k : k + 40] // 10).tolist()) for k in range(0, 200, 40)]
    assert all(len(shards) == 4 for shards in sizes)
    assert not np.array_equal(visits[:40] // 10, np.sort(visits[:40] // 10))
    assert not np.array_equal(
        visits, Reshuffle().visits(pool.copy(), np.random.default_rng(seed), 0)
    )


SOLVERS = [
    rs.ProxRR(epochs=3, step=0.01, tol=0.0),
    rs.ProxRR(epochs=3, step=0.01, tol=0.0, order=Windows(window=1500), batch_size=4),
    rs.ProxSGD(epochs=3, step=0.01, tol=0.0),
    rs.ExactProxRR(epochs=4, tol=1e-9),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_run_resumes_to_the_same_bits(folder: Path, solver: Any, tmp_path: Path) -> None:
    problem, _ = both(folder)
    whole = solver.solve(problem)
    first = solver.solve(problem, callbacks=[lambda result: result.epoch >= 2])
    assert first.epoch == 2
    first.save(tmp_path / "run.npz")
    again, _ = both(folder)
    resumed = solver.solve(again, resume=tmp_path / "run.npz")
    assert np.array_equal(resumed.x, whole.x)
    assert resumed.trace.last()["disk_passes"] >= whole.trace.last()["epoch"] - 2


def test_a_saved_run_is_not_resumed_on_other_rows(folder: Path, tmp_path: Path) -> None:
    problem, _ = both(folder)
    result = SOLVERS[0].solve(problem)
    other = tmp_path / "other"
    convert("a9a", other, Conversion(shuffle=True, seed=5, shard_rows=500))
    with pytest.raises(InputError, match="on another problem"):
        SOLVERS[0].solve(both(other)[0], resume=result)


def test_what_needs_all_rows_says_so(folder: Path) -> None:
    problem, _ = both(folder)
    with pytest.raises(InputError, match=r"open_shards\(folder, memory="):
        problem.functions  # noqa: B018
    with pytest.raises(InputError, match="convert --shuffle"):
        rs.ProxRR(order=ShuffleOnce(), epochs=1).solve(problem)
    with pytest.raises(InputError, match="importance"):
        rs.ProxRR(importance=True, epochs=1).solve(problem)
    with pytest.raises(InputError, match="takes more than a quarter of memory"):
        rs.ProxRR(order=Windows(window=30_000), epochs=1).solve(problem)
    X, y = open_shards(folder, memory=MEMORY)
    with pytest.raises(InputError, match="curvature"):
        rs.ExactProxRR().solve(rs.Problem(X, (y + 1) / 2, rs.losses.Poisson()))

    class Jumps:
        def visits(self, pool: Any, rng: Any, epoch: int) -> Any:
            return rng.permutation(pool).astype(np.uint32)

    with pytest.raises(InputError, match="jump between shards"):
        rs.ProxRR(order=Jumps(), epochs=1).solve(problem)


def test_estimators_and_rows_of_x(folder: Path) -> None:
    X, y = open_shards(folder, memory=MEMORY)
    whole, _ = open_shards(folder)
    settings: dict[str, Any] = {
        "penalty": "elasticnet",
        "l1": 2e-3,
        "l2": 1e-3,
        "tol": 1e-7,
        "random_state": 0,
    }
    ours = rs.RRClassifier(**settings).fit(X, y)
    A, b = load_libsvm("a9a")
    theirs = rs.RRClassifier(**settings).fit(A, b)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.score(X, y) == pytest.approx(theirs.score(A, b), abs=1e-3)
    part = X[np.arange(0, X.shape[0], 3)]
    np.testing.assert_allclose(part @ ours.coef_[0], (X @ ours.coef_[0])[::3])
    np.testing.assert_allclose(part[5:500] @ ours.coef_[0], (X @ ours.coef_[0])[::3][5:500])
    assert np.array_equal(part.targets(), y[::3])
    some = rs.Problem(part, y[::3])
    assert some.datafit.on_disk
    x = 0.1 * np.ones(some.shape)
    assert some.value(x) == pytest.approx(
        rs.Problem(whole[np.arange(0, X.shape[0], 3)], y[::3]).value(x)
    )
    with pytest.raises(InputError, match="rising order"):
        X[np.array([3, 1])]
    copy = pickle.loads(pickle.dumps(some))
    assert copy.value(x) == some.value(x)


def damaged(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder to spoil."""
    place = tmp_path / "copy"
    place.mkdir()
    for file in folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


def test_damage_is_named(folder: Path, tmp_path: Path) -> None:
    place = damaged(folder, tmp_path)
    victim = place / "00007.indices.npy"
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    X, y = open_shards(place, memory=MEMORY)
    with pytest.raises(FileError, match=r"00007\.indices\.npy is damaged"):
        rs.Problem(X, y).value(np.zeros(X.shape[1]))
    victim.unlink()
    with pytest.raises(FileError, match=r"00007\.indices\.npy is missing"):
        open_shards(place)
    victim.write_bytes(content[:-10])
    with pytest.raises(FileError, match=r"00007\.indices\.npy has .* bytes and should have"):
        open_shards(place)
    about = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(json.dumps(about | {"version": 2}))
    with pytest.raises(InputError, match=r"version 2 of the layout.*reads version 1"):
        open_shards(place)
    for text in ("{", "[]", json.dumps(about | {"shards": 3}), json.dumps(about | {"layout": "x"})):
        (place / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=r"damaged"):
            open_shards(place)
    (place / "manifest.json").unlink()
    with pytest.raises(InputError, match="is no folder of shards"):
        open_shards(place)


@pytest.mark.parametrize("how", ["cut", "changed", "gone"])
def test_a_shard_that_changes_during_a_run_ends_it(folder: Path, tmp_path: Path, how: str) -> None:
    place = damaged(folder, tmp_path)
    problem, _ = both(place)
    victim = place / "00030.indices.npy"

    def spoil(result: Any) -> None:
        if result.epoch == 2 and how == "cut":
            os.truncate(victim, 300)
        elif result.epoch == 2 and how == "gone":
            victim.unlink()
        elif result.epoch == 2:
            content = bytearray(victim.read_bytes())
            content[200:204] = b"\xff\xff\xff\x7f"  # an index far beyond the features
            victim.write_bytes(content)

    with pytest.raises(FileError, match=r"00030\.indices\.npy"):
        rs.ProxRR(epochs=5, step=0.01).solve(problem, callbacks=[spoil])


def test_sparse_rows_with_values(tmp_path: Path) -> None:
    """Shards with and without values in one folder."""
    rng = np.random.default_rng(0)
    X: Any = sp.random(300, 30, density=0.2, random_state=rng, format="csr")
    X.data[: X.indptr[100]] = 1.0
    y = rng.choice([-1.0, 1.0], 300)
    sp.save_npz(tmp_path / "m.npz", X)
    np.save(tmp_path / "y.npy", y)
    convert(
        tmp_path / "m.npz",
        tmp_path / "out",
        Conversion(target=str(tmp_path / "y.npy"), shard_rows=50),
    )
    names = sorted(file.name for file in (tmp_path / "out").glob("*.values.npy"))
    assert names == [f"0000{k}.values.npy" for k in (2, 3, 4, 5)]
    shards, labels = open_shards(tmp_path / "out", memory=9000)
    x = rng.normal(size=30)
    assert rs.Problem(shards, labels).value(x) == pytest.approx(rs.Problem(X, y).value(x))
    visits = np.arange(300, dtype=np.uint32)
    ours, theirs = np.zeros(30), np.zeros(30)
    rs.Problem(shards, labels).sweep(ours, visits, 0.1)
    rs.Problem(X, y).sweep(theirs, visits, 0.1)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
