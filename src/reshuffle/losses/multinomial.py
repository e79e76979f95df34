from __future__ import annotations

from math import exp, log
from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array, Labels, Mask
from reshuffle.losses.base import Loss

NEAR = 1e-13  # A mismatch below this share of all weights has no visible effect on the gap.
TURNS = 4  # The most steps of Newton's method, each of which doubles the number of correct digits.


class Multinomial(Loss):
    """l(z, y) = log Σ_k exp(z_k) - z_y for a class y in {0, …, K-1} (softmax regression).

    The unknown is a matrix with one column per class, and the last row its intercepts if there are
    any. The Hessian diag(p) - ppᵀ has norm at most 1/2.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> problem = rs.Problem(np.ones((4, 1)), [0, 1, 2, 2], loss=rs.losses.Multinomial())
    >>> problem.shape
    (1, 3)
    >>> rs.ExactProxRR().solve(problem).converged
    True
    """

    core = "multinomial"
    curvature = 0.5
    self_concordance = 1.0
    targets: ClassVar[str] = "classes"
    vector = True
    probabilities = True

    @staticmethod
    def value(z: Array, y: int) -> float:
        top = z[0]
        for k in range(1, z.size):
            top = max(top, z[k])
        total = 0.0
        for k in range(z.size):
            total += exp(z[k] - top)
        loss: float = log(total) + (top - z[y])
        return loss

    @staticmethod
    def derivative(z: Array, y: int) -> Array:
        top = z[0]
        for k in range(1, z.size):
            top = max(top, z[k])
        total = 0.0
        for k in range(z.size):
            z[k] = exp(z[k] - top)
            total += z[k]
        for k in range(z.size):
            z[k] /= total
        z[y] -= 1.0
        return z

    @staticmethod
    def second(z: Array, y: int) -> Array:
        top = z[0]
        for k in range(1, z.size):
            top = max(top, z[k])
        total = 0.0
        for k in range(z.size):
            z[k] = exp(z[k] - top)
            total += z[k]
        for k in range(z.size):
            z[k] /= total
        return z

    @staticmethod
    def conjugate(s: Array, y: int) -> float:
        total = 0.0
        for k in range(s.size):
            p = s[k] + (1.0 if k == y else 0.0)
            if p > 0.0:
                total += p * log(p)
        return total

    @staticmethod
    def recedes(z: Array, y: Labels, clear: float) -> Mask:
        own = own_classes(z, y)
        others: Array = np.where(own, -np.inf, z)
        ahead: Array = np.where(own, z, 0.0).sum(axis=1) - others.max(axis=1)
        return ahead > clear

    @staticmethod
    def balanced(slopes: Array, y: Labels, weights: Array) -> Array:
        """Slopes near these with Σ_i w_i s_i = 0, as a dual point with an intercept has them.

        A slope is p - e_y with probabilities p. Let M_k be the weighted sum of p_k, N_k the weight of class k
        and W that of all. First the margins of all samples are shifted by some δ (another intercept), by Newton's method for
        M = N. Of what is left, with t the least number for which (1 - t)M ≤ N, the probabilities
        (1 - t)p + (N - (1 - t)M)/W have the sums N. At the minimiser M = N, and nothing changes.
        """
        own = own_classes(slopes, y)
        w = weights if weights.size else np.ones_like(slopes[:, 0])
        wanted: Array = np.where(own, w[:, None], 0.0).sum(axis=0)
        p = _shifted(slopes + own, w, wanted)
        sums = w @ p
        with np.errstate(over="ignore"):
            kept = min(1.0, float(np.min(wanted / np.maximum(sums, np.finfo(float).tiny))))
        moved: Array = kept * p + (wanted - kept * sums) / w.sum()
        return moved - own

    @staticmethod
    def oracle(z: Array, y: Labels) -> Array:
        most: Array = z.max(axis=-1)
        own = np.take_along_axis(z, np.asarray(y)[..., None], axis=-1)[..., 0]
        total: Array = np.exp(z - most[..., None]).sum(axis=-1)
        return np.log(total) + (most - own)


def own_classes(table: Array, y: Labels) -> Mask:
    """Whether k is the class of sample i, for an n × K table; it lies where the table does, also on a graphics card."""
    classes = np.cumsum(np.ones_like(table[0])) - 1.0
    own: Mask = y[:, None] == classes
    return own


def _shifted(p: Array, w: Array, wanted: Array) -> Array:
    """p_ik e^{δ_k}/Σ_l p_il e^{δ_l}, with a δ for which the weighted sums over i are those wanted, or nearer to them.

    They are the gradient of Σ_i w_i log Σ_k p_ik e^{δ_k}, whose Hessian is Σ_i w_i (diag(p_i) - p_i p_iᵀ).
    """
    sums = w @ p
    off = np.abs(sums - wanted).max()
    for _ in range(TURNS):
        if not off > NEAR * wanted.sum():
            break
        # The last term makes it regular along the vector of ones, in which softmax is flat.
        hessian = np.diag(sums) - (w[:, None] * p).T @ p + wanted.mean() / wanted.size
        try:
            delta = np.linalg.solve(hessian, wanted - sums)
        except np.linalg.LinAlgError:  # a class that no sample has, or none is thought to have
            break
        if not np.abs(delta).max() < 1.0:
            break
        factors = np.exp(delta)
        moved = p * factors
        moved /= (p @ factors)[:, None]
        sums = w @ moved
        left = np.abs(sums - wanted).max()
        if not left < off:
            break
        p, off = moved, left
    return p
