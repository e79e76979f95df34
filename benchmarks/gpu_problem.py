"""One large problem on a graphics card: seconds to a certified 1e-6, and the speed of a pass.

    python -m benchmarks.gpu_problem [sparse] [dense] [softmax] [words] [wide] [growth] [ones] [--csv problems.csv]
    python -m benchmarks.gpu_problem figure --csv problems.csv --figure rows.png

"softmax" is described in ``benchmarks.gpu_outputs``. "sparse" has 10⁸ rows of 20 values (float32, 16-bit columns) in 1,000 columns, "dense" 10⁷ × 256 float32, both drawn on the card, with targets of a
logistic model. "words" has 10⁷ rows of 20 values in 10⁵ columns, whose frequencies fall as those of words do, and "wide" 10⁵ × 20,000 float32. Seconds are those of
``ExactProxRR(device="cuda", tol=1e-6).solve`` by the clock, the median of seven calls after a first one, so that
kernels are compiled. A pass is timed by CUDA events; its bytes are those of values, columns, starts and targets that are read and of slopes
that are written, and "share" is its bytes in a second beside those of a copy on the card. "ones" has up to 10⁹ rows of 20 ones: rows with
values would not leave room for a run.
"""

from __future__ import annotations

import argparse
import csv
import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.gpu import bandwidth, milliseconds
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import CudaDevice
from reshuffle.rows import Rows

VALUES, COLUMNS = 20, 1000
TOL = 1e-6
STRENGTH = 0.02
"""ℓ1, as a share of the strength that holds every feature at zero."""
RIDGE = 1e-4
PIECE = 1 << 23


def sparse_on_card(cupy: Any, n: int, ones: bool = False) -> tuple[Rows, Any]:
    """Rows with one value, or a one, in each of 20 stretches of 50 columns; every fifth column matters."""
    rng, truth = cupy.random.default_rng(0), np.random.default_rng(1)
    model = cupy.asarray(truth.normal(size=COLUMNS) * (np.arange(COLUMNS) % 5 == 0), np.float32)
    values = cupy.empty((0 if ones else n, VALUES), dtype=bool if ones else np.float32)
    columns = cupy.empty((n, VALUES), dtype=np.uint16)
    targets = cupy.empty(n, dtype=np.float32)
    stretch = COLUMNS // VALUES
    for begin in range(0, n, PIECE):
        part = slice(begin, min(begin + PIECE, n))
        shape = (part.stop - part.start, VALUES)
        drawn = 1.0 if ones else rng.standard_normal(shape, dtype=np.float32)
        places = rng.integers(0, stretch, shape, dtype=np.uint32)
        places += cupy.arange(0, COLUMNS, stretch, dtype=np.uint32)
        u = rng.random(shape[0], dtype=np.float32)
        z = (drawn * model[places]).sum(axis=1) + cupy.log(u / (1 - u) + 1e-30)
        columns[part] = places
        if not ones:
            values[part] = drawn
        targets[part] = cupy.where(z > 0, 1.0, -1.0)
    kind = np.uint32 if n * VALUES < 2**32 else np.uint64
    starts = cupy.arange(n + 1, dtype=kind) * kind(VALUES)
    return Rows(values.reshape(-1), columns.reshape(-1), starts), targets


