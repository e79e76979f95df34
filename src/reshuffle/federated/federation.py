"""The pooled problem, seen as the sum of its clients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from reshuffle.errors import InputError
from reshuffle.finite_sum import Array, FiniteSum, Visits, check_penalty
from reshuffle.penalties import Penalty
from reshuffle.smoothness import Smoothness


class Federation(FiniteSum):
    """P(x) = (1/N) Σ_m F_m(x) + R(x), with F_m the sum of client m's N_m functions.

    Made by ``split``, or from one problem per client. It is a problem like any other: its objective,
    gradient and solution are those of the pooled data, which is what the methods are measured by.
    The methods themselves see one client at a time.
    """

    def __init__(self, clients: Sequence[FiniteSum], penalty: Penalty | None = None) -> None:
        if not clients:
            raise InputError("clients must not be empty")
        first = clients[0]
        for number, client in enumerate(clients):
            if client.shape != first.shape or client.ridge != first.ridge:
                raise InputError(
                    f"client {number} has an unknown of shape {client.shape} and ridge "
                    f"{client.ridge:g}, client 0 has {first.shape} and {first.ridge:g}"
                )
        self.clients = tuple(clients)
        self.penalty = first.penalty if penalty is None else check_penalty(penalty)
        self.shape, self.penalised, self.ridge = first.shape, first.penalised, first.ridge
        self.sizes = np.array([client.n for client in clients])
        self.n = int(self.sizes.sum())

    def __repr__(self) -> str:
        sizes = f"{self.sizes.min()} to {self.sizes.max()}"
        first = repr(self.clients[0]).strip("<>").partition(", loss")[2]
        return (
            f"<Federation: {len(self.clients)} clients with {sizes} samples, {self.n} in all, "
            f"unknown of shape {self.shape}, loss{first}>"
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
        products = [part.curvature_product for part in parts]
        shares = self.sizes / self.n

        def product(v: Array) -> Array:
            total = np.zeros(len(v))
            for share, curvature in zip(shares, products, strict=True):
                assert curvature is not None
                total += share * curvature(v)
            return total

        known = all(curvature is not None for curvature in products)

        def measure() -> Array:
            return np.concatenate([part.individual for part in parts])

        return Smoothness(measure, self.ridge, product if known else None, self.shape[0])

    def compile(self, *, gradient: bool = False) -> None:
        self.clients[0].compile(gradient=gradient)

    def sweep(
        self,
        x: Array,
        visits: Visits,
        step: float,
        *,
        weights: Array | None = None,
        batch: int = 1,
        average: float = 1.0,
        prox_step: float = 0.0,
    ) -> None:
        raise InputError("the data of a federation is not in one place: use FedRR, not ProxRR")

    def take(self, order: Visits) -> FiniteSum:
        raise InputError("the data of a federation is not in one place: use FedRR, not ProxRR")
