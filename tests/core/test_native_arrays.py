"""The compiled core reads where arrays say: what would lead it beyond one of them is refused before it starts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from reshuffle import core
from reshuffle.rows import UNIT, Rows

native: Any = core.native  # its signatures refuse what is tried here


def u32(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint32)


def i64(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def zeros(*sizes: int) -> Any:
    return [np.zeros(size) for size in sizes]


GOOD: Any = (i64(0, 1, 1, 2), i64(0, 2, 4))  # two groups of three coordinates
WRONG: dict[str, tuple[Any, Any]] = {
    "a coordinate beyond": (i64(0, 1, 1, 3), i64(0, 2, 4)),
    "a negative coordinate": (i64(0, 1, -1, 2), i64(0, 2, 4)),
    "starts that fall": (i64(0, 1, 1, 2), i64(0, 5, 4)),
    "starts that end beyond": (i64(0, 1, 1, 2), i64(0, 2, 5)),
    "starts that are too few": (i64(0, 1, 1, 2), i64(0, 4)),
}
BY_GROUPS: dict[str, Callable[[Any, Any], Any]] = {
    "overlap_solve": lambda m, s: native.overlap_solve(*zeros(3), m, s, *zeros(2), 0.0, 0.0, 1, *zeros(3, 4)),
    "overlap_gap": lambda m, s: native.overlap_gap(*zeros(3, 3, 4), m, s, *zeros(2, 3)),
    "into_balls": lambda m, s: native.into_balls(*zeros(3), m, s, *zeros(2, 3)),
    "apart_from_support": lambda m, s: native.apart_from_support(*zeros(3, 4), m, s, *zeros(2)),
    "cylinder_pass": lambda m, s: native.cylinder_pass(*zeros(3), m, s, *zeros(2, 2, 3)),
    "cylinder_state": lambda m, s: native.cylinder_state(*zeros(3), m, s, *zeros(2, 2, 3, 3, 4, 3)),
    "cylinder_solve": lambda m, s: native.cylinder_solve(*zeros(3), m, s, *zeros(2), 0.0, 1, *zeros(2, 4, 3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_GROUPS)
def test_groups_name_coordinates(name: str) -> None:
    BY_GROUPS[name](*GOOD)
    for groups in WRONG.values():
        with pytest.raises(ValueError, match=r"members must be|starts must rise"):
            BY_GROUPS[name](*groups)


ONE = (u32(0, 1, 0, 2), u32(0, 2, 4))  # indices and pointers of two rows
SIZES: dict[str, Callable[[], Any]] = {
    "a chain with too many bounds": lambda: native.chain_prox(*zeros(3, 3, 3)),
    "a chain with a short result": lambda: native.chain_prox(*zeros(3, 2, 2)),
    "a rest that is too short": lambda: native.renew_rest(*zeros(3, 1), i64(0), *zeros(2)),
    "a part of no coordinate": lambda: native.renew_rest(*zeros(3, 1), i64(3), *zeros(3)),
    "an arc to no node": lambda: native.cut_prox(
        *zeros(2), i64(0, 1, 2), i64(1, 2), i64(0, 0), np.array([True, False]), *zeros(1, 2)
    ),
    "an arc of no edge": lambda: native.cut_prox(
        *zeros(2), i64(0, 1, 2), i64(1, 0), i64(0, 1), np.array([True, False]), *zeros(1, 2)
    ),
    "a uniform number of 1": lambda: native.shuffle(u32(0, 1, 2), np.ones(1), 2),
    "a uniform number that is none": lambda: native.shuffle(u32(0, 1, 2), np.full(1, np.nan), 2),
    "a position beyond": lambda: native.shuffle(u32(0, 1, 2), np.zeros(1), 3),
    "a row beyond": lambda: native.gather(*zeros(4), ONE[1], u32(2), *zeros(2)),
    "a place that is too small": lambda: native.gather(*zeros(4), ONE[1], u32(0, 1), *zeros(3)),
    "pointers beyond the values": lambda: native.gather(*zeros(3), ONE[1], u32(0), *zeros(2)),
    "pointers beyond the indices": lambda: native.add_squares(UNIT, ONE[0][:3], ONE[1], *zeros(2, 3)),
    "fewer values than indices": lambda: native.add_squares(np.zeros(3), *ONE, *zeros(2, 3)),
    "a weight too many": lambda: native.add_squares(np.zeros(4), *ONE, *zeros(3, 3)),
    "a dense matrix of other rows": lambda: native.add_entries(np.zeros(4), *ONE, np.zeros((3, 3))),
    "lengths that are too few": lambda: native.count_kept(*ONE, u32(0, 1, 2), u32(0, 0)),
    "no room for one entry more": lambda: native.keep_indices(*ONE, u32(0, 1, 2), u32(0, 0, 0, 0), ONE[1]),
    "nor for one value more": lambda: native.keep_columns(
        np.zeros(4), *ONE, u32(0, 1, 2), np.zeros(4), u32(0, 0, 0, 0), ONE[1]
    ),
    "norms of other rows": lambda: native.dense_squared_norms(np.zeros((3, 2)), np.zeros(2)),
    "norms of CSR rows beyond": lambda: native.csr_squared_norms(np.zeros(3), ONE[1], np.zeros(2)),
    "a negative bound of indices": lambda: native.parse_libsvm(b"1 1:1", -1),
}  # fmt: skip


@pytest.mark.parametrize("what", SIZES)
def test_sizes_agree(what: str) -> None:
    with pytest.raises(ValueError, match=r"must|need"):
        SIZES[what]()


def test_nothing_is_converted_or_written_in_silence() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    native.chain_prox(fixed, np.zeros(2), np.zeros(3))  # read
    for wrong in (fixed, np.zeros(6)[::2], np.zeros(3, dtype=np.float32), np.zeros((1, 3))):
        with pytest.raises(TypeError):
            native.chain_prox(np.zeros(3), np.zeros(2), wrong)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.bool_])
@pytest.mark.parametrize(("column", "pointer"), list(product([np.uint32, np.uint64], repeat=2)))
def test_rows_of_every_layout(kind: Any, column: Any, pointer: Any) -> None:
    """Values of both lengths or none, indices and pointers of 32 or 64 bits: the same as numpy says of the dense matrix."""
    rng = np.random.default_rng(0)
    A: Any = sp.random(30, 12, 0.3, format="csr", random_state=0)
    A.sort_indices()
    values = UNIT if kind is np.bool_ else A.data.astype(kind)
    dense = (A.toarray() != 0) * 1.0 if kind is np.bool_ else A.astype(kind).toarray().astype(float)
    rows = Rows(values, A.indices.astype(column), A.indptr.astype(pointer)).read_only()

    def whole(some: Rows, features: int) -> Any:
        out = np.zeros((features, len(some.indptr) - 1))
        some.add_to(out.T)
        return out.T

    np.testing.assert_array_equal(whole(rows, 12), dense)
    order = rng.integers(0, 30, 50).astype(np.uint32)
    taken = rows.take(order)
    np.testing.assert_array_equal(whole(taken, 12), dense[order])
    assert taken.unit == rows.unit
    assert taken.values.size == (0 if rows.unit else taken.indices.size)
    kept = u32(7, 0, 3)
    np.testing.assert_array_equal(whole(rows.columns(kept, 12), 3), dense[:, kept])
    np.testing.assert_array_equal(rows.column_counts(12), (dense != 0).sum(axis=0))
    norms, weights, squares = np.empty(30), rng.random(30), np.zeros(12)
    rows.squared_norms(norms)
    np.testing.assert_allclose(norms, (dense**2).sum(axis=1), rtol=1e-14)
    native.add_squares(*rows, weights, squares)
    np.testing.assert_allclose(squares, weights @ dense**2, rtol=1e-14)
