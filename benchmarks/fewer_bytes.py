"""Bytes of ExactFedRR to an accuracy, by how its residuals travel, on the eight settings of docs/federated-convergence.md.

    RESHUFFLE_DATA=FOLDER python -m benchmarks.fewer_bytes [--split label] [--no-plain]

Bytes are those up and down, of all clients. FedNewton, whose Hessians travel whole, stands beside.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.rounds_to_accuracy import Setting
from reshuffle.datasets import load_libsvm
from reshuffle.federated import RandomK, TopK

ACCURACIES = (1e-4, 1e-6)
ROUNDS = 300
CONTESTANTS: dict[str, Any] = {
    "float64": rs.ExactFedRR(rounds=ROUNDS, state="clients"),
    "float32": rs.ExactFedRR(rounds=ROUNDS, state="clients", transport="float32"),
    "bfloat16": rs.ExactFedRR(rounds=ROUNDS, state="clients", transport="bfloat16"),
    "float64, plain": rs.ExactFedRR(rounds=ROUNDS, state="clients", acceleration=0),
    "TopK(0.25), plain": rs.ExactFedRR(
        rounds=ROUNDS, state="clients", acceleration=0, transport=TopK(0.25)
    ),
    "RandomK(0.25), plain": rs.ExactFedRR(
        rounds=ROUNDS, state="clients", acceleration=0, transport=RandomK(0.25)
    ),
    "FedNewton": rs.FedNewton(rounds=ROUNDS),
}


def bytes_to(solver: Any, clients: Any, minimum: float) -> list[str]:
    """Rounds and bytes until (P(x) - P*)/(P(0) - P*) is below each accuracy."""
    start = clients.objective(np.zeros(clients.shape)) - minimum

    def done(result: rs.Result) -> bool:
        return bool(result.trace["objective"][-1] - minimum <= ACCURACIES[-1] * start)

    trace = solver.solve(clients, callbacks=[done]).trace
    gaps, cells = (trace["objective"] - minimum) / start, []
    for accuracy in ACCURACIES:
        found = np.flatnonzero(gaps <= accuracy)
        if not found.size:
            cells.append(f"not in {ROUNDS} rounds ({gaps.min():.0e})")
            continue
        up, down = (float(trace[name][found[0]]) / 1e6 for name in ("bytes_up", "bytes_down"))
        cells.append(f"{up + down:.3g} MB ({up:.3g} up), {found[0]} rounds")
    return cells


def settings(splits: list[str]) -> Iterator[Setting]:
    for by in splits:
        for data in ("mushrooms", "a9a"):
            for count in (10, 100):
                yield Setting(data, by, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["label", "iid"], action="append", dest="splits")
    parser.add_argument(
        "--no-plain", action="store_true", help="leave out rounds without acceleration"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| setting | transport | to 1e-4 | to 1e-6 |\n| --- | --- | --- | --- |")
    for setting in settings(given.splits or ["label", "iid"]):
        X, y = load_libsvm(setting.data)
        plain = rs.Problem(X, y)
        pooled = rs.Problem(X, y, ridge=plain.smoothness.L_f / plain.n)
        minimum = pooled.objective(rs.theory.solve(pooled))
        clients = rs.federated.split(pooled, setting.clients, setting.by, seed=0)
        for name, solver in CONTESTANTS.items():
            if given.no_plain and "plain" in name:
                continue
            cells = bytes_to(solver, clients, minimum)
            print(f"| {setting.title} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
