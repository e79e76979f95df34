"""Small random problems, one for each seed, that try what data can do: scales, copies, zeros, weights, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.instances import (
    LOSSES,
    PENALTIES,
    Array,
    Instance,
    LossName,
    PenaltyName,
    largest_strength,
    mean_squares,
)
from benchmarks.truth import attained

Rng = np.random.Generator


def random_problem(seed: int) -> Instance:
    """A problem with 2 to 80 rows and 1 to 40 columns that has a minimiser.

    One that is drawn without a minimiser (separable, with nothing to hold it) gets a small ridge.
    """
    rng = np.random.default_rng([seed, 0xC0])  # a stream of its own
    loss: LossName = LOSSES[int(rng.integers(len(LOSSES)))]
    penalty: PenaltyName = PENALTIES[int(rng.integers(len(PENALTIES)))]
    n = int(rng.integers(2, 81)) if rng.random() < 0.8 else int(rng.integers(2, 6))
    d = int(rng.integers(1, 41)) if rng.random() < 0.7 else int(rng.integers(1, 6))
    X = _rows(rng, n, d)
    y = _targets(rng, X, loss)
    n = len(X)
    found = Instance(
        name=f"random {seed}",
        X=_layout(rng, X),
        y=y,
        loss=loss,
        penalty=penalty,
        ridge=float(10.0 ** rng.uniform(-6, 0)) if rng.random() < 0.3 else 0.0,
        sample_weight=_weights(rng, n) if rng.random() < 0.3 else None,
        intercept=bool(rng.random() < 0.5),
        delta=float(10.0 ** rng.uniform(-1, 1)),
    )
    found = _with_strengths(rng, found)
    if not attained(found):
        found = found.with_(ridge=1e-4 * _mean_square(found))
    if not attained(found):  # the intercept of a class without weight
        found = found.with_(intercept=False)
    return found


def _rows(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, d))
    if rng.random() < 0.3:
        X[rng.random((n, d)) < rng.uniform(0.3, 0.95)] = 0.0
    if rng.random() < 0.2:  # correlated columns
        X = X @ (rng.standard_normal((d, d)) * 0.3 + 1.0)
    if rng.random() < 0.2:  # far from centred, as years are
        X += 10.0 ** rng.uniform(0, 3)
    if rng.random() < 0.3:
        X *= 10.0 ** rng.uniform(-6, 6, size=d)
    elif rng.random() < 0.2:
        X *= 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.15:  # rows of different lengths
        X *= 10.0 ** rng.uniform(-2, 2, size=(n, 1))
    if d > 1 and rng.random() < 0.15:
        X[:, -1] = X[:, 0]
    if rng.random() < 0.1:
        X[:, int(rng.integers(d))] = 0.0
    if rng.random() < 0.1:
        X[:, int(rng.integers(d))] = 1.0
    if rng.random() < 0.1:
        X[int(rng.integers(n))] = 0.0
    if rng.random() < 0.15:
        X[-1] = X[0]
    if not X.any():  # which a Problem refuses
        X[0, 0] = 1.0
    return X


def _targets(rng: Rng, X: Array, loss: LossName) -> Array:
    n, d = X.shape
    classes = int(rng.integers(2, min(n, 5) + 1)) if loss == "multinomial" else 1
    scale = np.sqrt((X * X).mean(axis=0))
    truth = rng.standard_normal((d, classes)) * (rng.random((d, 1)) < 0.5)
    z = (X / np.where(scale > 0, scale, 1.0)) @ truth
    spread = z.std()
    z = z / (spread if spread > 1e-8 * np.abs(z).max() else 1.0)  # where all rows are equal
    z = z + rng.choice([0.01, 0.3, 1.0, 3.0]) * rng.standard_normal(z.shape)
    if loss in ("squared", "huber"):
        return np.asarray((z[:, 0] + rng.choice([0.0, 3.0])) * 10.0 ** rng.uniform(-3, 3))
    y = (
        z.argmax(axis=1).astype(float)
        if classes > 1
        else np.where(z[:, 0] > rng.normal(), 1.0, -1.0)
    )
    kinds = np.arange(classes) if classes > 1 else np.array([-1.0, 1.0])
    y[rng.permutation(n)[: kinds.size]] = kinds  # every class is there
    return np.asarray(y)


def _layout(rng: Rng, X: Array) -> Any:
    if rng.random() < 0.2:
        narrow: Any = X.astype(np.float32)
        if narrow.any():
            return sp.csr_matrix(narrow) if rng.random() < 0.4 else narrow
    return sp.csr_matrix(X) if rng.random() < 0.4 else X


def _weights(rng: Rng, n: int) -> Array:
    weights = rng.exponential(size=n)
    if rng.random() < 0.3:
        weights[rng.random(n) < 0.3] = 0.0
    return weights if weights.any() else np.ones(n)


def _mean_square(instance: Instance) -> float:
    """The largest mean square of a column: the scale of a ridge."""
    return float(mean_squares(instance.X).max()) or 1.0


def _with_strengths(rng: Rng, instance: Instance) -> Instance:
    d = instance.X.shape[1]
    if instance.penalty == "group_lasso":
        if instance.loss != "multinomial":
            labels = rng.integers(0, max(d // 3, 1), size=d)
            labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
            if rng.random() < 0.2 and d > 1:
                labels[rng.integers(d)] = -1
                inside = labels >= 0
                labels[inside] = np.unique(labels[inside], return_inverse=True)[1]
            instance = instance.with_(labels=labels)
        share = 10.0 ** rng.uniform(-4, -0.3)
        return instance.with_(strength=share * (largest_strength(instance) or 1.0))
    share, largest = 10.0 ** rng.uniform(-4, -0.3), largest_strength(instance) or 1.0
    l1, l2 = share * largest, 10.0 ** rng.uniform(-6, 0) * _mean_square(instance)
    if instance.penalty in ("l1", "elastic_net"):
        varied = rng.random() < 0.1 and instance.loss != "multinomial"
        each: Any = l1 * rng.exponential(size=d) if varied else l1
        return instance.with_(l1=each, l2=l2 if instance.penalty == "elastic_net" else 0.0)
    if instance.penalty == "l2":
        return instance.with_(l2=l2)
    if instance.penalty == "non_negative":
        chosen = rng.random(2) < 0.5
        return instance.with_(l1=l1 * chosen[0], l2=l2 * chosen[1])
    if instance.penalty == "box":
        real = instance.loss in ("squared", "huber")
        reach = np.abs(instance.y).max() if real else 1.0
        half = float(reach * 10.0 ** rng.uniform(-2, 1) / np.sqrt(_mean_square(instance)))
        low = 0.0 if rng.random() < 0.3 else -half * rng.random()
        return instance.with_(lower=low, upper=half)
    return instance