def dense_on_card(cupy: Any, n: int, d: int) -> tuple[Any, Any]:
    rng, truth = cupy.random.default_rng(0), np.random.default_rng(1)
    model = cupy.asarray(truth.normal(size=d) * (np.arange(d) % 5 == 0) / 4, np.float32)
    X, y = cupy.empty((n, d), dtype=np.float32), cupy.empty(n, dtype=np.float32)
    for begin in range(0, n, PIECE // 16):
        part = slice(begin, min(begin + PIECE // 16, n))
        X[part] = rng.standard_normal((part.stop - part.start, d), dtype=np.float32)
        u = rng.random(part.stop - part.start, dtype=np.float32)
        y[part] = cupy.where(X[part] @ model + cupy.log(u / (1 - u) + 1e-30) > 0, 1.0, -1.0)
    return X, y


def solved(problem: DeviceProblem) -> tuple[Any, float]:
    """The result, and the median seconds of seven calls after a first one."""
    solver, seconds = rs.ExactProxRR(tol=TOL, device="cuda"), []
    for _ in range(8):
        clock = time.perf_counter()
        found = solver.solve(problem)
        seconds.append(time.perf_counter() - clock)
    return found, float(np.median(seconds[1:]))


def measure(cupy: Any, problem: DeviceProblem, speed: float, name: str) -> dict[str, Any]:
    fit = problem.datafit
    x = np.random.default_rng(2).normal(size=problem.shape) * 0.1
    at_zero = fit.at_zero
    pass_ms = milliseconds(cupy, lambda: fit.at(x), 5)
    read = fit.nbytes + 8 * fit.n * prod(fit.outputs)
    share = read / (1e-3 * pass_ms) / speed
    digests = {fit.at(x).gradient.tobytes() for _ in range(3)}
    found, seconds = solved(problem)
    row = {
        "case": name, "rows": fit.n, "seconds": seconds, "gap": float(found.trace["gap"][-1]), "converged": found.converged,
        "steps": found.epoch, "passes": float(found.trace["gradients"][-1]) / fit.n, "pass_ms": pass_ms,
        "pass_gb": read / 1e9, "share_of_copy": share, "digests": len(digests), "nonzero": int(np.count_nonzero(found.x)),
        "objective": float(found.trace["objective"][-1]), "at_zero": at_zero,
    }  # fmt: skip
    print({k: round(v, 9) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    rows = found.trace["hessian_rows"].tolist() if "hessian_rows" in found.trace else "none"
    print("   gaps", [f"{g:.1e}" for g in found.trace["gap"]], "Hessian rows", rows, flush=True)
    return row


def measure_sparse(n: int, peers: bool, ones: bool = False) -> list[dict[str, Any]]:
    device = CudaDevice("this benchmark")
    cupy = device.cupy
    cupy.get_default_memory_pool().free_all_blocks()
    speed = bandwidth(cupy)
    rows, y = sparse_on_card(cupy, n, ones)
    kind = "ones" if ones else "sparse"
    print(f"{n:,} {kind} rows; copy on the card: {speed / 1e12:.2f} TB/s", flush=True)
    clock = time.perf_counter()
    ridge = DeviceProblem(rows, y, ridge=RIDGE, features=COLUMNS)
    checks = time.perf_counter() - clock
    print(f"   checks of the arrays, and kernels compiled: {checks:.2f} s", flush=True)
    largest = float(np.abs(ridge.gradient(np.zeros(COLUMNS))).max())
    l1 = ridge.with_samples(ridge.datafit, rs.penalties.L1(STRENGTH * largest), 0.0)
    found = [measure(cupy, p, speed, f"{kind} {name}") for p, name in ((l1, "l1"), (ridge, "ridge"))]  # fmt: skip
    for row in found:
        row["checks_seconds"] = checks
    if peers:
        goal = found[1]["objective"] + TOL * found[1]["at_zero"]
        found[1]["torch_seconds"] = torch_lbfgs(rows, y, goal)
        found[0]["processor_seconds_of_1e6_rows"] = on_processor(rows, y, STRENGTH * largest)
    return found


def words_on_card(cupy: Any, n: int, d: int) -> tuple[Rows, Any]:
    """Rows of 20 different columns: column j of the k-th of 20 values is drawn with a chance of about 1/j, and every fifth column matters.

    A row has its columns in rising order; of two that are the same the second one moves up by one, and so on.
    """
    rng, truth = cupy.random.default_rng(0), np.random.default_rng(1)
    model = cupy.asarray(truth.normal(size=d) * (np.arange(d) % 5 == 0), np.float32)
    values = cupy.empty((n, VALUES), dtype=np.float32)
    columns = cupy.empty((n, VALUES), dtype=np.uint32)
    targets = cupy.empty(n, dtype=np.float32)
    for begin in range(0, n, PIECE // 8):
        part = slice(begin, min(begin + PIECE // 8, n))
        shape = (part.stop - part.start, VALUES)
        drawn = rng.standard_normal(shape, dtype=np.float32)
        places = cupy.sort(((d - VALUES) ** rng.random(shape) - 1.0).astype(np.int64), axis=1)
        for k in range(1, VALUES):
            places[:, k] = cupy.maximum(places[:, k], places[:, k - 1] + 1)
        u = rng.random(shape[0], dtype=np.float32)
        z = (drawn * model[places]).sum(axis=1) + cupy.log(u / (1 - u) + 1e-30)
        values[part], columns[part] = drawn, places
        targets[part] = cupy.where(z > 0, 1.0, -1.0)
    starts = cupy.arange(n + 1, dtype=np.uint32) * np.uint32(VALUES)
    return Rows(values.reshape(-1), columns.reshape(-1), starts), targets


def measure_words(n: int, d: int) -> list[dict[str, Any]]:
    """Two strengths of ℓ1, and a ridge beside PyTorch's L-BFGS."""
    device = CudaDevice("this benchmark")
    cupy, speed = device.cupy, bandwidth(device.cupy)
    rows, y = words_on_card(cupy, n, d)
    print(f"{n:,} rows of words in {d:,} columns", flush=True)
    clock = time.perf_counter()
    ridge = DeviceProblem(rows, y, ridge=RIDGE, features=d)
    checks = time.perf_counter() - clock
    clock = time.perf_counter()
    largest = float(np.abs(ridge.gradient(np.zeros(d))).max())
    by_column = time.perf_counter() - clock
    print(f"   checks and kernels {checks:.2f} s; a first pass, with the copy by columns, {by_column:.2f} s", flush=True)  # fmt: skip
    found = []
    for share in (0.1, 0.01):
        l1 = ridge.with_samples(ridge.datafit, rs.penalties.L1(share * largest), 0.0)
        found.append(measure(cupy, l1, speed, f"words l1 {share}"))
    found.append(measure(cupy, ridge, speed, "words ridge"))
    goal = found[-1]["objective"] + TOL * found[-1]["at_zero"]
    found[-1]["torch_seconds"] = torch_lbfgs(rows, y, goal, d)
    for row in found:
        row |= {"checks_seconds": checks, "by_column_seconds": by_column}
    return found


def measure_wide(n: int, d: int) -> list[dict[str, Any]]:
    device = CudaDevice("this benchmark")
    cupy, speed = device.cupy, bandwidth(device.cupy)
    X, y = dense_on_card(cupy, n, d)
    print(f"{n:,} x {d:,} dense", flush=True)
    ridge = DeviceProblem(X, y, ridge=RIDGE)
    largest = float(np.abs(ridge.gradient(np.zeros(d))).max())
    l1 = ridge.with_samples(ridge.datafit, rs.penalties.L1(0.1 * largest), 0.0)
    return [measure(cupy, l1, speed, "wide dense l1")]


def torch_lbfgs(rows: Rows, y: Any, goal: float, d: int = COLUMNS) -> float:
    """Seconds of PyTorch's L-BFGS until P is within 1e-6·f(0) of ours: rows of 20 values, gathered and scattered, float32."""
    import torch

    n = len(y)
    values = torch.from_dlpack(rows.values).reshape(n, VALUES)
    columns = torch.from_dlpack(rows.indices.astype(np.int32)).reshape(n, VALUES)
    targets = torch.from_dlpack(y)
    w = torch.zeros(d, device="cuda", requires_grad=True)
    optimiser = torch.optim.LBFGS([w], lr=1.0, max_iter=1, history_size=10, line_search_fn="strong_wolfe")  # fmt: skip

    def closure() -> Any:
        with torch.no_grad():
            total, grad = 0.0, torch.zeros(d, device="cuda")
            for begin in range(0, n, PIECE):
                part = slice(begin, begin + PIECE)
                v, j, t = values[part], columns[part], targets[part]
                m = t * (v * w[j]).sum(1)
                total = total + torch.nn.functional.softplus(-m).sum(dtype=torch.float64)
                s = -t * torch.sigmoid(-m)
                grad.index_add_(0, j.reshape(-1), (s[:, None] * v).reshape(-1))
            w.grad = grad / n + RIDGE * w
            return (total / n + 0.5 * RIDGE * (w.double() ** 2).sum()).float()

    closure()
    torch.cuda.synchronize()
    clock = time.perf_counter()
    for _ in range(60):
        reached = float(optimiser.step(closure))
        if reached <= goal or time.perf_counter() - clock > 40.0:
            break
    seconds = time.perf_counter() - clock
    print(f"   PyTorch L-BFGS: {seconds:.2f} s, P - P* = {reached - goal:.2e} beside the goal", flush=True)  # fmt: skip
    return seconds if reached <= goal else float("nan")


def on_processor(rows: Any, y: Any, l1: float) -> float:
    """Seconds of our solver on the processor, one thread, for the first million rows."""
    import scipy.sparse as sp

    n = min(len(y), 1_000_000)
    stored = n * VALUES
    X = sp.csr_matrix(
        (rows.values[:stored].get(), rows.indices[:stored].get().astype(np.int32), np.arange(n + 1) * VALUES),
        shape=(n, COLUMNS),
    )  # fmt: skip
    problem = rs.Problem(X, y[:n].get().astype(float), penalty=rs.penalties.L1(l1))
    clock = time.perf_counter()
    found = rs.ExactProxRR(tol=TOL).solve(problem)
    seconds = time.perf_counter() - clock
    print(f"   processor, {n:,} rows: {seconds:.2f} s, {found.message}", flush=True)
    return seconds


def measure_dense(n: int, d: int) -> list[dict[str, Any]]:
    """The products that a run needs at cuBLAS's speed: a margin and a gradient for each pass, and those of Hessians."""
    device = CudaDevice("this benchmark")
    cupy, speed = device.cupy, bandwidth(device.cupy)
    X, y = dense_on_card(cupy, n, d)
    print(f"{n:,} x {d} dense", flush=True)
    ridge = DeviceProblem(X, y, ridge=RIDGE)
    largest = float(np.abs(ridge.gradient(np.zeros(d))).max())
    l1 = ridge.with_samples(ridge.datafit, rs.penalties.L1(STRENGTH * largest), 0.0)
    v, s = cupy.ones(d, dtype=np.float32), cupy.ones(n, dtype=np.float32)
    pass_of_products = milliseconds(cupy, lambda: (X @ v, X.T @ s), 5)
    block = cupy.random.default_rng(3).standard_normal((1 << 18, d))
    gram = milliseconds(cupy, lambda: block.T @ block, 5) / len(block)
    found = []
    for problem, name in ((l1, "dense l1"), (ridge, "dense ridge")):
        row = measure(cupy, problem, speed, name)
        passes, rows = counted(problem)
        needed = 1e-3 * (passes * pass_of_products + rows * gram)
        row |= {"products_seconds": needed, "over_products": row["seconds"] / needed, "counted_passes": passes, "counted_gram_rows": rows}  # fmt: skip
        print(f"   {passes:.2f} passes and Hessians of {rows:,} rows; products at cuBLAS's speed {needed:.3f} s, ours {row['seconds']:.3f} s, ratio {row['over_products']:.2f}", flush=True)  # fmt: skip
        found.append(row)
    return found


def counted(problem: DeviceProblem) -> tuple[float, int]:
    """Passes over all rows of a run, in units of all rows, and rows of Hessians."""
    from reshuffle.gpu.cuda import CudaModule

    passes, rows, inner = 0.0, 0, CudaModule.run

    def run(self: Any, name: str, launch: Any, *arguments: Any) -> None:
        nonlocal passes, rows
        if name == "whole_pass":
            passes += int(arguments[6]) / problem.n
        elif name == "rows_of_hessian":
            rows += int(arguments[11])
        inner(self, name, launch, *arguments)

    CudaModule.run = run  # type: ignore[method-assign]
    try:
        rs.ExactProxRR(tol=TOL, device="cuda").solve(problem)
    finally:
        CudaModule.run = inner  # type: ignore[method-assign]
    return passes, rows


def draw(source: Path, target: Path) -> None:
    """Seconds over rows, from a CSV of this benchmark."""
    import matplotlib.pyplot as plt

    with source.open() as file:
        rows = list(csv.DictReader(file))
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for case in ("sparse l1", "sparse ridge"):
        own = sorted({int(r["rows"]): float(r["seconds"]) for r in rows if r["case"] == case}.items())  # fmt: skip
        axes.loglog(*zip(*own, strict=True), marker="o", label=case.removeprefix("sparse "))
    axes.set_xlabel("rows of 20 values")
    axes.set_ylabel("seconds to a certified 1e-6")
    axes.legend()
    figure.savefig(target, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "parts", nargs="*", default=["sparse", "dense", "softmax", "growth", "ones"]
    )
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    if "figure" in given.parts:
        draw(given.csv, given.figure)
    rows: list[dict[str, Any]] = []
    if "sparse" in given.parts:
        rows += measure_sparse(given.rows, peers=True)
    if "dense" in given.parts:
        rows += measure_dense(given.rows // 10, 256)
    if "softmax" in given.parts:
        from benchmarks.gpu_outputs import measure_softmax, measure_sparse_softmax

        rows += measure_softmax(given.rows // 10, 256) + measure_sparse_softmax(given.rows // 10)
    if "words" in given.parts:
        rows += measure_words(given.rows // 10, 100_000)
    if "wide" in given.parts:
        rows += measure_wide(given.rows // 1000, 20_000)
    if "growth" in given.parts:
        for n in (10**5, 10**6, 10**7, 5 * 10**8, 8 * 10**8):
            try:
                rows += measure_sparse(n, peers=False)
            except (MemoryError, rs.InputError) as error:
                print(f"   {n:,} rows do not fit: {error}", flush=True)
    if "ones" in given.parts:
        for n in (10**6, 10**7, 10**8, 10**9):
            rows += measure_sparse(n, peers=False, ones=True)
    if given.csv and rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
