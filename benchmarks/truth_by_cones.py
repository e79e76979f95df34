"""P* by conic programming (cvxpy with Clarabel): a second opinion that shares no line with the first.

``python -m benchmarks.truth_by_cones --random 200 --named`` compares both and lists where they disagree.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
import numpy as np

from benchmarks.canonical import Canonical, canonical, scaled
from benchmarks.corpus import CORPUS
from benchmarks.instances import Instance
from benchmarks.random_problems import random_problem
from benchmarks.truth import Minima

TIGHT = 1e-12  # what Clarabel is asked for; with exponential cones it often ends near 1e-9
LOWER = 1e-12  # of f(0): the rounding of an objective, and some
NARROW = 1_000  # columns: with more, cvxpy takes minutes to set up
AGREE = 1e-6  # of f(0): beyond this one of the two is wrong, not just stopped early


def conic_optimum(instance: Instance) -> tuple[float, str]:
    """The least P(x) that Clarabel's point has, judged in numpy, and how the solver says it ended."""
    cp: Any = import_module("cvxpy")  # not needed by anything but this comparison
    plain = canonical(instance).small_dense()
    model, _, _ = scaled(plain, instance.intercept)
    unit = float(model.loss_of(model.margins(np.zeros(model.size)))) or 1.0
    X = cp.Variable((model.A.shape[1], model.outputs))
    x = cp.reshape(X, (model.size,), order="C")
    cost = _loss(cp, model, model.A @ X) / unit + cp.sum_squares(
        cp.multiply(np.sqrt(model.l2 / (2 * unit)), x)
    )
    for group, strength in enumerate(model.strengths):
        cost += strength / unit * cp.norm(x[np.flatnonzero(model.labels == group)], 2)
    low, high = np.flatnonzero(np.isfinite(model.lower)), np.flatnonzero(np.isfinite(model.upper))
    limits = [x[low] >= model.lower[low]] if low.size else []
    limits += [x[high] <= model.upper[high]] if high.size else []
    problem = cp.Problem(cp.Minimize(cost), limits)
    tight = {"tol_gap_abs": TIGHT, "tol_gap_rel": TIGHT, "tol_feas": TIGHT}
    problem.solve(solver="CLARABEL", **tight)
    if X.value is None:
        return np.inf, str(problem.status)
    found = np.clip(np.asarray(X.value).ravel(), model.lower, model.upper)
    return model.objective(found), str(problem.status)


def _loss(cp: Any, model: Canonical, Z: Any) -> Any:
    w, y = model.w, model.y
    if model.loss == "multinomial":
        hot = np.eye(model.outputs)[y.astype(int)]
        return w @ (cp.log_sum_exp(Z, axis=1) - cp.sum(cp.multiply(hot, Z), axis=1))
    z = Z[:, 0]
    if model.loss == "logistic":
        return w @ cp.logistic(-cp.multiply(y, z))
    if model.loss == "squared_hinge":
        return w @ cp.square(cp.pos(1 - cp.multiply(y, z))) / 2
    if model.loss == "squared":
        return w @ cp.square(z - y) / 2
    return w @ cp.huber(z - y, model.delta) / 2  # cvxpy's is twice ours


@click.command()
@click.option("--random", "count", default=200, help="How many random problems to compare on.")
@click.option("--first", default=0, help="The first seed.")
@click.option("--named", is_flag=True, help="The small named problems too.")
def main(count: int, first: int, named: bool) -> None:
    """Compare the two; status 1 where the cones find a lower point."""
    differences, beaten, minima = [], 0, Minima()
    for instance in _chosen(range(first, first + count), named):
        truth = minima.of(instance)
        try:
            found, status = conic_optimum(instance)
        except Exception as error:  # of the other solver: no answer
            found, status = np.inf, type(error).__name__
        difference = (found - truth.upper) / truth.at_zero
        differences.append(difference)
        beaten += difference < -LOWER
        if abs(difference) > AGREE or difference < -LOWER:
            print(
                f"{instance.name}: {instance.loss}, {instance.penalty}: cones - Newton "
                f"{difference:.2e} of f(0), {status}; bracket {truth.width:.1e}, proven {truth.proven}"
            )
    levels = [int(np.sum(np.abs(differences) <= level)) for level in (1e-12, 1e-9, AGREE)]
    print(
        f"{len(differences)} problems: within 1e-12 of f(0) {levels[0]}, 1e-9 {levels[1]}, 1e-6 {levels[2]}; "
        f"cones above by more {len(differences) - levels[2]}, cones below Newton {beaten}"
    )
    sys.exit(1 if beaten else 0)


def _chosen(seeds: range, named: bool) -> Iterator[Instance]:
    yield from map(random_problem, seeds)
    for entry in CORPUS.values() if named else ():
        instance = entry.build()
        if entry.size == "small" and instance.X.shape[1] <= NARROW:
            yield instance


if __name__ == "__main__":
    main()
