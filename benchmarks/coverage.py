"""How often 95 % intervals cover what they are about: ``python -m benchmarks.coverage [--repetitions 1000]``.

Data are drawn again and again from a known distribution. For intervals about a best model that is not the true one, and for a
ridge, the target is the same fit to a sample that is a thousand times as large.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import reshuffle as rs

Array = NDArray[np.float64]
TRUE = np.array([0.5, -0.5, 0.25, 0.0])
LARGE = 300_000
"""Rows of the sample that stands for the population: its own error is a thirtieth of that of 300 rows."""


class Case(NamedTuple):
    """A way to draw data, a model, and what its intervals are asked for."""

    name: str
    rows: int
    draw: Callable[[np.random.Generator, int], tuple[Array, Any]]
    model: Callable[[], Any]
    settings: dict[str, Any]
    target: Array | None
    """The coefficients that intervals are about; those of the same fit to a large sample where there are none."""


def gaussian(rng: np.random.Generator, n: int, d: int = 4) -> Array:
    """Correlated columns."""
    X = rng.standard_normal((n, d))
    X[:, 1:] = 0.8 * X[:, 1:] + 0.6 * X[:, :-1]
    return X


def linear(rng: np.random.Generator, n: int) -> tuple[Array, Any]:
    X = gaussian(rng, n)
    return X, X @ TRUE + rng.standard_normal(n)


def uneven(rng: np.random.Generator, n: int) -> tuple[Array, Any]:
    """Errors whose size grows with the first column."""
    X = gaussian(rng, n)
    return X, X @ TRUE + np.abs(X[:, 0]) * rng.standard_normal(n)


def classes(rng: np.random.Generator, n: int) -> tuple[Array, Any]:
    X = gaussian(rng, n)
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-X @ TRUE))


def counts(rng: np.random.Generator, n: int) -> tuple[Array, Any]:
    """Counts that vary more than Poisson's."""
    X = gaussian(rng, n)
    return X, rng.poisson(np.exp(0.5 * X @ TRUE) * rng.gamma(2.0, 0.5, n)).astype(float)


def sparse(rng: np.random.Generator, n: int) -> tuple[Array, Any]:
    """Forty columns, of which three matter."""
    X = gaussian(rng, n, 40)
    return X, X[:, :3] @ [1.0, -1.0, 0.5] + rng.standard_normal(n)


def failures(rng: np.random.Generator, n: int) -> tuple[Array, Any]:
    """Times of proportional hazards, rounded so that there are ties, a third censored."""
    X = gaussian(rng, n)
    times, ends = rng.exponential(np.exp(-X @ TRUE)), rng.exponential(2.0, n)
    when = np.ceil(50.0 * np.minimum(times, ends)) / 50.0
    return X, rs.survival.outcome(when, times <= ends)


def cases() -> Iterator[Case]:
    """The rows of the table in docs/inference.md."""
    none: dict[str, Any]
    ridge: dict[str, Any]
    none, ridge = {"penalty": "none"}, {"penalty": "l2", "l2": 0.1}
    model, robust = {"covariance": "model"}, {"covariance": "robust"}
    intercept = np.append(TRUE, 0.0)
    yield Case(
        "least squares, model-based", 100, linear, lambda: rs.RRRegressor(**none), model, intercept
    )
    yield Case(
        "least squares, uneven errors, model-based",
        300,
        uneven,
        lambda: rs.RRRegressor(**none),
        model,
        intercept,
    )
    yield Case(
        "least squares, uneven errors, robust",
        300,
        uneven,
        lambda: rs.RRRegressor(**none),
        robust,
        intercept,
    )
    yield Case(
        "logistic, model-based", 300, classes, lambda: rs.RRClassifier(**none), model, intercept
    )
    yield Case("logistic, robust", 300, classes, lambda: rs.RRClassifier(**none), robust, intercept)
    yield Case(
        "logistic, ridge 0.1, robust", 300, classes, lambda: rs.RRClassifier(**ridge), {}, None
    )
    yield Case(
        "Poisson, overdispersed, model-based",
        300,
        counts,
        lambda: rs.RRRegressor(loss="poisson", **none),
        model,
        np.append(0.5 * TRUE, 0.0),
    )
    yield Case(
        "Poisson, overdispersed, robust",
        300,
        counts,
        lambda: rs.RRRegressor(loss="poisson", **none),
        robust,
        np.append(0.5 * TRUE, 0.0),
    )
    yield Case("Cox with ties, model-based", 200, failures, rs.RRCox, model, TRUE)
    yield Case("Cox with ties, robust", 200, failures, rs.RRCox, robust, TRUE)
    yield Case(
        "Cox with ties, ridge 0.1, robust", 200, failures, lambda: rs.RRCox(**ridge), {}, None
    )
    lasso: dict[str, Any] = {"penalty": "l1", "l1": 0.1}
    debiased, split = {"method": "debiased"}, {"method": "split"}
    few = np.append([1.0, -1.0, 0.5], np.zeros(37))
    regression = lambda: rs.RRRegressor(**lasso)  # noqa: E731
    yield Case("lasso, 40 features, debiased", 300, sparse, regression, debiased, few)
    yield Case("lasso, 40 features, split", 300, sparse, regression, split, few)


def covered(case: Case, repetitions: int) -> tuple[float, float, float]:
    """The share of intervals that cover, over repetitions and coefficients; the least and the most of a coefficient."""
    target = case.target
    if target is None:
        whole = case.model().fit(*case.draw(np.random.default_rng(10**6), LARGE))
        own = np.ravel(whole.coef_)
        target = np.append(own, whole.intercept_) if hasattr(whole, "intercept_") else own
    inside, asked = np.zeros(target.size), np.zeros(target.size)
    for seed in range(repetitions):
        fit = case.model().fit(*case.draw(np.random.default_rng(seed), case.rows))
        found = fit.inference(**case.settings)
        if (
            case.settings.get("method") == "split"
        ):  # with all that matter among the chosen, it is about the truth
            at = [int(name[1:]) for name in found.names if name.startswith("x")]
            if not {0, 1, 2} <= set(at):
                continue
        else:
            at = list(range(target.size))
        ends = found.conf_int()[: len(at)]
        inside[at] += (ends[:, 0] <= target[at]) & (target[at] <= ends[:, 1])
        asked[at] += 1
    each = inside[asked > repetitions / 4] / asked[asked > repetitions / 4]
    return float(inside.sum() / asked.sum()), float(each.min()), float(each.max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| fit | rows | covered | by coefficient |\n| --- | --- | --- | --- |")
    for case in cases():
        share, least, most = covered(case, given.repetitions)
        print(
            f"| {case.name} | {case.rows} | {100 * share:.1f} % | {100 * least:.1f} … {100 * most:.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
