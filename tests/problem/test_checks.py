"""``reshuffle.testing``: every part of the package passes, and every planted mistake is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.solvers import Epoch, Method, Solver
from reshuffle.testing import CheckFailed, check_loss, check_method, check_penalty

ITERATIVE = {"OverlappingGroupLasso", "LatentGroupLasso"}
MATRICES = {"NuclearNorm", "PSDCone"}
OUTSIDE = {"FromCvxpy", "FromPyproximal"}
"""Other libraries' proxes, whose accuracy nobody bounds."""
EXAMPLES = [
    (example, shape)
    for kind in rs.penalties.PENALTIES
    if hasattr(kind, "examples") and kind.__name__ not in OUTSIDE
    for shape in [(4, 4) if kind.__name__ in MATRICES else (6,)]
    for example in kind.examples(shape)
]


@pytest.mark.parametrize(("penalty", "shape"), EXAMPLES, ids=lambda v: type(v).__name__)
def test_penalties_of_the_package_pass(penalty: Any, shape: tuple[int, ...]) -> None:
    tol = 1e-5 if type(penalty).__name__ in ITERATIVE else 1e-7
    assert "prox" in check_penalty(penalty, shape, tol=tol, trials=5)


class Own:
    """A ridge and a lasso, right unless a subclass breaks it."""

    def value(self, x: Any) -> float:
        return float(0.4 * np.abs(x).sum())

    def prox(self, x: Any, step: float) -> Any:
        return np.sign(x) * np.maximum(np.abs(x) - 0.4 * step, 0.0)


def soft(x: Any, threshold: float) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)


def broken(**functions: Any) -> Any:
    return type("Broken", (Own,), functions)()


def in_place(self: Any, x: Any, step: float) -> Any:
    x[:] = soft(x, 0.4 * step)
    return x


PENALTY_MISTAKES: dict[str, tuple[Any, str]] = {
    "step forgotten": (broken(prox=lambda self, x, step: soft(x, 0.4)), "forgot its step"),
    "step inverted": (broken(prox=lambda self, x, step: soft(x, 0.4 / step)), "divides by its step"),
    "step squared": (broken(prox=lambda self, x, step: soft(x, 0.4 * step**2)), "takes its step twice"),
    "factor 2": (broken(prox=lambda self, x, step: soft(x, 0.8 * step)), "twice as much as value"),
    "factor ½": (broken(prox=lambda self, x, step: soft(x, 0.2 * step)), "half as much as value"),
    "nothing": (broken(prox=lambda self, x, step: x.copy()), "does nothing"),
    "hard": (broken(prox=lambda self, x, step: np.where(np.abs(x) > 0.4 * step, x, 0.0)), "does not minimise"),
    "in place": (broken(prox=in_place), "changes the x that it is given"),
    "not convex": (broken(value=lambda self, x: -float(np.abs(x).sum()), prox=lambda self, x, step: x + step * np.sign(x)), "not convex|does not minimise"),
    "too strong": (broken(strong_convexity=0.5), "strong_convexity = 0.5 of Broken is too large"),
    "λ_max": (broken(lambda_max=lambda self, g: float(np.abs(g).max() / 0.2)), "lambda_max.* too large"),
    "conjugate": (broken(has_dual=lambda self, shape, ridge=0.0: True, dual_scale=lambda self, g, ridge=0.0: 1.0, conjugate=lambda self, g, ridge=0.0: -1.0), "too small"),
    "infinite": (broken(value=lambda self, x: np.inf), "a prox lies where the penalty is finite"),
}  # fmt: skip


def test_the_unbroken_one_passes() -> None:
    assert check_penalty(Own()) == ["same", "prox", "convex"]


@pytest.mark.parametrize("mistake", PENALTY_MISTAKES)
def test_mistakes_of_a_penalty_are_named(mistake: str) -> None:
    penalty, words = PENALTY_MISTAKES[mistake]
    with pytest.raises(CheckFailed, match=words):
        check_penalty(penalty)


@pytest.mark.parametrize(
    "loss", [example for kind in rs.losses.LOSSES for example in kind.examples()], ids=repr
)
def test_losses_of_the_package_pass(loss: Any) -> None:
    assert "derivative" in check_loss(loss)


def loss_with(**functions: Any) -> Any:
    parts = {
        "value": lambda z, y: 0.5 * (z - y) ** 2,
        "derivative": lambda z, y: z - y,
        "second": lambda z, y: 1.0,
        "conjugate": lambda s, y: 0.5 * s * s + s * y,
    } | functions
    made = {n: staticmethod(f) if callable(f) else f for n, f in parts.items()}
    return type("Mine", (rs.losses.Loss,), {"curvature": 1.0, **made})()


def logistic(z: float, y: float) -> float:
    return float(np.log1p(np.exp(-y * z)))


