"""P* of a problem of the corpus, bracketed between a point's objective and a lower bound.

No code of the package takes part. The lower bound is weak duality at the slopes of the point x found, which for a
convex f reads

    P* ≥ min_u f(x) + ⟨∇f(x), u - x⟩ + ψ(u)   over every u that may be a minimiser,

and that minimum is taken coordinate by coordinate. ψ itself bounds a penalised coordinate of a minimiser, since
ψ(x*) ≤ P(x); one without a penalty or a bound is trusted to stay within ``TRUST`` times the largest coordinate or target
(columns scaled), which ``Truth.proven`` tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog

from benchmarks.canonical import Array, Canonical, canonical, scaled
from benchmarks.glm_losses import CLASSES
from benchmarks.instances import Instance
from benchmarks.smoothed_newton import minimise

TRUST = 10.0
WIDE = 1_500  # coordinates beyond which only those that matter are solved for
VIOLATORS = 200  # coordinates that come in at a time
GOOD = 1e-13  # of f(0): a bracket this narrow is not narrowed further
VERSION = 1  # of what is cached: to be raised when the numbers would change
CACHE = "RESHUFFLE_TRUTH"  # the variable that names the file of cached minima


@dataclass(frozen=True)
class Truth:
    """lower ≤ P* ≤ upper."""

    upper: float
    lower: float
    at_zero: float
    """f(0), what accuracies are relative to (1 where it is 0)."""
    proven: bool
    """Whether the lower bound holds without trust in the size of unpenalised coordinates."""

    @property
    def width(self) -> float:
        """(upper - lower)/f(0)."""
        return (self.upper - self.lower) / self.at_zero


def optimum(instance: Instance) -> tuple[Truth, Array]:
    """The bracket and the point whose objective is its upper end, in the variables of the instance."""
    plain = canonical(instance).small_dense()
    start = plain.extended()
    zero = np.zeros(plain.size, dtype=start.w.dtype)
    at_zero = float(start.loss_of(start.margins(zero))) or 1.0
    model, scale, means = scaled(plain, instance.intercept)
    upper, lower, found = _narrowest(model, at_zero)
    x = (found.reshape(-1, plain.outputs) / scale[:, None]).astype(np.longdouble)
    if means.any():
        x[-1] -= means @ x
    flat = np.clip(x.ravel().astype(np.float64), plain.lower, plain.upper)
    free = (plain.labels < 0) & (plain.l2 == 0) & ~np.isfinite(plain.upper - plain.lower)
    truth = Truth(upper, min(lower, upper), at_zero, not free.any())
    return truth, flat.reshape(-1, plain.outputs) if plain.outputs > 1 else flat


def _narrowest(model: Canonical, unit: float) -> tuple[float, float, Array]:
    """P(x), the best lower bound and x, among all points that are tried."""
    upper, lower, best = np.inf, 0.0, np.zeros(model.size)  # no loss and no penalty is negative
    for x in minimise(model, unit) if model.size <= WIDE else _by_working_sets(model, unit):
        value, bound = bracket(model, x)
        lower = max(lower, bound)
        if value < upper:
            upper, best = value, x
        if upper - lower <= GOOD * unit:
            break
    return upper, lower, best


def _by_working_sets(model: Canonical, unit: float) -> Iterator[Array]:
    """Minimisers in ever more rows of x: those that the slopes at the last one ask for."""
    x, rows = np.zeros(model.size), np.empty(0, dtype=np.int64)
    while True:
        asked = violation(model, x).reshape(-1, model.outputs).max(axis=1)
        asked[rows] = 0.0
        new = np.argsort(-asked)[:VIOLATORS]
        new = new[asked[new] > 0]
        if not new.size:
            return
        rows = np.union1d(rows, new)
        part = model.part(rows).small_dense()
        grid = np.arange(model.size).reshape(-1, model.outputs)[rows].ravel()
        x = np.zeros(model.size)
        x[grid] = _narrowest(part, unit)[2] if part.size <= WIDE else list(minimise(part, unit))[1]
        yield x


def violation(model: Canonical, x: Array) -> Array:
    """By how much each coordinate that is zero wants to leave it."""
    g = model.pull(model.slopes(model.margins(x)))
    limit = np.zeros(model.size)
    inside = model.labels >= 0
    limit[inside] = model.strengths[model.labels[inside]]
    beyond = np.maximum(np.abs(g) - limit, 0.0)
    outward = np.where(g > 0, model.lower == 0, model.upper == 0)
    return np.where(outward, 0.0, beyond)


def bracket(model: Canonical, x: Array) -> tuple[float, float]:
    """P(x) and the lower bound at its slopes."""
    exact = model.extended()
    x = x.astype(exact.w.dtype)
    z = exact.margins(x)
    g = exact.pull(exact.slopes(z))
    upper = exact.loss_of(z) + exact.penalty_of(x)
    inside = model.labels >= 0
    own = model.labels[inside]
    sizes = np.bincount(own, minlength=model.strengths.size)
    several = np.zeros(model.size, dtype=bool)
    several[inside] = sizes[own] > 1
    loss = _group_loss(model, x, g, upper)[sizes > 1].sum()
    loss += _separable_loss(model, x, g, upper)[~several].sum()
    return float(upper), float(upper - loss)


def _group_loss(model: Canonical, x: Array, g: Array, upper: float) -> Array:
    """max_u ⟨g, x - u⟩ + ψ(x) - ψ(u) of every group; its l2 is one number, as a ridge is."""
    inside = model.labels >= 0
    own = model.labels[inside]
    norms, slopes, l2 = model.norms(x), model.norms(g), np.zeros(model.strengths.size)
    l2[own] = model.l2[inside]
    inner = np.zeros_like(norms)
    np.add.at(inner, own, (g * x)[inside])
    beyond = np.maximum(slopes - model.strengths, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = beyond * upper / model.strengths
        gain = np.where(l2 > 0, np.minimum(gain, beyond**2 / (2 * l2)), gain)
    return np.asarray(inner + model.strengths * norms + l2 * norms**2 / 2 + gain)


def _separable_loss(model: Canonical, x: Array, g: Array, upper: float) -> Array:
    """max_u g(x - u) + ψ(x) - ψ(u) of every coordinate, u within what a minimiser can be."""
    inside, l1 = model.labels >= 0, np.zeros(model.size, dtype=x.dtype)
    l1[inside] = model.strengths[model.labels[inside]]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        reach = np.minimum(upper / l1, np.sqrt(2 * upper / model.l2))
    reach = np.where(np.isfinite(reach), reach, TRUST * (np.abs(x).max() + np.abs(model.y).max()))
    reach = np.maximum(reach, np.abs(x))
    low, high = np.maximum(model.lower, -reach), np.minimum(model.upper, reach)
    shrunk = -np.sign(g) * np.maximum(np.abs(g) - l1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        stationary = np.where(model.l2 > 0, shrunk / model.l2, 0)

    def cost(u: Array) -> Array:
        return g * u + l1 * np.abs(u) + model.l2 * u * u / 2

    ends = (low, high, np.clip(0 * x, low, high), np.clip(stationary, low, high))
    return np.asarray(cost(x) - np.min([cost(u) for u in ends], axis=0))


def attained(instance: Instance) -> bool:
    """Whether P has a minimiser."""
    return has_minimiser(canonical(instance))


def has_minimiser(plain: Canonical) -> bool:
    """Whether P has a minimiser.

    The piecewise quadratic losses and Gamma's always have one. The others have none exactly if some direction that ψ does not
    charge for lowers no sample's margin and raises one's, which a linear program finds. (A count of zero has the
    margin -z; a count above it asks for z to stay where it is.)
    """
    counted_loss = plain.loss in ("poisson", "tweedie", "negative_binomial")
    two_classes = plain.loss in ("logistic", *CLASSES)
    if not (counted_loss or two_classes or plain.loss == "multinomial"):
        return True
    model, _, _ = scaled(plain, False)
    charged = (model.labels >= 0) | (model.l2 > 0)
    low = np.where(charged | np.isfinite(model.lower), 0.0, -np.inf)
    high = np.where(charged | np.isfinite(model.upper), 0.0, np.inf)
    if not np.any(low < high):
        return True
    counted = model.w > 0
    A = model.A[counted].toarray() if hasattr(model.A, "toarray") else model.A[counted]
    y = model.y[counted]
    level: Array = A[:0]
    if two_classes:
        gains = y[:, None] * A
    elif counted_loss:
        gains, level = -A[y == 0], A[y > 0]
    else:
        hot = np.eye(model.outputs)
        labels = y.astype(int)
        pairs = [
            np.einsum("nd,nk->ndk", A, hot[labels] - hot[k])[labels != k].reshape(-1, model.size)
            for k in range(model.outputs)
        ]
        gains = np.concatenate(pairs)
    keep = low < high
    bounds = np.column_stack([low, high])[keep]
    stacked = np.concatenate([gains[:, keep], -gains[:, keep]])
    limits = np.concatenate([np.ones(len(gains)), np.zeros(len(gains))])
    still = {"A_eq": level[:, keep], "b_eq": np.zeros(len(level))} if len(level) else {}
    solve: Any = linprog  # whose stubs have one type for each method
    found = solve(-gains[:, keep].sum(axis=0), A_ub=stacked, b_ub=limits, bounds=bounds, **still)
    return not (found.status != 0 or -found.fun > 0.5)  # the optimum is 0, or at least 1


class Minima:
    """Minima that were computed before, in a file outside the repository."""

    def __init__(self, path: Path | None = None) -> None:
        named = os.environ.get(CACHE)
        home = Path.home() / ".cache" / "reshuffle" / "minima.json"
        self.path = path or (Path(named) if named else home)
        self.known: dict[str, dict[str, float]] = {}
        if self.path.is_file():
            self.known = json.loads(self.path.read_text(encoding="utf-8"))

    def of(self, instance: Instance) -> Truth:
        key = f"{VERSION}-{instance.digest()}"
        if key not in self.known:
            self.known[key] = asdict(optimum(instance)[0])
        return Truth(**self.known[key])  # type: ignore[arg-type]

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(self.known), encoding="utf-8")
        draft.replace(self.path)
