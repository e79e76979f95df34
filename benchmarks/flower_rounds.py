"""Rounds and bytes to a relative accuracy of 1e-4 on a split by label, beside FedAvg and FedProx as Flower ships them.

``python -m benchmarks.flower_rounds``. FedAvg and FedProx are Flower's own strategies on a grid in this process; SCAFFOLD is not
in Flower's package, and is written after the formulas of its baseline (option II, server step 1). The clients of these make
epochs of minibatch steps. Of each method the best of a grid is shown; ExactFedRR and FedNewton run with their defaults.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
from flwr.app import Array as Sent
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedProx
from flwr.supercore.task_identity import TaskIdentity
from rich.console import Console

import reshuffle as rs
from benchmarks.report import Finding, show, write_csv
from benchmarks.timing import environment
from reshuffle.objective import Array

ACCURACY = 1e-4
CLIENTS = 10
BATCH = 64
STEPS = (0.1, 0.3, 1.0, 3.0)
STALL = 30
"""Rounds in which a gap must fall by a twentieth, or the run is given up: it has come to its neighbourhood."""
EPOCHS = (1, 5, 20)
MUS = (0.1, 1.0)


class Client:
    """Rows of one client, and its minibatch steps on the logistic loss with a ridge."""

    def __init__(self, X: Array, y: Array, ridge: float) -> None:
        self.X, self.y, self.ridge = X, y, ridge

    def train(
        self,
        x: Array,
        step: float,
        epochs: int,
        rng: np.random.Generator,
        mu: float = 0.0,
        drift: Any = 0.0,
    ) -> tuple[Array, int]:
        """The model after some epochs, and the number of steps."""
        model, steps = x.copy(), 0
        for _ in range(epochs):
            order = rng.permutation(self.y.size)
            for start in range(0, order.size, BATCH):
                rows = order[start : start + BATCH]
                X, y = self.X[rows], self.y[rows]
                slopes = -y / (1.0 + np.exp(np.clip(y * (X @ model), -500, 500)))
                gradient = X.T @ slopes / rows.size + self.ridge * model
                model -= step * (gradient + mu * (model - x) + drift)
                steps += 1
        return model, steps


class Here:
    """A grid whose nodes are functions of this process: what Flower's strategies ask of one."""

    def __init__(self, clients: list[Client], step: float, epochs: int) -> None:
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.clients, self.step, self.epochs = clients, step, epochs
        self.rng = np.random.default_rng(0)

    def get_node_ids(self) -> list[int]:
        return list(range(len(self.clients)))

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return [self._answer(message) for message in messages]

    def _answer(self, message: Message) -> Message:
        client = self.clients[message.metadata.dst_node_id]
        x = message.content.array_records["arrays"]["x"].numpy()
        mu = float(message.content.config_records["config"].get("proximal-mu", 0.0))  # type: ignore[arg-type]
        model, _ = client.train(x, self.step, self.epochs, self.rng, mu)
        metrics = MetricRecord({"num-examples": client.y.size})
        content = RecordDict({"arrays": ArrayRecord({"x": Sent(model)}), "metrics": metrics})
        message.metadata.__dict__["_message_id"] = "m"
        return Message(content, reply_to=message)


Gap = Callable[[Array], float]


class Reached(Exception):
    """The accuracy is reached, or will not be."""


class Watch:
    """The gaps of a run; it is over where the accuracy is reached, or out of reach."""

    def __init__(self, gap: Gap) -> None:
        self.gap, self.gaps = gap, list[float]()

    def over(self, x: Array) -> bool:
        self.gaps.append(self.gap(x))
        before, since = self.gaps[:-STALL], self.gaps[-STALL:]
        stalled = len(before) > 1 and min(since) > 0.95 * min(before)
        return self.gaps[-1] <= ACCURACY or not self.gaps[-1] < 1e3 or stalled

    @property
    def rounds(self) -> int | None:
        """Until the accuracy was reached; the first entry is that of the start."""
        return len(self.gaps) - 1 if self.gaps[-1] <= ACCURACY else None


def by_flower(strategy: Any, grid: Here, d: int, gap: Gap, cap: int) -> Watch:
    """A run of one of Flower's strategies."""
    watch = Watch(gap)

    def look(number: int, arrays: ArrayRecord) -> None:
        if watch.over(arrays["x"].numpy()):
            raise Reached

    start = ArrayRecord({"x": Sent(np.zeros(d))})
    with suppress(Reached):
        strategy.start(grid=grid, initial_arrays=start, num_rounds=cap, evaluate_fn=look)
    return watch


