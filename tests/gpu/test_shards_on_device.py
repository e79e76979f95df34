"""Rows of shards that come to a device piece by piece, against the processor; on a graphics card too, where there is one."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import runner
from gpu_cases import LOSSES, missing_card
from host_device import COMPILER, HostDevice

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import FileError
from reshuffle.gpu import CudaDevice, DeviceSamples, StreamedSamples
from reshuffle.gpu.conveyor import groups_of
from reshuffle.interruption import OutOfTime, until

HOST = pytest.param("host", marks=pytest.mark.skipif(COMPILER is None, reason="g++ is not there"))
CARD = pytest.param("card", marks=pytest.mark.skipif(bool(missing_card()), reason="there is no card"))  # fmt: skip
SMALL = 30_000
"""Bytes of a device's memory: a piece then takes less than a thousand."""
N = 1500


@pytest.fixture(scope="module", params=[HOST, CARD])
def device_of(request: pytest.FixtureRequest) -> Any:
    """A device with so many bytes for rows."""

    def made(memory: int = SMALL) -> Any:
        if request.param == "host":
            return HostDevice(memory=memory)
        return CudaDevice(memory=memory)

    return made


def matrix(kind: str, n: int = N, d: int = 12) -> Any:
    """Rows of one kind, the last tenth of them larger than the others, and some of them empty."""
    rng = np.random.default_rng(5)
    X = np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0.0)
    X[-n // 10 :] *= 3.0
    X[:70] = 0.0
    if kind == "ones":
        return sp.csr_matrix((X > 0.3).astype(float))
    if kind == "uneven":
        X = X * 10.0 ** np.linspace(-6, 5, d)
    if kind == "wide":
        X = np.hstack([X, rng.normal(size=(n, 66))])
    return X if kind in ("dense", "wide") else sp.csr_matrix(X)


def folder_of(place: Path, kind: str, loss: Any, n: int = N, **how: Any) -> Path:
    """A folder of shards with 100 rows each."""
    X, rng = matrix(kind, n), np.random.default_rng(7)
    sparse = hasattr(X, "indptr")
    size = np.sqrt(np.asarray(abs(X).power(2).mean(0)).ravel() if sparse else (X * X).mean(0))
    z = X @ (rng.normal(size=X.shape[1]) / np.maximum(size, 1e-9)) / np.sqrt(X.shape[1])
    y = {
        "signs": np.where(z + rng.logistic(size=n) > 0.0, 1.0, -1.0),
        "counts": rng.poisson(2.0, n).astype(float),
    }.get(loss.targets, z + 0.3 * rng.normal(size=n))
    place.mkdir(parents=True, exist_ok=True)
    if sparse:
        sp.save_npz(place / "rows.npz", X)
        stored = dict(np.load(place / "rows.npz"))
        np.savez(place / "rows.npz", **stored, y=y)
    else:
        np.savez(place / "rows.npz", X=X, y=y)
    convert(place / "rows.npz", place / "shards", Conversion(**{"shard_rows": 100} | how))
    return place / "shards"


def both(folder: Path, **settings: Any) -> tuple[rs.Problem, rs.Problem]:
    """The problem on disk, and the same in memory."""
    X, y = open_shards(folder, memory=2000)
    whole, _ = open_shards(folder)
    settings = {"penalty": rs.penalties.L1(0.01)} | settings
    on_disk, in_memory = rs.Problem(X, y, **settings), rs.Problem(whole, y, **settings)
    assert on_disk.datafit.on_disk
    return on_disk, in_memory


def here(device: Any, array: Any) -> Any:
    return np.asarray(device.get(array))


@pytest.mark.parametrize("kind", ["sparse", "dense", "ones", "uneven", "wide"])
@pytest.mark.parametrize("number", ["float64", "float32"])
def test_passes_over_pieces_are_those_of_the_core(
    kind: str, number: str, device_of: Any, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, kind, rs.losses.Logistic(), number=number)
    more = {"sample_weight": np.linspace(0.5, 2.0, N), "offset": np.linspace(-1.0, 1.0, N)}
    on_disk, whole = both(folder, fit_intercept=True, **more)
    fit, device = whole.datafit, device_of()
    there = DeviceProblem.of(on_disk, device).datafit
    assert isinstance(there, StreamedSamples)
    assert len(there.conveyor.groups) >= 15
    sizes = np.append(np.sqrt(fit.column_squares), 1.0) + (fit.column_squares == 0).any()
    x = np.random.default_rng(1).normal(size=fit.shape) / np.maximum(sizes, 1e-9)

    def agree(found: Any, wanted: Any, scale: Any = sizes) -> None:
        np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=2e-11)

    slopes, mean = fit.slopes(x)
    found = there.at(x)
    assert found.value == pytest.approx(fit.value(x) / N, rel=1e-12)
    agree(found.gradient, mean)
    agree(here(device, found.slopes), slopes, 1.0)
    agree(there.combined(found.slopes), fit.combined(slopes))
    agree(here(device, there.margins(x)), fit.margins(x), 1.0)
    assert there.conjugates(found.slopes, 0.7) == pytest.approx(fit.conjugates(slopes, 0.7))
    assert there.at_zero == pytest.approx(fit.at_zero, rel=1e-12)
    agree(there.column_squares, fit.column_squares, sizes[:-1] ** 2)
    resident = DeviceProblem.of(whole, device).datafit
    agree(there.hessian(x), resident.hessian(x), np.outer(sizes, sizes))
    chosen = np.sort(np.random.default_rng(2).integers(0, N, 400))
    part = there.take(chosen)
    assert isinstance(part, DeviceSamples)
    agree(part.at(x).gradient, fit.take(chosen.astype(np.uint32)).slopes(x)[1])
    # In pieces of other sizes, and with all rows on the device:
    for memory in (2 * SMALL, 8 * SMALL, 1 << 30):
        other = DeviceProblem.of(on_disk, device_of(memory)).datafit
        again = other.at(x)
        assert again.value == pytest.approx(found.value, rel=1e-12)
        np.testing.assert_allclose(again.gradient / sizes, found.gradient / sizes, rtol=0, atol=1e-12)  # fmt: skip
    assert isinstance(other, DeviceSamples)


