"""Softmax on a graphics card: the parts "softmax" of ``benchmarks.gpu_problem``.

10⁷ × 256 dense float32 rows with ten classes, with a ridge (beside L-BFGS of PyTorch) and with ℓ1, by Newton steps on 2,560 coordinates; and 10⁷ sparse
rows of 20 values in 1,000 columns with a ridge, by L-BFGS on 10,000 coordinates.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.gpu import bandwidth
from benchmarks.gpu_problem import (  # fmt: skip
    COLUMNS,
    PIECE,
    RIDGE,
    STRENGTH,
    TOL,
    VALUES,
    dense_on_card,
    measure,
    sparse_on_card,
)
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import CudaDevice

CLASSES = 10
ITERATIONS = 300
"""Of L-BFGS of PyTorch at most."""


def classes_on_card(cupy: Any, margins: Any, n: int) -> Any:
    """Classes of a softmax model, from a function that gives the margins of a stretch of rows."""
    rng, y = cupy.random.default_rng(5), cupy.empty(n, dtype=np.int32)
    for begin in range(0, n, PIECE // 16):
        part = slice(begin, min(begin + PIECE // 16, n))
        u = rng.random((part.stop - part.start, CLASSES), dtype=np.float32)
        y[part] = (margins(part) - cupy.log(-cupy.log(u + 1e-30) + 1e-30)).argmax(axis=1)
    return y


def measure_softmax(n: int, d: int) -> list[dict[str, Any]]:
    """Dense rows, with a ridge and with ℓ1."""
    device = CudaDevice("this benchmark")
    cupy, speed = device.cupy, bandwidth(device.cupy)
    X, _ = dense_on_card(cupy, n, d)
    truth = np.random.default_rng(6).normal(size=(d, CLASSES)) / np.sqrt(d)
    model = cupy.asarray(truth, np.float32)
    y = classes_on_card(cupy, lambda part: X[part] @ model, n)
    print(f"{n:,} x {d} dense, {CLASSES} classes", flush=True)
    clock = time.perf_counter()
    ridge = DeviceProblem(X, y, rs.losses.Multinomial(), ridge=RIDGE)
    checks = time.perf_counter() - clock
    largest = float(np.abs(ridge.gradient(np.zeros((d, CLASSES)))).max())
    l1 = ridge.with_samples(ridge.datafit, rs.penalties.L1(STRENGTH * largest), 0.0)
    found = [measure(cupy, ridge, speed, "softmax dense ridge"), measure(cupy, l1, speed, "softmax dense l1")]  # fmt: skip
    for row in found:
        row["checks_seconds"] = checks
    goal = found[0]["objective"] + TOL * found[0]["at_zero"]
    found[0]["torch_seconds"] = torch_softmax(X, y, goal)
    return found


def measure_sparse_softmax(n: int) -> list[dict[str, Any]]:
    """Sparse rows with a ridge."""
    device = CudaDevice("this benchmark")
    cupy, speed = device.cupy, bandwidth(device.cupy)
    rows, _ = sparse_on_card(cupy, n)
    truth = np.random.default_rng(6).normal(size=(COLUMNS, CLASSES)) / np.sqrt(VALUES)
    model = cupy.asarray(truth, np.float32)
    values, columns = rows.values.reshape(n, VALUES), rows.indices.reshape(n, VALUES)

    def margins(part: slice) -> Any:
        total = cupy.zeros((part.stop - part.start, CLASSES), dtype=np.float32)
        for p in range(VALUES):
            total += values[part, p, None] * model[columns[part, p]]
        return total

    y = classes_on_card(cupy, margins, n)
    print(f"{n:,} sparse rows, {CLASSES} classes", flush=True)
    ridge = DeviceProblem(rows, y, rs.losses.Multinomial(), ridge=RIDGE, features=COLUMNS)
    return [measure(cupy, ridge, speed, "softmax sparse ridge")]


def torch_softmax(X: Any, y: Any, goal: float) -> float:
    """Seconds of PyTorch's L-BFGS in float32 until P is within 1e-6·f(0) of ours."""
    import torch

    rows, targets = torch.from_dlpack(X), torch.from_dlpack(y).long()
    n, d = rows.shape
    w = torch.zeros((d, CLASSES), device="cuda", requires_grad=True)
    optimiser = torch.optim.LBFGS([w], lr=1.0, max_iter=1, history_size=10, line_search_fn="strong_wolfe")  # fmt: skip

    def closure() -> Any:
        with torch.no_grad():
            total, grad = 0.0, torch.zeros_like(w)
            for begin in range(0, n, PIECE // 4):
                own, t = rows[begin : begin + PIECE // 4], targets[begin : begin + PIECE // 4]
                logs = torch.log_softmax(own @ w, dim=1)
                total = total - logs.gather(1, t[:, None]).sum(dtype=torch.float64)
                slopes = logs.exp()
                slopes.scatter_add_(1, t[:, None], -torch.ones_like(slopes[:, :1]))
                grad += own.T @ slopes
            w.grad = grad / n + RIDGE * w
            return (total / n + 0.5 * RIDGE * (w.double() ** 2).sum()).float()

    closure()
    torch.cuda.synchronize()
    clock = time.perf_counter()
    for _ in range(ITERATIONS):
        reached = float(optimiser.step(closure))
        if reached <= goal or time.perf_counter() - clock > 40.0:
            break
    seconds = time.perf_counter() - clock
    print(f"   PyTorch L-BFGS: {seconds:.2f} s, P - goal = {reached - goal:.2e}", flush=True)
    return seconds if reached <= goal else float("nan")
