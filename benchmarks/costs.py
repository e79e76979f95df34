"""Measured time over estimated time of each kind of work: ``python -m benchmarks.costs``.

The chooser of the exact method compares phases by ``reshuffle.solvers.exact.costs``. For each kind of work and each shape of data
this prints the nanoseconds of the processor over the estimate. Only ratios of the columns matter: a machine that is slower
at everything has larger numbers and the same choices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

import click
import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.timing import one_thread
from reshuffle.objective import Array
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_steps import NewtonSteps, Progress
from reshuffle.solvers.second_order import SecondOrder
from reshuffle.solvers.slope_table import slope_table_of

REPEATS = 7
STEP = 1e-3
"""γ of the epochs over 1/L, small enough for x to stay where it is."""
NEAR = 0.05
"""Standard deviation of the coordinates of the points at which work is measured."""


class Shape(NamedTuple):
    """A set of data: rows, features, stored values of a row (0 for dense rows) and outputs."""

    rows: int
    features: int
    stored: int = 0
    outputs: int = 0
    binary: bool = False


SHAPES = {
    "dense, 2,000 x 60": Shape(2_000, 60),
    "dense, 20,000 x 40": Shape(20_000, 40),
    "dense, 6,000 x 400": Shape(6_000, 400),
    "dense, 20,000 x 784": Shape(20_000, 784),
    "dense, 60 x 400": Shape(60, 400),
    "dense, 1,800 x 64, 10 outputs": Shape(1_800, 64, outputs=10),
    "dense, 8,000 x 784, 10 outputs": Shape(8_000, 784, outputs=10),
    "sparse, 5,000 x 1,000, 20": Shape(5_000, 1_000, 20),
    "sparse, 5,000 x 20,000, 45": Shape(5_000, 20_000, 45),
    "sparse, 30,000 x 120, 14": Shape(30_000, 120, 14),
    "sparse, 30,000 x 120, 14, ones": Shape(30_000, 120, 14, binary=True),
    "sparse, 40,000 x 800, 25": Shape(40_000, 800, 25),
    "sparse, 11,000 x 30,000, 60": Shape(11_000, 30_000, 60),
    "sparse, 5,000 x 5,000, 60, 10 outputs": Shape(5_000, 5_000, 60, 10),
}


def problem_of(shape: Shape, ridge: bool) -> rs.Problem:
    """A classification problem of the shape."""
    rng = np.random.default_rng(0)
    X: Any
    if shape.stored:
        X = sp.random(
            shape.rows, shape.features, shape.stored / shape.features, format="csr", random_state=rng
        )  # fmt: skip
        X.data[:] = 1.0 if shape.binary else rng.standard_normal(X.nnz)
    else:
        X = rng.standard_normal((shape.rows, shape.features))
    count = shape.outputs or 2
    scores = (
        X @ rng.standard_normal((shape.features, count)) / np.sqrt(shape.stored or shape.features)
    )
    classes = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    loss = rs.losses.Multinomial() if shape.outputs else rs.losses.Logistic()
    penalty = rs.penalties.L2(1e-3) if ridge else rs.penalties.L1(1e-3)
    return rs.Problem(
        X, classes if shape.outputs else 2.0 * classes - 1.0, loss=loss, penalty=penalty
    )


def least(work: Callable[[int], object]) -> float:
    """The least nanoseconds of a call."""
    found = np.inf
    for k in range(REPEATS):
        clock = time.process_time_ns()
        work(k)
        found = min(found, time.process_time_ns() - clock)
    return found


def measured(problem: rs.Problem) -> Iterator[tuple[str, float, float]]:
    """The name of a kind of work, its nanoseconds and their estimate."""
    fit = problem.datafit
    rng = np.random.default_rng(1)
    points = [NEAR * rng.standard_normal(problem.shape) for _ in range(REPEATS)]
    table = slope_table_of(problem, np.empty(0, dtype=np.uint32), np.empty(0))
    blocks = max(1, round(fit.n / max(isqrt(fit.n), min(round(10 * table.sparsity), fit.n // 16))))
    begin, visits = table.start(points[0]), rng.permutation(fit.n).astype(np.uint32)
    steps = np.full(blocks, STEP / table.smoothness)
    yield "epoch", least(lambda _: table.epoch(begin, visits, steps)), costs.epoch(table, blocks)
    second = SecondOrder(fit)
    yield (
        "f and gradient",
        least(lambda k: second.linearise(points[k])),
        costs.passes(fit, 1.0) - costs.STEP_CALLS,
    )
    if not fit.outputs:
        at = second.linearise(points[0])
        one, two = (costs.conjugate_gradients(fit, k) for k in (1.0, 2.0))
        yield "product", least(lambda k: second.hessian_product(at, points[k])), two - one
    for share in (0.1, 1.0):
        x = points[0] * (rng.random(problem.shape) < share)
        estimate = costs.newton(problem, x, 1.0)
        if estimate < 1e9:
            work = least(partial(_newton_step, NewtonSteps(problem), x))
            yield f"Newton, {share:.0%}", work, estimate


def _newton_step(newton: NewtonSteps, x: Array, _: int) -> None:
    newton.run(newton.inner(x), Progress(), 1e-9, 1.0, 1)


@click.command()
@click.option("--only", default="", help="Shapes whose name has this in it.")
def main(only: str) -> None:
    """Print nanoseconds and their estimate."""
    print("| data | work | ms | over the estimate |\n| --- | --- | ---: | ---: |")
    with one_thread():
        for name, shape in SHAPES.items():
            for ridge in (False, True) if only in name else ():
                for work, taken, estimate in measured(problem_of(shape, ridge)):
                    print(
                        f"| {name}, {'ridge' if ridge else 'ℓ1'} | {work} | {taken / 1e6:.3g} | {taken / estimate:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
