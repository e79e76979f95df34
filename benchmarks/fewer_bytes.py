"""Bytes of federated methods to an accuracy, by how their messages travel, on the eight settings of docs/federated-convergence.md.

    RESHUFFLE_DATA=FOLDER python -m benchmarks.fewer_bytes [--split label] [--clients 10] [--sparse]

Bytes are those up and down, of all clients. ``--sparse`` tries ExactFedRR with few coordinates instead, on one setting for each set.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.rounds_to_accuracy import Setting
from reshuffle.datasets import load_libsvm
from reshuffle.federated import RandomK, TopK

ACCURACIES = (1e-4, 1e-6)
ROUNDS = 300
AT_CLIENTS = rs.ExactFedRR(rounds=ROUNDS, state="clients")
NEWTON = rs.FedNewton(rounds=ROUNDS)
ROUNDED: Any = {"downlink": "rounded"}
FEW = TopK(0.2, digits="bfloat16")
CONTESTANTS: dict[str, Any] = {
    "ExactFedRR": AT_CLIENTS,
    "ExactFedRR, float32, rounded": replace(AT_CLIENTS, transport="float32", **ROUNDED),
    "ExactFedRR, bfloat16": replace(AT_CLIENTS, transport="bfloat16"),
    "ExactFedRR, bfloat16, rounded": replace(AT_CLIENTS, transport="bfloat16", **ROUNDED),
    "FedNewton": NEWTON,
    "FedNewton, float32, rounded": replace(NEWTON, transport="float32", **ROUNDED),
    "FedNewton, bfloat16, rounded": replace(NEWTON, transport="bfloat16", **ROUNDED),
    "FedNewton, TopK(0.2), rounded": replace(NEWTON, transport=FEW, **ROUNDED),
}
PLAIN = replace(AT_CLIENTS, acceleration=0)
TRIED: dict[str, Any] = {"float64": PLAIN} | {
    f"{kind.__name__}({share})": replace(PLAIN, transport=kind(share, digits="bfloat16"), **ROUNDED)
    for kind in (TopK, RandomK)
    for share in (0.1, 0.25, 0.5)
}
"""Without acceleration, which a map that leaves out other coordinates in each round does not allow."""


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


def settings(splits: list[str], counts: list[int]) -> Iterator[Setting]:
    for by in splits:
        for data in ("mushrooms", "a9a"):
            for count in counts:
                yield Setting(data, by, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["label", "iid"], action="append", dest="splits")
    parser.add_argument("--clients", type=int, choices=[10, 100], action="append", dest="counts")
    parser.add_argument("--sparse", action="store_true", help="ExactFedRR with few coordinates")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    splits, counts, contestants = (
        given.splits or ["label", "iid"],
        given.counts or [10, 100],
        CONTESTANTS,
    )
    if given.sparse:
        splits, counts, contestants = ["iid"], [10], TRIED
    print("| setting | transport | to 1e-4 | to 1e-6 |\n| --- | --- | --- | --- |")
    for setting in settings(splits, counts):
        X, y = load_libsvm(setting.data)
        plain = rs.Problem(X, y)
        pooled = rs.Problem(X, y, ridge=plain.smoothness.L_f / plain.n)
        minimum = pooled.objective(rs.theory.solve(pooled))
        clients = rs.federated.split(pooled, setting.clients, setting.by, seed=0)
        for name, solver in contestants.items():
            cells = bytes_to(solver, clients, minimum)
            print(f"| {setting.title} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
