"""FedNL-LS as published (Safaryan, Islamov, Qian and Richtárik, ICML 2022, with line search), beside ``benchmarks.fewer_bytes``.

    RESHUFFLE_DATA=FOLDER python -m benchmarks.fednl [--split label] [--clients 10]

    client m:  ∇f_m(x), S_m = C(∇²f_m(x) - H_m), H_m ← H_m + S_m,    the server:  x⁺ = x - γ^s [H]_μ⁻¹ ∇f(x)

C is the best approximation of rank 1, or the d largest entries; H starts as ∇²f(0), which is sent whole; [·]_μ lifts eigenvalues to μ, that of the ridge; a step is halved until
f falls as Armijo wants. Numbers are of 8 bytes, places of 2; x goes down, the rest goes up, and a trial of the line search is a point down and a value up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.fewer_bytes import ACCURACIES, settings
from reshuffle.datasets import load_libsvm
from reshuffle.objective import Array
from reshuffle.solvers.second_order import RowCurvature, SecondOrder

ROUNDS = 200
ARMIJO, HALF = 0.49, 0.5
"""c and γ of the line search, as in the paper's experiments."""
Compressor = Callable[[Array], tuple[Array, int]]
"""A symmetric matrix ↦ what is sent of it, and its bytes."""


def rank_one(matrix: Array) -> tuple[Array, int]:
    values, vectors = np.linalg.eigh(matrix)
    k = int(np.argmax(np.abs(values)))
    return values[k] * np.outer(vectors[:, k], vectors[:, k]), 8 * (len(matrix) + 1)


def largest(matrix: Array) -> tuple[Array, int]:
    at, d = np.tril_indices(len(matrix)), len(matrix)
    lower = matrix[at]
    lower[np.argsort(-np.abs(lower), kind="stable")[d:]] = 0.0
    sent = np.zeros_like(matrix)
    sent[at] = sent.T[at] = lower
    return sent, 10 * d


class Clients:
    """Gradients and Hessians of all clients, as shares of those of the whole."""

    def __init__(self, federation: Any) -> None:
        self.n, self.shape = federation.n, federation.shape
        self.fits = [client.datafit for client in federation.clients]
        self.curves = [SecondOrder(fit, np.zeros(self.shape)) for fit in self.fits]

    def at(self, x: Array) -> tuple[Array, list[Array]]:
        every = np.arange(x.size, dtype=np.uint32)
        gradient, hessians = np.zeros(x.size), []
        for fit, curves in zip(self.fits, self.curves, strict=True):
            found = curves.linearise(x)
            gradient += fit.n / self.n * found.gradient
            curvature = RowCurvature(found.curvatures, 0.0)
            hessians.append(fit.n / self.n * curves.hessian(curvature, every))
        return gradient, hessians


def bytes_to(pooled: Any, federation: Any, minimum: float, compress: Compressor) -> list[str]:
    """Rounds and bytes until (P(x) - P*)/(P(0) - P*) is below each accuracy."""
    clients, count, ridge = Clients(federation), federation.count, pooled.ridge
    x = np.zeros(pooled.shape)
    d, value, total, cells = x.size, pooled.objective(x), 0, dict[float, str]()
    start = value - minimum
    known: list[Array] = []
    for number in range(1, ROUNDS + 1):
        slope, hessians = clients.at(x)
        gradient = slope + ridge * x
        if not known:
            known, sent = hessians, count * 8 * d * (d + 1) // 2
        else:
            pieces = [compress(new - old) for new, old in zip(hessians, known, strict=True)]
            known = [old + piece for old, (piece, _) in zip(known, pieces, strict=True)]
            sent = sum(size for _, size in pieces)
        values, vectors = np.linalg.eigh(np.sum(known, axis=0) + ridge * np.eye(d))
        step = -vectors @ ((vectors.T @ gradient) / np.maximum(values, ridge))
        total += sent + count * (8 * d + 8 * d)
        length = 1.0
        while pooled.objective(x + length * step) > value + ARMIJO * length * (gradient @ step):
            length *= HALF
            total += count * 16
            if length < 2.0**-30:
                break
        x = x + length * step
        value = pooled.objective(x)
        for accuracy in ACCURACIES:
            if accuracy not in cells and value - minimum <= accuracy * start:
                cells[accuracy] = f"{total / 1e6:.3g} MB, {number} rounds"
        if len(cells) == len(ACCURACIES):
            break
    return [cells.get(accuracy, f"not in {ROUNDS} rounds") for accuracy in ACCURACIES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["label", "iid"], action="append", dest="splits")
    parser.add_argument("--clients", type=int, choices=[10, 100], action="append", dest="counts")
    given = parser.parse_args()
    print("| setting | FedNL-LS | to 1e-4 | to 1e-6 |\n| --- | --- | --- | --- |")
    for setting in settings(given.splits or ["label", "iid"], given.counts or [10, 100]):
        X, y = load_libsvm(setting.data)
        plain = rs.Problem(X, y)
        pooled = rs.Problem(X, y, ridge=plain.smoothness.L_f / plain.n)
        minimum = pooled.objective(rs.theory.solve(pooled))
        federation = rs.federated.split(pooled, setting.clients, setting.by, seed=0)
        for name, compress in (("rank 1", rank_one), ("d largest entries", largest)):
            cells = bytes_to(pooled, federation, minimum, compress)
            print(f"| {setting.title} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
