"""The methods of ``examples/methods``: each against the formulas in numpy, short, resumed, and refused where wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import examples.methods as methods
import reshuffle as rs
from reshuffle.federated import FederatedSolver, Local
from reshuffle.orders import shuffled
from reshuffle.randomness import Stream, generator
from reshuffle.solvers import Epoch, Method, Solver

Array = NDArray[np.float64]
L1, L2, RIDGE = 0.01, 0.03, 0.02
RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 6)) * (RNG.random((40, 6)) < 0.7)
Y = np.where(X @ RNG.standard_normal(6) + 0.3 * RNG.standard_normal(40) > 0, 1.0, -1.0)
LIST: Any = [0.0] * 6
FOLDER = Path(methods.__file__).parent


def problem(layout: Any = sp.csr_matrix) -> rs.Problem:
    return rs.Problem(layout(X), Y, penalty=rs.penalties.ElasticNet(L1, L2), ridge=RIDGE)


# --- the formulas, in numpy alone ----------------------------------------------------------------


def slope(i: int, x: Array) -> float:
    return float(-Y[i] / (1.0 + np.exp(Y[i] * (X[i] @ x))))


def grad(i: int, x: Array) -> Array:
    """∇f_i without the ridge."""
    return np.asarray(slope(i, x) * X[i])


def full(x: Array, rows: Any = range(40)) -> Array:
    """∇f over some rows, the ridge included."""
    return np.asarray(np.mean([grad(i, x) for i in rows], axis=0) + RIDGE * x)


def prox(x: Array, step: float, l2: float = L2) -> Array:
    return np.sign(x) * np.maximum(np.abs(x) - step * L1, 0.0) / (1.0 + step * l2)


def order(seed: int, epoch: int) -> Any:
    return shuffled(np.arange(40, dtype=np.uint32), generator(seed, epoch))


def svrg(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    y = x.copy()
    mean = full(y) - RIDGE * y
    for i in order(seed, t):
        x = prox(x - g * (grad(i, x) - grad(i, y) + mean), g, L2 + RIDGE)
    return x


def sarah(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    v = full(x) - RIDGE * x
    for i in order(seed, t):
        new = prox(x - g * v, g, L2 + RIDGE)
        v = v + grad(i, new) - grad(i, x)
        x = new
    return x


def momentum(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    y = x + 0.4 * (x - state.get("before", x))
    state["before"] = x
    for i in order(seed, t):
        y = y - g * (grad(i, y) + RIDGE * y)
    return prox(y, 40 * g)


def proxskip(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    h, p = state.get("h", np.zeros(6)), 0.3
    for _ in range(generator(seed, t).geometric(p)):
        x = x - g * (full(x) - h)
    after = prox(x - g / p * h, g / p)
    state["h"] = h + p / g * (after - x)
    return after


SINGLE: list[tuple[Any, Callable[..., Array]]] = [
    (methods.SvrgRR(step=0.3), svrg),
    (methods.SarahRR(step=0.1), sarah),
    (methods.MomentumRR(step=0.02, beta=0.4), momentum),
    (methods.ProxSkip(step=0.5, probability=0.3), proxskip),
]


@pytest.mark.parametrize(("solver", "reference"), SINGLE)
@pytest.mark.parametrize("layout", [sp.csr_matrix, np.ascontiguousarray])
def test_a_method_is_its_formula(solver: Any, reference: Any, layout: Any) -> None:
    x, state, seed = np.zeros(6), dict[str, Array](), 3
    for t in range(5):
        x = reference(x, state, t, solver.step, seed)
    found = replace(solver, epochs=5, seed=seed).solve(problem(layout))
    np.testing.assert_allclose(found.x, x, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("solver", "reference"), SINGLE)
def test_a_method_converges_and_resumes_to_the_same_bits(solver: Any, reference: Any) -> None:
    task, long = problem(), replace(solver, epochs=3000, tol=1e-9, check_every=10)
    if isinstance(solver, methods.MomentumRR):  # one prox per epoch: it stays at a distance
        long = replace(long, epochs=30, tol=0.0)
    whole = long.solve(task)
    half = long.solve(task, callbacks=[lambda r: r.epoch == 7])
    assert long.solve(task, resume=half).digest == whole.digest
    assert whole.converged or long.tol == 0


def test_without_momentum_it_is_proxrr_to_the_bit() -> None:
    common: Any = {"epochs": 6, "step": rs.steps.InverseTime(), "seed": 2}
    ours = methods.MomentumRR(beta=0.0, **common).solve(problem())
    assert ours.digest == rs.ProxRR(**common).solve(problem()).digest


# --- federated -------------------------------------------------------------------------------------

CLIENTS = [list(range(0, 12)), list(range(12, 20)), list(range(20, 40))]


def federation() -> rs.federated.Federation:
    return rs.federated.split(problem(), by=CLIENTS)


def local_orders(seed: int, t: int) -> list[list[int]]:
    starts = np.cumsum([0, *map(len, CLIENTS)])
    return [
        [rows[k] for k in shuffled(np.arange(len(rows), dtype=np.uint32), Stream(seed, t).at(int(a)))]
        for rows, a in zip(CLIENTS, starts[:-1], strict=True)
    ]  # fmt: skip


def nastya(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    eta, models = 0.7, []
    for rows in local_orders(seed, t):
        y = x.copy()
        for i in rows:
            y = y - g * (grad(i, y) + RIDGE * y)
        models.append(y)
    move = (x - np.mean(models, axis=0)) / (g * 40 / 3)
    return prox(x - eta * move, eta)


def feddr(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    y = state.setdefault("y", [np.zeros(6) for _ in CLIENTS])
    found = []
    for rows, own in zip(CLIENTS, y, strict=True):
        tau, z = g * len(rows), x.copy()
        largest = 0.25 * np.linalg.norm(X[rows], 2) ** 2 / len(rows) + RIDGE
        for _ in range(4):
            z = z - (full(z, rows) + (z - own) / tau) / (largest + 1 / tau)
        found.append(z)
    x = prox(np.mean([2 * z - own for z, own in zip(found, y, strict=True)], axis=0), g * 40 / 3)
    state["y"] = [own + x - z for z, own in zip(found, y, strict=True)]
    return x


def scaffnew(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    h, p = state.setdefault("h", [np.zeros(6) for _ in CLIENTS]), 0.25
    count, found = generator(seed, t, 2).geometric(p), []
    taus = [g / p * 3 * len(rows) / 40 for rows in CLIENTS]
    for rows, own, tau in zip(CLIENTS, h, taus, strict=True):
        z = x.copy()
        for _ in range(count):
            z = z - tau * p * (full(z, rows) - own)
        found.append(z)
    moved = [z - tau * own for z, own, tau in zip(found, h, taus, strict=True)]
    x = prox(np.mean(moved, axis=0), g / p)
    state["h"] = [own + (x - z) / tau for z, own, tau in zip(found, h, taus, strict=True)]
    return x


def scaffold(x: Array, state: Any, t: int, g: float, seed: int) -> Array:
    h, found = state.setdefault("h", [np.zeros(6) for _ in CLIENTS]), []
    for rows, own in zip(local_orders(seed, t), h, strict=True):
        z, fixed = x.copy(), own - RIDGE * x
        for i in rows:
            z = z - g * (grad(i, z) - fixed)
        found.append(z)
    sizes = np.array([len(rows) for rows in CLIENTS])
    c = [own + (x - z) / (g * size) for own, z, size in zip(h, found, sizes, strict=True)]
    mean = sum(size / 40 * one for size, one in zip(sizes, c, strict=True))
    state["h"] = [one - mean for one in c]
    return prox(np.mean(found, axis=0), g * 40 / 3)


FEDERATED: list[tuple[Any, Callable[..., Array]]] = [
    (methods.Nastya(step=0.01, server_step=0.7), nastya),
    (methods.FedDR(step=0.05, local_steps=4), feddr),
    (methods.Scaffnew(step=0.2, communication=0.25), scaffnew),
    (methods.Scaffold(step=0.01), scaffold),
]


@pytest.mark.parametrize(("solver", "reference"), FEDERATED)
def test_a_federated_method_is_its_formula(solver: Any, reference: Any) -> None:
    x, state, seed = np.zeros(6), dict[str, Any](), 4
    for t in range(5):
        x = reference(x, state, t, solver.step.value, seed)
    found = replace(solver, rounds=5, seed=seed).solve(federation())
    np.testing.assert_allclose(found.x, x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", [methods.FedDR(step=0.05), methods.Scaffnew()])
def test_exact_ones_reach_the_pooled_solution(solver: Any) -> None:
    result = replace(solver, rounds=5000, tol=1e-9, check_every=20).solve(federation())
    assert result.converged
    whole = replace(solver, rounds=9).solve(federation())
    half = replace(solver, rounds=9).solve(federation(), callbacks=[lambda r: r.epoch == 4])
    assert replace(solver, rounds=9).solve(federation(), resume=half).digest == whole.digest


def test_nastya_with_the_servers_step_of_fedrr_is_fedrr() -> None:
    step = 0.01
    ours = methods.Nastya(step=step, server_step=step * 40 / 3, rounds=5).solve(federation())
    theirs = rs.FedRR(step=step, rounds=5).solve(federation())
    np.testing.assert_allclose(ours.x, theirs.x, rtol=0, atol=1e-14)


# --- the shape ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_method_is_one_short_file_of_public_parts(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 40
    assert "._" not in text
    assert "import _" not in text


def test_a_method_needs_no_more_than_an_epoch() -> None:
    class Plain(Method):
        def advance(self, state: Any, epoch: int, step: float) -> Epoch:
            x = state["x"].copy()
            self.problem.sweep(x, self.reshuffled(epoch), step)
            return Epoch({"x": self.problem.prox(x, step * self.problem.n)}, self.problem.n, 1)

    @dataclass(frozen=True, kw_only=True)
    class Own(Solver):
        method_class = Plain

    theirs = rs.ProxRR(epochs=4, seed=1).solve(problem())
    assert Own(epochs=4, seed=1).solve(problem()).digest == theirs.digest


def made(name: str, kind: type, **parts: Any) -> Any:
    decorate: Any = dataclass(frozen=True, kw_only=True)
    return decorate(type(name, (kind,), parts))


class _Returns(Method):
    given: Any = None

    def advance(self, state: Any, epoch: int, step: float) -> Any:
        return self.given(state)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda state: state, "advance must return an Epoch"),
        (lambda state: None, "advance must return an Epoch"),
        (lambda state: Epoch({}, 1, 1), 'advance must give a dict with "x"'),
        (lambda state: Epoch(dict(x=None), 1, 1), 'advance must give a dict with "x"'),  # noqa: C408
        (lambda state: Epoch(state | {"y": state["x"]}, 1, 1), "advance must give the arrays"),
        (lambda state: Epoch(state, "many", 1), "gradients of the Epoch"),  # type: ignore[arg-type]
        (lambda state: Epoch(state, 1, -1), "prox_evals of the Epoch"),
    ],
)
def test_what_an_epoch_returns_wrongly_is_named(given: Any, message: str) -> None:
    kind = type("Odd", (_Returns,), {"given": staticmethod(given)})
    own = made("Own", Solver, method_class=kind)
    with pytest.raises(rs.InputError, match=f"Odd: {message}"):
        own(epochs=2).solve(problem())


def test_what_a_method_lacks_is_named() -> None:
    class Lacking(Method):
        pass

    class Narrow(_Returns):
        def __init__(self, problem: Any) -> None:
            super().__init__(problem)

    for kind, message in (
        (Narrow, r"Narrow: __init__ must take \(problem, solver\)"),
        (Lacking, "Lacking must have advance"),
        (None, "Own must have method_class"),
        (dict, "Own must have method_class"),
    ):
        own = made("Own", Solver, method_class=kind)
        with pytest.raises(rs.InputError, match=message):
            own().solve(problem())


def test_what_a_federated_method_lacks_or_returns_wrongly_is_named() -> None:
    def solver(**parts: Any) -> Any:
        return made("Own", FederatedSolver, **parts)(rounds=2, retries=0)

    with pytest.raises(rs.InputError, match="Own must have local_class"):
        solver().solve(federation())
    with pytest.raises(rs.InputError, match="Idle must have work"):
        solver(local_class=type("Idle", (Local,), {})).solve(federation())
    for found in (None, [1.0], np.zeros(3), "model"):
        idle = type("Idle", (Local,), {"work": lambda self, *_, found=found: found})
        with pytest.raises((rs.InputError, rs.ClientError), match="Idle: work must return shape"):
            solver(local_class=idle).solve(federation())


def test_slopes_and_sweeps_of_ones_own_are_checked() -> None:
    task, visits = problem(), np.arange(40, dtype=np.uint32)
    table, g = task.slopes(np.zeros(6))
    assert task.slopes(np.ones(6))[0] == pytest.approx([slope(i, np.ones(6)) for i in range(40)])
    np.testing.assert_allclose(g, full(np.zeros(6)), atol=1e-15)
    for wrong, message in (
        ({"visits": visits + 1}, "visits must lie"),
        ({"table": table[:-1]}, "table must be"),
        ({"table": np.zeros((40, 2))}, "table must be"),
        ({"drift": g[:-1]}, "drift must"),
        ({"x": np.zeros(5)}, "x must be"),
    ):
        given: Any = {"x": np.zeros(6), "visits": visits, "table": table, "drift": g} | wrong
        with pytest.raises(rs.InputError, match=message):
            task.corrected_sweep(step=0.1, **given)
    with pytest.raises(rs.InputError, match="no compiled form"):
        _ = rs.Problem(X, Y, penalty=rs.penalties.SLOPE(0.1, np.ones(6))).compiled_penalty
    several = rs.Problem(X, np.arange(40) % 3, loss=rs.losses.Multinomial())
    with pytest.raises(rs.InputError, match="one output"):
        _ = several.functions


def test_a_corrected_sweep_is_the_same_for_functions_known_by_their_gradients() -> None:
    compiled = problem()
    oracle = rs.OracleProblem(
        n=40,
        dim=6,
        gradient=lambda i, x: grad(i, x) + RIDGE * x,
        value=lambda x: 0.0,
        smoothness=1.0,
    )
    visits, ends = order(1, 0), []
    for task in (compiled, oracle):
        x = np.full(6, 0.3)
        table, g = task.slopes(x)
        task.corrected_sweep(x, visits, 0.05, table, g)
        ends.append(x)
    expected, y = np.full(6, 0.3), np.full(6, 0.3)
    mean = np.mean([grad(i, y) for i in range(40)], axis=0)
    for i in visits:
        expected = expected - 0.05 * (grad(i, expected) - grad(i, y) + mean)
    np.testing.assert_allclose(ends[0], expected, atol=1e-14)
    assert np.linalg.norm(ends[1] - expected) > 1e-4  # there the ridge is inside the functions
