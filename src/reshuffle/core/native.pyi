"""The signatures of the compiled core, a section for each ``bind_*.cpp``; what each does is said in the headers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Visits = NDArray[np.uint32]

# --- bind_samples.cpp --------------------------------------------------------------------------

class Loss:
    @property
    def has_conjugate(self) -> bool: ...

class Form: ...

class Samples:
    def __init__(
        self,
        values: NDArray[Any],
        indices: NDArray[Any],
        indptr: NDArray[Any],
        targets: NDArray[Any],
        weights: Array,
        offsets: Array,
        loss: Loss,
        bias: bool,
        features: int,
        outputs: int,
    ) -> None: ...
    @property
    def n(self) -> int: ...
    @property
    def features(self) -> int: ...

def built_in_loss(name: str, parameters: list[float]) -> Loss: ...
def given_loss(addresses: list[int], blocks: list[int], kept: object) -> Loss: ...
def given_class_loss(addresses: list[int], kept: object) -> Loss: ...
def given_row_loss(addresses: list[int], kept: object) -> Loss: ...
def coordinates(l1: Array, l2: Array, low: Array, high: Array) -> Form: ...
def groups(l1: Array, l2: float, strengths: Array, members: Visits, starts: Numbers) -> Form: ...
def prox(form: Form, x: Array, step: float) -> None: ...
def elementary(name: str, x: Array, out: Array) -> None: ...

# --- bind_passes.cpp ---------------------------------------------------------------------------

def value(samples: Samples, x: Array, begin: int, end: int, total: float) -> float: ...
def tabulate(
    samples: Samples, x: Array, begin: int, end: int, factor: float, table: Array, out: Array
) -> None: ...
def margins(samples: Samples, x: Array, begin: int, end: int, out: Array) -> None: ...
def combine(
    samples: Samples, table: Array, begin: int, end: int, factor: float, out: Array
) -> None: ...
def column_sums(samples: Samples, begin: int, end: int, factor: float, out: Array) -> None: ...
def slopes_at(samples: Samples, begin: int, end: int, table: Array) -> None: ...
def losses_at(samples: Samples, margins: Array, order: Visits, out: Array) -> None: ...
def conjugates(
    samples: Samples, table: Array, begin: int, end: int, factor: float, total: float
) -> float: ...
def linearise(
    samples: Samples,
    x: Array,
    begin: int,
    end: int,
    factor: float,
    margins: Array,
    slopes: Array,
    curvatures: Array,
    out: Array,
    total: float,
) -> float: ...
def expand(
    samples: Samples,
    margins: Array,
    begin: int,
    end: int,
    slopes: Array,
    curvatures: Array,
    total: float,
) -> float: ...
def bent_product(
    samples: Samples,
    curvatures: Array,
    begin: int,
    end: int,
    v: Array,
    factor: float,
    out: Array,
) -> None: ...
def walk(
    samples: Samples, visits: Visits, coefs: Array, step: float, x: Array, out: Array
) -> None: ...

# --- bind_sweep.cpp ----------------------------------------------------------------------------

def sweep(
    samples: Samples,
    weights: Array,
    visits: Visits,
    batch: int,
    average: float,
    x: Array,
    step: float,
    ridge: float,
    prox_step: float,
    form: Form,
    scale: float,
) -> float: ...
def clipped_sweep(
    samples: Samples,
    weights: Array,
    visits: Visits,
    ends: Numbers,
    average: float,
    x: Array,
    step: float,
    ridge: float,
    bound: float,
    sigma: float,
    noise: Array,
    prox_step: float,
    form: Form,
    scale: float,
) -> float: ...
def clients(
    samples: Samples,
    bounds: Numbers,
    uniforms: Array,
    visits: Visits,
    batch: int,
    averages: Array,
    x: Array,
    models: Array,
    step: float,
    ridge: float,
) -> None: ...
def single_function_addresses() -> tuple[int, int, int]: ...
def address(handle: Samples | Form) -> int: ...

# --- bind_exact.cpp ----------------------------------------------------------------------------

def block(
    samples: Samples,
    owner: Visits,
    weights: Array,
    visits: Visits,
    first: int,
    last: int,
    table: Array,
    y: Array,
    q: Array,
    step: float,
) -> None: ...
def epoch(
    samples: Samples,
    owner: Visits,
    weights: Array,
    visits: Visits,
    begin: int,
    end: int,
    steps: Array,
    corrected: float,
    table: Array,
    y: Array,
    q: Array,
    start: Array,
    g: Array,
    form: Form,
    whole: int = 0,
) -> None: ...

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

# --- bind_newton.cpp ---------------------------------------------------------------------------

Ends = tuple[float, float, float, float, float, float, bool, int, int, int]
"""f, ψ, damping, expected, seen, bound, stuck, steps, passes, rounds."""
Marks = NDArray[np.bool_]

class ColumnMajor:
    def __init__(
        self,
        samples: Samples,
        each: Loss | None,
        curvature: float,
        concordance: float,
        quadratic: bool,
    ) -> None: ...
    @property
    def at_zero(self) -> float: ...
    @property
    def floor(self) -> float: ...
    def inner(self, u: Array) -> None: ...
    def run(
        self,
        form: Form,
        u: Array,
        x: Array,
        gradient: Array,
        at: Array,
        progress: tuple[float, float, float, float],
        target: float,
        at_zero: float,
        most: int,
    ) -> Ends: ...

class RowMajor:
    passes: int
    def __init__(
        self,
        samples: Samples,
        curvature: float,
        concordance: float,
        quadratic: bool,
        threads: int,
        centre: Array,
        ones: Marks,
        counts: Numbers,
        squares: Array,
        listen: Callable[[], None],
    ) -> None: ...
    @property
    def constant(self) -> bytes: ...
    def packs(self, active: Visits) -> bool: ...
    def run(
        self,
        form: Form,
        u: Array,
        x: Array,
        gradient: Array,
        at: Array,
        progress: tuple[float, float, float, float],
        target: float,
        at_zero: float,
        most: int,
    ) -> Ends: ...
    def linearise(
        self, x: Array, margins: Array, slopes: Array, curvatures: Array, gradient: Array
    ) -> float: ...
    def margins(self, v: Array, out: Array) -> None: ...
    def combine(self, table: Array, out: Array) -> None: ...
    def bent(
        self, curvatures: Array, factors: Array, extra: float, change: Array, out: Array
    ) -> None: ...
    def gram(self, scales: Array, active: Visits, out: Array) -> None: ...
    def hessian(
        self,
        curvatures: Array,
        factors: Array,
        extra: float,
        active: Visits,
        kept: Numbers,
        out: Array,
    ) -> None: ...

def search(
    samples: Samples,
    form: Form,
    margins: Array,
    change: Array,
    x: Array,
    d: Array,
    slope: float,
    value: float,
    psi: float,
    to: Array,
) -> float: ...
def minimise(
    form: Form,
    H: Array,
    g: Array,
    x: Array,
    u: Array,
    accuracy: float,
    floor: float,
    null: Array,
) -> tuple[float, float, float, int]: ...
def sweep_columns(
    form: Form,
    values: Array,
    rows: Visits,
    starts: NDArray[np.int64],
    h: Array,
    g: Array,
    u: Array,
    z: Array,
    most: int,
    share: float,
) -> tuple[float, int, int]: ...
def lower(
    samples: Samples,
    concordance: float,
    margins: Array,
    slopes: Array,
    curvatures: Array,
    cap: float,
    low: Array,
    factors: Array,
    radius: Array,
    shares: Array,
) -> None: ...
def kept_within(curvature: float, cap: float, concordance: float) -> tuple[float, float]: ...
def face(form: Form, u: Array, free: Marks, slopes: Array) -> None: ...
def retract(form: Form, u: Array, to: Array) -> None: ...
def held(form: Form, held: Marks) -> None: ...
def adapted(
    damping: float, decrease: float, t: float, gained: float, lowered: bool, spent: float
) -> tuple[float, float]: ...
def another(
    damping: float, expected: float, seen: float, decrease: float
) -> tuple[bool, float, float, float]: ...

EPSILON: float
ROUNDING: float
ARMIJO: float
FINE: float
TRACE: float

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

# --- bind_cox.cpp ------------------------------------------------------------------------------

class RiskSets:
    def __init__(
        self, weights: Array, begins: Numbers, ends: Numbers, terms: Numbers, totals: Array
    ) -> None: ...
    @property
    def count(self) -> int: ...
    def at(self, z: Array, sizes: Array, sums: Array, expected: Array) -> tuple[float, float]: ...
    def covariances(
        self, columns: Array, sizes: Array, sums: Array, expected: Array, out: Array
    ) -> None: ...

class CoxRows:
    def __init__(
        self, columns: Array, strata: list[RiskSets], rows: float, least: float
    ) -> None: ...
    def follow(
        self,
        form: Form,
        strengths: Array,
        points: Array,
        ends: Array,
        begin: int,
        end: int,
        target: float,
        most: int,
    ) -> None: ...
