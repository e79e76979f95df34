"""The adversary: what it draws, whether its bracket of the minimum holds, and a few of its problems for every version."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from benchmarks import adversary, adversary_run
from benchmarks.adversary import (
    EXEMPT,
    RECIPES,
    SHARES,
    attack,
    clients_of,
    federation,
    problem,
    thresholds,
    whole_numbers,
)
from benchmarks.adversary_run import Finding, Log, _judged, _Run, examinations, examine
from benchmarks.attack import LOSSES, PENALTIES, Attack
from benchmarks.attack_truth import Bracket, by_cones, by_newton, narrow
from benchmarks.instances import mean_squares
from reshuffle.solvers.exact.newton_on_sample import can_begin_at_sample

SALT = "the adversary of the default tests"
PROBLEMS = 60  # for every version anew
FEDERATED = 6  # of them also for the federated solvers, each of which takes a second
SEVERAL = 12  # problems of one test: a failure names few, and start-up is paid once
FEW = 200  # epochs: what has not converged by then makes no claim that could be false
SMALL = 40_000  # entries of the problems in these tests, which the independent solvers take in half a second


def seeds_of(version: str) -> range:
    """Seeds that no earlier version was tested with."""
    digest = hashlib.sha256(f"{SALT} {version}".encode()).digest()
    first = int.from_bytes(digest[:6], "big")
    return range(first, first + PROBLEMS)


SEEDS = seeds_of(rs.__version__)


def is_quick(found: Attack, most: int = SMALL) -> bool:
    return bool(found.X.shape[0] * found.model.size <= most)


def wrong(found: list[Finding]) -> list[str]:
    return [
        f"{f.verdict}: seed {f.seed}, {f.solver}, tol {f.tol:g}, {f.loss}, {f.penalty}, {f.tags}: "
        f"{f.reached:.1e} above {f.by}; {f.message}"
        for f in found
        if f.verdict in ("FALSE", "crashed")
    ]


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(SEVERAL, PROBLEMS, SEVERAL))],
)
def test_no_converged_is_false(first: int) -> None:
    """Of problems that this version draws anew."""
    found: list[Finding] = []
    for seed in SEEDS[first : first + SEVERAL]:
        if is_quick(attack(seed)):
            found += examine(seed, tolerances=(1e-3, 1e-6), most=FEW)
    assert not wrong(found), "\n".join(wrong(found))


@pytest.mark.parametrize("solver", adversary_run.FEDERATED)
def test_no_federated_converged_is_false(solver: str) -> None:
    found: list[Finding] = []
    for seed in SEEDS[:FEDERATED]:
        if is_quick(attack(seed)):
            found += examine(seed, (solver,), (1e-3, 1e-6), most=40)
    assert not wrong(found), "\n".join(wrong(found))


# --- what is drawn --------------------------------------------------------------------------------


def test_every_size_in_the_code_has_a_recipe_or_a_reason() -> None:
    """Whoever adds a threshold says how it is attacked, or why it cannot be."""
    known = whole_numbers()
    assert set(known) - set(RECIPES) - set(EXEMPT) == set(), "add a recipe, or a reason"
    assert (set(RECIPES) | set(EXEMPT)) - set(known) == set(), "these are no longer there"
    assert not set(RECIPES) & set(EXEMPT)
    assert all(reason.endswith(".") for reason in EXEMPT.values())
    assert {name for name, _, _ in thresholds()} <= set(RECIPES)


def test_sizes_are_read_however_they_are_written() -> None:
    text = (
        "A = 150\nB: int = 1 << 15\nC = 10 * 1_000  # with a unit\nD = (\n    400\n)\n"
        "E = 1.5\nF = 1\nG = 'x'\nH = True\ni = 7\nJ, K = 1, 2\nL = B + 1\nM = N = 12\n"
    )
    found = dict(adversary._constants(ast.parse(text)))
    assert found == {"A": 150, "B": 1 << 15, "C": 10_000, "D": 400, "M": 12, "N": 12}


def test_a_new_size_is_attacked_before_it_has_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RECIPES, "solvers/exact/newton_compiled.WIDEST")
    recipes = [r for name, _, r in thresholds() if name == "solvers/exact/newton_compiled.WIDEST"]
    assert recipes == list(adversary.ANY)


def test_both_sides_of_a_threshold_are_met() -> None:
    """Rows, columns, unknowns or stored values are exactly as many as the recipe says."""
    name = "solvers/exact/working_sets.SMALL"
    rng, (value,) = np.random.default_rng(0), {s for n, s, _ in thresholds() if n == name}
    for side in (-1, 0, 1):
        size = adversary._stored(rng, value + side)
        assert adversary._matrix(rng, size, "csr", []).nnz == value + side
        assert adversary._columns(rng, 150 + side).columns == 150 + side
        assert adversary._rows(rng, 256 + side).rows == 256 + side
        unknown = adversary._unknowns(rng, 150 + side)
        assert unknown.columns * unknown.outputs == 150 + side


@pytest.mark.parametrize("name", ["FOR_EACH", "SHARE"])
def test_both_sides_of_a_sample_are_met(name: str) -> None:
    """With an intercept, Newton steps begin at a sample of exactly so many rows, and not of fewer."""
    known, rng = f"solvers/exact/newton_on_sample.{name}", np.random.default_rng(0)
    _, value, recipe = next(entry for entry in thresholds() if entry[0] == known)
    begins = []
    for side in (-1, 0, 1):
        size = recipe(rng, value + side)
        X = rng.standard_normal((size.rows, size.columns))
        found = rs.Problem(X, np.sign(X[:, 0]), fit_intercept=True)
        begins.append(can_begin_at_sample(found, np.zeros(found.shape)))
    assert begins == [False, True, True]


DRAWN = range(400)


@cache
def drawn(seed: int) -> Attack:
    return attack(seed)


def test_all_kinds_are_drawn_and_a_seed_is_one_problem() -> None:
    found = [drawn(seed) for seed in DRAWN]
    assert {a.loss for a in found} == set(LOSSES)
    assert {a.penalty for a in found} == set(PENALTIES)
    tags = {tag for a in found for tag in a.tags}
    assert {"dense", "csr", "ones", "dense32", "csr32", "intercept"} <= tags
    assert {f"λ/λ_max {share:g}" for share in SHARES} <= tags
    assert {
        "weights", "zero weights", "rare class", "free features", "outputs of different size", "scales", "shifts",
        "pareto", "pareto targets", "empty columns", "empty rows", "collinear 0", "collinear 1e-09", "ridge",
    } <= tags  # fmt: skip
    assert sum("(_" in tag for tag in tags) >= 20  # thresholds
    for seed in (3, 11):
        again = attack(seed)
        np.testing.assert_array_equal(again.y, found[seed].y)
        assert (again.X != found[seed].X).sum() == 0
        assert again.tags == found[seed].tags


def test_the_strength_is_where_features_come_in() -> None:
    """At λ_max nothing but what is free is needed; at 0.999 of it something is."""
    met = {1.0: 0, 0.999: 0}
    for seed in DRAWN:
        found = drawn(seed)
        share = next((s for s in met if f"λ/λ_max {s:g}" in found.tags), None)
        if share is None or found.penalty not in ("l1", "group_lasso") or found.ridge:
            continue
        upper, lower = found.bounds(np.zeros(found.model.size))
        held = upper - lower <= 1e-11 * found.at_zero
        assert held == (share == 1.0), seed
        met[share] += 1
    assert min(met.values()) >= 5


# --- the bracket ----------------------------------------------------------------------------------


def test_the_reference_has_no_line_of_the_package() -> None:
    text = "import sys; sys.modules['reshuffle'] = None; import benchmarks.attack_truth"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", text], check=True, cwd=root)


@pytest.mark.parametrize("first", [0, 30, 60])
def test_the_objective_is_that_of_the_package(first: int) -> None:
    """P at random points, and f(0); so the problem that is solved is the problem that is judged."""
    for seed in range(first, first + 30):
        found = drawn(seed)
        if not is_quick(found):
            continue
        theirs, rng = problem(found), np.random.default_rng(seed)
        assert theirs.shape == found.shape
        squares = np.repeat(np.maximum(mean_squares(found.model.A), 1e-9), found.outputs)
        x = rng.standard_normal(found.model.size) / (10 * np.sqrt(squares))
        x = np.clip(x, found.model.lower, found.model.upper)
        ours = found.objective(x)
        there = theirs.objective(np.ascontiguousarray(x.reshape(found.shape)))
        assert there == pytest.approx(ours, rel=1e-9), seed
        zero = np.zeros(found.shape)
        assert theirs.value(zero) == pytest.approx(found.at_zero, rel=1e-12), seed


@pytest.mark.parametrize(
    "first", [200, *(pytest.param(later, marks=pytest.mark.slow) for later in range(210, 290, 10))]
)
def test_bounds_from_anywhere_hold(first: int) -> None:
    """The lower bound at any point is below P at the best point that independent solvers find."""
    proved = 0
    for seed in range(first, first + 10):
        found = drawn(seed)
        if not is_quick(found, 5_000):
            continue
        best = Bracket(found)
        for solve in (by_newton, by_cones):
            best = Bracket(found) if not np.isfinite(best.upper) else best
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Clarabel's word on its own point does not count
                for x in solve(found, 20.0):
                    best.see(x, solve.__name__)
            if best.width <= 1e-9:
                break
        proved += best.width <= 1e-6
        rng = np.random.default_rng(seed)
        for size in (0.0, 1e-6, 1e-2):
            x = size * rng.standard_normal(found.model.size)
            x = np.clip(x, found.model.lower, found.model.upper)
            upper, lower = found.bounds(x)
            assert lower <= best.upper + 1e-12 * found.at_zero, (seed, size)
            assert upper >= best.lower - 1e-12 * found.at_zero, (seed, size)
    assert proved >= 3


def claimed(x: Any, tol: float, converged: bool = True) -> _Run:
    trace = SimpleNamespace(header={"certificate": "what it says"})
    result = SimpleNamespace(x=x, converged=converged, epoch=1, message="", trace=trace)
    return _Run(tol, result, 0.0)


def hostile() -> Attack:
    """A logistic loss with a rare class, an intercept and an ℓ1 above λ_max, where the intercept alone is not zero."""
    rng = np.random.default_rng(0)
    X, y = rng.poisson(3, (100, 160)).astype(float), np.ones(100)
    y[:10] = -1.0
    zeros = np.zeros((160, 1))
    return Attack(
        seed=1, X=X, y=y, loss="logistic", penalty="l1", l1=zeros + 1e3, l2=zeros, lower=zeros - np.inf,
        upper=zeros + np.inf, labels=np.full(160, -1), strengths=np.zeros(0), intercept=True,
    )  # fmt: skip


def test_verdicts() -> None:
    """A claim at a point that is not the minimum is false, and one at the minimum is true."""
    found = hostile()
    x = np.zeros(161)
    minimum = x.copy()
    minimum[-1] = np.log(9.0)
    near = minimum.copy()
    near[-1] += 1e-2
    verdicts = [
        [f.verdict for f in _judged(found, "ExactProxRR", [claimed(at, tol, said)], 10.0)]
        for at, tol, said in (
            (x, 1e-3, True), (x, 1e-3, False), (minimum, 1e-9, True), (minimum, 1e-9, False),
            (near, 1e-3, True), (near, 1e-6, True),
        )
    ]  # fmt: skip
    assert verdicts == [
        ["FALSE"], ["not converged"], ["converged, true"], ["not converged, true"], ["converged, true"], ["FALSE"],
    ]  # fmt: skip


def test_a_point_is_a_witness_against_another() -> None:
    found, minimum = hostile(), np.zeros(161)
    minimum[-1] = np.log(9.0)
    runs = [claimed(np.zeros(161), 1e-3), claimed(minimum, 1e-6)]
    assert [f.verdict for f in _judged(found, "FISTA", runs, 10.0)] == ["FALSE", "converged, true"]
    bracket = Bracket(found)
    bracket.see(np.zeros(161), "zero")  # its intercept is moved to its minimum first
    assert narrow(bracket, 10.0) or bracket.width <= 1e-12
    assert bracket.upper == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1), rel=1e-12)


# --- the log --------------------------------------------------------------------------------------


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    found = _judged(hostile(), "ExactProxRR", [claimed(np.zeros(161), 1e-3)], 10.0)
    log = Log(path)
    log.add(1, found)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"seed": 2, "solver"')  # stopped while it wrote
    again = Log(path)
    assert again.found == found
    assert again.done(("ExactProxRR",)) == {1}
    assert again.done(("FedNewton",)) == set()


def test_a_process_that_dies_or_hangs_is_replaced() -> None:
    """Seeds below zero are refused by numpy, which ends the process; the others go on."""
    settings = {"solvers": (), "tolerances": (1e-3,), "time_limit": 1.0, "most": 1}
    found = dict(examinations([-1, 5, 6], settings, jobs=1, patience=120.0))
    assert [f.verdict for f in found[-1]] == ["killed"]
    assert found[5] == found[6] == []  # no solver was asked for


def test_a_federation_has_the_samples_of_its_pool() -> None:
    """And exactly as many clients, or samples of each, as a threshold that is attacked says."""
    met = 0
    prescribed = [seed for seed in range(20, 1000) if clients_of(seed)]
    for seed in (*range(20), *prescribed[:16]):
        found = drawn(seed)
        if not is_quick(found) or found.X.shape[0] < 4 or (seed >= 20 and not found.clients):
            continue
        pool = federation(found)
        assert pool.n == found.X.shape[0]
        assert pool.shape == found.shape
        if found.clients:
            assert pool.count == found.clients
            assert set(pool.sizes.tolist()) == {found.X.shape[0] // found.clients}
            met += 1
    assert met >= 2
