"""Membership inference by canaries: a lower bound on ε by experiment, which must stay below the ε that a run claims.

    python -m benchmarks.canaries --runs 1000

A canary is a sample, or a client, whose gradient is as long as the clip and lies along a column that nobody else has. The
attacker sees the models and decides whether the canary was in the data. From how often the attack is right with the
canary, and wrong without it, Clopper and Pearson's intervals give an ε that the run cannot be below (Jagielski, Ullman and
Oprea 2020): ε ≥ log((TPR - δ)/FPR) or log((TNR - δ)/FNR). The threshold is chosen on one half of the runs and judged on the
other, at a confidence of 95 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

import reshuffle as rs
from reshuffle.privacy import ClientLevel, SampleLevel, epsilon_of_releases

Array = NDArray[np.float64]
DELTA = 1e-5
CLIENT_DELTA = 1e-2
CONFIDENCE = 0.95
COLUMN = 0
"""The column of the canary."""


class Attack(NamedTuple):
    name: str
    score: Callable[[bool], float]
    """The attacker's statistic of one run, with or without the canary; larger where it is in."""
    claimed: float
    delta: float


def lower_bound(inside: Array, outside: Array, delta: float) -> float:
    """The ε that these scores prove, at the confidence; 0 where they prove nothing."""
    half = inside.size // 2
    best = max(
        np.quantile(
            np.concatenate([inside[:half], outside[:half]]), np.linspace(0.001, 0.999, 400)
        ),
        key=lambda t: _epsilon(inside[:half] > t, outside[:half] > t, delta),
    )
    return _epsilon(inside[half:] > best, outside[half:] > best, delta)


def _epsilon(hits: NDArray[np.bool_], alarms: NDArray[np.bool_], delta: float) -> float:
    """Both directions; each of the two intervals is taken at half of what may go wrong."""
    miss = (1.0 - CONFIDENCE) / 2.0
    found = 0.0
    for right, wrong in ((hits, alarms), (~alarms, ~hits)):
        low = beta.ppf(miss, right.sum(), right.size - right.sum() + 1) if right.any() else 0.0
        high = (
            beta.ppf(1 - miss, wrong.sum() + 1, wrong.size - wrong.sum())
            if not wrong.all()
            else 1.0
        )
        if low > delta:
            found = max(found, float(np.log((low - delta) / high)))
    return found


def data(n: int, canary: bool) -> rs.Problem:
    """Rows without the canary's column, and a first row that is the canary or zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    X[:, COLUMN] = 0.0
    X[0] = 0.0
    X[0, COLUMN] = 100.0 if canary else 0.0  # clipped, whatever its slope
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[0] = 1.0
    return rs.Problem(X, y)


def one_machine(noise: float, epochs: int, batch: int, order: Any = None) -> Attack:
    """ProxRR; the attacker sees the last model, which is the sum of all steps along the canary's column."""
    level = SampleLevel(clip=1.0, noise=noise, delta=DELTA)
    solver = rs.ProxRR(
        step=1e-3, epochs=epochs, batch_size=batch, privacy=level, eval_every=None,
        order=order or rs.orders.Reshuffle(),
    )  # fmt: skip
    problems = {word: data(60, word) for word in (False, True)}
    spent = solver.solve(problems[True]).privacy
    claimed = np.nan if spent is None else spent.epsilon
    steps = "one step" if batch >= 60 else f"{-(-60 // batch)} steps"
    return Attack(
        f"ProxRR, z = {noise:g}, {epochs} epochs of {steps}, {type(solver.order).__name__}",
        lambda canary: float(solver.solve(problems[canary]).x[COLUMN]), claimed, DELTA,
    )  # fmt: skip


