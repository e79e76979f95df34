"""Nothing a user writes crashes Python: what an extension point returns is checked, and named.

Each point is given what a user may return by mistake; the answer is an ``InputError`` that names it, or the
right result. Orders that once killed the interpreter run in a process of their own.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.solvers import Check, Epoch, Method, Solver

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 4)), np.where(RNG.random(30) < 0.5, 1.0, -1.0)
Y[:2] = 1.0, -1.0

ODD: list[Any] = [
    None, "text", b"bytes", [], [1.0], {}, {"x": 1}, (1, 2), object(), 1j, True, -1, 10**30, np.nan, np.inf,
    np.zeros(3), np.zeros((4, 4)), np.zeros(4, dtype=complex), np.array([None] * 4, dtype=object),
    np.array(["a"] * 4), np.zeros(0), np.full(4, np.nan), (i for i in range(4)), lambda: 0, rs,
]  # fmt: skip
odd = st.sampled_from(range(len(ODD))).map(lambda k: ODD[k])
few = settings(max_examples=40)


def problem(**parts: Any) -> rs.Problem:
    return rs.Problem(X, Y, **parts)


def refused_or_right(solve: Any, name: str) -> Any:
    """The result of ``solve``, or ``None`` after an error that names the extension point."""
    try:
        return solve()
    except rs.InputError as error:
        told = str(error)
    assert name in told
    return None


# --- orders ------------------------------------------------------------------------------------


class Visiting:
    def __init__(self, visits: Any) -> None:
        self.given = visits

    def visits(self, pool: Any, rng: Any, epoch: int) -> Any:
        return self.given(pool, rng) if callable(self.given) else self.given


DANGEROUS = {
    "times": "pool * 100000",
    "before": "pool - 1",
    "beyond": "rng.integers(0, 10**6, pool.size)",
    "next": "pool + 1",
    "negative": "-pool.astype(np.int64) - 5",
    "floats": "pool.astype(float)",
    "list": "pool.tolist()",
    "few": "pool[:3]",
    "many": "np.concatenate([pool, pool])",
    "square": "pool[None]",
    "huge": "pool.astype(np.uint64) + 2**40",
}
SCRIPT = """
import numpy as np, reshuffle as rs
class Bad:
    def __init__(self, code):
        self.code = code
    def visits(self, pool, rng, epoch):
        return eval(self.code)
X, y = np.random.default_rng(0).standard_normal((30, 4)), np.where(np.arange(30) % 2, 1.0, -1.0)
p = rs.Problem(X, y, penalty=rs.penalties.L1(0.01))
clients = rs.federated.split(p, clients=3)
for name, code in DANGEROUS.items():
    bad = Bad(code)
    for solver, task in ((rs.ProxRR(order=bad, epochs=2), p), (rs.ExactProxRR(order=bad, finish=False), p),
                         (rs.FedRR(order=bad, rounds=2), clients)):
        print(name, end=": ", flush=True)
        try:
            solver.solve(task)
            print("answered")
        except (rs.InputError, rs.ClientError) as error:
            print("refused", "order Bad" in str(error))
