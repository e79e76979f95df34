"""Accuracy and support against ε, beside DP-FedAvg as Flower has it and diffprivlib's logistic regression.

    RESHUFFLE_DATA=FOLDER python -m benchmarks.private_models

Rows are divided by a bound on their length that is known without looking (√14 non-zero features of a9a, √22 of mushrooms).
A fifth of the rows is held out. Clips, steps and passes are the same for both sets and all ε; they were chosen by a few trials
on the first split. DP-FedAvg is Flower's server-side fixed clipping run in this process: its own functions clip the clients' changes
(``compute_clip_model_update``) and give the noise of the mean (``compute_stdv``), between local passes of ours. Its noise
comes from ``numpy.random`` as Flower draws it. diffprivlib's models are pure ε-private (δ = 0) by noise in the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.federated.local import Shuffled, Turn
from reshuffle.privacy import ClientLevel, SampleLevel, noise_for_releases
from reshuffle.randomness import Stream

Array = NDArray[np.float64]
LENGTHS = {"a9a": np.sqrt(14.0), "mushrooms": np.sqrt(22.0)}
"""The longest row, by how many of its features are 1."""
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SAMPLE_DELTA, CLIENT_DELTA = 1e-5, 1e-4
CLIENTS, ROUNDS, CLIP, CLIENT_STEP = 1000, 20, 1.0, 1.0
STEP = 2.0
"""γ for means over batches: 1/L with rows of length 1 and an intercept, for which L = (1 + 1)/4."""
L1 = 1e-3
SEEDS = 3
ALLOCATED = {0.5: 3.4, 1.0: 1.9, 2.0: 1.2, 4.0: 0.82, 8.0: 0.63}
"""Noise for order Allocation() with 50 steps in each of 10 epochs; ε is close to the key, and printed as it is."""


def split(name: str, seed: int) -> tuple[Any, Array, Any, Array]:
    X, y = rs.datasets.load_libsvm(name)
    X = X / LENGTHS[name]
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = order[: len(y) // 5], order[len(y) // 5 :]
    return X[train], y[train], X[test], y[test]


Fitted = tuple[Array, float]
"""x with its intercept, and ε."""


def sample_level(X: Any, y: Array, epsilon: float, seed: int, l1: float = L1) -> Fitted:
    """Ten epochs of twenty steps each."""
    level = SampleLevel(clip=1.0, epsilon=epsilon, delta=SAMPLE_DELTA)
    return _passes(X, y, level, seed, l1, rs.orders.Reshuffle(), 20)


def allocated(X: Any, y: Array, epsilon: float, seed: int) -> Fitted:
    """Ten epochs of fifty steps, in each of which a sample draws its own."""
    level = SampleLevel(clip=1.0, noise=ALLOCATED[epsilon], delta=SAMPLE_DELTA)
    return _passes(X, y, level, seed, L1, rs.orders.Allocation(), 50)


def _passes(
    X: Any, y: Array, level: SampleLevel, seed: int, l1: float, order: Any, steps: int
) -> Fitted:
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(l1), fit_intercept=True)
    batch = -(-problem.n // steps)
    result = rs.ProxRR(
        step=STEP, order=order, batch_size=batch, epochs=10, privacy=level,
        seed=seed, eval_every=None,
    ).solve(problem)  # fmt: skip
    spent = result.privacy
    return result.x, np.nan if spent is None else spent.epsilon


def clients_of(X: Any, y: Array, seed: int, l1: float) -> rs.federated.Federation:
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(l1), fit_intercept=True)
    return rs.federated.split(problem, clients=CLIENTS, by="iid", seed=seed)


def client_level(X: Any, y: Array, epsilon: float, seed: int) -> Fitted:
    """FedRR over a thousand clients: the prox of ℓ1 comes after the noise."""
    level = ClientLevel(clip=CLIP, epsilon=epsilon, delta=CLIENT_DELTA)
    solver = rs.FedRR(step=CLIENT_STEP, rounds=ROUNDS, privacy=level, seed=seed, eval_every=None)
    result = solver.solve(clients_of(X, y, seed, L1))
    return result.x, np.nan if result.privacy is None else result.privacy.epsilon


def flower(X: Any, y: Array, epsilon: float, seed: int) -> Fitted:
    """DP-FedAvg by Flower's functions: clients clipped, their mean weighted by samples, noise on the mean."""
    from flwr.supercore.differential_privacy import (
        add_gaussian_noise_inplace,
        compute_clip_model_update,
        compute_stdv,
    )

    federation = clients_of(X, y, seed, 0.0)
    noise = noise_for_releases(epsilon, CLIENT_DELTA, ROUNDS)
    local = Shuffled(rs.orders.Reshuffle(), 1, False, seed)
    starts = np.concatenate([[0], np.cumsum(federation.sizes)[:-1]]).tolist()
    work = [local.bind(c, at, 1.0) for c, at in zip(federation.clients, starts, strict=True)]
    x, shares = np.zeros(federation.shape), federation.sizes / federation.n
    for number in range(ROUNDS):
        total, stream = np.zeros_like(x), Stream(seed, number)
        for share, epoch in zip(shares, work, strict=True):
            model = [epoch(Turn(x, CLIENT_STEP, number, stream))]
            compute_clip_model_update(model, [x], CLIP)
            total += share * model[0]
        mean = [total]
        add_gaussian_noise_inplace(mean, compute_stdv(noise, CLIP, CLIENTS))
        x = mean[0]
    return x, epsilon


