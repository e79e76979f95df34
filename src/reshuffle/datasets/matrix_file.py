"""Sparse matrices as written by scipy's ``save_npz``, with targets in the same file or in another."""

from __future__ import annotations

import io
import os
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray
from reshuffle.capacity import check_room
from reshuffle.datasets.npz_file import DAMAGE, read_npz
from reshuffle.datasets.numbers import as_numbers
from reshuffle.datasets.source import damage
from reshuffle.errors import InputError

OWN = (
    "data",
    "indices",
    "indptr",
    "shape",
    "format",
    "row",
    "col",
    "coords",
    "offsets",
    "_is_array",
)
"""The names that scipy gives to the parts of a matrix."""
MATRIX = "a sparse matrix as scipy.sparse.save_npz writes it"
TARGET = "y"
"""The default name of the member of a matrix file that holds the target."""


def read_matrix(file: BinaryIO, where: str) -> tuple[sp.csr_matrix, dict[str, AnyArray]]:
    """The matrix of a file, and the other arrays in it, by name."""
    content = file.read()
    arrays = read_npz(io.BytesIO(content), where, MATRIX)
    others = {name: array for name, array in arrays.items() if name not in OWN}
    with damage(f"{where} is not {MATRIX}, or is damaged", *DAMAGE):
        check_room(f"{where}: a matrix of so many rows", 8 * int(arrays["shape"].flat[0]))
        X = sp.csr_matrix(sp.load_npz(io.BytesIO(content)))
        X.check_format(full_check=True)
    if X.dtype.kind not in "fiub":
        raise InputError(f"{where} must hold real numbers, got {X.dtype}")
    X = X.astype(np.float64, copy=False)
    X.sum_duplicates()
    return X, others


def target_of(others: dict[str, AnyArray], given: str | None, rows: int, where: str) -> AnyArray:
    """The targets: the member ``given`` of the matrix file, or else the file of that name (.npy, or text, one per line)."""
    name = given or TARGET
    if name in others:
        y = others[name]
    elif given is not None and os.path.isfile(given):
        y = _from_file(given)
    else:
        inside = f"it holds {', '.join(others)}" if others else "it holds nothing but the matrix"
        raise InputError(
            f"--target must name an array in {where} or a file (.npy, or text with one target per line), "
            f"got {name!r}: {inside}, and there is no such file"
        )
    if y.shape != (rows,):
        raise InputError(
            f"target {name!r} must hold {rows} entries, one per row, got shape {y.shape}"
        )
    return y


def _from_file(path: str) -> AnyArray:
    if path.endswith(".npy"):
        with damage(f"{path} is not a numpy array, or is damaged", *DAMAGE):
            y: AnyArray = np.load(path, allow_pickle=False)
            return y
    try:
        with open(path, encoding="utf-8") as file:
            texts = [line.strip() for line in file]
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file with one target per line") from None
    while texts and not texts[-1]:
        texts.pop()
    if "" in texts:
        raise InputError(f"{path}, line {texts.index('') + 1}: there is no target")
    numbers = as_numbers(texts)
    return np.array(texts) if numbers is None else numbers