@pytest.mark.parametrize("loss", [rs.losses.Logistic(), *LOSSES], ids=str)
def test_the_minimiser_is_certified_and_that_of_the_processor(
    loss: Any, device_of: Any, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, "sparse", loss)
    on_disk, whole = both(folder, loss=loss, penalty=rs.penalties.ElasticNet(0.02, 0.01))
    wanted = rs.ExactProxRR(tol=1e-12).solve(whole)
    for memory in (SMALL, 4 * SMALL, 1 << 30):
        found = rs.ExactProxRR(tol=1e-9, device=device_of(memory)).solve(on_disk)
        assert found.converged
        above = whole.objective(found.x) - whole.objective(wanted.x)
        assert -1e-12 <= above / whole.datafit.at_zero <= 1e-9


@pytest.mark.parametrize("kind", ["dense", "uneven", "ones", "wide"])
def test_kinds_of_rows_with_an_intercept_and_weights(
    kind: str, device_of: Any, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, kind, rs.losses.Logistic())
    weights = np.random.default_rng(0).uniform(0.0, 2.0, N)
    on_disk, whole = both(folder, fit_intercept=True, sample_weight=weights, ridge=1e-3)
    wanted = rs.ExactProxRR(tol=1e-12).solve(whole)
    found = rs.ExactProxRR(tol=1e-9, device=device_of()).solve(on_disk)
    assert found.converged
    assert found.trace["disk_passes"][-1] > 1.0
    above = whole.objective(found.x) - whole.objective(wanted.x)
    assert -1e-11 <= above / whole.datafit.at_zero <= 1e-9


def test_tall_shards_begin_with_rows_that_stay_on_the_device(
    device_of: Any, tmp_path: Path
) -> None:
    n = 170_000
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic(), n, shard_rows=10_000)
    on_disk, whole = both(folder, penalty=rs.penalties.L1(1e-4))
    found = rs.ExactProxRR(tol=1e-9, device=device_of(4_000_000)).solve(on_disk)
    wanted = rs.ExactProxRR(tol=1e-12).solve(whole)
    assert found.converged
    assert found.trace["hessian_rows"][0] < n
    # One pass for each step, one at the start, and a survey that reads these files twice, whose checksums are of more than a piece.
    assert found.trace["disk_passes"][-1] < len(found.trace["gap"]) + 3.0
    above = whole.objective(found.x) - whole.objective(wanted.x)
    assert -1e-12 <= above / whole.datafit.at_zero <= 1e-9


def test_tables_may_lie_on_the_processor(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "wide", rs.losses.Logistic())
    on_disk, _ = both(folder)
    small, larger = (DeviceProblem.of(on_disk, device_of(m)).datafit for m in (SMALL, 250_000))
    assert isinstance(small, StreamedSamples)
    assert isinstance(larger, StreamedSamples)
    assert not small.tables_there
    assert larger.tables_there
    assert isinstance(small.at(np.zeros(78)).slopes, np.ndarray)


def test_rows_of_zeros_one_shard_and_selected_rows(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic(), shard_rows=5000)
    X, y = open_shards(folder, memory=2000)
    assert len(X.manifest.shards) == 1
    chosen = np.flatnonzero(
        np.arange(N) % 3 > 0
    )  # of the first piece of the shard almost all rows are empty
    for rows in (slice(None), chosen):
        part = X[rows] if rows is chosen else X
        on_disk = rs.Problem(part, y[rows], penalty=rs.penalties.L1(0.01))
        whole = rs.Problem(matrix("sparse")[rows], y[rows], penalty=rs.penalties.L1(0.01))
        wanted = rs.ExactProxRR(tol=1e-12).solve(whole)
        for memory in (SMALL, 1 << 30):
            found = rs.ExactProxRR(tol=1e-9, device=device_of(memory)).solve(on_disk)
            assert found.converged
            np.testing.assert_allclose(found.x, wanted.x, atol=1e-4)


