"""The constants of a federation: M clients, the f_{mj} of each, one penalty R for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum
from reshuffle.penalties.abilities import check_convex, strong_convexity
from reshuffle.theory.components import components
from reshuffle.validation import check_start


@dataclass(frozen=True, eq=False)
class ClientConstants:
    """The constants of the federated theorems, for (1/N) Σ_m F_m(x) + R(x) with F_m = Σ_j f_mj."""

    sizes: NDArray[np.int64]
    """N_m, the samples of each client."""
    grad_norms: Array
    """‖∇F_m(x*)‖ of each client; F_m is a sum, not a mean."""
    sigma_sq: Array
    """σ_{m,*}² = (1/N_m) Σ_{j ≤ N_m} ‖∇f_mj(x*) - ∇F_m(x*)/N_m‖² of each client."""
    L_max: float
    mu_f: float
    """Strong convexity of every f_mj."""
    mu_R: float
    """Strong convexity of R."""
    r0: float
    """‖x_0 - x*‖²."""
    x_star: Array = field(repr=False)

    @property
    def M(self) -> int:
        """The number of clients."""
        return int(self.sizes.size)

    @property
    def N(self) -> int:
        """The number of samples of all clients together."""
        return int(self.sizes.sum())

    @property
    def n(self) -> int:
        """max_m N_m, the number of functions of the reformulation on the product space."""
        return int(self.sizes.max())

    @property
    def sigma_star_sq(self) -> float:
        """σ*² = (1/N) Σ_m Σ_j ‖∇f_mj(x*)‖², as in the theorem for homogeneous data."""
        squares = self.sizes * self.sigma_sq + self.grad_norms**2 / self.sizes
        return float(squares.sum() / self.N)

    @property
    def radius_bound(self) -> float:
        """Lemma 'fed_sigma': σ_rad² ≤ L_max Σ_m (‖∇F_m(x*)‖² + (n/4)σ_{m,*}²)."""
        return float(self.L_max * np.sum(self.grad_norms**2 + self.n / 4.0 * self.sigma_sq))


def client_constants(
    clients: Sequence[FiniteSum], x_star: object, *, x0: object = None
) -> ClientConstants:
    """The constants of a federation at x*; each client is a problem made of its samples.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> from reshuffle import theory
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> whole = rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L2(0.25))
    >>> clients = [whole.take(np.array(rows, dtype=np.uint32)) for rows in ([0, 1], [2, 3])]
    >>> c = theory.client_constants(clients, theory.solve(whole))
    >>> c.M, c.N, c.n, c.grad_norms.round(3)
    (2, 4, 2, array([1.118, 2.5  ]))
    """
    if not clients:
        raise InputError("clients must hold at least one problem")
    first = clients[0]
    if any(client.shape != first.shape for client in clients):
        raise InputError("clients must have unknowns of one shape")
    check_convex(first.penalty, "the theory")
    point = check_start(x_star, first.shape)
    means = np.array([np.sum(client.gradient(point) ** 2) for client in clients])
    squares = np.array([components(client, point).squared_norms().mean() for client in clients])
    sizes = np.array([client.n for client in clients], dtype=np.int64)
    whole = first.features == first.shape[0]
    return ClientConstants(
        sizes=sizes,
        grad_norms=sizes * np.sqrt(means),
        sigma_sq=np.maximum(squares - means, 0.0),
        L_max=max(client.smoothness.L_max for client in clients),
        mu_f=min(client.ridge for client in clients) if whole else 0.0,
        mu_R=strong_convexity(first.penalty) if whole else 0.0,
        r0=float(np.sum((check_start(x0, first.shape) - point) ** 2)),
        x_star=point,
    )
