"""The corpus: named problems, made when asked for: half to tune on, half held out, and a third part drawn anew with each version.

A line of ``LINES`` is data, loss, penalty, share, and ``b`` for an intercept. The share is a part of λ_max (at the best
intercept) for ℓ1, elastic net, non-negative and group lasso; of the largest mean square of a column for ℓ2; and of the
coefficient that brings a column of its length to the targets for a box. Every problem here has a minimiser (the digits,
even against odd, without a penalty have none: some pixels are dark in all images of one kind).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

import reshuffle as rs
from benchmarks.corpus_data import DATA, Size, rows_of
from benchmarks.glm_losses import GlmName
from benchmarks.instances import Instance, LossName, PenaltyName, largest_strength, mean_squares
from benchmarks.random_problems import random_problem
from benchmarks.reported import REPORTED

__all__ = ["CORPUS", "FRESH", "PRACTICE", "Entry", "random_problem"]

HALVES_SEED = (
    2022  # of the split into halves; a name alone decides, so that new names move no other
)
FRESH_PROBLEMS = 12  # of the part that is drawn anew with each version
PRACTICE_PROBLEMS = 30  # of the same kinds, to tune on
RIDGE_SHARE = 0.1  # λ2 of an elastic net over its λ1, columns having length 1

SHORT: dict[str, LossName | GlmName] = {
    "log": "logistic", "sq": "squared", "hub": "huber", "hinge": "squared_hinge", "mult": "multinomial",
    "pois": "poisson", "gam": "gamma", "twee": "tweedie", "negb": "negative_binomial", "clog": "cloglog", "prob": "probit",
}  # fmt: skip
PENALTY: dict[str, PenaltyName] = {
    "0": "zero", "l1": "l1", "l2": "l2", "en": "elastic_net", "box": "box", "nn": "non_negative",
    "gl": "group_lasso",
}  # fmt: skip


Part = Literal["tuning", "held-out", "fresh"]


@dataclass(frozen=True)
class Entry:
    """A named problem that is built when it is asked for."""

    name: str
    size: Size
    build: Callable[[], Instance]

    part: Part | None = None
    """Its part where the name does not decide."""

    @property
    def half(self) -> Part:
        """Which part of the corpus it is in: tune on the one, report the others."""
        if self.part is not None:
            return self.part
        digest = hashlib.sha256(f"{HALVES_SEED} {self.name}".encode()).digest()
        return "tuning" if digest[0] % 2 else "held-out"


def composed(name: str, line: str) -> Instance:
    """The problem of a line of ``LINES``."""
    data, loss, penalty, share, *rest = (part.strip() for part in line.split(","))
    X, y = rows_of(data)
    kind = PENALTY[penalty]
    found = Instance(name=name, X=X, y=y, loss=SHORT[loss], penalty=kind, intercept="b" in rest)
    part, d = float(share), X.shape[1]
    lengths = np.sqrt(mean_squares(X))
    lengths = np.where(lengths > 0, lengths, 1.0)
    if kind == "group_lasso":
        labels: Any = None if loss == "mult" else np.arange(d, dtype=np.int64) // 3
        found = found.with_(labels=labels)
        return found.with_(strength=part * largest_strength(found))
    if kind == "l2":
        return found.with_(l2=part * float(lengths.max()) ** 2)
    if kind == "box":
        reach = float(np.abs(y).max()) if loss in ("sq", "hub") else 1.0
        bound: Any = part * reach / lengths
        bound = bound[:, None] if loss == "mult" else bound
        return found.with_(lower=-bound, upper=bound)
    l1 = part * largest_strength(found)
    l2 = RIDGE_SHARE * part * float(lengths.max()) ** 2 if kind == "elastic_net" else 0.0
    return found.with_(l1=l1 if kind != "zero" else 0.0, l2=l2)


LINES = """
iris, mult, l1, 0.01, b
iris, mult, en, 0.001, b
iris, mult, gl, 0.1
iris std, mult, l2, 0.0001, b
iris std, mult, nn, 0.001
iris versicolor, log, l1, 0.0001, b
iris versicolor, log, 0, 0, b
iris versicolor, hinge, 0, 0, b
iris versicolor, hinge, box, 0.5
wine, mult, l1, 0.01, b
wine, mult, l2, 0.0001
wine std, mult, en, 0.01, b
wine std, mult, gl, 0.05, b
wine std, mult, box, 0.3
wine 0, log, en, 0.001, b
wine 0, hinge, l1, 0.01, b
wine 0 std, log, l1, 0.001
wine 0 std, hinge, 0, 0, b
wine 0 std, hinge, l2, 0.001, b
cancer, log, l1, 0.1, b
cancer, log, l1, 0.001, b
cancer, log, nn, 0.01, b
cancer, hinge, l2, 0.0001, b
cancer, hinge, box, 0.2, b
cancer, log, gl, 0.05, b
cancer std, log, l1, 0.5, b
cancer std, log, l1, 0.01
cancer std, log, l1, 0.0001, b
cancer std, log, l2, 0.01
cancer std, log, l2, 0.0001, b
cancer std, hinge, l1, 0.001, b
cancer std, hinge, gl, 0.01
cancer std, log, box, 0.5
digits, mult, l1, 0.1, b
digits, mult, en, 0.01
digits std, mult, l1, 0.01
digits std, mult, l2, 0.001, b
digits std, mult, gl, 0.1
digits even, log, l1, 0.01, b
digits even, hinge, l1, 0.001, b
digits even, log, nn, 0.001
digits 8, log, en, 0.001, b
digits 8, log, l1, 0.0001, b
digits 8, hinge, box, 0.1, b
digits value, sq, l1, 0.001, b
digits value, sq, 0, 0, b
digits value, hub, l1, 0.01
digits value, sq, gl, 0.01, b
diabetes, sq, l1, 0.1, b
diabetes, sq, l1, 0.0001
diabetes, hub, l2, 0.01, b
diabetes, sq, nn, 0.01, b
diabetes, sq, 0, 0, b
diabetes raw, sq, 0, 0, b
diabetes raw, sq, en, 0.01, b
diabetes raw, hub, l1, 0.001, b
diabetes raw, hub, 0, 0, b
diabetes raw, sq, box, 0.2, b
diabetes std, sq, l1, 0.5
diabetes std, sq, l1, 0.001, b
diabetes std, hub, 0, 0
diabetes std, hub, gl, 0.05, b
linnerud weight, sq, 0, 0, b
linnerud weight, sq, l1, 0.1, b
linnerud weight, hub, l1, 0.001
linnerud waist, sq, l2, 0.0001, b
linnerud waist, sq, nn, 0.01
linnerud pulse std, hub, en, 0.01, b
linnerud pulse std, sq, gl, 0.1, b
a1a, log, l1, 0.01
a1a, log, l1, 0.0001, b
a1a, hinge, en, 0.01, b
a1a, log, gl, 0.1
a1a, log, nn, 0.001, b
a9a, log, l1, 0.1
a9a, log, l1, 0.001, b
a9a, hinge, l1, 0.01
a9a, log, l2, 0.0001, b
mushrooms, log, l1, 0.1
mushrooms, log, en, 0.001, b
mushrooms, hinge, l2, 0.0001
mushrooms, log, box, 0.5, b
dense, log, l2, 0.0001
dense, log, nn, 0.001, b
dense, hinge, gl, 0.05
tall, log, l1, 0.01
tall, hinge, en, 0.001, b
tall, log, 0, 0, b
text, log, l1, 0.01, b
text, log, l2, 0.001, b
text, hinge, en, 0.001
images, log, en, 0.001
images, log, l2, 0.0001, b
images, hinge, l1, 0.01, b
genes, log, l1, 0.1, b
genes, log, l2, 0.001, b
genes real, sq, l1, 0.02
broad, log, l2, 0.0002
broad real, sq, l2, 0.001
wide, log, l1, 0.5
wide, log, l1, 0.01, b
wide, hinge, en, 0.05
wide, log, gl, 0.1, b
wide real, sq, l1, 0.5
wide real, sq, l1, 0.001, b
wide real, hub, en, 0.01
wide real, sq, l2, 0.001
wide real, sq, nn, 0.05, b
tall real, sq, l1, 0.01, b
tall real, hub, 0, 0, b
tall real, hub, box, 0.02
heavy real, hub, l1, 0.1, b
heavy real, sq, box, 0.05
heavy real, hub, nn, 0.001
classes, mult, 0, 0, b
classes, mult, l1, 0.05
classes wide, mult, en, 0.05, b
classes wide, mult, gl, 0.3
years, log, l1, 0.001, b
years, hinge, 0, 0, b
years, log, nn, 0.01, b
years real, sq, l1, 0.0001, b
years real, hub, l2, 0.0001, b
years real, sq, box, 1, b
years classes, mult, l2, 0.001, b
long row, log, l2, 0.0001, b
long row, hinge, l1, 0.001
long row real, sq, l1, 0.0001, b
long row real, hub, en, 0.0001
row lengths, log, l1, 0.001, b
row lengths, hinge, l2, 0.0001
row lengths real, sq, l1, 0.01
row lengths real, hub, 0, 0, b
column scales, log, l1, 0.0001, b
column scales, log, box, 0.5
column scales, hinge, 0, 0, b
column scales real, sq, 0, 0, b
column scales real, sq, l1, 0.0001
column scales real, hub, nn, 0.0001, b
duplicates, log, l1, 0.01, b
duplicates, log, 0, 0
duplicates real, sq, en, 0.001
duplicates real, sq, 0, 0, b
constant, log, l2, 0.001, b
constant, log, l1, 0.01, b
correlated, log, l1, 0.001, b
correlated, hinge, gl, 0.01, b
correlated real, sq, l1, 0.0001, b
correlated real, sq, 0, 0
imbalanced, log, l1, 0.01, b
imbalanced, log, 0, 0, b
imbalanced, hinge, en, 0.001, b
near separable, log, l1, 0.0001, b
near separable, log, 0, 0
sparse, log, l1, 0.05
sparse, log, en, 0.01, b
sparse narrow, hinge, l1, 0.02
sparse narrow, log, l1, 0.01, b
sparse large, log, l1, 0.05
sparse large, hinge, en, 0.05, b
sparse heavy, log, l1, 0.01
sparse wide, log, l1, 0.5, b
sparse wide, hinge, l1, 0.05
tiny 2, log, l2, 0.0001, b
tiny 3, hinge, l1, 0.01
tiny 3, log, en, 0.001, b
tiny 4 real, sq, l1, 0.001, b
tiny 5 real, hub, l2, 0.0001
diabetes raw, gam, 0, 0, b
diabetes raw, pois, l1, 0.01, b
diabetes units, gam, l1, 0.05, b
diabetes units, twee, l2, 0.001, b
diabetes units, negb, l1, 0.01, b
digits value, pois, l1, 0.01, b
digits value, twee, en, 0.001, b
linnerud weight, gam, l2, 0.001, b
cancer std, prob, l1, 0.01, b
cancer std, prob, l2, 0.001, b
cancer std, clog, l1, 0.01, b
imbalanced, clog, 0, 0, b
a1a, prob, l1, 0.01, b
a1a, clog, l2, 0.001, b
claims counts, pois, 0, 0, b
claims counts, pois, l1, 0.05, b
claims counts, negb, l1, 0.01, b
claims costs, gam, 0, 0, b
claims costs, gam, l1, 0.05, b
claims costs, gam, l2, 0.0001, b
claims, twee, 0, 0, b
claims, twee, l1, 0.01, b
claims, twee, l2, 0.0001, b
"""


def _corpus() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for line in filter(None, LINES.splitlines()):
        data = line.split(",")[0]
        found[line] = Entry(line, DATA[data].size, partial(composed, line, line))
    for name, (size, build) in REPORTED.items():
        found[name] = Entry(name, size, build)
    return found


def drawn(key: str, count: int, part: Part) -> dict[str, Entry]:
    """Lines of text, images and expression whose sizes, seeds and shares a key decides."""
    found: dict[str, Entry] = {}
    rng = np.random.default_rng(list(key.encode()))
    for number in range(count):
        kind = ("text", "images", "genes")[number % 3]
        loss = str(rng.choice(["log", "hinge"]))
        penalty = str(rng.choice(["l1", "en", "l2"]))
        share, seed = float(rng.choice([0.1, 0.01, 0.001])), int(rng.integers(1 << 30))
        line = f"{kind} {seed}, {loss}, {penalty}, {share:g}, b"
        found[line] = Entry(line, "large", partial(composed, line, line), part)
    return found


CORPUS = _corpus()
PRACTICE = drawn("practice", PRACTICE_PROBLEMS, "tuning")
"""Problems of the same kinds as the fresh ones, on which constants may be tuned."""
FRESH = drawn(rs.__version__, FRESH_PROBLEMS, "fresh")
"""A new release has new problems, so that no constant can have been tuned on them."""