def test_pieces_join_small_shards_and_divide_large_ones(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "dense", rs.losses.Logistic())
    X, _ = open_shards(folder)
    each = X.bytes // N
    for piece in (1, 30 * each, 150 * each, 250 * each, 10**9):
        groups = groups_of(X, piece)
        assert [k for group in groups for k in group] == list(range(len(X.counts)))
    assert len(groups_of(X, 1)) == len(X.counts)
    assert len(groups_of(X, 250 * each)) == 8
    assert len(groups_of(X, 10**9)) == 1


def test_the_same_bits_each_time_and_a_run_goes_on(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic())
    on_disk, _ = both(folder, ridge=0.01)
    solver = rs.ExactProxRR(tol=1e-13, device=device_of())
    whole = solver.solve(on_disk)
    first = solver.solve(on_disk, callbacks=[lambda so_far: so_far.epoch >= 1])
    assert not first.converged
    later = solver.solve(both(folder, ridge=0.01)[0], resume=first)
    assert later.x.tobytes() == whole.x.tobytes() == solver.solve(on_disk).x.tobytes()
    other = folder_of(tmp_path / "other", "dense", rs.losses.Logistic())
    with pytest.raises(rs.InputError, match=r"another|different|other"):
        solver.solve(both(other, ridge=0.01)[0], resume=first)


def test_a_shard_that_changes_during_a_run_is_noticed(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic())
    on_disk, _ = both(folder)
    there = DeviceProblem.of(on_disk, device_of()).datafit
    there.at(np.zeros(12))
    changed = folder / "00007.values.npy"
    data = bytearray(changed.read_bytes())
    data[-3] ^= 1
    changed.write_bytes(data)
    os.utime(changed, ns=(1, 1))
    with pytest.raises(FileError, match="00007"):
        there.at(np.zeros(12))
    changed.unlink()
    with pytest.raises(FileError, match="00007"):
        rs.ExactProxRR(device=device_of()).solve(on_disk)


def test_a_pass_that_is_interrupted_leaves_nothing_behind(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic())
    on_disk, _ = both(folder)
    there = DeviceProblem.of(on_disk, device_of()).datafit
    assert isinstance(there, StreamedSamples)
    x = np.ones(12)
    wanted = there.at(x)
    seen: list[int] = []

    def stop(k: int, begin: int, end: int, rows: Any) -> None:
        seen.append(k)
        if k == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        there.conveyor.each(stop)
    assert seen == [0, 1, 2, 3]
    with pytest.raises(OutOfTime), until(0.0):
        there.at(x)
    assert not [t for t in threading.enumerate() if t.name.startswith("shards")]
    assert there.at(x).gradient.tobytes() == wanted.gradient.tobytes()


def test_without_a_dual_the_run_ends_as_stationary(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "dense", rs.losses.Logistic())
    on_disk, whole = both(folder, penalty=rs.penalties.Zero())
    found = rs.ExactProxRR(tol=1e-9, device=device_of()).solve(on_disk)
    assert not found.converged
    wanted = rs.ExactProxRR(tol=1e-12).solve(whole)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-6)


def test_refusals_are_those_of_rows_in_memory(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "dense", rs.losses.Squared())
    X, y = open_shards(folder, memory=2000)
    solver = rs.ExactProxRR(device=device_of())
    with pytest.raises(rs.InputError, match="has no kernel"):
        solver.solve(rs.Problem(X, np.abs(y) + 1.0, loss=rs.losses.Gamma()))
    with pytest.raises(rs.InputError, match="memory must be a positive integer"):
        CudaDevice(memory=-1)


def test_columns_that_overflow_are_refused(device_of: Any, tmp_path: Path) -> None:
    X = np.ones((N, 3))
    X[-1] = 1e152
    np.savez(tmp_path / "rows.npz", X=X, y=np.arange(N) % 2 * 2.0 - 1.0)
    convert(tmp_path / "rows.npz", tmp_path / "shards", Conversion(shard_rows=100))
    on_disk, _ = both(tmp_path / "shards")
    with pytest.raises(rs.InputError, match="overflow"):
        rs.ExactProxRR(device=device_of()).solve(on_disk)


def test_estimators_take_shards_and_a_device(device_of: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic())
    X, y = open_shards(folder, memory=2000)
    wanted = rs.RRClassifier(penalty="l1", l1=0.01).fit(matrix("sparse"), y)
    found = rs.RRClassifier(penalty="l1", l1=0.01, device=device_of()).fit(X, y)
    assert found.converged_
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-4)
    np.testing.assert_array_equal(found.predict(X), wanted.predict(matrix("sparse")))


def test_the_command_asks_for_a_card_before_it_reads_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, "sparse", rs.losses.Logistic())
    monkeypatch.setitem(sys.modules, "cupy", None)
    ended = runner().invoke(main, ["fit", str(folder), "--device", "cuda"])
    assert ended.exit_code == 1
    assert "--device cuda needs cupy" in " ".join(ended.stderr.split())
