"""Cox's model beside lifelines and scikit-survival: ``python -m benchmarks.survival``.

It needs ``pip install lifelines scikit-survival``, which no extra of the package installs. Printed are the largest difference of
coefficients, and the time that the other takes over ours, least of several runs in one process.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reshuffle as rs

Array = NDArray[np.float64]


def least(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """CPU seconds of the quickest run, and its result."""
    best, found = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return best, found


def standard(frame: Any, y: Any) -> tuple[Array, Any]:
    """Columns as numbers with mean 0 and deviation 1."""
    pandas = import_module("pandas")
    X = pandas.get_dummies(frame, drop_first=True).to_numpy(float)
    event, when = (y[name] for name in y.dtype.names)
    return (X - X.mean(axis=0)) / X.std(axis=0), rs.survival.outcome(when, event)


def simulated(n: int, d: int) -> tuple[Array, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    times, ends = rng.exponential(np.exp(-0.5 * X[:, :3].sum(axis=1))), rng.exponential(2.0, n)
    return X, rs.survival.outcome(np.minimum(times, ends), times <= ends)


def sets() -> dict[str, tuple[Array, Any]]:
    """Data that ship with the two packages, and simulated ones."""
    theirs, others = import_module("sksurv.datasets"), import_module("lifelines.datasets")
    rossi = others.load_rossi()
    found = {
        "GBSG2": standard(*theirs.load_gbsg2()),
        "veterans": standard(*theirs.load_veterans_lung_cancer()),
        "WHAS500": standard(*theirs.load_whas500()),
        "rossi": standard(
            rossi.drop(columns=["week", "arrest"]),
            rs.survival.outcome(rossi["week"], rossi["arrest"]),
        ),
    }
    sizes = ((10_000, 20), (100_000, 20))
    return found | {f"simulated {n:,} x {d}": simulated(n, d) for n, d in sizes}


def unpenalised(X: Array, y: Any) -> tuple[float, float, float, float, float]:
    """Our seconds; lifelines' and scikit-survival's over ours, and how far their coefficients are from ours."""
    pandas, lifelines = import_module("pandas"), import_module("lifelines")
    linear = import_module("sksurv.linear_model")
    seconds, ours = least(lambda: rs.RRCox(ties="efron", tol=1e-9).fit(X, y))
    frame = pandas.DataFrame(X).assign(time=y["time"], event=y["event"])
    slower, one = least(lambda: lifelines.CoxPHFitter().fit(frame, "time", "event"), 1)
    too, other = least(lambda: linear.CoxPHSurvivalAnalysis(ties="efron", tol=1e-9).fit(X, y), 1)
    apart = [np.abs(coef - ours.coef_).max() for coef in (one.params_.to_numpy(), other.coef_)]
    return seconds, slower / seconds, too / seconds, float(apart[0]), float(apart[1])


def along_a_path(X: Array, y: Any) -> tuple[float, float, float]:
    """Our seconds for fifty strengths; Coxnet's over ours, and how far its coefficients are from ours."""
    linear = import_module("sksurv.linear_model")
    seconds, path = least(lambda: rs.cox_path(X, y, lambdas=50, smallest=0.05, ties="breslow"))
    coxnet = linear.CoxnetSurvivalAnalysis(
        l1_ratio=1.0, alphas=path.lambdas, tol=1e-9, max_iter=10**6
    )
    slower, theirs = least(lambda: coxnet.fit(X, y), 2)
    return seconds, slower / seconds, float(np.abs(theirs.coef_.T - path.coefs).max())


def main() -> None:
    """Print two tables."""
    warnings.simplefilter("ignore")
    data = sets()
    print("| no penalty, Efron | ours, s | lifelines/ours | scikit-survival/ours | apart |")
    print("| --- | --- | --- | --- | --- |")
    for name, (X, y) in data.items():
        s, one, other, *apart = unpenalised(X, y)
        print(f"| {name} | {s:.4f} | {one:.1f} | {other:.1f} | {apart[0]:.0e}, {apart[1]:.0e} |", flush=True)  # fmt: skip
    print("\n| l1, 50 strengths, Breslow | ours, s | Coxnet/ours | apart |")
    print("| --- | --- | --- | --- |")
    for name, (X, y) in (data | {"simulated 200 x 2,000": simulated(200, 2000)}).items():
        s, other, off = along_a_path(X, y)
        print(f"| {name} | {s:.4f} | {other:.2f} | {off:.0e} |", flush=True)


if __name__ == "__main__":
    main()
