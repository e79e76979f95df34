"""What a federated round costs beyond the work of its clients."""

from __future__ import annotations

import importlib.util

import numpy as np

import reshuffle as rs
from benchmarks.report import Finding
from benchmarks.timing import Contestant, interleaved, timed
from reshuffle.engines import Engine, Ray, Task, Threads, digest
from reshuffle.engines.ray import CLUSTER
from reshuffle.federated.rounds import Rounds


def federation(quick: bool) -> list[Finding]:
    """Rounds of FedRR: overhead, two threads against one, ten thousand small clients, Ray."""
    return [*_overhead(quick), *_scaling(quick), *_many(quick), *_ray(quick)]


def _round(clients: rs.federated.Federation, engine: Engine) -> tuple[Rounds, Contestant]:
    rounds = rs.FedRR(step=0.01, engine=engine).bind(clients)
    state = rounds.start(np.zeros(clients.shape))
    return rounds, timed(lambda: rounds.advance(state, 0, 0.01))


def _overhead(quick: bool) -> list[Finding]:
    X, y = rs.datasets.synthetic(100_000 if quick else 1_000_000, 1000, stored=20)
    clients = rs.federated.split(rs.Problem(X, y, penalty=rs.penalties.L2(1e-4)), clients=32)
    rounds, whole = _round(clients, Threads(1))
    host, x = rounds.problem.make_host(range(32), rounds.plan), np.zeros(clients.shape)
    task = Task("", 0, 0.01, x, digest(x), tuple(range(32)))
    best = interleaved({"round": whole, "work": timed(lambda: host.work(task))}, 3 if quick else 9)
    rounds.close()
    over = 100.0 * (best["round"] / best["work"] - 1.0)
    detail = f"{best['round'] * 1e3:.0f} ms, the clients' work {best['work'] * 1e3:.0f}"
    return [
        Finding(f"{clients.n:,} samples, 32 clients: overhead", over, "%", "at most", 5.0, detail)
    ]


def _scaling(quick: bool) -> list[Finding]:
    X, y = rs.datasets.synthetic(25_000 if quick else 250_000, 1000, stored=20)
    clients = rs.federated.split(rs.Problem(X, y, penalty=rs.penalties.L2(1e-4)), clients=16)
    (one, single), (two, double) = (_round(clients, Threads(workers)) for workers in (1, 2))
    best = interleaved({"one": single, "two": double}, 5 if quick else 20)
    one.close()
    two.close()
    detail = f"{best['one'] * 1e3:.1f} ms with one thread, {best['two'] * 1e3:.1f} with two"
    gain = best["one"] / best["two"]
    return [Finding(f"{X.nnz:,} values: two threads", gain, "x", "at least", 1.7, detail)]


def _many(quick: bool) -> list[Finding]:
    count = 1_000 if quick else 10_000
    X, y = rs.datasets.synthetic(10 * count, 100, stored=20)
    problem = rs.Problem(X, y, penalty=rs.penalties.L2(1e-4))
    clients = rs.federated.split(problem, clients=count)
    rounds, whole = _round(clients, Threads(2))
    epoch = rs.ProxRR(step=0.01).bind(problem)
    state = epoch.start(np.zeros(problem.shape))
    plain = timed(lambda: epoch.advance(state, 0, 0.01))
    best = interleaved({"round": whole, "epoch": plain}, 5 if quick else 20)
    rounds.close()
    extra = (best["round"] - 2.0 * best["epoch"]) / count * 1e6
    detail = f"round {best['round'] * 1e3:.1f} ms, plain epoch {best['epoch'] * 1e3:.1f}"
    what = f"{count:,} clients of 10 samples: beyond two plain epochs"
    return [Finding(what, extra, "µs per client", "at most", 20.0, detail)]


def _ray(quick: bool) -> list[Finding]:
    """A round on Ray, less the work of the host that has most, against two copies of the model.

    Hosts get the model and send one back for each client, here one per host; both are counted as copies
    of an array in this process.
    """
    if importlib.util.find_spec("ray") is None:
        return []
    CLUSTER.enter(None)  # one for all of these
    try:
        return [_ray_round(size, hosts, quick) for size in (1_000, 1_000_000) for hosts in (1, 2)]
    finally:
        CLUSTER.leave()


def _ray_round(size: int, hosts: int, quick: bool) -> Finding:
    X, y = rs.datasets.synthetic(10_000, size, stored=20)
    clients = rs.federated.split(rs.Problem(X, y, penalty=rs.penalties.L2(1e-4)), clients=hosts)
    rounds, whole = _round(clients, Ray(hosts=hosts))
    x = np.zeros(clients.shape)
    task = Task("", 0, 0.01, x, digest(x), (0,))
    host = rounds.problem.make_host([0], rounds.plan)
    contestants = {
        "round": whole,
        "work": timed(lambda: host.work(task)),
        "copies": timed(lambda: [x.copy() for _ in range(2 * hosts)]),
    }
    best = interleaved(contestants, 5 if quick else 20)
    rounds.close()
    extra = 1e3 * (best["round"] - best["work"] - best["copies"])
    detail = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in best.items())
    what = f"Ray, {hosts} host{'s' * (hosts > 1)}, model of {size:,}: beyond work and copies"
    return Finding(what, extra, "ms", "at most", 25.0, detail)