"""


@pytest.fixture(scope="module")
def refusals() -> subprocess.CompletedProcess[str]:
    """What a process says of all of them; if one ends it, its name comes last."""
    code = f"DANGEROUS = {DANGEROUS!r}\n{SCRIPT}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", DANGEROUS)
def test_visits_out_of_range_never_reach_a_kernel(
    refusals: subprocess.CompletedProcess[str], name: str
) -> None:
    said = [line for line in refusals.stdout.splitlines() if line.startswith(f"{name}: ")]
    assert refusals.returncode == 0, refusals.stdout + refusals.stderr
    assert said == [f"{name}: refused True"] * 3, refusals.stdout


def test_visits_of_any_integer_type_are_taken() -> None:
    expected = rs.ProxRR(order=rs.orders.Cyclic(), epochs=2, step=0.1).solve(problem()).digest
    for dtype in (np.int8, np.int64, np.uint16, np.uint64):
        order = Visiting(lambda pool, rng, dtype=dtype: pool.astype(dtype))
        assert rs.ProxRR(order=order, epochs=2, step=0.1).solve(problem()).digest == expected


@few
@given(found=odd.filter(lambda v: not callable(v)))
def test_orders(found: Any) -> None:
    solver = rs.ProxRR(order=Visiting(found), epochs=1)
    assert refused_or_right(lambda: solver.solve(problem()), "order Visiting: visits") is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"visits": np.array([30])}, "visits must lie in 0"),
        ({"visits": [0, 1]}, "visits must be a 1-d array"),
        ({"step": np.nan}, "step must be"),
        ({"batch": 0}, "batch must be"),
        ({"weights": np.ones(3)}, "weights must"),
        ({"x": np.zeros(5)}, "x must be"),
        ({"x": np.zeros(4, dtype=np.float32)}, "x must be"),
        ({"x": np.zeros((4, 2))[:, 0]}, "x must be"),
    ],
)
def test_sweeps_of_ones_own(arguments: dict[str, Any], named: str) -> None:
    given_: dict[str, Any] = {"x": np.zeros(4), "visits": np.arange(3), "step": 0.1} | arguments
    x, visits, step = given_.pop("x"), given_.pop("visits"), given_.pop("step")
    with pytest.raises(rs.InputError, match=named):
        problem().sweep(x, visits, step, **given_)


# --- steps -------------------------------------------------------------------------------------


@few
@given(found=odd)
def test_steps(found: Any) -> None:
    for solver in (rs.ProxRR(step=lambda t: found, epochs=1), rs.ExactProxRR(step=lambda t: found)):
        try:
            result = refused_or_right(
                lambda solver=solver: solver.solve(problem()), "step at epoch"
            )
        except rs.DivergenceError:
            assert found == 10**30
        else:
            assert result is None or 0 < found < np.inf


# --- losses ------------------------------------------------------------------------------------


class Half(rs.losses.Loss):
    curvature = 1.0

    @staticmethod
    def value(z: Any, y: Any) -> Any:
        return 0.5 * (z - y) ** 2

    @staticmethod
    def derivative(z: Any, y: Any) -> Any:
        return z - y


class NoNumber(Half):
    @staticmethod
    def value(z: Any, y: Any) -> Any:
        return "text"


class NoSlope(Half):
    @staticmethod
    def derivative(z: Any, y: Any) -> Any:
        return (z, y)


class NotCompiled(Half):
    @staticmethod
    def derivative(z: Any, y: Any) -> Any:
        return {}[z].nothing


class WrongArguments(Half):
    @staticmethod
    def value(z: Any) -> Any:  # type: ignore[override]
        return z


@pytest.mark.parametrize("loss", [NoNumber(), NoSlope(), NotCompiled(), WrongArguments()])
def test_losses_that_cannot_be_compiled_are_named(loss: Any) -> None:
    for solver in (rs.ProxRR(epochs=1), rs.ExactProxRR(epochs=1), rs.FISTA(epochs=1)):
        with pytest.raises(rs.InputError, match=f"loss {type(loss).__name__}"):
            solver.solve(problem(loss=loss))


@pytest.mark.parametrize("bound", [None, "much", 0.0, -1.0, np.nan, True])
def test_a_curvature_that_is_none_is_named(bound: Any) -> None:
    loss = Half()
    loss.curvature = bound
    with pytest.raises(rs.InputError, match="curvature must be a positive number"):
        problem(loss=loss)


# --- penalties ---------------------------------------------------------------------------------


class Answering:
    def __init__(self, value: Any = 0.0, prox: Any = None) -> None:
        self.answer, self.moved = value, prox

    def value(self, x: Array) -> Any:
        return self.answer

    def prox(self, x: Array, step: float) -> Any:
        return x if self.moved is None else self.moved


@few
@given(found=odd)
def test_values_of_penalties(found: Any) -> None:
    task = problem(penalty=Answering(value=found))
    for solver in (rs.ProxRR(epochs=1), rs.ExactProxRR(epochs=2), rs.FISTA(epochs=2)):
        try:
            refused_or_right(
                lambda solver=solver: solver.solve(task), "value(x) of penalty Answering"
            )
        except rs.DivergenceError:
            assert not np.isfinite(float(found))


@few
@given(found=odd)
def test_proxes(found: Any) -> None:
    task = problem(penalty=Answering(prox=found))
    for solver in (rs.ProxRR(epochs=1), rs.ExactProxRR(epochs=2), rs.FISTA(epochs=2)):
        result = refused_or_right(
            lambda solver=solver: solver.solve(task), "prox(x, step) of penalty"
        )
        assert result is None or found is None


@few
@given(found=odd, where=st.sampled_from(["l1", "high", "all"]))
def test_compiled_forms(found: Any, where: str) -> None:
    """A kernel reads as many numbers as there are coordinates, wherever a form says they are."""

    class Compiled(rs.penalties.L1):
        def value(self, x: Array) -> float:
            return super().value(x)

        def prox(self, x: Array, step: float) -> Array:
            return super().prox(x, step)

        def compiled(self, shape: Any, ridge: float = 0.0) -> Any:
            form = super().compiled(shape, ridge)
            return found if where == "all" else form._replace(**{where: found})

    named = "compiled(shape, ridge) of penalty Compiled"
    made = refused_or_right(lambda: problem(penalty=Compiled(0.1)), named)
    assert made is None or (isinstance(found, np.ndarray) and found.shape == (4,))


def test_groups_out_of_range_never_reach_a_kernel() -> None:
    for change in (
        {"members": np.array([0, 1, 2, 99], dtype=np.uint32)},
        {"members": np.arange(4)},
        {"starts": np.array([0, 2, 9])},
        {"starts": np.array([0, 3, 1])},
        {"strengths": np.ones(7)},
        {"l2": None},
    ):

        class Grouped(rs.penalties.GroupLasso):
            change_ = change

            def value(self, x: Array) -> float:
                return super().value(x)

            def prox(self, x: Array, step: float) -> Array:
                return super().prox(x, step)

            def compiled(self, shape: Any, ridge: float = 0.0) -> Any:
                return super().compiled(shape, ridge)._replace(**self.change_)

        with pytest.raises(rs.InputError, match=r"compiled\(shape, ridge\) of penalty Grouped"):
            problem(penalty=Grouped(0.1, [0, 0, 1, 1]))


def test_a_prox_of_a_subclass_is_the_one_that_is_used() -> None:
    """The kernels know the prox of L1; what overrides it they leave to Python."""

    class Doubled(rs.penalties.L1):
        def value(self, x: Array) -> float:
            return 2.0 * super().value(x)

        def prox(self, x: Array, step: float) -> Array:
            return super().prox(x, 2.0 * step)

    twice = problem(penalty=rs.penalties.L1(0.04))
    for solver in (
        rs.ProxRR(prox="step", epochs=3, step=0.05),
        rs.ExactProxRR(tol=1e-10, epochs=5000),
    ):
        found = solver.solve(problem(penalty=Doubled(0.02))).x
        np.testing.assert_allclose(found, solver.solve(twice).x, atol=1e-4)


# --- oracles and finite sums -------------------------------------------------------------------


class Own(rs.FiniteSum):
    """Least squares, sample by sample: no more than a finite sum must have."""

    n, shape = 30, (4,)

    def value(self, x: Array) -> Any:
        return 0.5 * np.mean((X @ x - Y) ** 2)

    def component(self, i: int, x: Array) -> Any:
        return X[i] * (X[i] @ x - Y[i])

    @property
    def smoothness(self) -> rs.Smoothness:
        return rs.Smoothness(lambda: np.sum(X**2, axis=1))


def test_a_finite_sum_of_ones_own_runs_in_every_solver() -> None:
    """And gives what the same functions give as an oracle."""
    own = Own()
    constants = own.smoothness.individual
    mine = rs.OracleProblem(30, 4, own.component, own.value, smoothness=constants)
    solvers: list[Any] = [
        rs.ProxRR(epochs=3, seed=1), rs.ProxSGD(epochs=3, seed=1), rs.FISTA(epochs=20, tol=0.0),
        rs.ExactProxRR(epochs=5, tol=0.0, finish=False, steps_per_prox=5, importance=False),
        rs.ProxRR(epochs=3, order=rs.orders.ShuffleOnce(), importance=True),
    ]  # fmt: skip
    for solver in solvers:
        np.testing.assert_allclose(solver.solve(own).x, solver.solve(mine).x, atol=1e-12)
    pair = rs.federated.Federation([Own(), Own()])
    for federated in (rs.FedRR(rounds=3), rs.LocalSGD(rounds=3), rs.ExactFedRR(rounds=3)):
        both = rs.federated.Federation([mine, mine])
        np.testing.assert_allclose(federated.solve(pair).x, federated.solve(both).x, atol=1e-12)


@few
@given(found=odd)
def test_components_and_values_of_finite_sums(found: Any) -> None:
    class Component(Own):
        def component(self, i: int, x: Array) -> Any:
            return found

    class Value(Own):
        def value(self, x: Array) -> Any:
            return found

    def oracle(gradient: Any, value: Any) -> rs.OracleProblem:
        return rs.OracleProblem(30, 4, gradient, value, smoothness=1.0)

    cases: list[tuple[Any, str]] = [
        (Component(), "component(i, x) of Component"),
        (Value(), "value(x) of Value"),
        (oracle(lambda i, x: found, lambda x: 0.0), "gradient(i, x)"),
        (oracle(lambda i, x: np.zeros(4), lambda x: found), "value(x)"),
    ]
    for task, named in cases:
        for solver in (rs.ProxRR(epochs=1, step=0.1), rs.ExactProxRR(epochs=1)):
            try:
                refused_or_right(lambda solver=solver, task=task: solver.solve(task), named)
            except rs.DivergenceError:
                continue


def test_a_finite_sum_without_components_is_refused_where_it_is_made() -> None:
    with pytest.raises(rs.InputError, match=r"Nothing must have component\(i, x\)"):
        type("Nothing", (rs.FiniteSum,), {"value": lambda self, x: 0.0})


# --- methods -----------------------------------------------------------------------------------


class Descent(Method):
    start_with: Any = None
    advance_with: Any = None
    certify_with: Any = None

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self.schedule = lambda epoch: 0.1

    def start(self, x0: Array) -> Any:
        return {"x": x0} if self.start_with is None else self.start_with

    def advance(self, state: Any, epoch: int, step: float) -> Any:
        if self.advance_with is not None:
            return self.advance_with
        return Epoch(
            {"x": state["x"] - step * self.problem.gradient(state["x"])}, self.problem.n, 0
        )

    def certify(self, state: Any) -> Any:
        return super().certify(state) if self.certify_with is None else self.certify_with


@dataclass(frozen=True, kw_only=True)
class Descending(Solver):
    method: Any = Descent

    def bind(self, problem: Any) -> Any:
        return self.method(problem) if callable(self.method) else self.method


@few
@given(
    found=odd.filter(lambda v: v is not None), part=st.sampled_from(["start", "advance", "certify"])
)
def test_methods(found: Any, part: str) -> None:
    kind = type("Odd", (Descent,), {f"{part}_with": found})
    solver = Descending(method=kind, epochs=2, tol=1e-9)
    assert refused_or_right(lambda: solver.solve(problem()), f"Odd: {part}") is None


@few
@given(found=odd.filter(lambda v: not callable(v)))
def test_what_bind_returns(found: Any) -> None:
    solver = Descending(method=found, epochs=2)
    assert refused_or_right(lambda: solver.solve(problem()), "Descending: bind(problem)") is None


def test_a_method_with_defaults_for_all_that_can_have_one() -> None:
    result = Descending(epochs=500, tol=1e-6).solve(problem(penalty=rs.penalties.Zero(), ridge=0.1))
    assert result.converged
    assert isinstance(Descent(problem()).certify({"x": np.zeros(4)}), Check)


# --- callbacks and engines ---------------------------------------------------------------------


@few
@given(found=odd)
def test_callbacks(found: Any) -> None:
    result = refused_or_right(
        lambda: rs.ProxRR(epochs=2).solve(problem(), callbacks=[lambda r: found]), "callback"
    )
    assert (result is None) == (found is not None and not isinstance(found, bool))
    if not callable(found):
        with pytest.raises(rs.InputError, match="callbacks must be functions"):
            rs.ProxRR(epochs=2).solve(problem(), callbacks=[found])


class Carrying:
    def __init__(self, opened: Any = None, answers: Any = None) -> None:
        self.opened, self.answers = opened, answers

    def open(self, sizes: Any, make_host: Any) -> Any:
        if self.opened is not None:
            return self.opened
        session: Any = rs.engines.Threads(1).open(sizes, make_host)
        if self.answers is not None:
            session.run_round = lambda task, timeout: self.answers
        return session


@few
@given(found=odd.filter(lambda v: v is not None), part=st.sampled_from(["opened", "answers"]))
def test_engines(found: Any, part: str) -> None:
    clients = rs.federated.split(problem(), clients=3)
    solver = rs.FedRR(rounds=1, retries=0, engine=Carrying(**{part: found}))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            named = {"opened": "open()"}
            word = named.get(part, "engine Carrying: run_round")
            assert refused_or_right(lambda: solver.solve(clients), word) is None
    except rs.ClientError:  # an empty list: nobody answered
        assert found == []


@pytest.mark.parametrize(
    "model",
    [None, [0.0] * 4, np.zeros(3), np.zeros(4, dtype=complex), np.zeros(4, dtype=np.float32)],
)
def test_replies_that_are_no_models_are_refused(model: Any) -> None:
    class Spoiled(Carrying):
        def open(self, sizes: Any, make_host: Any) -> Any:
            session: Any = rs.engines.Threads(1).open(sizes, make_host)
            run_round = session.run_round
            session.run_round = lambda task, timeout: [
                replace(answer, model=model) if answer.client == 1 else answer
                for answer in run_round(task, timeout)
            ]
            return session

    clients = rs.federated.split(problem(), clients=3)
    with pytest.raises(rs.ClientError, match="client 1"):
        rs.FedRR(rounds=1, retries=1, engine=Spoiled()).solve(clients)


# --- resumed states ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("table", np.zeros(1)),
        ("table", np.zeros(30, dtype=np.float32)),
        ("g", np.zeros(2)),
        ("q", np.zeros((4, 4))),
        ("active", np.array([0, 1, 2, 7], dtype=np.uint32)),
        ("active", np.array([3, 2, 1, 0], dtype=np.uint32)),
        ("active", np.zeros(4)),
        ("monitor", np.zeros(3)),
        ("newton", np.zeros(2)),
        ("made", np.zeros(9)),
        ("best", np.zeros(9)),
        ("x", np.zeros(5)),
    ],
)
def test_a_damaged_state_never_reaches_a_kernel(name: str, broken: Any) -> None:
    solver = rs.ExactProxRR(tol=0.0, epochs=3, finish=False, importance=False)
    saved = solver.solve(problem(penalty=rs.penalties.L1(0.01)))
    bad = replace(saved, state=saved.state | {name: broken})
    with pytest.raises(rs.InputError, match="resume"):
        replace(solver, epochs=5).solve(problem(penalty=rs.penalties.L1(0.01)), resume=bad)
    without = replace(saved, state={k: v for k, v in saved.state.items() if k != name})
    with pytest.raises(rs.InputError, match="resume"):
        replace(solver, epochs=5).solve(problem(penalty=rs.penalties.L1(0.01)), resume=without)


def test_a_damaged_federated_state_is_refused() -> None:
    clients = rs.federated.split(problem(), clients=3)
    solver = rs.ExactFedRR(rounds=3)
    saved = solver.solve(clients)
    shorter = replace(saved, state=saved.state | {"image2": saved.state["image2"][:0]})
    with pytest.raises(rs.InputError, match="resume: the saved state has 2 images and 3 residuals"):
        replace(solver, rounds=5).solve(clients, resume=shorter)
    for name, broken in (("controls", np.zeros((2, 4))), ("image1", np.zeros((1, 3, 5)))):
        bad = replace(saved, state=saved.state | {name: broken})
        with pytest.raises(rs.InputError, match=f"resume: {name}"):
            replace(solver, rounds=5).solve(clients, resume=bad)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"epochs": 0}, "epochs of the Epoch"), ({"epochs": -1}, "epochs of the Epoch"),
        ({"epochs": 0.5}, "epochs of the Epoch"), ({"step": "x"}, "step of the Epoch"),
        ({"step": float("nan")}, "step of the Epoch"), ({"step": -1.0}, "step of the Epoch"),
        ({"stalled": True}, "stalled of the Epoch"), ({"stalled": 5}, "stalled of the Epoch"),
    ],
)  # fmt: skip
def test_an_epoch_that_says_what_cannot_be_is_refused(wrong: dict[str, Any], word: str) -> None:
    """An epoch that counts as none would never come to an end."""

    class Odd(rs.solvers.Method):
        def advance(self, state: Any, epoch: int, step: float) -> rs.solvers.Epoch:
            return rs.solvers.Epoch(state, 1, 1, **wrong)

    class Solver(rs.solvers.Solver):
        method_class = Odd

    problem = rs.Problem(*rs.datasets.breast_cancer())
    with pytest.raises(rs.InputError, match=f"Odd: {word}"):
        Solver(epochs=3).solve(problem)
