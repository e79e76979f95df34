"""The data of the corpus, by name: real sets raw and standardised, and generated ones with one trouble each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn.datasets as skd
from numpy.typing import NDArray

import reshuffle as rs

Array = NDArray[np.float64]
Size = Literal["small", "medium", "large"]
Rows = tuple[Any, Array]


class Data(NamedTuple):
    """How to make X and y, and how much there is of them."""

    make: Callable[[], Rows]
    size: Size
    """By stored values: below 20,000, below 300,000 and more."""


def standardised(X: Array) -> Array:
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def signs(condition: Any) -> Array:
    return np.where(condition, 1.0, -1.0)


@cache
def rows_of(name: str) -> Rows:
    """X and y of a set, made once; the name of a kind and a seed is a set that is drawn."""
    kind, _, seed = name.partition(" ")
    if kind in DRAWN and seed.isdigit():
        return DRAWN[kind](int(seed))
    return DATA[name].make()


def _bundled(
    load: Callable[..., Rows], targets: Callable[[Array], Array], raw: bool
) -> Callable[[], Rows]:
    def make() -> Rows:
        X, y = load(return_X_y=True)
        return (X.astype(float) if raw else standardised(X)), targets(y)

    return make


def _linnerud(column: int, raw: bool) -> Callable[[], Rows]:
    def make() -> Rows:
        X, Y = skd.load_linnerud(return_X_y=True)
        return (X if raw else standardised(X)), Y[:, column].copy()

    return make


def _raw_diabetes() -> Rows:
    X, y = skd.load_diabetes(return_X_y=True, scaled=False)
    return X, y


def _libsvm(name: str) -> Callable[[], Rows]:
    return lambda: rs.datasets.load_libsvm(name)


def _claims(seed: int, what: Literal["count", "total", "mean cost"]) -> Rows:
    """Policies of an insurer: categories as columns of zeros and ones, and numbers; claims, what they cost, or the mean cost of those with some."""
    rng, n = np.random.default_rng(seed), 20_000
    parts = [np.eye(k)[rng.choice(k, n, p=rng.dirichlet(np.full(k, 2.0)))][:, 1:] for k in (6, 11, 22)]  # fmt: skip
    X = np.column_stack([*parts, standardised(rng.gamma(2.0, 1.0, (n, 4)))])
    count = rng.poisson(np.exp(-1.5 + X @ (0.25 * rng.standard_normal(X.shape[1]))))
    mean = np.exp(1.0 + X @ (0.2 * rng.standard_normal(X.shape[1])))
    total = np.where(count > 0, rng.gamma(np.maximum(count, 1) * 2.0, mean / 2.0), 0.0)
    if what != "mean cost":
        return X, (count if what == "count" else total).astype(float)
    some = count > 0
    return X[some], total[some] / count[some]


Change = Callable[[Array, np.random.Generator], Array]


def _binary(n: int, d: int, seed: int, change: Change | None = None, noise: float = 1.0) -> Rows:
    """Labels of a sparse linear model with noise; then the trouble is put into the rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = rng.standard_normal(d) * (rng.random(d) < 0.4)
    y = signs(X @ truth + noise * rng.standard_normal(n) > 0)
    return (X if change is None else change(X, rng)), y


def _real(n: int, d: int, seed: int, change: Change | None = None, heavy: bool = False) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = rng.standard_normal(d) * (rng.random(d) < 0.3)
    y = X @ truth + (rng.standard_t(2, size=n) if heavy else rng.standard_normal(n))
    return (X if change is None else change(X, rng)), y


def _classes(n: int, d: int, k: int, seed: int, change: Change | None = None) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal((d, k)) + 2 * rng.standard_normal((n, k))).argmax(axis=1)
    y[:k] = np.arange(k)
    return (X if change is None else change(X, rng)), y.astype(float)


def _years(X: Array, rng: np.random.Generator) -> Array:
    X[:, 0] = 1990 + rng.integers(0, 30, size=len(X))
    return X


def _one_long_row(X: Array, rng: np.random.Generator) -> Array:
    X[17] *= 1e6
    return X


def _row_lengths(X: Array, rng: np.random.Generator) -> Array:
    return np.asarray(X * rng.lognormal(sigma=2.0, size=(len(X), 1)))


def _column_scales(X: Array, rng: np.random.Generator) -> Array:
    return np.asarray(X * 10.0 ** rng.uniform(-4, 4, size=X.shape[1]))


def _duplicates(X: Array, rng: np.random.Generator) -> Array:
    half = X.shape[1] // 2
    X[:, half : 2 * half] = X[:, :half]
    return X


def _constant(X: Array, rng: np.random.Generator) -> Array:
    X[:, 1] = 3.0
    return X


def _correlated(X: Array, rng: np.random.Generator) -> Array:
    return X + 5.0 * rng.standard_normal((len(X), 1))


