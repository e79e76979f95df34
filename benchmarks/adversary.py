"""Problems made to break a certificate, one for each seed; the other generator has no line in common with this one.

Sample weights from 1e-6 to 1e3, rare classes, strengths around λ_max, coordinates that nothing holds, outputs of very
different size, columns from 1e-4 to 1e5 with shifts, heavy tails, columns that are equal or nearly so, empty columns and
rows, and sets just below and just above every size at which the code changes its way (``thresholds`` reads these sizes
from the sources), for all losses, penalties and layouts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.attack import CANONICAL, LOSSES, PENALTIES, SETS, Attack, PenaltyKind
from benchmarks.canonical import Array, Canonical, CanonicalLoss
from benchmarks.instances import is_sparse, mean_squares
from benchmarks.truth import has_minimiser
from reshuffle.solvers.exact import newton_on_sample

Rng = np.random.Generator
STREAM = 0xAD5E  # of the random numbers: apart from every other generator's
SHARES = (2.0, 1.0, 1.0 - 1e-3, 0.5, 0.1, 1e-2, 1e-4)
"""Strengths, as shares of the least one that holds every feature at zero."""
MOST_STORED = 1 << 22  # values of one problem: a threshold beyond would take gigabytes to attack
CHEAP = 150_000  # values: a problem with no more takes a fraction of a second
MATRIX: tuple[CanonicalLoss, ...] = ("multinomial", "squared_outputs")


# --- sizes at which the code changes its way ------------------------------------------------------

PLACES = ("solvers", "core", "federated", "datafit.py", "samples.py", "rows.py")
"""Where thresholds of size are, below the package's folder."""


@cache
def whole_numbers(places: tuple[str, ...] = PLACES) -> dict[str, int]:
    """Every upper-case name that a module of these places gives an integer from 2 on: 'folder/module.NAME' -> its value.

    In the headers of the core these are the constants of type ``Index`` or ``int``, whatever their case.
    """
    package, found = Path(rs.__file__).parent, {}
    for place in places:
        path = package / place
        for file in sorted(path.glob("**/*.py")) if path.is_dir() else [path] * path.is_file():
            for name, value in _constants(ast.parse(file.read_text(encoding="utf-8"))):
                found[f"{file.relative_to(package).with_suffix('').as_posix()}.{name}"] = value
        for file in sorted([*path.glob("*.hpp"), *path.glob("bind_*.cpp")]):
            for name, value in _constants_of_header(file.read_text(encoding="utf-8")):
                found[f"{place}/{file.stem}.{name}"] = value
    return found


CONSTANT = re.compile(
    r"^\s*(?:inline |static )*constexpr (?:Index|int) (\w+) = (?:Index\((\d+)\) << )?(\d+);",
    re.MULTILINE,
)
"""A whole number of a header: written out, or shifted to the left."""


def _constants_of_header(text: str) -> Iterator[tuple[str, int]]:
    for name, shifted, number in CONSTANT.findall(text):
        value = int(shifted) << int(number) if shifted else int(number)
        if value > 1:
            yield name, value


def _constants(module: ast.Module) -> Iterator[tuple[str, int]]:
    for node in module.body:
        if isinstance(node, ast.AnnAssign):
            targets: list[ast.expr] = [node.target]
        elif isinstance(node, ast.Assign):
            targets = node.targets
        else:
            continue
        numeric = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
        if node.value is None or not all(
            isinstance(part, numeric) for part in ast.walk(node.value)
        ):
            continue
        constants = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
        if not all(type(value) is int for value in constants):
            continue
        value = eval(compile(ast.Expression(node.value), "constant", "eval"), {"__builtins__": {}})
        for target in targets:
            if isinstance(target, ast.Name) and target.id.isupper() and value > 1:
                yield target.id, value


class Size(NamedTuple):
    """Of a problem that lies on a threshold."""

    rows: int
    columns: int
    outputs: int = 1
    stored: int = 0
    """Values of sparse rows, exactly; 0 leaves them to chance."""
    clients: int = 0


Recipe = Callable[[Rng, int], Size]


def _rows(rng: Rng, size: int) -> Size:
    return Size(max(size, 2), int(rng.integers(1, 9)))


def _columns(rng: Rng, size: int) -> Size:
    return Size(int(rng.integers(20, 60)), max(size, 1))


