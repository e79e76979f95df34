"""``python -m benchmarks.answers``: where many runs end, to see that a change of the code changes no answer.

    python -m benchmarks.answers --write before.npz       # at the old commit
    python -m benchmarks.answers --compare before.npz     # at the new one

The runs of ``benchmarks.digests``, and the exact method with all its phases, over losses, penalties, layouts and
intercepts. Two runs with the same order of all sums agree to the last bit; where only the rounding of sums differs,
iterates of a run of fixed length agree to 1e-10, and runs to a tolerance agree within that tolerance.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.digests import CLASSES, GROUPS, LAYOUTS, REAL, SIGNS, WIDE, WIDE_SIGNS, X
from benchmarks.digests import federated as many_rounds
from benchmarks.digests import single as many_epochs

SAME = 1e-10  # Of the largest entry of x: what another rounding of the same sums may change.
P, L = rs.penalties, rs.losses
COUNTS = np.abs(np.round(REAL))
LOSSES: dict[str, tuple[Any, Any]] = {
    "Logistic": (L.Logistic(), SIGNS),
    "Squared": (L.Squared(), REAL),
    "Huber": (L.Huber(), REAL),
    "SquaredHinge": (L.SquaredHinge(), SIGNS),
    "Quantile": (L.Quantile(0.3, 0.5), REAL),
    "Poisson": (L.Poisson(), COUNTS),
    "Multinomial": (L.Multinomial(), CLASSES),
    "outputs": (L.Squared(), np.stack([REAL, SIGNS], axis=1)),
}
PENALTIES: dict[str, Any] = {
    "L1": P.L1(0.01),
    "ElasticNet": P.ElasticNet(0.01, 0.02),
    "Box": P.Box(-0.5, 0.5),
    "GroupLasso": P.GroupLasso(0.02, GROUPS),
    "SparseGroupLasso": P.SparseGroupLasso(0.01, 0.01, GROUPS),
}


def exact() -> Iterator[tuple[str, Any, Any]]:
    """Runs of the exact method to 1e-12: the answer is the minimiser, so that no path to it matters."""
    solver = rs.ExactProxRR(tol=1e-12, epochs=2000)
    for loss, (kind, y) in LOSSES.items():
        for psi, penalty in PENALTIES.items():
            if (np.ndim(y) == 2 or loss == "Multinomial") and "Group" in psi:
                continue
            for layout in LAYOUTS if psi == "ElasticNet" else ("dense", "csr"):
                problem = rs.Problem(LAYOUTS[layout], y, kind, penalty, fit_intercept=True)
                yield f"exact {loss} {psi} {layout}", solver, problem
    for loss in ("Logistic", "Huber", "SquaredHinge"):
        kind, y = LOSSES[loss]
        wide = WIDE_SIGNS if y is SIGNS else WIDE @ np.linspace(-1.0, 1.0, WIDE.shape[1])
        for layout, rows in (("dense", WIDE), ("csr", sp.csr_matrix(WIDE))):
            problem = rs.Problem(rows, wide, kind, P.ElasticNet(0.01, 1e-3), fit_intercept=True)
            yield f"exact {loss} wide {layout}", solver, problem
    weights = 1.0 + np.arange(len(X)) % 3
    for loss in ("Logistic", "Squared", "Poisson"):
        kind, y = LOSSES[loss]
        problem = rs.Problem(
            X, y, kind, P.ElasticNet(0.01, 0.02), sample_weight=weights, ridge=0.01
        )
        clients = rs.federated.split(problem, clients=5, by="iid", seed=1)
        yield f"exact {loss} weights", solver, problem
        yield f"FedNewton {loss}", rs.FedNewton(rounds=60, tol=1e-12), clients


def answers() -> dict[str, np.ndarray[Any, Any]]:
    """Name -> x, with whether the run converged and its last objective behind it."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for make in (many_epochs, many_rounds, exact):
        for name, solver, problem in make():
            result = solver.solve(problem)
            end = [float(result.converged), result.trace["objective"][-1]]
            found[name] = np.concatenate([result.x.ravel(), end])
    return found


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="Keep the answers in this file.")
@click.option("--compare", type=click.Path(path_type=Path, exists=True), help="With those in here.")
def main(write: Path | None, compare: Path | None) -> None:
    """Compare the ends of many runs; status 1 where one differs from a file's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = answers()
    if write is not None:
        with write.open("wb") as file:
            np.savez(file, **found)  # type: ignore[arg-type]
    before = dict(np.load(compare)) if compare is not None else {}
    differ = 0
    for name, old in before.items():
        new = found.get(name)
        if new is None or new.shape != old.shape:
            click.echo(f"missing, or of another shape: {name}")
            differ += 1
            continue
        far = np.abs(new[:-2] - old[:-2]).max() / max(np.abs(old[:-2]).max(), 1e-300)
        flag, value = new[-2] != old[-2], abs(new[-1] - old[-1]) / max(abs(old[-1]), 1e-300)
        if far > SAME or flag:
            differ += 1
            told = f"converged {bool(old[-2])} -> {bool(new[-2])}" if flag else ""
            click.echo(f"differs: {name}: x by {far:.1e}, P by {value:.1e} {told}")
    click.echo(f"{len(found)} answers, {differ} of {len(before)} differ by more than {SAME:g}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