def scaffold(clients: list[Client], step: float, epochs: int, d: int, gap: Gap, cap: int) -> Watch:
    """A run of SCAFFOLD: c_m ← c_m - c + (x - y_m)/(Kη), x ← x + mean(y_m - x), weighed by samples."""
    rng, x, watch = np.random.default_rng(0), np.zeros(d), Watch(gap)
    controls, c = np.zeros((len(clients), d)), np.zeros(d)
    shares = np.array([client.y.size for client in clients], dtype=float)
    shares /= shares.sum()
    watch.over(x)
    for _ in range(cap):
        models = np.empty((len(clients), d))
        for m, client in enumerate(clients):
            models[m], steps = client.train(x, step, epochs, rng, drift=c - controls[m])
            controls[m] += (x - models[m]) / (steps * step) - c
        x, c = shares @ models, shares @ controls
        if watch.over(x):
            break
    return watch


def measured(cap: int) -> Iterator[Finding]:
    """The best of each method on mushrooms, split by label."""
    X, y = rs.datasets.load_libsvm("mushrooms")
    plain = rs.Problem(X, y)
    l2 = plain.smoothness.L_f / plain.n
    problem = rs.Problem(X, y, penalty=rs.penalties.L2(l2))
    best = rs.FISTA(tol=1e-12, epochs=20_000).solve(problem)
    low, high, d = (
        float(problem.value(best.x) + problem.penalty.value(best.x)),
        np.log(2.0),
        X.shape[1],
    )
    dense, signs = X.toarray(), np.asarray(y, dtype=float)
    parts = np.array_split(np.argsort(signs, kind="stable"), CLIENTS)
    clients = [Client(dense[rows], signs[rows], l2) for rows in parts]

    def gap(x: Array) -> float:
        margins = signs * (dense @ x)
        return float((np.logaddexp(0.0, -margins).mean() + 0.5 * l2 * (x @ x) - low) / (high - low))

    vector = 8 * d * CLIENTS
    federation = rs.federated.Sites(
        [(dense[rows], signs[rows]) for rows in parts], penalty=rs.penalties.L2(l2)
    )
    for solver in (rs.ExactFedRR(rounds=cap), rs.FedNewton(rounds=cap)):
        seen: list[tuple[int, float]] = []

        def look(result: rs.Result, seen: list[tuple[int, float]] = seen) -> bool:
            row = result.trace.last()
            if gap(result.x) <= ACCURACY:
                seen.append((result.epoch, row["bytes_up"] + row["bytes_down"]))
            return bool(seen)

        solver.solve(federation, callbacks=[look])
        yield _finding(
            type(solver).__name__,
            seen[0][0] if seen else None,
            cap,
            "defaults",
            seen[0][1] if seen else 0,
        )
    settings = list(itertools.product(STEPS, EPOCHS))
    common: dict[str, Any] = {
        "fraction_evaluate": 0.0, "min_train_nodes": CLIENTS, "min_available_nodes": CLIENTS,
    }  # fmt: skip
    tried: dict[str, list[tuple[Watch, str]]] = {"FedAvg": [], "FedProx": [], "SCAFFOLD": []}
    for step, epochs in settings:
        grid, told = Here(clients, step, epochs), f"step {step:g}, {epochs} local epochs"
        tried["FedAvg"].append((by_flower(FedAvg(**common), grid, d, gap, cap), told))
        for mu in MUS:
            strategy = FedProx(proximal_mu=mu, **common)
            tried["FedProx"].append((by_flower(strategy, grid, d, gap, cap), f"{told}, μ = {mu:g}"))
        tried["SCAFFOLD"].append((scaffold(clients, step, epochs, d, gap, cap), told))
    for name, runs in tried.items():
        reached = [(watch.rounds, told) for watch, told in runs if watch.rounds is not None]
        lowest, where = min((min(watch.gaps), told) for watch, told in runs)
        number, told = min(
            reached, default=(None, f"the lowest of {len(runs)} settings is {lowest:.1e}, {where}")
        )
        vectors = 4 if name == "SCAFFOLD" else 2
        yield _finding(name, number, cap, told, vectors * vector * (number or cap))


def _finding(name: str, number: int | None, cap: int, told: str, travelled: float) -> Finding:
    reached = (
        f"{travelled / 1e6:.3g} MB both ways; {told}" if number else f"not within {cap}; {told}"
    )
    what = f"{name}: rounds to {ACCURACY:g}, mushrooms by label, M = {CLIENTS}"
    return Finding(what, float(number) if number else np.inf, "rounds", detail=reached)


@click.command()
@click.option("--cap", default=200, show_default=True, help="Rounds after which a run is given up.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("benchmarks/results/flower_rounds.csv")
)
def main(cap: int, out: Path) -> None:
    """Print the table and write it."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    findings = list(measured(cap))
    show(Console(), "rounds to 1e-4 beside Flower's strategies", findings)
    write_csv(out, findings, environment())


if __name__ == "__main__":
    main()