def _unknowns(rng: Rng, size: int) -> Size:
    """Features times outputs, where the size can be divided; the generator takes off an intercept."""
    outputs = int(rng.choice([k for k in (1, 2, 3, 5) if size % k == 0]))
    return Size(int(rng.integers(20, 60)), max(size // outputs, 1), outputs)


def _stored(rng: Rng, size: int) -> Size:
    columns = int(rng.integers(20, 200))
    return Size(max(int(size / columns / rng.uniform(0.05, 0.9)), 3), columns, 1, size)


def _dense_entries(rng: Rng, size: int) -> Size:
    columns = int(rng.integers(10, 40))
    return Size(max(size // columns + int(rng.integers(2)), 2), columns)


def _products(rng: Rng, size: int) -> Size:
    columns = int(rng.integers(60, 140))
    return Size(max(size // columns**2 + int(rng.integers(2)), 2), columns)


def _fewer_products(rng: Rng, size: int) -> Size:
    return _products(rng, size // 10)


def _wide_rows(rng: Rng, size: int) -> Size:
    """So many columns for each value of a mean row, which has twenty, and more than 2^15 values."""
    return Size(1700, 20 * size, 1, 20 * 1700)


def _wide_stored(rng: Rng, size: int) -> Size:
    """More columns than rows, of which a strong penalty holds most at zero."""
    rows = int(rng.integers(100, 400))
    return Size(rows, rows + int(rng.integers(200, 900)), 1, size)


def _few_rows_of_outputs(rng: Rng, size: int) -> Size:
    """Rows times outputs, on fewer rows than columns."""
    outputs = int(rng.choice([2, 3, 5]))
    rows = max(size // outputs, 2)
    return Size(rows, rows + int(rng.integers(5, 60)), outputs)


def _clients(rng: Rng, size: int) -> Size:
    return Size(size * 3, int(rng.integers(1, 9)), clients=size)


def _rows_of_clients(rng: Rng, size: int) -> Size:
    return Size(3 * size, int(rng.integers(1, 9)), clients=3)


LONG_STEP = 30
"""Columns of dense rows, 160 times as many as the unknowns, on which a Newton step just takes long enough for a sample of them."""


def _rows_for_each(rng: Rng, size: int) -> Size:
    """So many rows of a sample for each unknown, with an intercept among these."""
    return Size(newton_on_sample.SHARE * size * (LONG_STEP + 1), LONG_STEP)


def _rows_of_a_sample(rng: Rng, size: int) -> Size:
    """So many times as many rows as a sample that is just large enough."""
    return Size(size * newton_on_sample.FOR_EACH * (LONG_STEP + 1), LONG_STEP)


RECIPES: dict[str, tuple[Recipe, ...]] = {
    "solvers/exact/view.FEW_PROXES": (_rows,),
    "solvers/exact/view.RAREST": (_rows,),
    "solvers/newton_model.FEW": (_columns,),
    "solvers/exact/decrement.ENTRIES": (_dense_entries,),
    "federated/scales.PIECE": (_dense_entries,),
    "solvers/exact/costs.LARGEST": (_columns,),
    "solvers/exact/newton_compiled.PRODUCTS": (_products, _fewer_products),
    "solvers/exact/newton_compiled.ENTRIES": (_dense_entries,),
    "solvers/exact/newton_compiled.WIDEST": (_unknowns, _columns),
    "solvers/exact/newton_compiled.SHORT": (_wide_stored,),
    "solvers/exact/newton_compiled.UNITS": (_few_rows_of_outputs,),
    "solvers/exact/newton_on_sample.FOR_EACH": (_rows_for_each,),
    "solvers/exact/newton_on_sample.SHARE": (_rows_of_a_sample,),
    "solvers/exact/working_sets.SMALL": (_stored, _dense_entries),
    "solvers/exact/working_sets.WIDE": (_wide_rows,),
    "solvers/exact/working_sets.FIRST": (_columns,),
    "core/column_major.packed": (_rows,),
    "core/gram.packed": (_rows,),
    "core/gram.beside": (_rows,),
    "core/in_pieces.rows": (_rows,),
    "core/passes.together": (_rows,),
    "core/products.cached_columns": (_columns,),
    "core/lanes.lanes": (_columns, _rows),
    "core/products.side": (_columns,),
    "core/quadratic_model.largest": (_columns,),
    "core/quadratic_model.block": (_columns, _unknowns),
    "core/row_major.few": (_columns,),
    "core/row_major.cached": (_dense_entries,),
    "core/bind_sweep.ahead": (_rows,),
    "core/bind_exact.ahead": (_rows,),
    "core/rows.fetched": (_columns,),
    "federated/extrapolation.PIECE": (_columns,),
    "federated/host.SMALL": (_rows_of_clients,),
    "federated/host.FEW": (_clients,),
    "federated/exact.FEW_VISITS": (_rows_of_clients,),
    "federated/newton_server.FIRST": (_columns,),
    "solvers/active_features.MORE": (_columns,),
    "datafit.SHORT": (_stored,),
    "datafit.LEAST": (_columns, _rows),
    "samples.PIECE": (_rows,),
    "samples.SUMMED": (_rows,),
    "rows.PIECE": (_stored,),
}
"""How a problem on this threshold is made."""
STEPS = "It counts steps, passes or epochs of a method, which no size of a set meets."
FACTOR = "It is a factor of other sizes, whose thresholds are attacked with it."
EXEMPT: dict[str, str] = {
    "federated/newton_server.DIGITS": "The digits of a damping that is sent in fewer bytes. Each step is judged by P, whatever the damping.",
    **dict.fromkeys(
        ("core/risk_sets.chunk", "core/cox_path.few"),
        "It is of Cox's model, which is not among these problems: tests/survival/test_random_cox.py draws some around it.",
    ),
    **dict.fromkeys(
        (
            "solvers/exact/device_newton.WORK_PER_BYTE",
            "solvers/exact/device_newton.MORE", "solvers/exact/device_newton.HALVINGS", "solvers/exact/device_newton.MOST_HALVINGS", "solvers/exact/device_search.DOUBLINGS", "solvers/exact/device_newton.SMALL", "solvers/exact/newton_on_device.GROWS",
            "solvers/exact/newton_on_device.FEWEST", "solvers/exact/newton_on_device.SMALLEST", "solvers/exact/newton_on_device.STEPS", "solvers/exact/sparse_device_newton.SPARE", "solvers/exact/lbfgs_of_outputs.ROWS_OF_BLOCKS",
        ),
        "It matters on a graphics card alone, where the duality gap certifies on both sides of it.",
    ),
    "solvers/exact/newton_on_disk.WIDEST": "It matters for rows on disk alone, where the duality gap certifies on both sides of it.",
    **dict.fromkeys(
        (
            "solvers/exact/accelerated.PATIENCE", "solvers/exact/accelerated.CHECKED", "solvers/exact/method.LONGEST_WAIT",
            "solvers/exact/newton_kernel.MOST", "solvers/exact/newton_on_sample.STEPS", "solvers/exact/newton_on_device.FINE", "core/row_major.turns", "solvers/exact/newton_cg.MOST", "solvers/exact/newton_columns.SWEEPS", "solvers/exact/newton_cg.FIRST", "solvers/exact/quasi_newton.LONGEST", "solvers/exact/costs.PASSES", "solvers/exact/newton.SETTLED", "solvers/exact/newton_cg.SETTLED", "solvers/exact/newton_cg.FOUND",
            "solvers/exact/rest.REST", "solvers/prox_call.ATTEMPTS", "solvers/exact/movement_monitor.WINDOW", "solvers/exact/movement_monitor.TRIED", "solvers/exact/quasi_newton.ITERATIONS",
            "solvers/exact/quasi_newton.FEWEST", "solvers/exact/quasi_newton.PAIRS", "solvers/exact/quasi_newton.HALVINGS", "solvers/exact/newton_compiled.STEPS", "solvers/exact/newton_on_disk.HALVINGS",
            "core/cylinders.secular", "core/cylinders.products", "core/coordinate_descent.steps", "core/coordinate_descent.proxes",
            "core/lower_model.turns", "core/overlap.depth", "core/quadratic_model.sweeps", "core/quadratic_model.few_steps",
            "core/quadratic_model.sweeping", "core/class_links.terms", "solvers/proxnewton.HALVINGS", "solvers/proxnewton.MODEL_EPOCHS", "core/quadratic_model.steps", "core/quadratic_model.halvings",
            "core/quadratic_model.rounds", "core/line_search.trials", "federated/exact.MOST_PASSES", "federated/extrapolation.PATIENCE",
        ),
        STEPS,
    ),
    **dict.fromkeys(
        (
            "solvers/exact/view.PROX_SHARE", "solvers/exact/newton_compiled.TALL", "solvers/exact/newton_compiled.PART", "solvers/exact/newton_compiled.HESSIANS",
            "core/row_major.sparse", "core/quadratic_model.a_sweep",
        ), FACTOR,
    ),
    **dict.fromkeys(
        ("core/rows.several", "core/rows.narrow"),
        "Sums over dense rows are the same on both sides of it but for their rounding: tests/core/test_dense_passes.py compares them.",
    ),
    "core/elementary.count": "It is the number of powers of two in a table that exp reads.",
    **dict.fromkeys(
        (
            "federated/secure/fixed_point.MOST_SITES", "federated/secure/fixed_point.SPAN", "federated/secure/graph.FEW",
            "federated/secure/keys.LARGEST", "federated/secure/keys.SIGNATURE", "federated/secure/masks.PIECE",
            "federated/secure/ranges.GROWS", "federated/secure/ranges.HIGHEST", "federated/secure/ranges.ROOM",
            "federated/secure/header.KEY", "federated/secure/header.SKEW", "federated/secure/header.TIME",
            "federated/secure/masks.TAG", "federated/secure/masks.SIZE",
        ),
        "It is a size of messages, keys or ranges of secure sums, which have attackers of their own.",
    ),
    "federated/distributed.WIDEST": "It chooses between two methods that both certify.",
    "federated/divided_folder.CLIENTS": "It is a number of groups of files, which a user may choose.",
    "federated/divided_folder.MEMORY": "It is a number of bytes of windows, which changes no model.",
    "federated/client_state.KEPT": "It is a number of files that a folder keeps.",
    **dict.fromkeys(
        ("federated/transport.DRAWS", "federated/transport.DITHER"),
        "It names the random numbers of one use among those of the package.",
    ),
    "datafit.PIECE": "It is a number of values of noise that are drawn together.",
    "solvers/proxnewton.FEW": "It is a width of models of Cox's likelihood, which the adversary does not draw.",
    "core/rows.line": "It is a number of bytes of the memory's lines.",
    "core/bind_samples.largest_unknown": "It is more numbers than any memory holds, and beyond it a set is refused.",
    "solvers/exact/shuffled.EPOCH_BITS": "It is a number of bits in the name of a random stream.",
    "federated/agreement.MOST_TOLD": "It is a number of sites in a message to people.",
    "federated/medians.BITS": "It is a number of bits of a threshold that counts are asked for.",
    "federated/site.FEW_LABELS": "It is a number of different targets from which they are refused as labels.",
    "federated/client_state_server.SMALL": "It is a number of bytes from which a client's array goes to a file, whose content is the same.",
}  # fmt: skip
"""Integers that are no size of a set, and why."""
ANY: tuple[Recipe, ...] = (_rows, _columns, _unknowns, _stored)
"""For a size that is new: whatever it may count is attacked until it has a recipe of its own."""


def thresholds(places: tuple[str, ...] = PLACES) -> list[tuple[str, int, Recipe]]:
    """The sizes that can be attacked, each with each of its recipes."""
    return [
        (name, size, recipe)
        for name, size in whole_numbers(places).items()
        if name not in EXEMPT
        for recipe in RECIPES.get(name, ANY)
        if _stored_of((name, size, recipe)) <= MOST_STORED
    ]


def _stored_of(threshold: tuple[str, int, Recipe]) -> int:
    """About how many values a problem on it stores."""
    _, value, recipe = threshold
    size = recipe(np.random.default_rng(0), value)
    return size.stored or size.rows * size.columns


# --- the problem ----------------------------------------------------------------------------------


def attack(seed: int) -> Attack:
    """The problem of this seed. Where it has no minimiser, what is free gets a small ridge, or goes."""
    rng = np.random.default_rng([STREAM, seed])
    tags: list[str] = []
    size = _size(rng, tags)
    loss, penalty = _kinds(rng, size)
    layout = str(
        rng.choice(["dense", "csr", "ones", "dense32", "csr32"], p=[0.4, 0.25, 0.1, 0.15, 0.1])
    )
    if size.stored:
        layout = layout if layout in ("csr", "ones", "csr32") else "csr"
    intercept = bool(rng.random() < 0.6)
    if intercept and any("_unknowns" in tag for tag in tags) and size.columns > 1:
        size = size._replace(columns=size.columns - 1)  # which stays on the threshold
    X = _layout(_matrix(rng, size, layout, tags), layout)
    y = _targets(rng, X, loss, size.outputs, tags)
    tags += [layout] + ["intercept"] * intercept
    empty = np.zeros(0)
    outputs = int(y.max()) + 1 if loss == "multinomial" else y.shape[1] if y.ndim == 2 else 1
    zeros = np.zeros((size.columns, outputs))
    reach = float(np.median(np.abs(y))) or 1.0
    found = Attack(
        seed=seed, X=X, y=y, loss=loss, penalty=penalty, l1=zeros, l2=zeros, lower=zeros - np.inf,
        upper=zeros + np.inf, labels=np.full(zeros.size, -1, dtype=np.int64), strengths=empty, intercept=intercept,
        sample_weight=_weights(rng, y, tags), delta=float(reach * 10.0 ** rng.uniform(-3, 1)),
        level=float(rng.choice([0.02, 0.3, 0.5, 0.9])), clients=size.clients,
    )  # fmt: skip
    if penalty not in SETS and rng.random() < 0.25:
        found = found.with_(ridge=_square(found) * 10.0 ** rng.uniform(-8, 0))
        tags.append("ridge")
    found = _with_minimiser(_with_penalty(rng, found, tags))
    return found.with_(tags=tuple(tags))


def clients_of(seed: int) -> int:
    """The number of clients that the problem of this seed prescribes; 0 where it leaves that open."""
    return _size(np.random.default_rng([STREAM, seed]), []).clients


def _size(rng: Rng, tags: list[str]) -> Size:
    kind = rng.random()
    if kind < 0.15:
        known = thresholds()
        if rng.random() > 0.05:  # the others take seconds each
            known = [entry for entry in known if _stored_of(entry) < CHEAP]
        name, size, recipe = known[int(rng.integers(len(known)))]
        side = int(rng.integers(-1, 2))
        tags.append(f"{name}{side:+d} ({recipe.__name__})")
        return recipe(rng, size + side)
    if kind < 0.45:  # too wide to be solved in one call
        return Size(int(rng.integers(10, 250)), int(rng.integers(151, 240)))
    if kind < 0.55:
        return Size(int(rng.integers(300, 1500)), int(rng.integers(1, 40)))
    return Size(int(rng.integers(3, 120)), int(rng.integers(1, 50)))


def _kinds(rng: Rng, size: Size) -> tuple[CanonicalLoss, PenaltyKind]:
    loss: CanonicalLoss = LOSSES[int(rng.integers(len(LOSSES)))]
    if size.outputs > 1:
        loss = MATRIX[int(rng.integers(2))] if size.outputs > 2 else "squared_outputs"
    penalty: PenaltyKind = PENALTIES[int(rng.integers(len(PENALTIES)))]
    if rng.random() < 0.4:
        penalty = ("l1", "elastic_net", "group_lasso", "l2")[int(rng.integers(4))]
    if penalty == "nuclear_norm" and loss not in MATRIX:
        penalty = "l1"
    if loss == "poisson" and penalty not in CANONICAL:
        penalty = "elastic_net"  # no other method takes a loss whose curvature has no bound
    return loss, penalty


def _matrix(rng: Rng, size: Size, layout: str, tags: list[str]) -> Any:
    n, d = size.rows, size.columns
    if size.stored or layout == "ones":
        return _sparse(rng, n, d, size.stored, layout, tags)
    kind = str(rng.choice(["normal", "counts", "pareto", "sparse"], p=[0.4, 0.2, 0.2, 0.2]))
    tags.append(kind)
    if kind == "counts":
        X = rng.poisson(3, (n, d)).astype(float)
    elif kind == "pareto":  # rows, columns and entries
        X = rng.standard_normal((n, d)) * (1 + rng.pareto(1.0, (n, 1))) * (1 + rng.pareto(0.7, d))
    else:
        X = rng.standard_normal((n, d))
    if kind == "sparse":
        X *= rng.random((n, d)) < rng.uniform(0.02, 0.4)
    if rng.random() < 0.25:
        X = X + rng.standard_normal((n, 1)) * rng.uniform(0.5, 5)
        tags.append("common direction")
    if rng.random() < 0.35:
        X *= 10.0 ** rng.uniform(-4, 5, size=d)
        tags.append("scales")
        if rng.random() < 0.5:
            X += np.abs(X).max(axis=0) * rng.choice([0.0, 1.0, 30.0, 1000.0], size=d)
            tags.append("shifts")
    if d > 1 and rng.random() < 0.3:
        share = float(rng.choice([0.0, 1e-3, 1e-5, 1e-7, 1e-9]))
        for _ in range(int(rng.integers(1, 4))):
            a, b = rng.choice(d, 2, replace=False)
            X[:, a] = X[:, b] * (1 + share * rng.standard_normal(n))
        tags.append(f"collinear {share:g}")
    if rng.random() < 0.2:
        X[:, rng.random(d) < 0.2] = 0.0
        tags.append("empty columns")
    if rng.random() < 0.15:
        X[rng.random(n) < 0.2] = 0.0
        tags.append("empty rows")
    if not X.any():  # which a Problem refuses
        X[0, 0] = 1.0
    return X


def _sparse(rng: Rng, n: int, d: int, stored: int, layout: str, tags: list[str]) -> Any:
    """CSR with exactly so many values where a number is given, and columns of heavy-tailed frequency."""
    stored = min(stored or int(n * d * rng.uniform(0.02, 0.3)) or 1, n * d)
    if rng.random() < 0.5:
        tags.append("rare columns")
        shares = 1.0 / (1.0 + rng.permutation(d)) ** rng.uniform(0.5, 1.5)
        rows = np.sort(rng.integers(n, size=stored))
        columns = rng.choice(d, size=stored, p=shares / shares.sum())
        cells = np.unique(rows * d + columns)
        spare = np.setdiff1d(rng.permutation(n * d)[: 2 * stored], cells, assume_unique=True)
        cells = np.concatenate([cells, rng.permutation(spare)[: stored - cells.size]])
    else:
        cells = rng.choice(n * d, size=stored, replace=False)
    values = np.ones(cells.size) if layout == "ones" else rng.standard_normal(cells.size)
    if layout != "ones" and rng.random() < 0.3:
        values *= 1 + rng.pareto(0.7, cells.size)
        tags.append("pareto")
    return sp.csr_matrix((values, (cells // d, cells % d)), shape=(n, d))


def _layout(X: Any, layout: str) -> Any:
    narrow = layout.endswith("32")
    X = X.astype(np.float32) if narrow else X
    if layout.startswith("dense"):
        X = X.toarray() if is_sparse(X) else X
        return np.ascontiguousarray(X)
    found = sp.csr_matrix(X)
    found.sort_indices()
    return found


def _targets(rng: Rng, X: Any, loss: CanonicalLoss, outputs: int, tags: list[str]) -> Array:
    n, d = X.shape
    A = X.astype(np.float64)
    several = loss in MATRIX
    K = (outputs if outputs > 1 else int(rng.integers(2, 7))) if several else 1
    c = np.sqrt(mean_squares(A))
    truth = rng.standard_normal((d, K)) * (rng.random((d, 1)) < min(1.0, 8 / d))
    z = np.asarray(A @ (truth / np.where(c > 0, c, 1.0)[:, None]))
    spread = float(np.median(np.abs(z - np.median(z)))) or float(z.std()) or 1.0
    z = z / spread + rng.choice([0.01, 0.3, 3.0]) * rng.standard_normal((n, K))
    if loss == "squared_outputs":
        sizes = 10.0 ** rng.uniform(-2, 3, size=K)
        tags.append("outputs of different size")
        return np.asarray(z * sizes + rng.choice([0.0, 3.0], size=K) * sizes)
    if loss == "multinomial":
        offsets = rng.choice([0.0, 2.0, 6.0]) * rng.standard_normal(K)
        y = (z + offsets).argmax(axis=1).astype(float)
        y[rng.permutation(n)[:K]] = np.arange(min(K, n))  # every class is there, some once
        return np.asarray(y)
    if loss in ("logistic", "squared_hinge"):
        rare = rng.random() < 0.4
        level = (
            np.quantile(z[:, 0], 1 - min(0.5, rng.choice([1.5 / n, 0.01, 0.1]))) if rare else 0.0
        )
        tags += ["rare class"] * rare
        y = np.where(z[:, 0] > level, 1.0, -1.0) * rng.choice([-1.0, 1.0])
        y[rng.permutation(n)[:2]] = [-1.0, 1.0]
        return np.asarray(y)
    if loss == "poisson":
        rate = np.exp(
            np.clip(rng.choice([0.3, 1.0, 2.0]) * z[:, 0] - rng.choice([0.0, 2.0]), -6, 7)
        )
        y = rng.poisson(rate).astype(float)
        y[int(rng.integers(n))] += 1.0
        return np.asarray(y)
    y = (z[:, 0] + rng.choice([0.0, 3.0])) * 10.0 ** rng.uniform(-3, 3)
    if rng.random() < 0.3:
        y *= 1 + rng.pareto(1.0, n)
        tags.append("pareto targets")
    return np.asarray(y)


def _weights(rng: Rng, y: Array, tags: list[str]) -> Array | None:
    if rng.random() < 0.55:
        return None
    n = len(y)
    weights = 10.0 ** rng.uniform(-6, 3, size=n) if rng.random() < 0.7 else rng.exponential(size=n)
    tags.append("weights")
    if rng.random() < 0.3:
        weights[rng.random(n) < 0.3] = 0.0
        tags.append("zero weights")
    if y.ndim == 1 and np.unique(y).size <= 8:  # no class without weight: it would not be there
        for label in np.unique(y):
            own = np.flatnonzero(y == label)
            weights[own[0]] = weights[own[0]] if weights[own].any() else 1e-3
    return weights if weights.any() else None


def _square(found: Attack) -> float:
    """The median mean square of the columns that are not empty: a scale of a ridge."""
    squares = mean_squares(found.X.astype(np.float64))
    return float(np.median(squares[squares > 0]))


def _with_penalty(rng: Rng, found: Attack, tags: list[str]) -> Attack:
    kind, d, K = found.penalty, found.features, found.outputs
    grid = (d, K)
    varied = rng.random() < 0.25
    factors = np.where(varied, 10.0 ** rng.uniform(-2, 2, size=(d, 1)), 1.0) * np.ones(grid)
    loose = np.zeros(d, dtype=bool)
    if (
        kind in ("l1", "l2", "elastic_net", "group_lasso", "sparse_group_lasso")
        and rng.random() < 0.3
    ):
        loose[rng.permutation(d)[: int(rng.integers(1, 4))]] = True
        if not loose.all():
            tags.append("free features")
    factors[loose & ~loose.all()] = 0.0
    l2 = factors * _square(found) * 10.0 ** rng.uniform(-6, 1)
    share = float(rng.choice(SHARES))
    if kind == "zero":
        return found
    if kind == "l2":
        return found.with_(l2=l2)
    if kind == "box":
        y = (
            np.abs(found.y)
            if found.loss in ("squared", "huber", "quantile", "squared_outputs")
            else np.ones(1)
        )
        half = float(np.median(y) or 1.0) * 10.0 ** rng.uniform(-2, 1) / np.sqrt(_square(found))
        low = 0.0 if rng.random() < 0.3 else -half * rng.random()
        return found.with_(lower=np.full(grid, low), upper=np.full(grid, half))
    if kind in SETS:
        y = (
            np.abs(found.y)
            if found.loss in ("squared", "huber", "quantile", "squared_outputs")
            else np.ones(1)
        )
        radius = float(np.median(y) or 1.0) * 10.0 ** rng.uniform(-2, 1) / np.sqrt(_square(found))
        return found.with_(strength=radius)
    tags.append(f"λ/λ_max {share:g}")
    if kind in ("l1", "elastic_net", "non_negative"):
        chosen = found.with_(l1=factors)
        l1 = factors * share * _largest(chosen)
        if kind == "elastic_net":
            return found.with_(l1=l1, l2=l2)
        if kind == "non_negative":
            only = int(rng.integers(3))
            zeros = np.zeros(grid)
            l2 = l2 if only == 1 else zeros
            return found.with_(l1=zeros if only else l1, l2=l2, lower=zeros)
        return found.with_(l1=l1)
    if kind in ("group_lasso", "sparse_group_lasso"):
        labels = np.repeat(np.arange(d), K)
        if K == 1:
            labels = np.unique(rng.integers(0, max(d // 3, 1), size=d), return_inverse=True)[1]
            if not loose.all():
                labels[loose] = -1
                labels[~loose] = np.unique(labels[~loose], return_inverse=True)[1]
        labels = labels.astype(np.int64)
        strengths = np.sqrt(np.bincount(labels[labels >= 0]))
        if K > 1 and not loose.all():
            strengths[loose] = 0.0
        l1 = np.zeros(grid)
        if kind == "sparse_group_lasso":
            l1 = np.where(labels.reshape(grid) >= 0, rng.choice([0.1, 1.0, 3.0]), 0.0)
            if K > 1:
                l1[loose & ~loose.all()] = 0.0
        chosen = found.with_(labels=labels, strengths=strengths, l1=l1)
        if kind == "group_lasso":
            chosen = chosen.with_(l1=np.zeros(grid))
        t = share * _largest(chosen)
        return chosen.with_(strengths=t * strengths, l1=t * chosen.l1)
    if kind == "slope":
        weights = (
            np.sort(rng.random(d * K))[::-1] if rng.random() < 0.5 else np.linspace(1, 0.1, d * K)
        )
        chosen = found.with_(strength=1.0, weights=np.ascontiguousarray(weights))
        return chosen.with_(strength=share * _largest(chosen))
    if kind == "fused_lasso":
        l1 = np.full(grid, rng.choice([0.1, 1.0]))
        chosen = found.with_(strength=1.0, l1=l1)
        t = share * _largest(chosen)
        return chosen.with_(strength=t, l1=t * l1)
    chosen = found.with_(strength=1.0)
    return chosen.with_(strength=share * _largest(chosen))


def _largest(found: Attack) -> float:
    """λ_max: the least factor of ψ at which only what nothing holds is not zero."""
    start = found.with_(ridge=0.0)
    m = start.extended
    at = start.settled(np.zeros(m.size))
    g = m.pull(m.slopes(m.margins(at))).astype(np.float64)
    held = np.where(start.free, 0.0, g)[: found.features * found.outputs]
    largest = start.dual_norm(held)
    return largest if 0 < largest < np.inf else 1.0


def _with_minimiser(found: Attack) -> Attack:
    changes: tuple[dict[str, Any], ...] = (
        {}, {"sample_weight": None}, {"ridge": 1e-6 * _square(found)}, {"intercept": False},
    )  # fmt: skip
    for change in changes:
        if change.get("ridge") and (found.penalty in SETS or found.ridge):
            continue
        found = found.with_(**change)
        if has_minimiser(_held(found)):
            break
    return found


def _held(found: Attack) -> Canonical:
    """The model, without the features that a bounded set keeps from growing: a linear program on them may take minutes."""
    model, own = found.model, found.features * found.outputs
    if found.penalty not in SETS:
        return model
    lower, upper = model.lower.copy(), model.upper.copy()
    lower[:own] = upper[:own] = 0.0
    return replace(model, lower=lower, upper=upper)


# --- the package's problem ------------------------------------------------------------------------


def problem(found: Attack) -> rs.Problem:
    """A fresh one, in which nothing is remembered from an earlier run."""
    kinds: dict[CanonicalLoss, Callable[[], rs.losses.Loss]] = {
        "logistic": rs.losses.Logistic,
        "squared": rs.losses.Squared,
        "squared_outputs": rs.losses.Squared,
        "huber": lambda: rs.losses.Huber(found.delta),
        "squared_hinge": rs.losses.SquaredHinge,
        "multinomial": rs.losses.Multinomial,
        "quantile": lambda: rs.losses.Quantile(found.level, found.delta),
        "poisson": rs.losses.Poisson,
    }
    y = found.y.astype(int) if found.loss == "multinomial" else found.y
    return rs.Problem(
        found.X, y, kinds[found.loss](), penalty(found), ridge=found.ridge,
        sample_weight=found.sample_weight, fit_intercept=found.intercept,
    )  # fmt: skip


def penalty(found: Attack) -> Any:
    """ψ as the package has it."""
    P, vector = rs.penalties, len(found.shape) == 1

    def numbers(values: Array) -> Any:
        if (values == values.flat[0]).all():
            return float(values.flat[0])
        return values[:, 0] if vector else values

    l1, l2 = numbers(found.l1), numbers(found.l2)
    labels, weights = (found.labels, found.strengths) if vector else (None, found.strengths)
    kinds: dict[PenaltyKind, Callable[[], Any]] = {
        "zero": P.Zero,
        "l1": lambda: P.L1(l1),
        "l2": lambda: P.L2(l2),
        "elastic_net": lambda: P.ElasticNet(l1, l2),
        "non_negative": lambda: P.NonNegative(l1, l2),
        "box": lambda: P.Box(numbers(found.lower), numbers(found.upper)),
        "group_lasso": lambda: P.GroupLasso(1.0, labels, weights),
        "sparse_group_lasso": lambda: P.SparseGroupLasso(l1, 1.0, labels, weights),
        "slope": lambda: P.SLOPE(found.strength, np.asarray(found.weights)),
        "fused_lasso": lambda: P.FusedLasso(found.strength, l1),
        "l1_ball": lambda: P.L1Ball(found.strength),
        "l2_ball": lambda: P.L2Ball(found.strength),
        "simplex": lambda: P.Simplex(found.strength),
        "nuclear_norm": lambda: P.NuclearNorm(found.strength),
    }
    return kinds[found.penalty]()


def federation(found: Attack) -> rs.federated.Federation:
    """The problem among clients: sorted by target, of random sizes, or alike."""
    rng = np.random.default_rng([STREAM, found.seed, 1])
    n = found.X.shape[0]
    clients = min(int(rng.choice([2, 3, 8, 20])), n)
    by = str(rng.choice(["label", "quantity", "iid", "dirichlet"]))
    if found.y.ndim > 1 and by in ("label", "dirichlet"):
        by = "quantity"
    if by == "dirichlet" and found.loss not in ("logistic", "squared_hinge", "multinomial"):
        by = "label"
    if found.clients:  # exactly as many, and as large, as the threshold says
        clients, by = found.clients, "iid"
    return rs.federated.split(problem(found), clients, by, seed=found.seed)
