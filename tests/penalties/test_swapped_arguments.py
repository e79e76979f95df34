"""Arguments of penalties in the wrong order, or of the wrong kind: refused with the name of one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.errors import InputError
from reshuffle.penalties import (
    SLOPE,
    FusedLasso,
    GraphFusedLasso,
    GroupLasso,
    LatentGroupLasso,
    OverlappingGroupLasso,
    SparseGroupLasso,
    TotalVariation2D,
)

RAGGED = [[0, 1, 2], [2, 3]]
SWAPPED: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (OverlappingGroupLasso, (RAGGED, 0.6), "strength"),
    (LatentGroupLasso, (RAGGED, 0.6), "strength"),
    (GroupLasso, ([[0, 1], [2]], 0.6), "strength"),
    (GroupLasso, ([0, 0, 1], 0.6), "strength"),
    (GroupLasso, (0.6, [[0, 1], [2]], RAGGED), "weights"),
    (SparseGroupLasso, ([[0, 1], [2]], 0.6, 0.6), "l1"),
    (SparseGroupLasso, (0.6, [[0, 1], [2]], 0.6), "strength"),
    (SparseGroupLasso, (0.6, 0.6, 0.6), "groups"),
    (SLOPE, ([2.0, 1.0], 0.6), "strength"),
    (GraphFusedLasso, ([(0, 1), (1, 2)], 0.6), "strength"),
    (GraphFusedLasso, (0.6, 0.6), "edges"),
    (TotalVariation2D, ((2, 3), 0.6), "strength"),
    (FusedLasso, (0.6, RAGGED), "l1"),
    (FusedLasso, (0.6, 0.0, RAGGED), "weights"),
]
ODD: list[Any] = [
    RAGGED, [[0, 1], [2, 3]], [0, 0, 1, -1], 0.6, "abc", None, {"a": 1}, [None, 1], np.nan, [[]], [],
    object(), np.array(["x"]), [[0, "a"]], 1j, np.array([1.0, 2.0]), 3,
]  # fmt: skip
KINDS = [
    kind
    for name in dir(rs.penalties)
    if isinstance(kind := getattr(rs.penalties, name), type) and is_dataclass(kind)
]


@pytest.mark.parametrize(("kind", "given", "named"), SWAPPED)
def test_swapped_arguments_are_refused_by_name(
    kind: Callable[..., Any], given: tuple[Any, ...], named: str
) -> None:
    with pytest.raises(InputError, match=f"^{named}\\b"):
        kind(*given)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_odd_arguments_are_an_input_error_or_taken(kind: Callable[..., Any]) -> None:
    count = sum(field.init for field in fields(kind))  # type: ignore[arg-type]
    refused = 0
    for length in range(1, min(count, 3) + 1):
        for given in product(ODD, repeat=length):
            try:
                kind(*given)
            except InputError:
                refused += 1
            except TypeError as error:
                if "missing" not in str(error):  # Python's own word for too few arguments
                    raise
    assert refused > 0 or count == 0