def diffprivlib(X: Any, y: Array, epsilon: float, seed: int) -> Fitted:
    from diffprivlib.models import LogisticRegression

    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed, max_iter=500)
    model.fit(X.toarray() if hasattr(X, "toarray") else X, y)
    return np.append(model.coef_.ravel(), model.intercept_), epsilon


def plain(X: Any, y: Array, epsilon: float, seed: int) -> Fitted:
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(L1), fit_intercept=True)
    return rs.ExactProxRR(tol=1e-8).solve(problem).x, np.inf


METHODS: dict[str, Callable[[Any, Array, float, int], Fitted]] = {
    "ProxRR, samples": sample_level,
    "ProxRR, samples, no ℓ1": partial(sample_level, l1=0.0),
    "ProxRR, samples, Allocation": allocated,
    "diffprivlib, samples": diffprivlib,
    "FedRR, 1,000 clients": client_level,
    "Flower's DP-FedAvg, 1,000 clients": flower,
}


def rows(name: str) -> Iterator[str]:
    parts = [split(name, seed) for seed in range(SEEDS)]
    for method, fit in {"no privacy": plain, **METHODS}.items():
        cells = []
        for epsilon in EPSILONS if method != "no privacy" else (np.inf,):
            accuracies, supports, spent = [], [], 0.0
            for seed, (X, y, test, truth) in enumerate(parts):
                x, spent = fit(X, y, epsilon, seed)
                accuracies.append(np.mean(np.sign(test @ x[:-1] + x[-1]) == truth))
                supports.append(np.count_nonzero(x[:-1]))
            about = "" if abs(spent - epsilon) < 1e-6 or spent == np.inf else f" (ε {spent:.2f})"
            cells.append(f"{np.mean(accuracies):.3f}, {np.mean(supports):.0f}{about}")
        cells += [""] * (len(EPSILONS) - len(cells))
        yield f"| {method} | {' | '.join(cells)} |"


def main() -> None:
    for name in LENGTHS:
        X, y, _, _ = split(name, 0)
        frequent = max(np.mean(y == 1), np.mean(y == -1))
        print(f"\n{name}: {X.shape[0]} rows, {X.shape[1]} features, larger class {frequent:.3f}")
        print("| accuracy, non-zeros | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |")
        print("| --- " * (1 + len(EPSILONS)) + "|")
        for row in rows(name):
            print(row, flush=True)


if __name__ == "__main__":
    main()
