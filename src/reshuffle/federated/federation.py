"""The pooled problem, seen as the sum of its clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from reshuffle.content import digest
from reshuffle.errors import InputError
from reshuffle.objective import Array, FiniteSum, Objective, check_penalty
from reshuffle.penalties import Penalty
from reshuffle.smoothness import Smoothness


class Federation(Objective):
    """P(x) = (1/N) Σ_m F_m(x) + R(x), with F_m the sum of client m's N_m functions.

    Made by ``split``, or from one problem per client. Its objective, gradient and solution are those of
    the pooled data, which is what the methods are measured by. The methods themselves see one client at
    a time.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> north, south = rs.Problem(X[:200], y[:200]), rs.Problem(X[200:], y[200:])
    >>> sites = rs.federated.Federation([north, south], penalty=rs.penalties.L2(0.01))
    >>> sites.n, sites.sizes.tolist()
    (569, [200, 369])
    """

    def __init__(self, clients: Sequence[FiniteSum], penalty: Penalty | None = None) -> None:
        if isinstance(clients, (str, Mapping)) or not isinstance(clients, Sequence):
            kind = type(clients).__name__
            raise InputError(f"clients must be a list with one problem per client, got a {kind}")
        if not clients:
            raise InputError("clients must not be empty")
        first = clients[0]
        for number, client in enumerate(clients):
            if not isinstance(client, FiniteSum):
                raise InputError(f"client {number} must be a problem, got {type(client).__name__}")
            if client.shape != first.shape or client.ridge != first.ridge:
                raise InputError(
                    f"client {number} has an unknown of shape {client.shape} and ridge "
                    f"{client.ridge:g}, client 0 has {first.shape} and {first.ridge:g}"
                )
        self.clients = tuple(clients)
        self.penalty = first.penalty if penalty is None else check_penalty(penalty)
        self.shape, self.ridge = first.shape, first.ridge
        self.sizes = np.array([client.n for client in clients])
        self.n = int(self.sizes.sum())

    @property
    def features(self) -> int:
        return self.clients[0].features

    def __repr__(self) -> str:
        loss = getattr(self.clients[0], "loss", None)
        about = "" if loss is None else f"loss={loss!r}, "
        return (
            f"<Federation: {len(self.clients)} clients with {self.sizes.min()} to "
            f"{self.sizes.max()} samples, {self.n} in all, unknown of shape {self.shape}, "
            f"{about}penalty={self.penalty!r}>"
        )

    def value(self, x: Array) -> float:
        values = [client.value(x) for client in self.clients]
        return float(self.sizes @ np.array(values) / self.n)

    def gradient(self, x: Array) -> Array:
        total = np.zeros(self.shape)
        for client in self.clients:
            total += client.n / self.n * client.gradient(x)
        return total

    @cached_property
    def smoothness(self) -> Smoothness:
        parts = [client.smoothness for client in self.clients]
        products = [p for p in (part.curvature_product for part in parts) if p is not None]
        shares = self.sizes / self.n

        def product(v: Array) -> Array:
            total = np.zeros(len(v))
            for share, curvature in zip(shares, products, strict=True):
                total += share * curvature(v)
            return total

        def measure() -> Array:
            return np.concatenate([part.individual for part in parts])

        known = len(products) == len(parts)
        return Smoothness(measure, product if known else None, self.shape[0])

    def compile(self, *, gradient: bool = False) -> None:
        self.clients[0].compile(gradient=gradient)

    @property
    def signature(self) -> tuple[object, ...]:
        return (Federation, self.clients[0].signature)

    def contents(self) -> Mapping[str, str]:
        """One digest of all clients in their order: another split is another problem."""
        clients = digest(*(dict(client.fingerprint) for client in self.clients))
        return {"clients": clients, "penalty": digest(self.penalty)}
