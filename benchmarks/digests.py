"""``python -m benchmarks.digests``: the bits of many runs, to see that a change of shape changes none.

    python -m benchmarks.digests --write before.json      # at the old commit
    python -m benchmarks.digests --compare before.json    # at the new one, on the same machine

Every solver, engine, layout and kind of penalty, resumed and not. Bits depend on the machine's vector
units and on the compiler, so that digests of two machines need not agree.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

import reshuffle as rs

P, L, ORDERS = rs.penalties, rs.losses, rs.orders


def data(n: int = 400, d: int = 30, seed: int = 0, density: float = 0.4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    X *= np.exp(0.5 * rng.standard_normal((n, 1)))
    x = rng.standard_normal(d) * (rng.random(d) < 0.3)
    return X, np.sign(X @ x + rng.standard_normal(n))


X, SIGNS = data()
REAL = X @ np.linspace(-1.0, 1.0, X.shape[1]) + SIGNS
CLASSES = np.arange(len(X)) % 3
ONES = sp.csr_matrix((X != 0).astype(float))
WIDE, WIDE_SIGNS = data(600, 1500, 1, 0.05)
GROUPS = np.arange(30) // 5
LAYOUTS: dict[str, Any] = {
    "dense": X, "csr": sp.csr_matrix(X), "float32": X.astype(np.float32), "ones": ONES,
}  # fmt: skip
NET = P.ElasticNet(0.01, 0.02)
ALONE: dict[str, Any] = {"finish": False} if hasattr(rs.ExactProxRR, "finish") else {}
"""The shuffled method alone, which is all that 0.1.0 had."""


class Opaque:
    """The elastic net, of which nothing but value and prox is known."""

    strong_convexity = 0.02

    def value(self, x: Any) -> float:
        return NET.value(x)

    def prox(self, x: Any, step: float) -> Any:
        return NET.prox(x, step)

    def __repr__(self) -> str:
        return "Opaque()"


def single() -> Iterator[tuple[str, Any, Any]]:
    """Name, solver, problem."""
    plain = rs.Problem(X, SIGNS, penalty=NET)
    full: dict[str, Any] = {
        "ridge": 0.01,
        "fit_intercept": True,
        "sample_weight": 1 + np.arange(400) % 3,
    }
    few: dict[str, Any] = {"epochs": 6, "seed": 3}
    exact: dict[str, Any] = {"epochs": 12, "seed": 3, "tol": 0.0} | ALONE
    for name, layout in LAYOUTS.items():
        yield f"ProxRR {name}", rs.ProxRR(**few), rs.Problem(layout, SIGNS, penalty=NET)
        yield f"ExactProxRR {name}", rs.ExactProxRR(**exact), rs.Problem(layout, SIGNS, penalty=NET)
    small = rs.ProxRR(step=1e-3, **few)
    penalties = {
        "L1": P.L1(np.linspace(0.0, 0.02, 30)), "L2": P.L2(0.1), "Box": P.Box(-0.1, 0.2),
        "NonNegative": P.NonNegative(0.01), "L1Ball": P.L1Ball(1.0), "Opaque": Opaque(),
        "GroupLasso": P.GroupLasso(0.01, GROUPS),
    }  # fmt: skip
    for name, penalty in penalties.items():
        problem = rs.Problem(sp.csr_matrix(X), SIGNS, penalty=penalty)
        yield f"ProxRR {name}", small, problem
        yield f"ProxRR each step {name}", replace(small, prox="step"), problem
        yield f"ExactProxRR {name}", rs.ExactProxRR(**exact), problem
    losses = {"Squared": (L.Squared(), REAL), "Huber": (L.Huber(), REAL),
              "SquaredHinge": (L.SquaredHinge(), SIGNS), "Multinomial": (L.Multinomial(), CLASSES)}  # fmt: skip
    for name, (loss, y) in losses.items():
        problem = rs.Problem(sp.csr_matrix(X), y, loss, NET, **full)
        yield f"ProxRR {name}", rs.ProxRR(step=1e-3, batch_size=7, **few), problem
        yield f"ExactProxRR {name}", rs.ExactProxRR(**exact), problem
    yield (
        "ExactProxRR NuclearNorm",
        rs.ExactProxRR(**exact),
        rs.Problem(X, CLASSES, L.Multinomial(), P.NuclearNorm(0.01)),
    )
    yield "ProxSO", rs.ProxRR(order=ORDERS.ShuffleOnce(), importance=True, **few), plain
    yield "Cyclic", rs.ProxRR(order=ORDERS.Cyclic(), step=lambda t: 0.1 / (1 + t), **few), plain
    yield (
        "ProxSGD",
        rs.ProxSGD(step=rs.steps.InverseTime(), **few),
        rs.Problem(X, SIGNS, penalty=NET, **full),
    )
    yield "ProxSGD importance", rs.ProxSGD(importance=True, batch_size=3, **few), plain
    yield "Decreasing", rs.ProxRR(step=rs.steps.Decreasing(), epochs=20), plain
    yield "FISTA", rs.FISTA(epochs=60, tol=0.0), plain
    yield "ExactProxRR tol", rs.ExactProxRR(tol=1e-7, **ALONE), plain
    yield "ExactProxRR m", rs.ExactProxRR(steps_per_prox=50, importance=False, **exact), plain
    yield "ExactProxRR once", rs.ExactProxRR(order=ORDERS.ShuffleOnce(), step=0.01, **exact), plain
    wide = rs.Problem(sp.csr_matrix(WIDE), WIDE_SIGNS, penalty=P.ElasticNet(0.01, 1e-3))
    yield "ExactProxRR working sets", rs.ExactProxRR(epochs=30, tol=0.0, **ALONE), wide
    yield "ExactProxRR working sets, tol", rs.ExactProxRR(tol=1e-6, **ALONE), wide


def federated() -> Iterator[tuple[str, Any, Any]]:
    problem = rs.Problem(sp.csr_matrix(X), SIGNS, penalty=NET, ridge=0.01)
    clients = rs.federated.split(problem, clients=7, by="label", seed=1)
    many = rs.federated.split(problem, clients=40, by="quantity", seed=1)
    for engine in (rs.engines.Threads(1), rs.engines.Threads(2), rs.engines.Ray(hosts=2)):
        name = repr(engine)
        yield f"FedRR {name}", rs.FedRR(rounds=6, seed=2, engine=engine), many
        yield f"ExactFedRR {name}", rs.ExactFedRR(rounds=9, seed=2, engine=engine), clients
    yield "FedSO", rs.FedRR(rounds=6, order=ORDERS.ShuffleOnce(), importance=True), clients
    yield "LocalSGD", rs.LocalSGD(rounds=6, local_steps=20, participation=0.5), clients
    yield (
        "ExactFedRR plain",
        rs.ExactFedRR(rounds=9, acceleration=0, order=ORDERS.Reshuffle()),
        clients,
    )


def digests() -> dict[str, str]:
    """Name -> digest, of the run and (after ``resumed``) of one that was saved half way and resumed."""
    found: dict[str, str] = {}
    for make in (single, federated):
        for name, solver, problem in make():
            whole = solver.solve(problem)
            found[name] = whole.digest
            found[f"{name}, resumed"] = resumed(solver, problem, whole.epoch // 2)
    return found


def resumed(solver: Any, problem: Any, half: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        stop: Callable[[Any], bool] = lambda result: result.epoch == half  # noqa: E731
        solver.solve(problem, callbacks=[rs.Checkpoint(path), stop])
        digest: str = solver.solve(problem, resume=path).digest
        return digest


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="Keep the digests in this file.")
@click.option("--compare", type=click.Path(path_type=Path, exists=True), help="With those in here.")
def main(write: Path | None, compare: Path | None) -> None:
    """Digests of many runs; status 1 where one differs from a file's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = digests()
    if write is not None:
        write.write_text(json.dumps(found, indent=1) + "\n")
    before = json.loads(compare.read_text()) if compare is not None else {}
    differ = [name for name in before if found.get(name) != before[name]]
    for name in differ:
        click.echo(f"differs: {name}")
    halves = [name for name in found if found[name] != found.get(f"{name}, resumed", found[name])]
    for name in halves:
        click.echo(f"differs when resumed: {name}")
    click.echo(f"{len(found)} digests, {len(differ)} of {len(before)} differ")
    sys.exit(bool(differ or halves))


if __name__ == "__main__":
    main()