def every_step(noise: float, epochs: int, steps: int) -> Attack:
    """The same passes, of which the attacker sees every step and knows the order, which the run's seed tells."""
    n = max(60, steps)
    problems = {word: data(n, word) for word in (False, True)}
    ends = np.linspace(n // steps, n, steps).astype(np.int64)
    order = np.random.default_rng(0)

    def score(canary: bool) -> float:
        problem, x, total = problems[canary], np.zeros(6), 0.0
        secret = np.random.default_rng()

        def drawn(count: int) -> Array:
            return noise * secret.standard_normal((count, 6))

        for _ in range(epochs):
            visits = order.permutation(n).astype(np.uint32)
            at = int(np.searchsorted(ends, np.flatnonzero(visits == 0)[0], side="right"))
            begin = 0
            for k, stop in enumerate(ends.tolist()):
                before = x[COLUMN]
                problem.clipped_sweep(
                    x, visits[begin:stop], np.array([stop - begin]), 1e-3, average=1.0, clip=1.0,
                    noise=drawn, share=1.0,
                )  # fmt: skip
                total += x[COLUMN] - before if k == at else 0.0
                begin = stop
        return total

    claimed = epsilon_of_releases(noise, epochs, DELTA)
    return Attack(
        f"every step seen, z = {noise:g}, {epochs} epochs of {steps} steps, known order",
        score, claimed, DELTA,
    )  # fmt: skip


def federation(noise: float, rounds: int, noise_at: Any) -> Attack:
    """FedRR with ten clients, one of which is the canary, and the prox of no penalty."""

    def clients(canary: bool) -> Any:
        rng = np.random.default_rng(0)
        parts = []
        for c in range(10):
            X, y = rng.normal(size=(4, 6)), rng.normal(size=4)
            X[:, COLUMN] = 0.0
            if c == 0:  # its change is clipped, and along its own column
                X, y = np.zeros((4, 6)), np.full(4, 100.0)
                X[:, COLUMN] = float(canary)
            parts.append(rs.Problem(X, y, loss=rs.losses.Squared()))
        return rs.federated.Federation(parts)

    level = ClientLevel(clip=1.0, noise=noise, delta=CLIENT_DELTA, noise_at=noise_at)
    solver = rs.FedRR(step=0.1, rounds=rounds, privacy=level, eval_every=None, engine="threads")
    federations = {word: clients(word) for word in (False, True)}
    return Attack(
        f"FedRR, z = {noise:g}, {rounds} rounds, noise by the {noise_at}",
        lambda canary: float(solver.solve(federations[canary]).x[COLUMN]),
        epsilon_of_releases(noise, rounds, CLIENT_DELTA), CLIENT_DELTA,
    )  # fmt: skip


def attacks() -> Iterator[Attack]:
    yield one_machine(2.0, 1, 60)
    yield one_machine(2.0, 4, 60)
    yield one_machine(4.0, 4, 60)
    yield one_machine(2.0, 4, 10)
    yield one_machine(1.0, 4, 10, rs.orders.Allocation())
    yield every_step(2.0, 4, 10)
    yield every_step(1.0, 10, 100)
    yield federation(2.0, 3, "driver")
    yield federation(2.0, 3, "sites")


def poisson(noise: float, epochs: int, steps: int) -> float:
    """The ε that sampling by coins would have, which the passes do not make."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, pld

    event = PoissonSampledDpEvent(1.0 / steps, GaussianDpEvent(noise))
    accountant = pld.PLDAccountant()
    accountant.compose(SelfComposedDpEvent(event, epochs * steps))
    return float(accountant.get_epsilon(DELTA))


def measured(attack: Attack, runs: int) -> float:
    scores = {
        canary: np.array([attack.score(canary) for _ in range(runs)]) for canary in (True, False)
    }
    return lower_bound(scores[True], scores[False], attack.delta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=1000, help="with the canary, and as many without"
    )
    runs = parser.parse_args().runs
    print("| attack | claimed ε | measured, at least |\n| --- | --- | --- |")
    broken = []
    for attack in attacks():
        found = measured(attack, runs)
        print(f"| {attack.name} | {attack.claimed:.2f} | {found:.2f} |", flush=True)
        broken += [attack.name] if found > attack.claimed else []
    for noise, epochs, steps in ((2.0, 4, 10), (1.0, 10, 100)):
        found = poisson(noise, epochs, steps)
        print(f"Poisson's ε for z = {noise:g}, {epochs} epochs of {steps} steps: {found:.2f}")
    if broken:
        raise SystemExit(f"measured more than claimed: {broken}")


if __name__ == "__main__":
    main()