def _imbalanced(n: int, d: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, signs(X[:, 0] + rng.standard_normal(n) > 2.9)  # 2% of the labels


def _near_separable() -> Rows:
    X, _ = _binary(200, 10, 31)
    y = signs(X[:, 0] + X[:, 1] > 0)
    y[:2] *= -1.0
    return X, y


def _sparse(n: int, d: int, stored: int, seed: int, dtype: Any = np.float64) -> Callable[[], Rows]:
    return lambda: rs.datasets.synthetic(n, d, stored=stored, seed=seed, dtype=dtype)


def _heavy_sparse() -> Rows:
    X, y = rs.datasets.synthetic(20_000, 500, stored=15, seed=42)
    X.data *= np.repeat(np.random.default_rng(42).lognormal(sigma=1.5, size=20_000), 15)
    return X, y


def _wide_sparse() -> Rows:
    """FINDINGS A6: 100 × 50,000."""
    rng = np.random.default_rng(7)
    X = sp.random(100, 50_000, density=0.002, random_state=rng, format="csr")
    return X, signs(rng.random(100) < 0.5)


def _text(seed: int) -> Rows:
    """Rows of length 1 with words whose frequencies fall like a power, and labels that a tenth of the words decide."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3_000, 8_000)), int(rng.integers(5_000, 20_000))
    lengths = np.maximum(rng.lognormal(3.7, 0.6, size=n).astype(np.int64), 3)
    rank = np.arange(1, d + 1)
    words = rng.choice(
        d, size=int(lengths.sum()), p=(1.0 / (rank + 5.0)) / np.sum(1.0 / (rank + 5.0))
    )
    owner = np.repeat(np.arange(n), lengths)
    X: Any = sp.csr_matrix((np.ones(words.size), (owner, words)), shape=(n, d))
    X.data = 1.0 + np.log(X.data)
    seen = np.bincount(X.indices, minlength=d)
    X = X @ sp.diags(1.0 + np.log(n / (1.0 + seen)))
    X = sp.csr_matrix(sp.diags(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    truth = rng.standard_normal(d) * (rng.random(d) < 0.1)
    return X, signs(X @ truth + 0.3 * rng.standard_normal(n) > 0)


def _images(seed: int) -> Rows:
    """Smooth grey pictures between 0 and 1, dark at the edges, of two classes with different blots."""
    rng = np.random.default_rng(seed)
    n, side = int(rng.integers(3_000, 6_000)), 20
    across = np.arange(side)
    y = signs(rng.random(n) < 0.3)
    X = np.zeros((n, side, side))
    for blot in range(4):
        centre = rng.uniform(6, 14, size=2) + rng.standard_normal((n, 2)) * 1.5
        centre[:, 0] += np.where(y > 0, 1.5, 0.0) * (blot == 0)
        width = rng.uniform(1.2, 2.5, size=n)
        far = (across - centre[:, :1]) ** 2, (across - centre[:, 1:]) ** 2
        X += np.exp(-(far[0][:, :, None] + far[1][:, None, :]) / (2 * width**2)[:, None, None])
    X[X < 0.1] = 0.0
    return np.minimum(X, 1.0).reshape(n, -1), y


def _genes(seed: int, real: bool = False) -> Rows:
    """Few samples of many standardised columns, which a dozen hidden factors correlate."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 150)), int(rng.integers(2_000, 8_000))
    hidden = rng.standard_normal((n, 12))
    loadings = rng.standard_normal((12, d)) * (rng.random((12, d)) < 0.2)
    X = standardised(hidden @ loadings + rng.standard_normal((n, d)))
    score = hidden[:, 0] + hidden[:, 1] + 0.5 * rng.standard_normal(n)
    return X, (score if real else signs(score > 0))


DRAWN: dict[str, Callable[[int], Rows]] = {"text": _text, "images": _images, "genes": _genes}


def _tiny(n: int, real: bool) -> Callable[[], Rows]:
    def make() -> Rows:
        rng = np.random.default_rng(n)
        X = rng.standard_normal((n, 2))
        return X, (rng.standard_normal(n) if real else signs(np.arange(n) % 2))

    return make


DATA: dict[str, Data] = {
    "iris": Data(_bundled(skd.load_iris, lambda y: y.astype(float), True), "small"),
    "iris std": Data(_bundled(skd.load_iris, lambda y: y.astype(float), False), "small"),
    "iris versicolor": Data(_bundled(skd.load_iris, lambda y: signs(y == 1), True), "small"),
    "wine": Data(_bundled(skd.load_wine, lambda y: y.astype(float), True), "small"),
    "wine std": Data(_bundled(skd.load_wine, lambda y: y.astype(float), False), "small"),
    "wine 0": Data(_bundled(skd.load_wine, lambda y: signs(y == 0), True), "small"),
    "wine 0 std": Data(_bundled(skd.load_wine, lambda y: signs(y == 0), False), "small"),
    "cancer": Data(_bundled(skd.load_breast_cancer, lambda y: signs(y == 1), True), "small"),
    "cancer std": Data(_bundled(skd.load_breast_cancer, lambda y: signs(y == 1), False), "small"),
    "digits": Data(_bundled(skd.load_digits, lambda y: y.astype(float), True), "medium"),
    "digits std": Data(_bundled(skd.load_digits, lambda y: y.astype(float), False), "medium"),
    "digits even": Data(_bundled(skd.load_digits, lambda y: signs(y % 2 == 0), True), "medium"),
    "digits 8": Data(_bundled(skd.load_digits, lambda y: signs(y == 8), False), "medium"),
    "digits value": Data(_bundled(skd.load_digits, lambda y: y.astype(float), True), "medium"),
    "diabetes": Data(_bundled(skd.load_diabetes, lambda y: y, True), "small"),
    "diabetes raw": Data(_raw_diabetes, "small"),
    "diabetes std": Data(
        _bundled(skd.load_diabetes, lambda y: (y - y.mean()) / y.std(), False), "small"
    ),
    "diabetes units": Data(_bundled(skd.load_diabetes, lambda y: y, False), "small"),
    "claims": Data(lambda: _claims(57, "total"), "large"),
    "claims counts": Data(lambda: _claims(57, "count"), "large"),
    "claims costs": Data(lambda: _claims(57, "mean cost"), "medium"),
    "linnerud weight": Data(_linnerud(0, True), "small"),
    "linnerud waist": Data(_linnerud(1, True), "small"),
    "linnerud pulse std": Data(_linnerud(2, False), "small"),
    "a1a": Data(_libsvm("a1a"), "medium"),
    "a9a": Data(_libsvm("a9a"), "large"),
    "mushrooms": Data(_libsvm("mushrooms"), "medium"),
    "dense": Data(lambda: _binary(300, 20, 5), "small"),
    "tall": Data(lambda: _binary(20_000, 40, 8), "large"),
    "wide": Data(lambda: _binary(60, 400, 9), "medium"),
    "wide real": Data(lambda: _real(60, 400, 10), "medium"),
    "tall real": Data(lambda: _real(20_000, 40, 11, heavy=True), "large"),
    "heavy real": Data(lambda: _real(500, 20, 12, heavy=True), "small"),
    "classes": Data(lambda: _classes(400, 15, 4, 13), "small"),
    "classes wide": Data(lambda: _classes(60, 200, 3, 14), "small"),
    "years": Data(lambda: _binary(300, 6, 15, _years), "small"),
    "years real": Data(lambda: _real(300, 6, 16, _years), "small"),
    "years classes": Data(lambda: _classes(300, 6, 3, 17, _years), "small"),
    "long row": Data(lambda: _binary(300, 10, 18, _one_long_row), "small"),
    "long row real": Data(lambda: _real(300, 10, 19, _one_long_row), "small"),
    "row lengths": Data(lambda: _binary(500, 20, 20, _row_lengths), "small"),
    "row lengths real": Data(lambda: _real(500, 20, 21, _row_lengths), "small"),
    "column scales": Data(lambda: _binary(300, 20, 22, _column_scales), "small"),
    "column scales real": Data(lambda: _real(300, 20, 23, _column_scales), "small"),
    "duplicates": Data(lambda: _binary(300, 20, 24, _duplicates), "small"),
    "duplicates real": Data(lambda: _real(300, 20, 25, _duplicates), "small"),
    "constant": Data(lambda: _binary(300, 10, 26, _constant), "small"),
    "correlated": Data(lambda: _binary(300, 20, 27, _correlated), "small"),
    "correlated real": Data(lambda: _real(300, 20, 28, _correlated), "small"),
    "imbalanced": Data(lambda: _imbalanced(2_000, 10, 29), "medium"),
    "near separable": Data(_near_separable, "small"),
    "sparse": Data(_sparse(5_000, 1_000, 20, 32), "medium"),
    "sparse narrow": Data(_sparse(5_000, 1_000, 20, 33, np.float32), "medium"),
    "sparse large": Data(_sparse(40_000, 800, 25, 34), "large"),
    "sparse heavy": Data(_heavy_sparse, "large"),
    "sparse wide": Data(_wide_sparse, "small"),
    "text": Data(lambda: _text(51), "large"),
    "images": Data(lambda: _images(52), "large"),
    "genes": Data(lambda: _genes(53), "large"),
    "genes real": Data(lambda: _genes(54, True), "large"),
    "broad": Data(lambda: _binary(5_000, 500, 55), "large"),
    "broad real": Data(lambda: _real(5_000, 500, 56), "large"),
    "tiny 2": Data(_tiny(2, False), "small"),
    "tiny 3": Data(_tiny(3, False), "small"),
    "tiny 4 real": Data(_tiny(4, True), "small"),
    "tiny 5 real": Data(_tiny(5, True), "small"),
}
