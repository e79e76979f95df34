"""Problems that the choice of phases is judged on besides the corpus: sets of a hostile test, and real ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.corpus import Entry, Part
from benchmarks.corpus_data import signs, standardised
from benchmarks.instances import Instance, LossName, largest_strength
from benchmarks.real_sets import SOURCES, available, commands, load


def _placed(name: str, part: Part, build: Callable[[], Instance]) -> Entry:
    """An entry whose part is decided by its data, so that no set is on both sides."""
    return Entry(name, "large", build, part)


# --- sets of a hostile test, and tall tables ---------------------------------------------------


def _logistic_ridge(seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5_000, 500))
    y = signs(X @ rng.standard_normal(500) / 5.0 + rng.standard_normal(5_000) > 0)
    return Instance(name="", X=X, y=y, loss="logistic", penalty="l2", l2=1.0 / 5_000)


def _lasso(share: float, seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 5_000))
    truth = np.zeros(5_000)
    truth[:20] = rng.standard_normal(20)
    y = X @ truth + 0.5 * rng.standard_normal(200)
    found = Instance(name="", X=X, y=y, loss="squared", penalty="l1")
    return found.with_(l1=share * largest_strength(found))


def _ridge(seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5_000, 500))
    y = X @ rng.standard_normal(500) + rng.standard_normal(5_000)
    return Instance(name="", X=X, y=y, loss="squared", penalty="l2", l2=1e-3)


def _wide_ridge(rows: int, features: int) -> Instance:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features))
    y = X @ rng.standard_normal(features) + rng.standard_normal(rows)
    return Instance(name="", X=X, y=y, loss="squared", penalty="l2", l2=1.0 / rows)


def _tall(loss: LossName, rows: int, features: int, common: float, share: float) -> Instance:
    """A table whose columns share a factor (a part ``common`` of their variance), with ten that matter."""
    rng = np.random.default_rng(features)
    X = np.sqrt(1.0 - common) * rng.standard_normal((rows, features))
    X += np.sqrt(common) * rng.standard_normal((rows, 1))
    z = X[:, :10] @ rng.standard_normal(10) + rng.logistic(size=rows)
    y = z if loss == "huber" else signs(z > np.quantile(z, 0.8))
    found = Instance(name="", X=X, y=y, loss=loss, penalty="l1", intercept=True)
    return found.with_(l1=share * largest_strength(found))


# --- all of them -------------------------------------------------------------------------------

NAMED = {
    entry.name: entry
    for entry in (
        _placed("logistic ridge, 5,000 x 500", "tuning", partial(_logistic_ridge, 0)),
        _placed("Lasso, 200 x 5,000, 0.02", "tuning", partial(_lasso, 0.02, 0)),
        _placed("Lasso, 200 x 5,000, 0.1", "held-out", partial(_lasso, 0.1, 1)),
        _placed("ridge regression, 5,000 x 500", "held-out", partial(_ridge, 0)),
        _placed("wide ridge, 200 x 400", "tuning", partial(_wide_ridge, 200, 400)),
        _placed("wide ridge, 500 x 5,000", "held-out", partial(_wide_ridge, 500, 5_000)),
        _placed(
            "tall, log, 60,000 x 60, 0.1",
            "tuning",
            partial(_tall, "logistic", 60_000, 60, 0.0, 0.1),
        ),
        _placed(
            "tall, log, 20,000 x 300, 0.1",
            "tuning",
            partial(_tall, "logistic", 20_000, 300, 0.6, 0.1),
        ),
        _placed(
            "tall, huber, 8,000 x 1,000, 0.3",
            "tuning",
            partial(_tall, "huber", 8_000, 1_000, 0.3, 0.3),
        ),
        _placed(
            "tall, hinge, 4,000 x 800, 0.05",
            "tuning",
            partial(_tall, "squared_hinge", 4_000, 800, 0.9, 0.05),
        ),
    )
}


# --- real sets ---------------------------------------------------------------------------------


def _text(name: str, **penalty: Any) -> Instance:
    X, y = load(name)
    return Instance(name="", X=X, y=signs(y == 0), loss="logistic", intercept=True, **penalty)


def _topics(name: str, l2: float) -> Instance:
    X, y = load(name)
    return Instance(name="", X=X, y=y.astype(float), loss="multinomial", penalty="l2", l2=l2)


def _images(name: str, scale: float, **penalty: Any) -> Instance:
    """One class against the rest; pixels are 0 … 255, or 0 … 1."""
    X, y = load(name)
    return Instance(name="", X=X / scale, y=signs(y == 8), loss="logistic", **penalty)


def _ten_images(name: str, scale: float, l2: float) -> Instance:
    X, y = load(name)
    return Instance(
        name="", X=X / scale, y=y.astype(float), loss="multinomial", penalty="l2", l2=l2
    )


def _genes(name: str, share: float, penalty: Any) -> Instance:
    X, y = load(name)
    y = signs(y >= 5) if name == "leukemia" else signs(y == y.max())
    found = Instance(
        name="", X=standardised(X), y=y, loss="logistic", penalty=penalty, intercept=True
    )
    if penalty == "l2":
        return found.with_(l2=share)
    return found.with_(l1=share * largest_strength(found))


def real_entries() -> dict[str, Entry]:
    """Problems on the sets that are there; the commands that fetch the others are printed."""
    there = available()
    for name in SOURCES:
        if name not in there:
            print(f"{name} is missing: {commands(name)}")
    found: list[Entry] = []
    parts: tuple[tuple[str, Part], ...]
    parts = ("reuters", "tuning"), ("fortunes", "held-out")
    for name, part in (pair for pair in parts if pair[0] in there):
        for l1 in (1e-4, 1e-5):
            build = partial(_text, name, penalty="l1", l1=l1)
            found.append(_placed(f"{name}, l1 {l1:g}, b", part, build))
        build = partial(_text, name, penalty="l2", l2=1e-4)
        found.append(_placed(f"{name}, l2 1e-4, b", part, build))
        found.append(_placed(f"{name}, ten, l2 1e-4", part, partial(_topics, name, 1e-4)))
    parts = ("mnist", "tuning"), ("clothes", "held-out")
    for name, part in (pair for pair in parts if pair[0] in there):
        net = {"penalty": "elastic_net", "l1": 1e-4, "l2": 1e-4}
        found.append(_placed(f"{name}, en 1e-4", part, partial(_images, name, 255.0, **net)))
        found.append(_placed(f"{name} raw, en 1e-4", part, partial(_images, name, 1.0, **net)))
        ridge = partial(_images, name, 255.0, penalty="l2", l2=1e-4)
        found.append(_placed(f"{name}, l2 1e-4", part, ridge))
        found.append(_placed(f"{name}, ten, l2 1e-3", part, partial(_ten_images, name, 255.0, 1e-3)))  # fmt: skip
        found.append(_placed(f"{name} raw, ten, l2 1", part, partial(_ten_images, name, 1.0, 1.0)))
    parts = ("golub", "tuning"), ("leukemia", "held-out"), ("bladder", "held-out")
    for name, part in (pair for pair in parts if pair[0] in there):
        found += [
            _placed(f"{name}, l1 {share:g}, b", part, partial(_genes, name, share, "l1"))
            for share in (0.2, 0.01)
        ]
        found.append(_placed(f"{name}, l2 0.01, b", part, partial(_genes, name, 0.01, "l2")))
    return {entry.name: entry for entry in found}
