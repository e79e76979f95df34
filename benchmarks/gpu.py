"""Rounds of FedRR and ExactFedRR over very many clients on a graphics card: milliseconds, bits, agreement with threads, growth.

    python -m benchmarks.gpu [rounds] [agreement] [growth] [--csv rounds.csv]
    python -m benchmarks.gpu exact exact-growth --csv exact-rounds.csv
    python -m benchmarks.gpu figure --csv rounds.csv --figure growth.png

Clients have 64 samples of 20 values in 1,000 columns, drawn on the card, a logistic loss, and no ridge. Kernel times are
medians of CUDA events; "end to end" is the wall-clock time of a round from an x in the memory of the processor to the mean
there, with the permutations drawn anew. The peer is the same round as one would write it with PyTorch: all models in one
matrix, and one sample of every client at a time. Rounds of ExactFedRR have one local pass and no acceleration; "end to end"
is from an x in the memory of the processor to the mean of the z_m there.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.engines import Cuda
from reshuffle.gpu import CudaDevice, DeviceClients, DeviceExactRounds, DeviceRounds, LocalPasses
from reshuffle.losses import Logistic
from reshuffle.rows import Rows

SAMPLES, VALUES, COLUMNS = 64, 20, 1000
STEP = 0.05
REPEATS = 15


def data_on_card(cupy: Any, clients: int, number: str) -> tuple[Rows, Any]:
    """Rows with one value in each of 20 stretches of 50 columns, and targets of random signs."""
    rng = cupy.random.default_rng(0)
    n = clients * SAMPLES
    values = cupy.empty((n, VALUES), dtype=number)
    indices = cupy.empty((n, VALUES), dtype=np.uint32)
    stretch = COLUMNS // VALUES
    for begin in range(0, n, 1 << 24):
        part = slice(begin, min(begin + (1 << 24), n))
        shape = (part.stop - part.start, VALUES)
        values[part] = rng.standard_normal(shape, dtype=number)
        indices[part] = rng.integers(0, stretch, shape, dtype=np.uint32)
        indices[part] += cupy.arange(0, COLUMNS, stretch, dtype=np.uint32)
    kind = np.uint32 if n * VALUES < 2**32 else np.uint64
    starts = cupy.arange(n + 1, dtype=kind) * kind(VALUES)
    targets = (rng.integers(0, 2, n, dtype=np.uint32) * 2.0 - 1.0).astype(number)
    return Rows(values.reshape(-1), indices.reshape(-1), starts), targets


def on_card(device: CudaDevice, clients: int, number: str, unit: str) -> DeviceClients:
    rows, targets = data_on_card(device.cupy, clients, number)
    first = np.arange(clients + 1, dtype=np.int64) * SAMPLES
    return DeviceClients(
        device, rows, targets, np.empty(0), Logistic(), first, COLUMNS, number=number, unit=unit
    )


def one_pass(clients: int) -> LocalPasses:
    return LocalPasses("shuffle", False, 1, np.full(clients, SAMPLES), np.ones(clients))


def rounds_on_card(device: CudaDevice, clients: int, number: str) -> DeviceRounds:
    aboard = on_card(device, clients, number, "round")
    return DeviceRounds(aboard, one_pass(clients), 0, aboard.first[:-1])


def milliseconds(cupy: Any, work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median time of the kernels that ``work`` starts, behind others that keep the card busy meanwhile."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    found, busy = [], cupy.zeros(1 << 29, dtype=np.float32)
    for k in range(repeats + 2):
        for _ in range(3):
            busy += 1.0
        begin.record()
        work()
        end.record()
        end.synchronize()
        if k > 1:
            found.append(cupy.cuda.get_elapsed_time(begin, end))
    return float(np.median(found))


def bandwidth(cupy: Any) -> float:
    """Bytes read and written in a second by a copy on the card."""
    a = cupy.random.default_rng(1).standard_normal(1 << 29, dtype=np.float32)
    b = cupy.empty_like(a)
    return float(2 * a.nbytes) / (1e-3 * milliseconds(cupy, lambda: cupy.copyto(b, a)))


def measure_rounds(clients: int = 1_000_000, peer: bool = True) -> list[dict[str, Any]]:
    """Both kinds of numbers; of ten million clients, float32 alone fits on the card."""
    device = CudaDevice("this benchmark")
    speed, found = bandwidth(device.cupy), []
    print(f"copy on the card: {speed / 1e12:.2f} TB/s")
    for number in ("float32", "float64")[: 1 if clients > 5_000_000 else 2]:
        found.append(measure(device, clients, number, speed, peer))
        device.cupy.get_default_memory_pool().free_all_blocks()
    return found


def measure(
    device: CudaDevice, clients: int, number: str, speed: float, peer: bool
) -> dict[str, Any]:
    cupy, rounds = device.cupy, rounds_on_card(device, clients, number)
    card_x = device.put(np.zeros(COLUMNS), np.dtype(number))
    both = milliseconds(cupy, lambda: rounds.start(card_x, STEP, 3))
    drawing = milliseconds(cupy, lambda: rounds.visits(3))
    x = np.zeros(COLUMNS)
    means = [rounds.mean(x, STEP, 3).tobytes() for _ in range(3)]
    digests = {hashlib.sha256(mean).hexdigest() for mean in means}
    walls = []
    for k in range(REPEATS):
        clock = time.perf_counter()
        x = rounds.mean(x, STEP, k)
        walls.append(1e3 * (time.perf_counter() - clock))
    item = np.dtype(number).itemsize
    read = clients * SAMPLES * (VALUES * (item + 4) + item + 8)  # and a start and a visit
    share = read / (1e-3 * (both - drawing)) / speed
    row = {
        "clients": clients,
        "number": number,
        "kernels_ms": both,
        "drawing_ms": drawing,
        "end_to_end_ms": float(np.median(walls)),
        "share_of_copy": share,
        "digests": len(digests),
    }
    if peer:
        row["torch_ms"] = torch_round(rounds)
    print(
        f"{clients:>10,} clients {number}: kernels {both:8.3f} ms (of which permutations {drawing:.3f}), end to end "
        f"{row['end_to_end_ms']:8.3f} ms, {share:.2f} of the copy's bytes a second, {len(digests)} digest(s) in 3 runs, "
        f"PyTorch {row.get('torch_ms', np.nan):.1f} ms; {rounds.clients.layout}",
        flush=True,
    )
    return row


def measure_exact_rounds(clients: int = 1_000_000) -> list[dict[str, Any]]:
    """Rounds of ExactFedRR, in both kinds of numbers; of ten million clients, float32 alone fits on the card."""
    device = CudaDevice("this benchmark")
    speed, found = bandwidth(device.cupy), []
    for number in ("float32", "float64")[: 1 if clients > 5_000_000 else 2]:
        found.append(measure_exact(device, clients, number, speed))
        device.cupy.get_default_memory_pool().free_all_blocks()
    return found


def measure_exact(device: CudaDevice, clients: int, number: str, speed: float) -> dict[str, Any]:
    cupy, aboard = device.cupy, on_card(device, clients, number, "exact")
    rounds = DeviceExactRounds(aboard, one_pass(clients), 0, aboard.first[:-1])
    card_x = device.put(np.zeros(COLUMNS), np.dtype(number))
    x = np.zeros(COLUMNS)
    begun = rounds.residuals(
        rounds.start(x), x, STEP, 0
    ).image  # so that control variates are not zero
    coefs, margins = (device.room(rounds.total, np.dtype(number)) for _ in range(2))

    def kernels() -> None:
        rounds.start_passes(begun, card_x, STEP, 3, coefs, margins)

    both = milliseconds(cupy, kernels, 7)
    drawing = milliseconds(cupy, lambda: rounds.visits(3), 7)
    totals = [rounds.residuals(begun, x, STEP, 3).residual.total.tobytes() for _ in range(3)]
    digests = {hashlib.sha256(total).hexdigest() for total in totals}
    mean, walls = x.copy(), []
    z = rounds.start(x)
    for k in range(REPEATS):
        clock = time.perf_counter()
        found = rounds.residuals(z, x, STEP, k)
        mean = mean + found.residual.total / clients
        walls.append(1e3 * (time.perf_counter() - clock))
        z, x = found.image, mean
    held = cupy.get_default_memory_pool().used_bytes()
    item = np.dtype(number).itemsize
    read = clients * SAMPLES * VALUES * (item + 4)  # of one of the four times that rows are read
    row = {
        "method": "ExactFedRR",
        "clients": clients,
        "number": number,
        "kernels_ms": both,
        "drawing_ms": drawing,
        "end_to_end_ms": float(np.median(walls)),
        "rows_read_at_share_of_copy": 4 * read / (1e-3 * (both - drawing)) / speed,
        "device_gb": held / 1e9,
        "digests": len(digests),
    }
    print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return row


def torch_round(rounds: DeviceRounds) -> float:
    """The same round with PyTorch: the models of all clients in one matrix, or of as many as fit."""
    import torch

    aboard = rounds.clients
    clients = min(aboard.clients, 1_000_000)
    given: Any = aboard.rows
    values = torch.from_dlpack(given[0]).reshape(-1, SAMPLES, VALUES)[:clients]
    columns = torch.from_dlpack(given[1].view(np.int32)).reshape(-1, SAMPLES, VALUES)[:clients]
    y = torch.from_dlpack(aboard.samples[3]).reshape(-1, SAMPLES)[:clients]
    models = torch.empty((clients, COLUMNS), dtype=values.dtype, device="cuda")
    everyone = torch.arange(clients, device="cuda")

    def work() -> None:
        models.zero_()
        order = torch.rand((clients, SAMPLES), device="cuda").argsort(1)
        for k in range(SAMPLES):
            visit = order[:, k]
            a, j = values[everyone, visit], columns[everyone, visit].long()
            target = y[everyone, visit]
            z = (models.gather(1, j) * a).sum(1)
            coef = -target / (1 + torch.exp(target * z))
            models.scatter_add_(1, j, -STEP * coef[:, None] * a)
        models.mean(0)

    work()
    torch.cuda.synchronize()
    clock = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - clock)


def measure_agreement() -> float:
    """The same federation on threads and on the card, in float64; the largest difference beside the largest entry."""
    rng = np.random.default_rng(0)
    n, worst = 40_000, 0.0
    X: Any = sp.random(n, 300, density=20 / 300, format="csr", rng=rng)
    y = np.sign(X @ rng.normal(size=300) + 0.1 * rng.normal(size=n))
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(1e-4), ridge=1e-3, fit_intercept=True)
    clients = rs.federated.split(problem, clients=1000, by="quantity", seed=0)
    for solver in (
        rs.FedRR(rounds=10, step=0.05, eval_every=10),
        rs.FedRR(rounds=10, step=0.05, eval_every=10, batch_size=4),
        rs.FedRR(rounds=10, step=0.05, eval_every=10, order=rs.orders.ShuffleOnce()),
        rs.LocalSGD(rounds=10, step=0.01, eval_every=10),
        rs.ExactFedRR(rounds=10, eval_every=10),
        rs.ExactFedRR(rounds=10, eval_every=10, acceleration=0, order=rs.orders.Reshuffle()),
    ):
        wanted = solver.solve(clients).x
        found = replace(solver, engine=Cuda()).solve(clients).x
        error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        worst = max(worst, error)
        print(
            f"agreement with threads, 10 rounds of {type(solver).__name__}: {error:.1e}", flush=True
        )
    return worst


def draw(source: Path, target: Path) -> None:
    """Milliseconds of a round over clients, from a CSV of this benchmark."""
    import matplotlib.pyplot as plt

    with source.open() as file:
        rows = list(csv.DictReader(file))
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for number in ("float64", "float32"):
        own = sorted(
            (int(r["clients"]), float(r["kernels_ms"])) for r in rows if r["number"] == number
        )
        axes.loglog(*zip(*own, strict=True), marker="o", label=number)
    axes.set_xlabel("clients of 64 samples")
    axes.set_ylabel("milliseconds of a round")
    axes.legend()
    figure.savefig(target, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["rounds", "agreement", "growth"])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if "figure" in given.parts:
        draw(given.csv, given.figure)
    if "agreement" in given.parts:
        measure_agreement()
    if "rounds" in given.parts:
        rows += measure_rounds()
    if "growth" in given.parts:
        for power in (3, 4, 5, 7):
            rows += measure_rounds(10**power, peer=False)
    if "exact" in given.parts:
        rows += measure_exact_rounds()
    if "exact-growth" in given.parts:
        for power in (3, 4, 5, 7):
            rows += measure_exact_rounds(10**power)
    if given.csv and rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
