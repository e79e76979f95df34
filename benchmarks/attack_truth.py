"""The minimum of an attack by methods that share no line with the package: numpy's Newton, and cones.

Where ψ is a sum over coordinates or disjoint groups, ``smoothed_newton`` finds the point; elsewhere, and where it ends
with a wide bracket, Clarabel does. Both are judged by ``Attack.bounds``: what they say of themselves does not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.attack import CANONICAL, SETS, Attack
from benchmarks.canonical import Array, scaled
from benchmarks.smoothed_newton import minimise

GOOD = 1e-12  # of f(0): a bracket this narrow is not narrowed further
MOST_UNKNOWNS = 700  # of Newton's method, which factorises some hundred Hessians of this width
MOST_CONES = 2_000  # unknowns of Clarabel
MOST_ENTRIES = 400_000  # of the rows: with more, cvxpy takes minutes to set up
WIDEST = {"slope": 100, "nuclear_norm": 60}
"""Unknowns (rows and columns, for a matrix) beyond which cones take a square, or a cube, of them and minutes."""
TIGHT = 1e-11  # what Clarabel is asked for; with exponential cones it often ends near 1e-9


@dataclass
class Bracket:
    """lower ≤ P* ≤ upper, narrowed by every point that is shown to it."""

    attack: Attack
    upper: float = np.inf
    lower: float = 0.0  # no loss and no penalty of the adversary is negative
    by: str = ""
    """Who found the best point."""

    @property
    def width(self) -> float:
        """(upper - lower)/f(0)."""
        return (self.upper - self.lower) / self.attack.at_zero

    def see(self, x: Array, by: str) -> None:
        if not np.isfinite(x).all():
            return
        upper, lower = self.attack.bounds(x)
        if upper < self.upper:
            self.upper, self.by = upper, by
        self.lower = max(self.lower, lower)


def narrow(bracket: Bracket, seconds: float) -> bool:
    """Narrow the bracket by independent solvers; whether any of them could be asked."""
    asked = False
    for name, solve in (("newton", by_newton), ("cones", by_cones)):
        if bracket.width <= GOOD:
            break
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                for x in solve(bracket.attack, seconds):
                    asked = True
                    bracket.see(x, name)
                    if bracket.width <= GOOD:
                        break
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, MemoryError):
            continue  # no answer of this one
        except Exception as error:  # cvxpy's own kinds, which cannot be named without importing it
            if type(error).__module__.partition(".")[0] not in ("cvxpy", "clarabel"):
                raise
    return asked


def by_newton(attack: Attack, seconds: float) -> Iterator[Array]:
    """Points of the smoothed Newton method, in the variables of the attack; columns centred where that is harmless."""
    plain = attack.model.small_dense()
    entries = plain.A.shape[0] * plain.size
    if attack.penalty not in CANONICAL or plain.size > MOST_UNKNOWNS or entries > MOST_ENTRIES:
        return
    for centre in (True, False) if attack.intercept else (False,):
        model, c, means = scaled(plain, centre)
        for found in minimise(model, attack.at_zero):
            x = (found.reshape(-1, plain.outputs) / c[:, None]).astype(np.longdouble)
            if means.any():
                x[-1] -= means @ x
            yield np.clip(x.ravel().astype(np.float64), plain.lower, plain.upper)


def by_cones(attack: Attack, seconds: float) -> Iterator[Array]:
    """Clarabel's point, moved into the constraints."""
    plain = attack.model.small_dense()
    matrix = attack.penalty == "nuclear_norm"
    width = attack.features + attack.outputs if matrix else plain.size
    if (
        width > WIDEST.get(attack.penalty, MOST_CONES)
        or plain.A.shape[0] * plain.size > MOST_ENTRIES
    ):
        return
    cp: Any = import_module("cvxpy")  # not needed by anything but this
    model, c, means = scaled(plain, attack.intercept and attack.penalty in CANONICAL)
    K, rows, unit = plain.outputs, plain.A.shape[1], attack.at_zero
    U = cp.Variable((rows, K))  # x·c
    u = cp.reshape(U, (model.size,), order="C")
    cost = _loss(cp, attack, model.A @ U) + cp.sum_squares(
        cp.multiply(np.sqrt(model.l2 / 2 / unit), u)
    )
    order = np.argsort(model.labels, kind="stable")
    order = order[model.labels[order] >= 0]
    groups = np.split(order, np.flatnonzero(np.diff(model.labels[order])) + 1) if order.size else []
    single = np.array([group[0] for group in groups if group.size == 1], dtype=np.int64)
    if single.size:
        strengths = model.strengths[model.labels[single]] / unit
        cost += strengths @ cp.abs(u[single])
    for group in groups:
        if group.size > 1:
            cost += model.strengths[model.labels[group[0]]] / unit * cp.norm(u[group], 2)
    low, high = np.flatnonzero(np.isfinite(model.lower)), np.flatnonzero(np.isfinite(model.upper))
    limits = [u[low] >= model.lower[low]] if low.size else []
    limits += [u[high] <= model.upper[high]] if high.size else []
    X = cp.multiply(U, np.repeat(1 / c[:, None], K, axis=1))[: attack.features, :]
    extra, more = _rest(cp, attack, X)
    tight = {"tol_gap_abs": TIGHT, "tol_gap_rel": TIGHT, "tol_feas": TIGHT, "time_limit": seconds}
    cp.Problem(cp.Minimize(cost + extra / unit), limits + more).solve(solver="CLARABEL", **tight)
    if U.value is None:
        return
    x = (np.asarray(U.value) / c[:, None]).astype(np.longdouble)
    if means.any():
        x[-1] -= means @ x
    flat = np.clip(x.ravel().astype(np.float64), plain.lower, plain.upper)
    yield _inside(attack, flat)


