"""Files of a site: shards that anybody may have written, and states that belong to one client alone."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from test_sites import both
from test_state_at_clients import SOLVER, interrupted, saved, state_of

import reshuffle as rs
from reshuffle.datasets import Reading, load_data
from reshuffle.federated.client_state import KIND
from reshuffle.federated.site_data import load
from reshuffle.npz_archive import read_archive, write_archive

X = np.arange(12.0).reshape(4, 3)
y = np.array([1.0, -1.0, 1.0, -1.0])
A = sp.csr_matrix(X)
PARTS = {"data": A.data, "indices": A.indices, "indptr": A.indptr, "shape": np.array(A.shape)}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X, "y": y, "weight": np.ones(4)}, "got 'weight' as well"),
        ({"X": X, "y": y, "names": np.array(["a", "b"])}, "each of 3 columns, got 2"),
        ({"X": X}, "dict with X and y"),
        ({**PARTS, "y": y, "indices": A.indices + 2**20}, "not those of a matrix"),
        ({**PARTS, "y": y, "indptr": A.indptr[::-1].copy()}, "not those of a matrix"),
        ({**PARTS, "y": y, "shape": np.array([2**62, 3])}, "not those of a matrix"),
        ({**PARTS, "y": y, "shape": np.array(3)}, "not those of a matrix"),
        ({**PARTS, "y": y, "format": np.array("csc")}, "stored by rows"),
        ({"X": X, "y": np.array([{}, 1, 2, 3], dtype=object)}, "holds objects of Python"),
    ],
)
def test_shards_that_are_not_as_they_should_be(
    arrays: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "shard.npz"
    np.savez(path, allow_pickle=True, **arrays)
    with pytest.raises(rs.InputError, match=words):
        load(path)


def test_names_of_a_folder_are_those_of_all_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    assert load(tmp_path).names == ("a", "b", "c")
    for text in ("a\nb\n", "a\nb\nc\nd\n"):
        (tmp_path / "names.txt").write_text(text)
        with pytest.raises(rs.InputError, match="names must name each of 3 columns"):
            load(tmp_path)


def bomb(path: Path, kind: str) -> None:
    header = b"\x93NUMPY\x01\x00v\x00" + (
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % 2**40
    ).ljust(117) + b"\n"  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        if kind == "packed":
            file.writestr("X.npy", bytes(1 << 28))
        elif kind == "many":
            for k in range(1001):
                file.writestr(f"{k}.npy", header)
        else:
            file.writestr("X.npy", header + bytes(64))
        file.writestr("y.npy", header)


@pytest.mark.parametrize(
    ("kind", "words"), [("packed", "200 times"), ("many", "1002 parts"), ("header", "not have the")]
)
def test_bombs_are_refused_by_their_headers(kind: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    bomb(path, kind)
    with pytest.raises(rs.InputError, match=words):
        load(path)
    with pytest.raises(rs.InputError, match=words):
        load_data(path, Reading())


@pytest.mark.parametrize("form", ["coo", "dia", "csc"])
def test_a_matrix_file_of_more_rows_than_memory_is_refused(form: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "row": np.empty(0, int),
        "col": np.empty(0, int),
        "offsets": np.zeros(1, int),
    }
    parts |= {"indices": np.empty(0, int), "indptr": np.zeros(4, int)}
    data = np.empty((1, 0)) if form == "dia" else np.empty(0)
    np.savez(
        tmp_path / "m.npz", format=np.array(form), data=data, shape=np.array([2**50, 3]), **parts
    )
    with pytest.raises(rs.InputError, match="takes 9,007,199,254,740,992 bytes"):
        load_data(tmp_path / "m.npz", Reading())


def test_damaged_shards_are_refused_or_read(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.npz", tmp_path / "part.npz"
    np.savez_compressed(whole, X=X, y=y)
    content = whole.read_bytes()
    rng = np.random.default_rng(0)
    for k in range(400):
        spoiled = bytearray(content)
        if k % 2:
            spoiled[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
        else:
            del spoiled[int(rng.integers(len(content))) :]
        path.write_bytes(spoiled)
        try:
            table = load(path)
        except rs.InputError:
            continue
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.y, y)


# --- states of clients ------------------------------------------------------------------------------


def test_the_state_of_another_client_is_refused_by_name(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    shutil.copy(state_of(tmp_path, 0), state_of(tmp_path, 1))
    words = r"client 1 \(site 1\): the state in .*client-1-\w+.npz belongs to client 0"
    with pytest.raises(rs.ClientError, match=words):
        SOLVER.solve(saved(tmp_path), resume=path)


@pytest.mark.parametrize("how", ["NaN", "shape", "one", "none", "type", "missing"])
def test_a_forged_state_is_refused(how: str, tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    mine = state_of(tmp_path, 1)
    with read_archive(mine, *KIND) as stored:
        about, arrays = stored.about, stored.arrays()
    images = arrays["images"]
    if how == "NaN":
        images[0, 0] = np.nan
    elif how == "shape":
        arrays = {name: array[:, :2] for name, array in arrays.items()}
    elif how == "one":
        arrays["images"] = images[:-1]
    elif how == "none":
        arrays = {name: array[:0] for name, array in arrays.items()}
    elif how == "type":
        arrays["residuals"] = arrays["residuals"].astype(np.float32)
    else:
        del arrays["residuals"]
    write_archive(mine, *KIND, about, arrays)
    with pytest.raises(rs.ClientError, match=r"client 1 \(site 1\): its state"):
        SOLVER.solve(saved(tmp_path), resume=path)


def test_a_state_that_is_the_clients_own_goes_on(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    assert SOLVER.solve(saved(tmp_path), resume=path).digest == SOLVER.solve(both()[1]).digest