LOSS_MISTAKES: dict[str, tuple[Any, str]] = {
    "sign": (loss_with(derivative=lambda z, y: y - z), "has the wrong sign"),
    "factor": (loss_with(derivative=lambda z, y: 2 * (z - y)), "2 times the slope"),
    "other": (loss_with(derivative=lambda z, y: np.tanh(z - y)), "is not the slope of value"),
    "lacks y": (loss_with(targets="signs", value=logistic, derivative=lambda z, y: -1 / (1 + np.exp(y * z))), "lacks the factor y"),
    "curvature": (loss_with(curvature=0.25), "curvature = 0.25 .* too small"),
    "second": (loss_with(second=lambda z, y: 2.0), "second.* not the slope of derivative"),
    "conjugate": (loss_with(conjugate=lambda s, y: 0.5 * s * s - s * y), "conjugate.* must be sz"),
    "not convex": (loss_with(value=lambda z, y: -np.cos(z), derivative=lambda z, y: np.sin(z)), "not convex"),
    "overflow": (loss_with(value=lambda z, y: np.float64(z * np.tanh(z) / (1 if abs(z) < 30 else 0.0)), derivative=lambda z, y: np.tanh(z) + z / np.cosh(z) ** 2), "not finite|fails at"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mistake", LOSS_MISTAKES)
def test_mistakes_of_a_loss_are_named(mistake: str) -> None:
    loss, words = LOSS_MISTAKES[mistake]
    with pytest.raises(CheckFailed, match=words):
        check_loss(loss)


@pytest.mark.parametrize(
    "solver",
    [rs.ProxRR(epochs=60), rs.ProxSGD(epochs=200), rs.FISTA(epochs=50), rs.ExactProxRR(epochs=20)],
    ids=lambda s: type(s).__name__,
)
def test_methods_of_the_package_pass(solver: Any) -> None:
    assert check_method(solver)[-1] == "minimiser"


class Gradients(Method):
    """Proximal gradient descent, right unless a subclass breaks it."""

    times: float = 1.0
    """What the step of the prox is multiplied by."""

    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        problem, x = self.problem, state["x"].copy()
        x -= step * problem.gradient(x)
        return Epoch({"x": problem.prox(x, self.times * step)}, gradients=problem.n, prox_evals=1)


class TooLong(Gradients):
    times = 60.0


class TooShort(Gradients):
    times = 1.0 / 60.0


class Twice(Gradients):
    times = 2.0


class NoProx(Gradients):
    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        x = state["x"] - step * self.problem.gradient(state["x"])
        return Epoch({"x": x}, gradients=self.problem.n, prox_evals=0)


class Ascent(Gradients):
    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        x = state["x"] + 50 * step * self.problem.gradient(state["x"]) + 0.3 * state["x"]
        return Epoch({"x": x}, gradients=self.problem.n, prox_evals=1)


class InPlace(Gradients):
    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        x = state["x"]
        x -= step * self.problem.gradient(x)
        return Epoch({"x": self.problem.prox(x, step)}, gradients=self.problem.n, prox_evals=1)


class Random(Gradients):
    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        noise = 1e-3 * np.random.default_rng().standard_normal(state["x"].shape)
        done = super().advance(state, epoch, step)
        return replace(done, state={"x": done.state["x"] + noise})


class Hidden(Gradients):
    """Momentum that is kept outside the state."""

    last: Any = None

    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        x = state["x"]
        ahead = x if self.last is None else x + 0.5 * (x - self.last)
        self.last = x
        return super().advance({"x": ahead}, epoch, step)


class Uncounted(Gradients):
    def advance(self, state: Any, epoch: int, step: float) -> Epoch:
        return replace(super().advance(state, epoch, step), gradients=0)


def solver_of(kind: type[Method], epochs: int = 150) -> Any:
    @dataclass(frozen=True, kw_only=True)
    class Mine(Solver):
        method_class = kind
        step: Any = None

    return Mine(epochs=epochs)


def test_a_method_of_ones_own_passes() -> None:
    assert check_method(solver_of(Gradients))[-1] == "minimiser"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (NoProx, "the prox of the penalty is missing"),
        (TooLong, "a step n times too long"),
        (TooShort, "a step n times too short|the prox of the penalty is missing"),
        (Twice, "the penalty counts twice"),
        (Ascent, "diverges with its own step"),
        (InPlace, "advance changes x of the state"),
        (Random, "gives a different result when it is run again"),
        (Hidden, "does not continue where it stopped"),
        (Uncounted, "evaluated no gradient"),
    ],
    ids=lambda v: v.__name__ if isinstance(v, type) else "",
)
def test_mistakes_of_a_method_are_named(kind: type[Method], words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_method(solver_of(kind))


def test_a_method_that_is_only_slow_is_told_so() -> None:
    slow = solver_of(Gradients, epochs=2)
    with pytest.raises(CheckFailed, match="too short for these epochs"):
        check_method(type(slow)(epochs=2, step=1e-6))
