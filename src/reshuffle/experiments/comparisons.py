"""Every theorem's bound beside the exact E‖x_t - x*‖², over all permutations of tiny problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from reshuffle import theory
from reshuffle.arrays import Array
from reshuffle.experiments.paths import (
    LOSSES,
    Epoch,
    all_orders,
    all_rounds,
    below,
    f_strongly_convex,
    fedrr,
    homogeneous,
    proxrr,
    psi_strongly_convex,
    resampled,
    reshuffled,
    sgd_step,
    shuffled_once,
    shuffled_once_by,
    split,
    starts,
    unequal,
)
from reshuffle.problem import Problem

STEPS = (1.0, 0.3, 0.03)  # Steps, as multiples of the largest step that a theorem allows.


@dataclass(frozen=True)
class RateComparison:
    """The epoch t ≥ 1 at which the exact error comes closest to its bound, or exceeds it most."""

    theorem: str
    problem: str
    method: str
    start: str
    """"far" from x*, which shows the contraction, or "x*", which shows the noise."""
    step: float
    """γ·L_max."""
    epoch: int
    exact: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.exact / self.bound

    @property
    def holds(self) -> bool:
        return below(self.exact, self.bound)


def everything() -> Iterator[RateComparison]:
    """The comparisons for all theorems, problems, steps and starts."""
    yield from proximal()
    yield from decreasing()
    yield from proximal_sgd()
    yield from importance()
    yield from federated()


def proximal() -> Iterator[RateComparison]:
    """ProxRR and ProxSO with f or ψ strongly convex, and the exact shuffling radius."""
    for kind, loss, problem in _problems():
        formula = theory.proxrr_f_bound if kind == "f" else theory.proxrr_psi_bound
        for x0, c in _starts(problem):
            for fraction in STEPS:
                step = fraction / c.L_max
                radius = theory.shuffling_radius(problem, c.x_star, step)
                bound = partial(formula, c, step=step, radius=radius)
                about = f"ProxRR, {kind}", loss, fraction
                epoch, orders = proxrr(problem, step), all_orders(problem.n)
                yield from _walks(about, epoch, orders, x0, c.x_star, (3, 40), bound)


def _problems() -> Iterator[tuple[str, str, Problem]]:
    for loss in LOSSES:
        yield "f", loss, f_strongly_convex(loss)
        yield "ψ", loss, psi_strongly_convex(loss)


def _starts(problem: Problem, importance: bool = False) -> Iterator[tuple[Array, theory.Constants]]:
    """Both starts, and the constants from each."""
    x_star = theory.solve(problem)
    for x0 in starts(x_star):
        yield x0, theory.constants(problem, x_star, x0=x0, importance=importance)


def decreasing() -> Iterator[RateComparison]:
    """The decreasing steps for the horizons T = 1, 2, 4, …, 64, with ProxSO."""
    for loss in LOSSES:
        problem = psi_strongly_convex(loss)
        for x0, c in _starts(problem):
            for T in (1, 2, 4, 8, 16, 32, 64):
                steps = theory.decreasing_steps(c, T)
                radii = [theory.shuffling_radius(problem, c.x_star, s) for s in np.unique(steps)]
                epochs = [proxrr(problem, step) for step in steps]
                error = float(shuffled_once_by(epochs, all_orders(3), x0, c.x_star)[-1])
                bound = float(theory.decreasing_bound(c, T, max(radii)))
                start = _name(x0, c.x_star)
                yield RateComparison("ProxRR, decreasing", loss, "SO", start, 1.0, T, error, bound)


def proximal_sgd() -> Iterator[RateComparison]:
    """All 3⁶ sequences of indices; the epoch is a single step."""
    for kind, loss, problem in _problems():
        for x0, c in _starts(problem):
            for fraction in STEPS:
                step = 0.5 * fraction / c.L_max
                errors = reshuffled(sgd_step(problem, step), range(3), x0, c.x_star, 6)
                bounds = theory.proxsgd_bound(c, np.arange(7) / 3, step)
                start = _name(x0, c.x_star)
                yield closest(f"ProxSGD, {kind}", loss, "SGD", start, fraction / 2, errors, bounds)


def importance() -> Iterator[RateComparison]:
    """Importance copies with the corrected weights."""
    problem = unequal()
    for x0, c in _starts(problem, importance=True):
        for fraction in STEPS:
            step = fraction / c.L_max
            epoch, pool = resampled(problem, step)
            bound = partial(theory.proxrr_psi_bound, c, step=step)
            about = "importance copies", "squared", fraction
            yield from _walks(about, epoch, all_orders(pool.size), x0, c.x_star, (2, 40), bound)


def federated() -> Iterator[RateComparison]:
    """FedRR and FedSO: heterogeneous clients of any sizes, equal ones, homogeneous ones."""
    for sizes in ((3, 1), (2, 2, 2)):
        problem = psi_strongly_convex("logistic", sum(sizes))
        yield from _federation(
            "FedRR, heterogeneous", split(problem, sizes), theory.solve(problem),
            theory.fed_heterogeneous_bound,
        )  # fmt: skip
    problem = f_strongly_convex("logistic", 6)
    yield from _federation(
        "FedRR, f", split(problem, (3, 3)), theory.solve(problem), theory.fed_bound
    )
    yield from _federation("FedRR, homogeneous", *homogeneous(), theory.fed_homogeneous_bound)


def _federation(
    theorem: str, clients: list[Problem], x_star: Array, formula: Callable[..., Array]
) -> Iterator[RateComparison]:
    sizes = [client.n for client in clients]
    name = "clients of " + ", ".join(map(str, sizes))
    for x0 in starts(x_star):
        c = theory.client_constants(clients, x_star, x0=x0)
        for fraction in STEPS:
            step = fraction / c.L_max
            epoch, bound = fedrr(clients, step), partial(formula, c, step=step)
            about = theorem, name, fraction
            yield from _walks(about, epoch, all_rounds(sizes), x0, x_star, (2, 15), bound)


def mistakes() -> Iterator[RateComparison]:
    """γ = 3/L_max, and a prox with γ for γn: each first without the mistake, then with it."""
    problem = psi_strongly_convex("squared")
    x_star, orders = theory.solve(problem), all_orders(3)
    for mistake, x0, fraction, T, factor, prox in (
        ("γ = 3/L_max for 1/L_max", np.zeros(2), 1.0, 20, 3.0, 3.0),
        ("prox with γ for γn", x_star, 0.01, 400, 1.0, 1.0),
    ):
        c = theory.constants(problem, x_star, x0=x0)
        step = fraction / c.L_max
        radius = theory.shuffling_radius(problem, x_star, step)
        bounds = theory.proxrr_psi_bound(c, np.arange(T + 1), step, radius)
        right = proxrr(problem, step)
        wrong = proxrr(problem, factor * step, factor * step * prox)
        for method, epoch in (("none", right), (mistake, wrong)):
            errors = shuffled_once(epoch, orders, x0, x_star, T)
            start = _name(x0, x_star)
            yield closest("ProxRR, ψ", "squared", method, start, fraction, errors, bounds)


def _walks(
    about: tuple[str, str, float],
    epoch: Epoch,
    orders: Sequence[object],
    x0: Array,
    x_star: Array,
    epochs: tuple[int, int],
    bound: Callable[[Array], Array],
) -> Iterator[RateComparison]:
    """All paths of a method: some epochs with fresh orders (RR), or more epochs with one order for all (SO).

    ``about`` has the theorem, the problem and the step.
    """
    theorem, problem, step = about
    for method, walk, T in zip(("RR", "SO"), (reshuffled, shuffled_once), epochs, strict=True):
        errors = walk(epoch, orders, x0, x_star, T)
        start, bounds = _name(x0, x_star), bound(np.arange(T + 1.0))
        yield closest(theorem, problem, method, start, step, errors, bounds)


def _name(x0: Array, x_star: Array) -> str:
    return "x*" if np.array_equal(x0, x_star) else "far"


def closest(
    theorem: str, problem: str, method: str, start: str, step: float, errors: Array, bounds: Array
) -> RateComparison:
    """Of the comparisons of errors with bounds at t = 1, 2, …, the one closest to failing."""
    t = 1 + int(np.argmax(errors[1:] / bounds[1:]))
    values = float(errors[t]), float(bounds[t])
    return RateComparison(theorem, problem, method, start, step, t, *values)


def tightest(found: Iterable[RateComparison]) -> dict[tuple[str, str], dict[str, RateComparison]]:
    """For every theorem, method and start, the comparison closest to failing."""
    best: dict[tuple[str, str], dict[str, RateComparison]] = {}
    for one in found:
        starts = best.setdefault((one.theorem, one.method), {})
        if one.start not in starts or one.ratio > starts[one.start].ratio:
            starts[one.start] = one
    return best