def _loss(cp: Any, attack: Attack, Z: Any) -> Any:
    """f/f(0), up to a constant of Poisson's loss."""
    w, y = attack.model.w / attack.at_zero, attack.model.y
    if attack.loss == "multinomial":
        hot = np.eye(attack.outputs)[y.astype(int)]
        return w @ (cp.log_sum_exp(Z, axis=1) - cp.sum(cp.multiply(hot, Z), axis=1))
    if attack.loss == "squared_outputs":
        return cp.sum_squares(cp.multiply(np.sqrt(w / 2)[:, None] * np.ones(y.shape), Z - y))
    z = Z[:, 0]
    if attack.loss == "logistic":
        return w @ cp.logistic(-cp.multiply(y, z))
    if attack.loss == "poisson":
        return w @ (cp.exp(z) - cp.multiply(y, z))
    if attack.loss == "squared_hinge":
        return cp.sum_squares(cp.multiply(np.sqrt(w / 2), cp.pos(1 - cp.multiply(y, z))))
    if attack.loss == "squared":
        return cp.sum_squares(cp.multiply(np.sqrt(w / 2), z - y))
    # a quadratic near zero and straight lines beyond it: the least of u²/(2·width) + lines(r - u) over u
    near = cp.Variable(len(y))
    width = 1.0 if attack.loss == "huber" else attack.delta
    up = attack.delta if attack.loss == "huber" else 1 - attack.level
    down = attack.delta if attack.loss == "huber" else attack.level
    left = z - y - near
    lines = w @ (up * cp.pos(left) + down * cp.neg(left))
    return cp.sum_squares(cp.multiply(np.sqrt(w / 2 / width), near)) + lines


def _rest(cp: Any, attack: Attack, X: Any) -> tuple[Any, list[Any]]:
    """ψ without what ``Attack.model`` has, and its constraints."""
    x = cp.reshape(X, (attack.features * attack.outputs,), order="C")
    kind, strength = attack.penalty, attack.strength
    if kind == "sparse_group_lasso":
        groups = [np.flatnonzero(attack.labels == g) for g in range(attack.strengths.size)]
        return sum(s * cp.norm(x[g], 2) for g, s in zip(groups, attack.strengths, strict=True)), []
    if kind == "slope":
        weights = np.asarray(attack.weights)
        steps = weights - np.append(weights[1:], 0.0)
        parts = [
            s * cp.sum_largest(cp.abs(x), k + 1) for k, s in enumerate(steps.tolist()) if s > 0
        ]
        return strength * sum(parts), []
    if kind == "fused_lasso":
        return strength * cp.sum(cp.abs(X[1:, :] - X[:-1, :])) if attack.features > 1 else 0.0, []
    if kind == "nuclear_norm":
        return strength * cp.normNuc(X), []
    balls: dict[str, Callable[[], list[Any]]] = {
        "l1_ball": lambda: [cp.norm(x, 1) <= strength],
        "l2_ball": lambda: [cp.norm(x, 2) <= strength],
        "simplex": lambda: [x >= 0, cp.sum(x) == strength],
    }
    return 0.0, balls[kind]() if kind in SETS else []


def _inside(attack: Attack, flat: Array) -> Array:
    """The point scaled into its ball, or onto its simplex."""
    grid = flat.reshape(-1, attack.outputs).copy()
    u = grid[: attack.features]
    if attack.penalty == "simplex":
        u[:] = np.maximum(u, 0.0)
        u *= attack.strength / u.sum()
    elif attack.penalty in SETS:
        norm = np.abs(u).sum() if attack.penalty == "l1_ball" else float(np.linalg.norm(u))
        u *= min(1.0, attack.strength / norm) if norm > 0 else 1.0
    return grid.ravel()
