"""Working sets: an epoch that reads few features still ends at the minimiser of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.memory import memory_of
from reshuffle.penalties import Separable
from reshuffle.solvers import working_sets
from reshuffle.solvers.watch import NEVER, Watch
from reshuffle.solvers.working_sets import SMALL, WorkingSets

Array = NDArray[np.float64]
LOSSES: dict[str, rs.losses.Loss] = {
    "signs": rs.losses.Logistic(),
    "real": rs.losses.Squared(),
    "classes": rs.losses.Multinomial(),
}


def rows(n: int = 1500, d: int = 2000, each: int = 30, seed: int = 0) -> sp.csr_matrix:
    """CSR rows with ``each`` values; the last tenth of the columns has none at all."""
    rng = np.random.default_rng(seed)
    used = d - d // 10
    indices = np.concatenate([np.sort(rng.choice(used, each, replace=False)) for _ in range(n)])
    values = rng.standard_normal(n * each)
    return sp.csr_matrix((values, indices, np.arange(0, n * each + 1, each)), shape=(n, d))


def answers(X: Any, kind: str, relevant: int = 10, seed: int = 1) -> NDArray[Any]:
    """Targets that a few features explain, but for some noise."""
    rng = np.random.default_rng(seed)
    outputs = 3 if kind == "classes" else 1
    truth = np.zeros((X.shape[1], outputs))
    truth[rng.choice(X.shape[1] * 9 // 10, relevant, replace=False)] = 3.0
    truth *= rng.standard_normal(truth.shape)
    z: Array = X @ truth + 0.5 * rng.standard_normal((X.shape[0], outputs))
    if kind == "classes":
        classes: NDArray[Any] = np.argmax(z, axis=1)
        return classes
    return np.where(z[:, 0] > 0, 1.0, -1.0) if kind == "signs" else z[:, 0]


def strength(X: Any, y: Any, kind: str, **how: Any) -> float:
    """The l1 from which on x* = 0 (an intercept left out)."""
    plain = rs.Problem(X, y, LOSSES[kind], **how)
    return float(np.abs(plain.gradient(np.zeros(plain.shape))[: plain.features]).max())


def case(name: str) -> tuple[rs.Problem, dict[str, Any]]:
    """A problem that few features solve, and settings of the solver."""
    kind = {"multinomial": "classes", "squared": "real"}.get(name, "signs")
    wide = name.startswith("wide")
    X: Any = rows(1200, 6000) if wide else rows()
    how: dict[str, Any] = {"fit_intercept": name.endswith("intercept")}
    settings: dict[str, Any] = {}
    if name == "unit":
        X.data[:] = 1.0
    elif name == "float32":
        X = X.astype(np.float32)
    elif name == "dense":
        X = np.random.default_rng(0).standard_normal((60, 800))
    elif name == "importance":
        X = sp.csr_matrix(X.multiply(np.geomspace(0.3, 4.0, X.shape[0])[:, None]))
        settings["importance"] = True
    y = answers(X, kind)
    if name == "weights":
        how["sample_weight"] = np.arange(X.shape[0]) % 4.0
    l1: Any = 0.3 * strength(X, y, kind, **how)
    if name in ("unit", "dense", "multinomial"):
        l1 *= 1.5
    penalty: Any = rs.penalties.L1(l1)
    if name == "l1 of each":
        each = np.linspace(l1, 2 * l1, X.shape[1])
        each[::50] = 0.0
        penalty = rs.penalties.L1(each)
    elif name == "non-negative":
        penalty = rs.penalties.NonNegative(l1)
    elif name == "box":
        penalty = rs.penalties.Box(0.0, 0.05)
    elif name == "ridge":
        how["ridge"] = 0.01
    elif name == "once":
        settings["order"] = rs.orders.ShuffleOnce()
    problem = rs.Problem(X, y, LOSSES[kind], penalty, **how)
    if name == "own step":
        settings |= {"step": 0.3 / problem.smoothness.maximum, "steps_per_prox": 7}
    return problem, settings


CASES = [
    "csr", "wide", "intercept", "wide intercept", "multinomial", "squared", "l1 of each",
    "non-negative", "box", "weights", "importance", "float32", "dense", "unit", "ridge", "once",
    "own step",
]  # fmt: skip


def _csr(problem: rs.Problem) -> sp.csr_matrix:
    values, indices, indptr = (np.array(a) for a in problem.rows)
    shape = problem.n, problem.features
    return sp.csr_matrix((values, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


def minimum(problem: rs.Problem) -> float:
    result = rs.FISTA(eval_every=1000).solve(problem)
    assert result.converged, result.message
    return problem.objective(result.x)


def watched(
    problem: rs.Problem, x0: Any = None, **settings: Any
) -> tuple[rs.Result, list[rs.Result]]:
    """The result, and what it was after every epoch."""
    past: list[rs.Result] = []
    solver = rs.ExactProxRR(**settings)
    return solver.solve(problem, x0, callbacks=[lambda r: past.append(r.snapshot())]), past


def sizes(past: list[rs.Result]) -> list[int]:
    return [r.state["active"].size for r in past]


# --- the solution ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_finds_the_minimiser_of_all_features(name: str) -> None:
    problem, settings = case(name)
    assert problem.rows.stored >= SMALL
    result, past = watched(problem, tol=1e-10, epochs=5000, **settings)
    assert result.converged, result.message
    assert min(sizes(past)) < 0.7 * problem.features
    assert (sizes(past)[0] < problem.features) == name.startswith("wide")
    if name == "importance":
        assert "visits" in result.trace.header["importance"]
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - minimum(problem) <= 1e-10 * scale
    slope = np.linalg.norm(problem.gradient(np.zeros(problem.shape)))
    assert problem.gradient_mapping(result.x) <= 1e-4 * slope


def test_unpenalised_features_stay_unless_nothing_pulls_at_them() -> None:
    problem, settings = case("l1 of each")
    free = np.flatnonzero(problem.penalty.l1 == 0.0)  # type: ignore[attr-defined]
    pulled = free[free < 1800]  # columns from 1800 on are empty
    _, past = watched(problem, tol=1e-10, epochs=5000, **settings)
    for result in past:
        assert np.isin(pulled, result.state["active"]).all()
    last = past[-1]
    assert not np.isin(free[free >= 1800], last.state["active"]).any()
    assert np.count_nonzero(last.x[pulled]) == pulled.size


def test_the_first_guess_keeps_unpenalised_features() -> None:
    wide, _ = case("wide")
    l1 = np.full(6000, 10.0)
    l1[::50] = 0.0
    problem = rs.Problem(_csr(wide), wide.targets, penalty=rs.penalties.L1(l1))
    guessed = rs.ExactProxRR().bind(problem).start(np.zeros(6000))["active"]
    np.testing.assert_array_equal(guessed, np.arange(0, 5400, 50))  # the others are empty


def test_without_a_penalty_no_feature_is_left_out() -> None:
    X = rows(d=120, n=1200)  # columns from 108 on are empty
    problem = rs.Problem(X, answers(X, "real"), rs.losses.Squared())
    result, past = watched(problem, tol=1e-10)
    assert result.converged
    for part in past:
        assert np.isin(np.arange(108), part.state["active"]).all()
    solution = np.linalg.lstsq(X[:, :108].toarray(), problem.targets)[0]
    np.testing.assert_allclose(result.x[:108], solution, atol=1e-8)


# --- features that have to come back -------------------------------------------------------------


def hidden() -> tuple[rs.Problem, int, int]:
    """y = a - ρb is orthogonal to b: the gradient at zero does not see b, the minimiser needs it."""
    rng = np.random.default_rng(0)
    n, d = 400, 20_000
    b = rng.standard_normal(n)
    a = 0.8 * b + 0.6 * rng.standard_normal(n)
    y = a - (a @ b) / (b @ b) * b
    noise = rows(n, d - 2, 85)
    pair: Any = np.column_stack([a, b])
    X: Any = sp.hstack([0.05 * noise, sp.csr_matrix(pair)], format="csr")
    return rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L1(0.03)), d - 2, d - 1


def test_a_feature_that_the_first_guess_leaves_out_comes_back() -> None:
    problem, a, b = hidden()
    solver = rs.ExactProxRR(tol=1e-12)
    first = solver.bind(problem).start(np.zeros(problem.shape))["active"]
    assert a in first
    assert b not in first
    result = solver.solve(problem)
    assert result.converged
    x = rs.FISTA(eval_every=1000).solve(problem).x
    assert abs(x[b]) > 0.1
    np.testing.assert_allclose(result.x, x, atol=1e-6)


@pytest.mark.parametrize("name", ["csr", "wide", "multinomial", "intercept"])
@pytest.mark.parametrize(
    "constants", [{"GUESS": 50.0}, {"DRIFT": 0.0, "SMALLER": 1.0, "SLACK": 1.0}, {"SLACK": 0.0}]
)
def test_bad_guesses_cost_time_and_nothing_else(
    name: str, constants: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant, value in constants.items():
        monkeypatch.setattr(working_sets, constant, value)
    problem, settings = case(name)
    solver = rs.ExactProxRR(tol=1e-10, epochs=5000, **settings)
    if name == "wide" and "GUESS" in constants:
        assert not solver.bind(problem).start(np.zeros(problem.shape))["active"].size
    result = solver.solve(problem)
    assert result.converged, result.message
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - minimum(problem) <= 1e-10 * scale


@pytest.mark.parametrize("name", ["csr", "wide", "multinomial", "intercept"])
def test_features_that_are_dropped_too_early_come_back(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, every second feature goes to zero and out, whatever its gradient."""
    problem, settings = case(name)
    honest, calls = WorkingSets.shrink, 0

    def rash(self: WorkingSets, state: Any, before: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls not in (3, 8):
            return honest(self, state, before)
        active, size = state["active"], len(state["g"])
        kept = np.arange(size) % 2 == 0
        kept[active.size :] = True  # the intercept
        some = active[kept[: active.size]]
        x = self.extend(self.restrict(state["x"], some), some)
        return state | {"x": x, "active": some, "g": state["g"][kept], "q": state["q"][kept]}

    monkeypatch.setattr(WorkingSets, "shrink", rash)
    result, past = watched(problem, tol=1e-10, epochs=5000, **settings)
    assert calls > 8
    assert np.diff(sizes(past)).max() > 0  # some did come back
    assert result.converged, result.message
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - minimum(problem) <= 1e-10 * scale


# --- the certificate -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csr", "wide", "unit", "dense", "importance", "ridge", "weights"])
def test_the_gap_of_a_restricted_run_is_never_smaller_than_the_true_one(name: str) -> None:
    problem, settings = case(name)
    best, scale = minimum(problem), problem.value(np.zeros(problem.shape))
    restricted = 0
    for epochs in (1, 2, 3, 4, 6, 9, 14, 20, 40):
        solver = rs.ExactProxRR(epochs=epochs, tol=1e-300, **settings)
        result = solver.solve(problem)
        true = (problem.objective(result.x) - best) / scale
        assert result.trace["gap"][-1] >= true - 1e-13
        restricted += result.state["active"].size < problem.features and true > 1e-9
    assert restricted >= 2  # so the comparison was not empty
    assert result.trace["gap"][-1] < 1e-2  # and the bound is of use


# --- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csr", "wide intercept", "importance", "dense"])
def test_the_same_bits_after_a_resume_at_any_epoch(name: str, tmp_path: Path) -> None:
    problem, settings = case(name)
    solver = rs.ExactProxRR(tol=1e-7, epochs=60, **settings)
    whole, past = watched(problem, tol=1e-7, epochs=60, **settings)
    assert len(set(sizes(past))) > 1
    for part in past[:-1]:
        resume: Any = part
        if part.epoch % 2:
            resume = tmp_path / "part.npz"
            part.save(resume)
        resumed = solver.solve(problem, resume=resume)
        assert resumed.digest == whole.digest
        assert resumed.epoch == whole.epoch
        for column in ("gradients", "step", "objective"):
            assert resumed.trace[column].tolist() == whole.trace[column].tolist()


def test_the_same_bits_after_a_resume_around_the_trial_step() -> None:
    X = rows(d=60, n=1500)
    X = sp.csr_matrix(X.multiply(np.geomspace(0.1, 1.0, 60)[None, :]))
    problem = rs.Problem(X, answers(X, "signs"), penalty=rs.penalties.L1(1e-4))
    solver = rs.ExactProxRR(tol=1e-300, epochs=24)
    whole, past = watched(problem, tol=1e-300, epochs=24)
    pace = [Watch.of(r.state["watch"]).pace for r in past]
    assert 0 < min(p for p in pace if p != NEVER) < np.inf  # the trial went on
    assert pace[-1] == NEVER  # and was judged
    steps = whole.trace["step"]
    assert np.isclose(steps[1:] / steps[:-1], 2.0).any()
    for part in past[:-1]:
        assert solver.solve(problem, resume=part).digest == whole.digest


# --- the pieces ----------------------------------------------------------------------------------

sevenths = st.integers(-21, 21).map(lambda k: k / 7.0)  # ties between |g| and l1 do happen


@st.composite
def separable(draw: st.DrawFn, size: int = 5) -> Separable:
    """l1, l2 and bounds, each one number or an array."""

    def numbers(low: int) -> Any:
        one = st.integers(low, 21).map(lambda k: k / 7.0)
        return draw(one | arrays(float, size, elements=one))

    penalty = Separable()
    penalty.l1, penalty.l2 = numbers(0), numbers(0)
    if draw(st.booleans()):
        first, second = numbers(-21), numbers(-21)
        penalty.lower, penalty.upper = np.minimum(first, second), np.maximum(first, second)
    if draw(st.booleans()):
        penalty.lower = np.minimum(0.0, penalty.upper)
    return penalty


@given(
    penalty=separable(), g=arrays(float, 5, elements=sevenths), tau=st.sampled_from([0.25, 1, 4])
)
def test_held_at_zero_is_a_fixed_point_of_the_prox(
    penalty: Separable, g: Array, tau: float
) -> None:
    """x_j = 0 is optimal against g if and only if prox_{τψ}(-τg)_j = 0."""
    held = np.broadcast_to(penalty.holds_at_zero(g), g.shape)
    np.testing.assert_array_equal(held, penalty.prox(-tau * g, tau) == 0.0)


@given(penalty=separable(), u=arrays(float, 5, elements=sevenths), kept=st.sets(st.integers(0, 4)))
def test_part_of_a_penalty_has_the_same_prox(penalty: Separable, u: Array, kept: set[int]) -> None:
    some = np.array(sorted(kept), dtype=np.uint32)
    part = penalty.part(some, (5,))
    np.testing.assert_array_equal(part.prox(u[some], 0.5), penalty.prox(u, 0.5)[some])
    again = np.arange(some.size, dtype=np.uint32)[::2]
    np.testing.assert_array_equal(
        part.part(again, (some.size,)).prox(u[some[again]], 0.5), penalty.prox(u, 0.5)[some[again]]
    )


@pytest.mark.parametrize("l1", [0.5, [0.1, 0.2, 0.3], [[0.1], [0.2], [0.3], [0.4]]])
def test_part_of_a_penalty_of_a_matrix(l1: Any) -> None:
    penalty = rs.penalties.L1(l1)
    u = np.random.default_rng(0).standard_normal((4, 3))
    kept = np.array([1, 3], dtype=np.uint32)
    np.testing.assert_array_equal(penalty.part(kept, (4, 3)).prox(u[kept], 1.0), penalty.prox(u, 1.0)[kept])  # fmt: skip


@pytest.mark.parametrize("kept", [[], [0], [1, 4, 5], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["signs", "classes"])
@pytest.mark.parametrize("layout", ["csr", "dense", "unit"])
def test_some_columns_of_a_problem(
    layout: str, kind: str, intercept: bool, kept: list[int]
) -> None:
    """Value, gradient, objective and L_i are those of all columns at points that are zero elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.5)
    X = (X != 0).astype(float) if layout == "unit" else X
    X[3] = 0.0
    problem = rs.Problem(
        X if layout == "dense" else sp.csr_matrix(X), answers(X, kind, relevant=3), LOSSES[kind],
        rs.penalties.ElasticNet(0.1, 0.2), 0.3, np.arange(1.0, 41.0), intercept,
    )  # fmt: skip
    assert problem.quick_rows.unit == (layout == "unit")
    some = np.array(kept, dtype=np.uint32)
    part = problem.columns(some)
    both = np.concatenate([some, [6]]).astype(int) if intercept else some.astype(int)
    x = np.zeros(problem.shape)
    x[both] = rng.standard_normal((both.size, *problem.shape[1:]))
    assert part.shape == (both.size, *problem.shape[1:])
    assert part.rows.unit == (layout == "unit")
    np.testing.assert_allclose(part.value(x[both]), problem.value(x), rtol=1e-13)
    np.testing.assert_allclose(part.objective(x[both]), problem.objective(x), rtol=1e-13)
    np.testing.assert_allclose(part.gradient(x[both]), problem.gradient(x)[both], atol=1e-13)
    norms = np.sum(X[:, kept] ** 2, axis=1) + intercept
    curvature = problem.weights * LOSSES[kind].curvature
    np.testing.assert_allclose(part.smoothness.individual, curvature * norms + 0.3)
    once = part.columns(np.arange(some.size, dtype=np.uint32)[1:])
    np.testing.assert_allclose(
        once.gradient(np.zeros(once.shape)), problem.gradient(0.0 * x)[both[1 if kept else 0 :]],
        atol=1e-13,
    )  # fmt: skip


def test_sets_one_after_the_other() -> None:
    """Smaller, larger, of the same size, empty: each time the rows of these features and no others."""
    problem, _ = case("csr")
    sets = WorkingSets(memory_of(problem, np.empty(0, dtype=np.uint32), problem.weights))
    X = _csr(problem)
    x = np.random.default_rng(0).standard_normal(2000)
    for some in (
        range(0, 900),
        range(0, 900, 3),
        range(1, 900, 3),
        (),
        range(5),
        (4, 1999),
        (4, 5),
    ):
        active = np.array(some, dtype=np.uint32)
        part = sets.on(active).problem
        assert isinstance(part, rs.Problem)
        np.testing.assert_allclose(part.margins(x[active]), X[:, active] @ x[active], atol=1e-12)
        np.testing.assert_array_equal(sets.restrict(sets.extend(x[active], active), active), x[active])  # fmt: skip
    assert sets.on(sets.everything) is sets.memory


def test_a_part_reads_its_rows_with_the_kernels_of_the_whole() -> None:
    """Also where its values happen to be all 1, or there are none: no kernel is compiled on the way."""
    X = sp.csr_matrix(np.array([[1.0, 2.0], [1.0, 0.0], [0.0, 3.0]]))
    problem = rs.Problem(X, [1, -1, 1])
    for kept in ([0], []):
        part = problem.columns(np.array(kept, dtype=np.uint32))
        assert part.signature == problem.signature


# --- the first epoch, and the last ---------------------------------------------------------------


def test_a_start_at_zero_needs_no_pass_and_any_other_one() -> None:
    problem, _ = case("csr")
    for x0, passes in ((None, 1), (np.full(problem.shape, 0.01), 2)):
        result = rs.ExactProxRR(tol=0.0, epochs=1, importance=False).solve(problem, x0)
        assert result.trace["gradients"].tolist() == [(passes - 1) * 1500, passes * 1500]


def test_a_wide_problem_starts_with_a_pass() -> None:
    result = rs.ExactProxRR(tol=0.0, epochs=1, importance=False).solve(case("wide")[0])
    assert result.trace["gradients"].tolist() == [1200, 2400]


def test_the_first_two_epochs_by_hand() -> None:
    """From zero: ProxRR with steps that fall tenfold; then with the slopes that it saw, h their mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    y = X @ np.array([1.0, -2.0, 0.0, 0.0, 3.0])
    penalty = rs.penalties.ElasticNet(0.05, 0.1)
    problem = rs.Problem(X, y, rs.losses.Squared(), penalty)
    step = 0.5 / problem.smoothness.maximum
    x, slopes = np.zeros(5), np.empty(40)
    expected = []
    for b, each in enumerate(step / np.linspace(1.0, 10.0, 5)):
        for i in range(8 * b, 8 * b + 8):
            slopes[i] = X[i] @ x - y[i]
            x = x - each * slopes[i] * X[i]
        x = penalty.prox(x, each * 8)
    expected.append(x)
    h = X.T @ slopes / 40
    for b in range(5):
        g = X.T @ slopes / 40
        for i in range(8 * b, 8 * b + 8):
            new = X[i] @ x - y[i]
            x = x - step * ((new - slopes[i]) * X[i] + g - h)
            slopes[i] = new
        tau = step * 8
        before, x = x, penalty.prox(x - tau * h, tau)
        h = h + (x - before) / tau
    expected.append(x)
    settings: Any = {"order": rs.orders.Cyclic(), "importance": False, "steps_per_prox": 8}
    _, past = watched(problem, tol=0.0, epochs=2, **settings)
    for found, wanted in zip(past, expected, strict=True):
        np.testing.assert_allclose(found.x, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["csr", "wide", "intercept", "dense", "unit"])
def test_a_warm_start_is_not_destroyed(name: str) -> None:
    problem, settings = case(name)
    x0 = rs.FISTA(tol=1e-7, eval_every=1000).solve(problem).x
    _, past = watched(problem, x0, tol=0.0, epochs=1, **settings)
    assert not np.array_equal(past[0].x, x0)  # before a run that ends higher gives up for its start
    assert problem.objective(past[0].x) <= minimum(problem) + 1e-8


@pytest.mark.parametrize("name", ["csr", "multinomial", "dense", "intercept"])
def test_where_no_feature_is_left(name: str) -> None:
    """x* = 0 and no tolerance: the run goes on with nothing but the intercept, if there is one."""
    problem, settings = case(name)
    strong = rs.Problem(
        case(name)[0].rows.values if name == "dense" else _csr(problem), problem.targets,
        problem.loss, rs.penalties.L1(10.0), fit_intercept=problem.fit_intercept,
    )  # fmt: skip
    result, past = watched(strong, tol=0.0, epochs=12, **settings)
    assert sizes(past)[-1] == 0
    assert not result.x[: strong.features].any()
    assert strong.gradient_mapping(result.x) < 1e-3


def test_an_iterate_that_does_not_move_is_no_accident() -> None:
    """‖x_{t+1} - x_t‖ = 0, epoch after epoch, at a minimiser that is reached exactly."""
    X = np.random.default_rng(0).standard_normal((50, 5))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    for penalty in (rs.penalties.L1(10.0), rs.penalties.Box(-1e-3, 1e-3)):
        problem = rs.Problem(X, y, penalty=penalty)
        result = rs.ExactProxRR(tol=0.0, epochs=40).solve(problem)
        assert result.epoch == 40
        assert problem.gradient_mapping(result.x) < 1e-12


@pytest.mark.parametrize("n", [60, 1700])  # below and above SMALL
@pytest.mark.filterwarnings("error")
def test_a_start_outside_the_constraint(n: int) -> None:
    """Zero has ψ = inf here: it must not pass for a start with P = f(0)."""
    X = np.random.default_rng(0).standard_normal((n, 20))
    box = rs.Problem(X, answers(X, "signs"), penalty=rs.penalties.Box(0.5, 1.0))
    assert (box.rows.stored >= SMALL) == (n == 1700)
    result = rs.ExactProxRR(tol=1e-8).solve(box)
    assert result.trace["objective"][0] == np.inf
    assert result.converged, result.message
    assert result.x.min() >= 0.5
    assert box.objective(result.x) - minimum(box) <= 1e-8 * box.value(np.zeros(20))


def test_the_step_does_not_run_away_inside_a_box() -> None:
    """Where x cannot go far and P(x0) = inf, going round in circles must not pass for progress."""
    X = rows(300)
    box = rs.Problem(X, answers(X, "signs"), penalty=rs.penalties.Box(0.5, 1.0))
    for seed in range(3):
        solver = rs.ExactProxRR(tol=1e-3, epochs=2000, importance=False, seed=seed)
        result = solver.solve(box)
        assert result.converged, result.message
        assert result.trace["step"].max() < 1e3 * result.trace["step"][0]
