"""``python -m benchmarks.fit_process FOLDER FIT time|memory``: one fit in a process of its own.

Nothing is imported before the clock starts but what the data need.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

OURS = "reshuffle ExactProxRR"
TOLERANCE = 1e-6


class Data(NamedTuple):
    """What a fit is given."""

    X: Any
    y: Any
    l1: float
    l2: float


def _ours(data: Data) -> Any:
    import reshuffle as rs

    penalty = rs.penalties.ElasticNet(l1=data.l1, l2=data.l2)
    return rs.ExactProxRR(tol=TOLERANCE).solve(rs.Problem(data.X, data.y, penalty=penalty)).x


def _cyanure(data: Data) -> Any:
    from cyanure.estimators import Classifier

    made = Classifier(
        loss="logistic", penalty="elasticnet", lambda_1=data.l1, lambda_2=data.l2,
        solver="qning-svrg", fit_intercept=False, tol=TOLERANCE, verbose=False, n_threads=1,
        max_iter=500,
    )  # fmt: skip
    return made.fit(data.X, data.y).coef_


def _saga(data: Data) -> Any:
    from sklearn.linear_model import LogisticRegression

    total = data.l1 + data.l2
    made = LogisticRegression(
        solver="saga", C=1.0 / (len(data.y) * total), l1_ratio=data.l1 / total,
        fit_intercept=False, tol=1e-4, max_iter=100, random_state=0,
    )  # fmt: skip
    return made.fit(data.X, data.y).coef_


def _skglm(data: Data) -> Any:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Logistic
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import ProxNewton

    total = data.l1 + data.l2
    solver = ProxNewton(tol=1e-5, fit_intercept=False)
    made = GeneralizedLinearEstimator(Logistic(), L1_plus_L2(total, data.l1 / total), solver)
    return made.fit(data.X, data.y).coef_


FITS: dict[str, tuple[Callable[[Data], Any], str]] = {
    OURS: (_ours, "csr"),
    "cyanure qning-svrg": (_cyanure, "csr"),
    "sklearn saga": (_saga, "csr"),
    "skglm ProxNewton": (_skglm, "csc"),
}
"""By name: the fit, and the layout that it takes without a copy. celer has no l1 with l2."""


def _load(folder: Path, layout: str) -> Data:
    with np.load(folder / "about.npz") as about:
        y, shape, (l1, l2) = about["y"], tuple(about["shape"]), about["strengths"]
    kind = sp.csr_matrix if layout == "csr" else sp.csc_matrix
    with np.load(folder / f"{layout}.npz") as stored:
        X = kind((stored["data"], stored["indices"], stored["indptr"]), shape=shape)
    return Data(X, y, float(l1), float(l2))


def _time(fit: Callable[[Data], Any], folder: Path, layout: str) -> dict[str, Any]:
    data = _load(folder, layout)
    clock = time.perf_counter()
    x = fit(data)
    seconds = time.perf_counter() - clock
    return {"seconds": seconds, "x": np.asarray(x).ravel().tolist()}


def _memory(fit: Callable[[Data], Any], folder: Path, layout: str) -> dict[str, Any]:
    """Bytes at the peak, and those above the data and a process that has fitted before."""
    rng = np.random.default_rng(0)
    few = rng.standard_normal((50, 20))
    small = sp.csr_matrix(few) if layout == "csr" else sp.csc_matrix(few)
    fit(Data(small, np.where(rng.random(50) < 0.5, 1.0, -1.0), 1e-3, 1e-3))
    gc.collect()
    baseline = _status("VmRSS")
    data = _load(folder, layout)
    size = sum(a.nbytes for a in (data.X.data, data.X.indices, data.X.indptr, data.y))
    fit(data)
    peak = _status("VmHWM")
    return {"peak": peak, "above": peak - baseline - size}


def _status(name: str) -> int:
    """Bytes of a line of the process's status: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen, layout = FITS[sys.argv[2]]
    measure = {"time": _time, "memory": _memory}[sys.argv[3]]
    print(json.dumps(measure(chosen, Path(sys.argv[1]), layout)))
