"""The call that people write first: ``RRClassifier()`` and ``RRRegressor()`` beside ``LogisticRegression()`` and ``Ridge()``.

    python -m benchmarks.default_call

For each set: CPU seconds of the first fit in a fresh process and of the quickest of several more, ours over theirs, and
what either warned of. All threads count, and both run in the same process in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, Ridge

import reshuffle as rs

REPEATS = 7  # The quickest of so many fits is told: others wait for whoever shares the machine.
Rows = tuple[Any, Any]


def twenty() -> Rows:
    found: Rows = datasets.make_classification(
        2000, 40, n_informative=20, n_classes=20, n_clusters_per_class=1, random_state=0
    )
    return found


def constant() -> Rows:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return np.column_stack([X, np.full(len(X), 3.0)]), y


def texts() -> Rows:
    X, y = datasets.load_wine(return_X_y=True)
    return X, np.array(["barolo", "grignolino", "barbera"])[y]


def houses() -> Rows:
    """As many rows and columns as the Californian houses have, with scales as far apart."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(0.0, 1.0, (20640, 8)) * np.array([4, 28, 5, 1, 1400, 3, 35, 120.0])
    return X, X @ (rng.normal(size=8) / X.std(axis=0)) + rng.normal(size=20640)


CLASSES: dict[str, Callable[[], Rows]] = {
    "digits, raw": lambda: datasets.load_digits(return_X_y=True),
    "wine, raw": lambda: datasets.load_wine(return_X_y=True),
    "wine, text labels": texts,
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "breast cancer, raw": lambda: datasets.load_breast_cancer(return_X_y=True),
    "a constant column": constant,
    "20 classes": twenty,
}
NUMBERS: dict[str, Callable[[], Rows]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "houses": houses,
    "a column per row": lambda: datasets.make_regression(200, 400, noise=1.0, random_state=0),
}


def timed(make: Callable[[], Any], X: Any, y: Any) -> tuple[float, list[str]]:
    """CPU seconds of a fit, and the warnings that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clock = time.process_time()
        make().fit(X, y)
        seconds = time.process_time() - clock
    return seconds, [f"{w.category.__name__}: {w.message}" for w in caught]


def measured(name: str) -> str:
    """One line of the table: both are fitted in turn."""
    ours, theirs = (rs.RRClassifier, LogisticRegression) if name in CLASSES else (rs.RRRegressor, Ridge)  # fmt: skip
    X, y = (CLASSES | NUMBERS)[name]()
    rs.RRClassifier, rs.RRRegressor  # noqa: B018 -- imports are not what is measured
    first = [timed(ours, X, y), timed(theirs, X, y)]
    runs = [(timed(ours, X, y)[0], timed(theirs, X, y)[0]) for _ in range(REPEATS)]
    mine, other = (min(column) for column in zip(*runs, strict=True))
    said = [f"{who} {text[:160]}" for who, (_, found) in zip(("ours:", "theirs:"), first, strict=True) for text in found[:1]]  # fmt: skip
    line = (
        f"{name:<20} {1e3 * mine:9.2f} {1e3 * other:9.2f} {mine / other:7.2f}   "
        f"{1e3 * first[0][0]:9.2f} {1e3 * first[1][0]:9.2f} {first[0][0] / first[1][0]:7.2f}"
    )
    return "\n".join([line, *("    " + text.replace("\n", " ") for text in said)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="Measure this set in this process.")
    one = parser.parse_args().one
    if one:
        print(measured(one))
        return
    print(f"{'CPU milliseconds':<20} {'ours':>9} {'theirs':>9} {'ratio':>7}   {'first':>9} {'theirs':>9} {'ratio':>7}")  # fmt: skip
    for name in (*CLASSES, *NUMBERS):
        call = [sys.executable, "-m", "benchmarks.default_call", "--one", name]
        print(subprocess.run(call, capture_output=True, text=True, check=True).stdout, end="")


if __name__ == "__main__":
    main()
