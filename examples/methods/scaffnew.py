"""Scaffnew (Mishchenko, Malinovsky, Stich, Richtárik 2022): x ← x - γ(∇f_m(x) - h_m) on client m until
a coin with probability p says stop, then the server of ``ControlVariates``."""

from dataclasses import dataclass

from reshuffle.federated import ControlVariates, FederatedSolver, Load, Local
from reshuffle.randomness import generator


@dataclass(frozen=True)
class Descent(Local):
    seed: int
    steps: float  # their number, or its mean where it is drawn: then the same for all clients
    drawn: bool = True

    def count(self, number):
        drawn = generator(self.seed, number, 2).geometric(1.0 / self.steps)
        return int(drawn) if self.drawn else round(self.steps)

    def load(self, client):
        return Load(0, self.steps, client.smoothness.L_f)

    def gradients(self, visits, samples, number):
        return samples * self.count(number)

    def work(self, client, x, step, number, rng, control):
        for _ in range(self.count(number)):
            x -= step * (client.gradient(x) - control)
        return x


@dataclass(frozen=True, kw_only=True)
class Scaffnew(FederatedSolver):
    server_class, needs_all = ControlVariates, True
    communication: float | None = None  # p, √(μ/L) where not given

    def local(self, federation):
        largest = max(client.smoothness.L_f for client in federation.clients)
        p = self.communication or min(1.0, (federation.strong_convexity / largest) ** 0.5)
        return Descent(self.seed, 1.0 / p)
