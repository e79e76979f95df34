"""The signatures of the compiled core, a section for each ``bind_*.cpp``; what each does is said in the headers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Visits = NDArray[np.uint32]

# --- bind_proxes.cpp ---------------------------------------------------------------------------

def chain_prox(y: Array, bounds: Array, u: Array) -> None: ...
def chain_holds(g: Array, bounds: Array, l1: float) -> bool: ...
def cut_prox(
    y: Array,
    first: Numbers,
    target: Numbers,
    edge: Numbers,
    tail: NDArray[np.bool_],
    bounds: Array,
    u: Array,
) -> int: ...
def cylinder_pass(
    x: Array, members: Numbers, starts: Numbers, bounds: Array, multipliers: Array, s: Array
) -> None: ...
def cylinder_state(
    x: Array,
    members: Numbers,
    starts: Numbers,
    bounds: Array,
    multipliers: Array,
    s: Array,
    y: Array,
    parts: Array,
    point: Array,
) -> tuple[float, float]: ...
def cylinder_solve(
    x: Array,
    members: Numbers,
    starts: Numbers,
    bounds: Array,
    gap: float,
    most: int,
    multipliers: Array,
    parts: Array,
    point: Array,
    y: Array,
) -> tuple[int, float]: ...
def into_balls(
    y: Array, members: Numbers, starts: Numbers, bounds: Array, inside: Array
) -> None: ...
def apart_from_support(
    y: Array, parts: Array, members: Numbers, starts: Numbers, bounds: Array
) -> float: ...
def renew_rest(x: Array, parts: Array, members: Numbers, rest: Array) -> None: ...
def overlap_gap(
    x: Array,
    rest: Array,
    parts: Array,
    members: Numbers,
    starts: Numbers,
    bounds: Array,
    clean: Array,
) -> float: ...
def overlap_solve(
    x: Array,
    members: Numbers,
    starts: Numbers,
    bounds: Array,
    tolerance: float,
    gap: float,
    most: int,
    rest: Array,
    parts: Array,
) -> int: ...

# --- bind_columns.cpp --------------------------------------------------------------------------

def shuffle(visits: Visits, uniforms: Array, last: int) -> None: ...
def gather(
    values: NDArray[Any], indptr: NDArray[Any], order: Visits, gathered: NDArray[Any]
) -> None: ...
def count_columns(indices: NDArray[Any], counts: Numbers) -> None: ...
def add_squares(
    values: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    weights: Array,
    out: Array,
) -> None: ...
def add_entries(
    values: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], columns: Array
) -> None: ...
def count_kept(
    indices: NDArray[Any], indptr: NDArray[Any], place: Visits, lengths: NDArray[Any]
) -> None: ...
def keep_columns(
    values: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    place: Visits,
    new_values: NDArray[Any],
    new_indices: NDArray[Any],
    new_indptr: NDArray[Any],
) -> None: ...
def keep_indices(
    indices: NDArray[Any],
    indptr: NDArray[Any],
    place: Visits,
    new_indices: NDArray[Any],
    new_indptr: NDArray[Any],
) -> None: ...
def dense_squared_norms(values: NDArray[Any], out: Array) -> None: ...
def csr_squared_norms(values: NDArray[Any], indptr: NDArray[Any], out: Array) -> None: ...

# --- bind_text.cpp -----------------------------------------------------------------------------

def parse_libsvm(
    text: bytes, most: int
) -> tuple[Array, NDArray[np.int32], Numbers, Array, str, int, int]: ...
