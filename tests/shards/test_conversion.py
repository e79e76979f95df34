"""``convert``: the rows of every form, in bounded memory, after a kill and on a full disk."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from reshuffle.datasets import Conversion, convert, load_libsvm, open_shards
from reshuffle.errors import InputError
from reshuffle.shards import Manifest, read_manifest

pytestmark = pytest.mark.usefixtures("a9a_file")

A9A = "a9a"


def matrix(folder: Path) -> tuple[Any, Any]:
    """The rows and targets of a folder as the ten lines of docs/scale.md read them, with numpy alone."""
    about = json.loads((folder / "manifest.json").read_text())
    rows, y = [], []
    for shard in about["shards"]:
        part = {k: np.load(folder / f["name"]) for k, f in shard["files"].items()}
        y.append(part["targets"])
        if about["layout"] == "dense":
            rows.append(part["values"])
        else:
            values = part.get("values", np.ones(shard["stored"], about["number"]))
            arrays = (values, part["indices"], part["indptr"])
            rows.append(sp.csr_matrix(arrays, (shard["rows"], about["features"])))
    X = np.concatenate(rows) if about["layout"] == "dense" else sp.vstack(rows)
    return X, np.concatenate(y)


def same(manifest: Manifest, folder: Path, X: Any, y: Any) -> None:
    """The folder holds exactly these rows, by the reader and by numpy."""
    found, targets = matrix(folder)
    assert found.shape == X.shape == (manifest.rows, manifest.features)
    assert abs(found - X).max() == 0
    assert np.array_equal(targets, y)
    shards, labels = open_shards(folder)
    w = np.random.default_rng(0).normal(size=X.shape[1])
    np.testing.assert_allclose(shards @ w, X @ w, atol=1e-12)
    assert np.array_equal(labels, y)


@pytest.fixture
def numbers() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X: Any = sp.random(700, 40, density=0.2, random_state=rng, format="csr")
    X.data = np.round(X.data, 3)
    return X, rng.integers(0, 3, 700).astype(float)


def write_svm(path: Path, X: Any, y: Any, first: int = 1) -> None:
    lines = []
    for i in range(X.shape[0]):
        row = X[i]
        pairs = sorted(zip(row.indices, row.data, strict=True))
        lines.append(f"{y[i]:g} " + " ".join(f"{j + first}:{v!r}" for j, v in pairs))
    path.write_text("\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n")


def test_rows_of_ones_have_no_values(tmp_path: Path) -> None:
    X, y = load_libsvm(A9A)
    manifest = convert(A9A, tmp_path / "out", Conversion(shard_rows=5000))
    assert manifest.unit
    assert len(manifest.shards) == 7
    assert not list((tmp_path / "out").glob("*.values.npy"))
    same(manifest, tmp_path / "out", X, y)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_libsvm(tmp_path: Path, numbers: Any, packed: bool, first: int) -> None:
    X, y = numbers
    path = tmp_path / "rows.svm"
    write_svm(path, X, y, first)
    if packed:
        path = tmp_path / "rows.svm.gz"
        path.write_bytes(gzip.compress((tmp_path / "rows.svm").read_bytes()))
    manifest = convert(path, tmp_path / "out", Conversion(shard_rows=64))
    assert not manifest.unit
    assert manifest.layout == "csr"
    same(manifest, tmp_path / "out", X, y)
    squares = np.asarray(X.multiply(X).sum(axis=1))
    assert manifest.largest_square == pytest.approx(squares.max())
    assert manifest.sum_of_squares == pytest.approx(squares.sum())


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "csv.gz"])
def test_tables(tmp_path: Path, ending: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    columns: dict[str, Any] = {
        "a": X[:, 0],
        "label": np.array(["no", "yes"])[y],
        "b": X[:, 1],
        "c": X[:, 2],
        "text": ["t"] * 300,
    }
    table, path = pyarrow.table(columns), tmp_path / f"rows.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path, row_group_size=70)
    else:
        plain = tmp_path / "plain"
        csv.write_csv(table, plain, csv.WriteOptions(delimiter="\t" if ending == "tsv" else ","))
        path.write_bytes(
            gzip.compress(plain.read_bytes()) if ending.endswith("gz") else plain.read_bytes()
        )
    how = Conversion(target="label", drop=("text",), shard_rows=64)
    manifest = convert(path, tmp_path / "out", how)
    assert manifest.layout == "dense"
    assert manifest.names == ("a", "b", "c")
    found, codes = matrix(tmp_path / "out")
    assert np.array_equal(found, X)
    assert np.array_equal(np.array(manifest.classes)[codes.astype(int)], columns["label"])
    assert np.array_equal(open_shards(tmp_path / "out")[1], columns["label"])
    with pytest.raises(InputError, match=r"'text' holds values of type|conversion error"):
        convert(path, tmp_path / "other", Conversion(target="label"))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("number", ["float64", "float32"])
def test_npz(tmp_path: Path, numbers: Any, dense: bool, number: str) -> None:
    X, y = numbers
    X = X.astype(number)
    if dense:
        np.savez_compressed(tmp_path / "m.npz", X=X.toarray(), y=y)
    else:
        sp.save_npz(tmp_path / "m.npz", X)
        np.save(tmp_path / "y.npy", y)
    how = Conversion(
        target=None if dense else str(tmp_path / "y.npy"), number=number, shard_rows=100
    )
    manifest = convert(tmp_path / "m.npz", tmp_path / "out", how)
    assert manifest.number == number
    same(manifest, tmp_path / "out", X.toarray() if dense else X, y)


def test_shuffled_rows_are_the_same_rows(tmp_path: Path, numbers: Any) -> None:
    X, y = numbers
    write_svm(tmp_path / "rows", X, y)
    convert(tmp_path / "rows", tmp_path / "plain", Conversion(shard_rows=64))
    folders: list[Path] = []
    for seed in (0, 0, 1):
        folders.append(tmp_path / f"shuffled-{len(folders)}")
        convert(tmp_path / "rows", folders[-1], Conversion(shuffle=True, seed=seed, shard_rows=64))
        assert not (folders[-1] / "buckets").exists()
    key = np.arange(1.0, 41.0)
    once, again, other = (matrix(folder)[0] @ key for folder in folders)
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    assert not np.array_equal(once, X @ key)
    np.testing.assert_allclose(np.sort(once), np.sort(X @ key))
    targets = matrix(folders[0])[1]
    pairs = [
        sorted(zip(np.round(k, 6), t, strict=True)) for k, t in ((X @ key, y), (once, targets))
    ]
    assert pairs[0] == pairs[1]
    convert(tmp_path / "plain", tmp_path / "from-shards", Conversion(shuffle=True, shard_rows=64))
    np.testing.assert_allclose(np.sort(matrix(tmp_path / "from-shards")[0] @ key), np.sort(once))


CHILD = """
import os, signal, sys
from reshuffle.datasets import Conversion, convert
left = int(sys.argv[3])
def killed(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
import reshuffle.datasets.libsvm_blocks as blocks
blocks.PIECE = 4000
how = Conversion(shard_rows=64, shuffle=sys.argv[4] == "1")
convert(sys.argv[1], sys.argv[2], how, killed)
"""


@pytest.mark.parametrize("shuffle", [False, True])
def test_goes_on_after_a_kill(tmp_path: Path, numbers: Any, shuffle: bool) -> None:
    X, y = numbers
    write_svm(tmp_path / "rows", X, y)
    folder, kept = tmp_path / "out", []
    for left in (6, 5, 0):
        arguments = [str(tmp_path / "rows"), str(folder), str(left), str(int(shuffle))]
        done = subprocess.run([sys.executable, "-c", CHILD, *arguments], check=False, timeout=120)
        assert done.returncode == (0 if left == 0 else -signal.SIGKILL) or shuffle
        kept.append(read_manifest(folder).rows if (folder / "manifest.json").exists() else 0)
    assert kept[-1] == 700
    assert read_manifest(folder).complete
    assert shuffle or 0 < kept[0] < kept[1] < 700
    convert(tmp_path / "rows", tmp_path / "whole", Conversion(shard_rows=64, shuffle=shuffle))
    found, whole = matrix(folder), matrix(tmp_path / "whole")
    assert shuffle or abs(found[0] - whole[0]).max() == 0
    np.testing.assert_allclose(np.sort(found[0] @ np.ones(40)), np.sort(X @ np.ones(40)))


def test_a_full_disk_leaves_what_is_finished(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the rows of the last shards are longer than those before."""
    short, long = "1 1:1\n" * 500, "-1 " + " ".join(f"{j}:2" for j in range(1, 400)) + "\n"
    (tmp_path / "rows").write_text(short + long * 100)
    code = (
        "import resource, sys\nfrom reshuffle.datasets import Conversion, convert\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "convert(sys.argv[1], sys.argv[2], Conversion(shard_rows=100))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "rows"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "is full. 500 rows in 5 shards are finished" in done.stderr
    assert "run the same command again" in done.stderr
    with pytest.raises(InputError, match="unfinished conversion"):
        open_shards(tmp_path / "out")
    manifest = convert(tmp_path / "rows", tmp_path / "out", Conversion(shard_rows=100))
    assert manifest.rows == 600
    assert np.array_equal(matrix(tmp_path / "out")[1], [1.0] * 500 + [-1.0] * 100)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """The peak of a process that converts a file five times as large is the same, but for a few megabytes."""
    peaks = []
    line = "1 " + " ".join(f"{j}:0.25" for j in range(1, 60)) + "\n"
    for shuffle in ("0", "1"):
        for times in (3, 15):
            path = tmp_path / f"rows-{times}"
            path.write_text(line * (10_000 * times))
            code = (
                "import sys\nfrom reshuffle.datasets import Conversion, convert\n"
                "convert(sys.argv[1], sys.argv[2], Conversion(shard_rows=4096, shuffle=sys.argv[3] == '1'))\n"
                "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
            )
            command = [
                sys.executable,
                "-c",
                code,
                str(path),
                str(tmp_path / f"out{times}{shuffle}"),
                shuffle,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            peaks.append(int(done.stdout) / 1024)
    size = os.path.getsize(tmp_path / "rows-15") / 2**20
    assert size > 30
    assert peaks[1] - peaks[0] < 20, peaks  # MB; the rows of the larger file take 84 MB more
    assert max(peaks[2:]) - peaks[0] < 400, peaks  # a bucket of 64 MB, a few times


def test_what_is_refused(tmp_path: Path, numbers: Any) -> None:
    X, y = numbers
    write_svm(tmp_path / "rows", X, y)
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "thesis.tex").write_text("x")
    with pytest.raises(
        InputError, match="must be empty or hold an unfinished conversion; it holds 'thesis"
    ):
        convert(tmp_path / "rows", tmp_path / "busy")
    convert(tmp_path / "rows", tmp_path / "out")
    with pytest.raises(InputError, match="another file, of one that has changed"):
        convert(tmp_path / "rows", tmp_path / "out", Conversion(number="float32"))
    (tmp_path / "bad").write_text("1 1:1\n-1 2;1\n")
    with pytest.raises(InputError, match=r"line 2 is not in LIBSVM format.*: '-1 2;1'"):
        convert(tmp_path / "bad", tmp_path / "bad-out")
    with pytest.raises(InputError, match=r"no file|no data file"):
        convert(tmp_path / "nowhere", tmp_path / "out2")
    with pytest.raises(InputError, match="number must be one of float64, float32, got 'int8'"):
        Conversion(number="int8")
    np.savez(tmp_path / "bad.npz", X=np.array([[1.0, np.nan]]), y=np.ones(1))
    with pytest.raises(InputError, match="no finite number"):
        convert(tmp_path / "bad.npz", tmp_path / "out3")


def test_an_index_zero_that_comes_late(tmp_path: Path) -> None:
    """The first block has no index 0, so that indices are taken to begin with 1; a later one is said."""
    (tmp_path / "rows").write_text("1 1:1\n" * 800_000 + "1 0:1\n")
    with pytest.raises(InputError, match="--first-index 0"):
        convert(tmp_path / "rows", tmp_path / "out")
    manifest = convert(tmp_path / "rows", tmp_path / "out0", Conversion(first_index=0))
    assert manifest.features == 2


def test_numbers_of_rows_that_shards_do_not_keep_are_refused(tmp_path: Path) -> None:
    """A Poisson model without its exposure is another model, and would be found without a word."""
    rows: dict[str, Any] = {"X": np.eye(3), "y": np.arange(3.0), "exposure": np.ones(3)}
    np.savez(tmp_path / "rates.npz", **rows)
    with pytest.raises(InputError, match="holds exposure beside its rows"):
        convert(tmp_path / "rates.npz", tmp_path / "out")
