"""A problem as plain arrays and numbers, from which both the package and independent solvers build theirs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq

from benchmarks import glm_losses
from benchmarks.glm_losses import DISPERSION, POWER, GlmName

if TYPE_CHECKING:
    import reshuffle as rs

Array = NDArray[np.float64]
Numbers = float | Array
LossName = Literal["logistic", "squared", "huber", "squared_hinge", "multinomial"]
PenaltyName = Literal["zero", "l1", "l2", "elastic_net", "box", "non_negative", "group_lasso"]
LOSSES: tuple[LossName, ...] = get_args(LossName)
"""Those that random problems have."""
PENALTIES: tuple[PenaltyName, ...] = get_args(PenaltyName)


def is_sparse(X: Any) -> bool:
    return bool(sp.issparse(X))


def mean_squares(X: Any) -> Array:
    """Of every column."""
    squares = X.multiply(X).mean(axis=0) if is_sparse(X) else (X * X).mean(axis=0)
    return np.asarray(squares, dtype=np.float64).ravel()


@dataclass(frozen=True, eq=False, kw_only=True)
class Instance:
    """min (1/n) Σ w_i l(a_iᵀx + b, y_i) + (ridge/2)‖x‖² + ψ(x), in plain data.

    ``labels`` are the groups of a group lasso, one for each coordinate (None: one for each row of a matrix
    unknown); ``strength`` is its factor. ``l1`` and ``l2`` may be arrays that broadcast against x.
    """

    name: str
    X: Any
    y: Array
    loss: LossName | GlmName
    penalty: PenaltyName = "zero"
    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower: Numbers = -np.inf
    upper: Numbers = np.inf
    strength: float = 0.0
    labels: NDArray[np.int64] | None = None
    group_weights: Array | None = None
    ridge: float = 0.0
    sample_weight: Array | None = None
    intercept: bool = False
    delta: float = 1.35  # the default of rs.losses.Huber

    @property
    def classes(self) -> int:
        """Columns of the unknown: 1 unless the loss is multinomial."""
        return int(self.y.max()) + 1 if self.loss == "multinomial" else 1

    @property
    def weights(self) -> Array:
        """The weights of the mean: they sum to 1."""
        n = self.X.shape[0]
        given = np.ones(n) if self.sample_weight is None else self.sample_weight
        scaled: Array = given / given.max()
        return np.asarray(scaled / scaled.sum())

    def problem(self) -> rs.Problem:
        """The package's problem: a fresh one, in which nothing is remembered from an earlier run."""
        import reshuffle as rs  # here alone, so that the references are made without the package

        losses: dict[LossName | GlmName, Any] = {
            "logistic": rs.losses.Logistic,
            "squared": rs.losses.Squared,
            "huber": lambda: rs.losses.Huber(self.delta),
            "squared_hinge": rs.losses.SquaredHinge,
            "multinomial": rs.losses.Multinomial,
            "poisson": rs.losses.Poisson,
            "gamma": rs.losses.Gamma,
            "tweedie": lambda: rs.losses.Tweedie(POWER),
            "negative_binomial": lambda: rs.losses.NegativeBinomial(DISPERSION),
            "cloglog": rs.losses.ComplementaryLogLog,
            "probit": rs.losses.Probit,
        }
        penalties: dict[PenaltyName, Any] = {
            "zero": rs.penalties.Zero,
            "l1": lambda: rs.penalties.L1(self.l1),
            "l2": lambda: rs.penalties.L2(self.l2),
            "elastic_net": lambda: rs.penalties.ElasticNet(self.l1, self.l2),
            "box": lambda: rs.penalties.Box(self.lower, self.upper),
            "non_negative": lambda: rs.penalties.NonNegative(self.l1, self.l2),
            "group_lasso": lambda: rs.penalties.GroupLasso(
                self.strength, groups=self.labels, weights=self.group_weights
            ),
        }
        return rs.Problem(
            self.X,
            self.y,
            loss=losses[self.loss](),
            penalty=penalties[self.penalty](),
            ridge=self.ridge,
            sample_weight=self.sample_weight,
            fit_intercept=self.intercept,
        )

    def digest(self) -> str:
        """A hash of everything but the name: what a cached minimum is kept under."""
        found = hashlib.sha256()
        for field in fields(self):
            if field.name == "name":
                continue
            value = getattr(self, field.name)
            parts = (value.data, value.indices, value.indptr) if is_sparse(value) else (value,)
            found.update(field.name.encode())
            for part in parts:
                if isinstance(part, np.ndarray):
                    found.update(f"{part.dtype}{part.shape}".encode())
                    found.update(np.ascontiguousarray(part).tobytes())
                else:
                    found.update(repr(part).encode())
        return found.hexdigest()[:32]

    def with_(self, **changes: Any) -> Instance:
        return replace(self, **changes)


def slopes_at_start(instance: Instance) -> tuple[Array, Array]:
    """w_i l'(b, y_i) and ∇f at x = 0, with the best intercept b where there is one."""
    y, w = instance.y, instance.weights
    if instance.loss == "multinomial":
        hot = np.eye(instance.classes)[y.astype(int)]
        share = w @ hot if instance.intercept else np.full(instance.classes, 1 / instance.classes)
        slopes = w[:, None] * (share - hot)
    else:

        def slope(b: float) -> Array:
            if instance.loss in glm_losses.GLMS:
                return glm_losses.slope(instance.loss, np.full(y.size, float(b)), y)
            if instance.loss == "logistic":
                return np.asarray(-y / (1 + np.exp(y * b)))
            if instance.loss == "squared_hinge":
                return np.asarray(-y * np.maximum(1 - y * b, 0))
            bound = instance.delta if instance.loss == "huber" else np.inf
            return np.clip(b - y, -bound, bound)

        b = 0.0
        if instance.intercept:
            # every loss has its least intercept between the targets, a logistic one within e^±40
            reach = float(np.abs(y).max()) if instance.loss in ("squared", "huber") else 40.0
            low, high = (float(w @ slope(end)) for end in (-reach, reach))
            b = float(brentq(lambda b: float(w @ slope(b)), -reach, reach)) if low < 0 < high else 0
        slopes = w * slope(b)
    return slopes, np.asarray(instance.X.T @ slopes, dtype=np.float64)


def largest_strength(instance: Instance) -> float:
    """λ_max: the least strength of an ℓ1 or group penalty at which x = 0 is the minimiser."""
    _, gradient = slopes_at_start(instance)
    if instance.penalty != "group_lasso":
        return float(np.abs(gradient).max())
    flat, labels = gradient.ravel(), instance.labels
    if labels is None:
        labels = np.repeat(np.arange(gradient.shape[0]), instance.classes)
    labels = np.append(labels, np.full(flat.size - labels.size, -1))
    sizes = np.bincount(labels[labels >= 0])
    norms = np.sqrt(np.bincount(labels[labels >= 0], flat[labels >= 0] ** 2))
    weights = np.sqrt(sizes) if instance.group_weights is None else instance.group_weights
    good = weights > 0
    return float((norms[good] / weights[good]).max())
