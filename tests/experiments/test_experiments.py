"""The recipes: what they write, what they reuse, and that a claim which fails is loud."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.datasets import dump_svmlight_file

import reshuffle as rs
from reshuffle import theory
from reshuffle.cli import main
from reshuffle.experiments import (
    RECIPES,
    ClaimCheck,
    Numbers,
    Report,
    Settings,
    claim,
    claims,
    comparisons,
    figure1,
    figure2,
    page,
    theorems,
)
from reshuffle.experiments.recipe import Curve
from reshuffle.run_cache import RunCache


def reproduce(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["reproduce", *arguments, "--no-progress"])


def recipe(name: str, text: str) -> tuple[int, int]:
    """How many runs were computed and reused."""
    found = re.search(r"runs: (\d+) computed, (\d+) reused", text)
    assert found, f"{name} does not say what it computed: {text}"
    return int(found[1]), int(found[2])


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with a small file called a1a: 200 binary rows of 8 among 24 features."""
    rng = np.random.default_rng(0)
    X = np.zeros((200, 24))
    for row in X:
        row[rng.choice(24, 8, replace=False)] = 1.0
    y = np.sign(X @ rng.standard_normal(24) + 0.3 * rng.standard_normal(200))
    folder = tmp_path / "data"
    folder.mkdir()
    dump_svmlight_file(X, y, str(folder / "a1a"), zero_based=False)
    return folder


# --- figure 1 ----------------------------------------------------------------------------------


def test_figure_1_on_a1a_writes_all_and_its_claim_holds(a1a: Any, tmp_path: Path) -> None:
    done = reproduce("figure1", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert done.output.count("holds: ") == 3
    nonzero, of = map(
        int, re.findall(r"nonzero coordinates of x\*: (\d+) of (\d+)", done.output)[0]
    )
    assert 0 < nonzero < of / 2
    savings = [float(s.replace(",", "")) for s in re.findall(r"([\d,]+)×", done.output)]
    assert min(savings) > 500  # the ratio of prox evaluations at equal accuracy
    assert (tmp_path / "figure1.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "figure1.pdf").read_bytes()[:4] == b"%PDF"
    with open(tmp_path / "figure1.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 3 * 31  # methods, seeds, epochs and the start
    last = {row["method"]: row for row in rows if row["epoch"] == "30.0" and row["seed"] == "0"}
    assert float(last["ProxRR"]["prox_evals"]) == 30
    assert float(last["ProxSGD"]["prox_evals"]) == 30 * len(a1a[1])
    assert float(last["ExactProxRR"]["gap"]) < 1e-7 < float(last["ProxRR"]["gap"])
    html = (tmp_path / "figure1.html").read_text()
    for word in ("data:image/png;base64", "λ_max/", "scipy", "figure1.csv", "DOES NOT HOLD"):
        assert (word in html) is (word != "DOES NOT HOLD")


def test_a_second_call_reuses_finished_seeds(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure1, "_draw", lambda *curves: curves[-1].with_suffix(".png").touch())
    out = tmp_path / "out"
    options = ("figure1", "--quick", "--data", str(stand_in), "--out", str(out))
    computed, reused = recipe("first", reproduce(*options, "--seeds", "2").output)
    minima = len(list((out / "runs").glob("minimum-*.npz")))
    assert computed == 8 + minima
    assert reused == 0
    numbers = (out / "figure1.csv").read_bytes()
    assert recipe("again", reproduce(*options, "--seeds", "2").output) == (0, computed)
    assert (out / "figure1.csv").read_bytes() == numbers  # the clocks too are those of then
    assert recipe("more", reproduce(*options, "--seeds", "3").output) == (4, computed)
    damaged, lost = sorted((out / "runs").glob("ProxRR-*.npz"))[:2]
    damaged.write_bytes(damaged.read_bytes()[:-40])
    lost.unlink()
    assert recipe("repaired", reproduce(*options, "--seeds", "3").output) == (2, computed + 2)
    assert recipe("longer", reproduce(*options, "--seeds", "2", "--epochs", "31").output)[0] == 8


def test_other_data_are_another_run(stand_in: Path, tmp_path: Path) -> None:
    X, y = rs.datasets.load_libsvm(stand_in / "a1a")
    store = RunCache(tmp_path)
    other = RunCache(tmp_path)
    solver, problem = rs.ProxRR(epochs=2), rs.Problem(X, y)
    store.solve("run", solver, problem)
    other.solve("run", solver, rs.Problem(X, -y))
    store.solve("run", rs.ProxRR(epochs=2, seed=1), problem)
    assert (store.computed, other.computed, store.reused) == (2, 1, 0)
    again = store.solve("run", solver, problem)
    np.testing.assert_array_equal(again.x, solver.solve(problem).x)
    assert store.reused == 1


def test_the_penalty_is_the_weakest_with_under_half_nonzero(stand_in: Path, tmp_path: Path) -> None:
    X, y = rs.datasets.load_libsvm(stand_in / "a1a")
    store = RunCache(tmp_path)
    chosen = figure1.choose(X, y, store)
    weaker = figure1.task(X, y, chosen.k + 1, store)
    assert 2 * chosen.nonzero < 24 <= 2 * weaker.nonzero
    assert weaker.l1 == chosen.l1 / 2
    assert chosen.l2 == pytest.approx(rs.Problem(X, y).smoothness.L_f / 200)
    assert figure1.task(X, y, 0, store).nonzero == 0


@pytest.mark.usefixtures("without_pictures")
def test_where_one_prox_an_epoch_stalls_the_recipe_fails_loudly(
    a1a: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """λ1 = λ_max/16: the prox of an epoch has γnλ1 = 7.6 and sets everything to zero."""
    monkeypatch.setattr(figure1, "choose", lambda X, y, store: figure1.task(X, y, 4, store))
    done = reproduce("figure1", "--quick", "--seeds", "1", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "a claim does not hold in this run" in done.output
    assert "DOES NOT HOLD: All methods reach a tenth" in done.output
    assert "DOES NOT HOLD" in (tmp_path / "figure1.html").read_text()


# --- other data than the paper's ---------------------------------------------------------------


def test_a_file_is_never_called_by_a_name_that_is_not_its_own(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure1, "_draw", lambda *curves: curves[-1].with_suffix(".png").touch())
    common = ("figure1", "--quick", "--epochs", "5", "--out", str(tmp_path / "out"))
    for asked in (("--data", str(stand_in)), ("--dataset", str(stand_in / "a1a"))):
        done = reproduce(*common, *asked, "--seed-list", "7,3", "--l1", "0.02")
        assert done.exit_code == 0, done.output  # the paper claims nothing about this file
        assert "data: the file a1a (sha256" in done.output
        assert "NOT the set a1a" in done.output
        assert "The paper does not show this figure for the file a1a" in done.output
        assert "seeds: 7, 3" in done.output
        assert "λ1: 0.02 = λ_max/" in done.output
        assert "The paper does not show" in (tmp_path / "out" / "figure1.html").read_text()
    with open(tmp_path / "out" / "figure1.csv") as file:
        assert {row["seed"] for row in csv.DictReader(file)} == {"7", "3"}
    done = reproduce(*common, "--data", str(stand_in), "--l1", "9")
    assert done.exit_code == 1
    assert "l1 must lie between 0 and λ_max" in done.output


def test_sets_are_known_by_their_content(a1a: Any, data_folder: Path, stand_in: Path) -> None:
    assert rs.datasets.identity(data_folder / "a1a") == ("a1a", "a1a")
    renamed = stand_in / "mushrooms"
    renamed.write_bytes((data_folder / "a1a").read_bytes())
    assert rs.datasets.identity(renamed).name == "a1a"  # whatever it is called
    (stand_in / "w1a").write_text("1 1:1\n")
    assert "whose sha256 is not known" in rs.datasets.identity(stand_in / "w1a").label
    (stand_in / "mine").write_text("1 1:1\n")
    assert rs.datasets.identity(stand_in / "mine").label.startswith("the file mine (sha256")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("theorems", "--dataset", "a9a"), "--dataset is for figure1 and figure2"),
        (("figure2", "--l1", "0.1"), "--l1 is for figure1"),
        (("figure1", "--clients", "3"), "--clients is for figure2"),
        (("figure1", "--seed-list", "1;2"), "--seed-list wants numbers"),
        (("figure1", "--seed-list", "1,-2"), "--seed-list wants numbers"),
        (("figure1", "--seeds", "2", "--seed-list", "1"), "not both"),
        (("figure1", "--dataset", "no such file"), "no data file"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], message: str) -> None:
    done = reproduce(*options)
    assert done.exit_code != 0
    assert message in " ".join(done.output.replace("│", " ").split())


def test_the_table_of_claims_by_data_set(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (figure1, figure2):
        monkeypatch.setattr(module, "_draw", lambda *all_: all_[-1].with_suffix(".png").touch())
    monkeypatch.setattr(claims, "here", lambda folder: [("a1a", stand_in / "a1a")])
    done = reproduce("claims", "--quick", "--epochs", "3", "--seeds", "1", "--clients", "2",
                     "--out", str(tmp_path))  # fmt: skip
    assert done.exit_code == 0, done.output
    with open(tmp_path / "claims.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["figure"] for row in rows] == ["figure1"] * 3 + ["figure2"] * 3
    assert all("NOT the set a1a" in row["data"] for row in rows)
    assert all(row["data"].endswith("200 × 24") for row in rows)
    assert {row["verdict"] for row in rows} <= {"holds", "DOES NOT HOLD", "NOT REPRODUCED"}
    assert (tmp_path / "a1a" / "figure2.html").exists()
    monkeypatch.setattr(claims, "here", lambda folder: [])
    assert (
        "none of the data sets is on this machine"
        in reproduce("claims", "--out", str(tmp_path)).output
    )


# --- the claim ---------------------------------------------------------------------------------


def curve(rate: float, prox: int) -> Curve:
    """gap = 10^{-rate·epoch}, ``prox`` evaluations per epoch."""
    epochs = np.arange(31.0)
    return Curve(epochs, epochs, prox * epochs, epochs, np.tile(10.0 ** (-rate * epochs), (2, 1)))


def holding(**curves: Curve) -> list[bool]:
    return [check.holds for check in claim.check(curves, "ours")]


def test_the_claim_in_all_its_parts() -> None:
    assert holding(sgd=curve(0.1, 1000), ours=curve(0.1, 1)) == [True, True, True]
    assert holding(sgd=curve(0.1, 1000), ours=curve(0.3, 1)) == [True, True, True]  # faster is well
    assert holding(sgd=curve(0.16, 1000), ours=curve(0.04, 1)) == [True, False, True]
    assert holding(sgd=curve(0.1, 1000), ours=curve(0.1, 20)) == [True, True, False]
    assert holding(sgd=curve(0.03, 1000), ours=curve(0.1, 1)) == [False, True, True]
    assert holding(sgd=curve(0.0, 1000), ours=curve(0.1, 1)) == [False, False, False]


def test_work_at_equal_accuracy() -> None:
    curves = {"sgd": curve(0.1, 1000), "ours": curve(0.05, 1)}
    rungs = claim.ladder(curves)
    assert [rung.accuracy for rung in rungs] == pytest.approx([10**-0.5, 0.1, 10**-1.5])
    assert [rung.passes["sgd"] for rung in rungs] == [5, 10, 15]
    assert [rung.prox_evals["ours"] for rung in rungs] == [10, 20, 30]
    assert rungs[1].slowdown("ours") == 2
    assert rungs[1].saving("ours") == 500
    assert claim.numbers(curves, "ours").rows[1][-1] == "500×"


# --- the theorems ------------------------------------------------------------------------------


def test_all_theorems_hold(tmp_path: Path) -> None:
    done = reproduce("theorems", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "160 of 160 hold" in done.output
    assert (tmp_path / "theorems.png").read_bytes()[:4] == b"\x89PNG"
    with open(tmp_path / "theorems.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 164
    broken = [row["method"] for row in rows if float(row["exact"]) > float(row["bound"])]
    assert broken == ["γ = 3/L_max for 1/L_max", "prox with γ for γn"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("proxrr_f_bound", comparisons.proximal),
        ("proxsgd_bound", comparisons.proximal_sgd),
        ("fed_bound", comparisons.federated),
    ],
)
def test_a_bound_that_is_too_small_is_found_out(
    name: str, part: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    right: Callable[..., Any] = getattr(theory, name)
    monkeypatch.setattr(theory, name, lambda *given, **named: 0.8 * right(*given, **named))
    assert not all(one.holds for one in part())


@pytest.mark.usefixtures("without_pictures")
def test_a_theorem_that_does_not_hold_is_loud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one() -> list[comparisons.RateComparison]:
        return [
            comparisons.RateComparison("T", "p", "RR", start, 1.0, 1, exact, 1.0)
            for start, exact in (("far", 0.5), ("x*", 1.1))
        ]

    horizons = np.array([50, 100, 200, 400])
    rates = dict(zip(theorems.RATES, (1.0 / horizons**2, 1.0 / horizons**3), strict=True))
    monkeypatch.setattr(theorems, "everything", one)
    monkeypatch.setattr(theorems, "rates", lambda horizons: rates)
    done = reproduce("theorems", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "DOES NOT HOLD: Every bound holds in every comparison. 1 of 2 hold" in done.output
    assert "DOES NOT HOLD: ProxSGD, 1/t steps" in done.output
    assert "DOES NOT HOLD: ProxRR, decreasing" not in done.output


# --- pages and the command ---------------------------------------------------------------------


def test_a_page_stands_alone_and_shows_what_fails(tmp_path: Path) -> None:
    report = Report(
        title="A < B",
        text="one\n\ntwo",
        configuration={"λ1": "0.1"},
        tables=[Numbers("numbers", ["x", "y"], [["<1>", "2"]])],
        checks=[ClaimCheck("It holds.", False, "it is 3")],
    )
    assert not report.holds
    page.write(report, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    for piece in ("A &lt; B", "<p>two</p>", "<td>&lt;1&gt;</td>", "DOES NOT HOLD", rs.__version__):
        assert piece in html
    assert "http" not in html
    assert (
        "td:not(.name), .tile b { white-space: nowrap; }" in html
    )  # 1.1e-01 is not broken after its hyphen


def test_settings_choose_amounts(tmp_path: Path) -> None:
    assert Settings(tmp_path).amounts() == (list(range(10)), 100)
    assert Settings(tmp_path, quick=True).amounts() == ([0, 1, 2], 30)
    assert Settings(tmp_path, seeds=4, quick=True).amounts() == ([0, 1, 2, 3], 30)
    assert Settings(tmp_path, epochs=7).amounts(seeds=(5, 2)) == ([0, 1, 2, 3, 4], 7)
    assert Settings(tmp_path, seed_list=(7, 3)).amounts() == ([7, 3], 100)


def test_the_command_knows_its_recipes(tmp_path: Path) -> None:
    done = reproduce("figure7", "--out", str(tmp_path))
    assert done.exit_code == 2
    for name in (*RECIPES, "all"):
        assert name in done.output
    assert reproduce("--out", str(tmp_path)).exit_code == 2


# --- what the theory predicts ------------------------------------------------------------------


@pytest.mark.parametrize(("ridge", "l2"), [(0.0, 0.02), (0.02, 0.0)])
def test_predictions_are_what_the_bounds_grant(ridge: float, l2: float) -> None:
    X, y = rs.datasets.synthetic(60, 5, seed=1)
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.002, l2), ridge=ridge)
    c = theory.constants(problem)
    eps = 0.01 * c.r0
    found, radius = theory.predictions(problem, c, eps)
    by_name = {one.method: one for one in found}
    assert ("ProxRR, decreasing" in by_name) is (l2 > 0)
    bound = theory.proxrr_f_bound if ridge else theory.proxrr_psi_bound
    plain, measured = by_name["ProxRR"], by_name["ProxRR, measured σ_rad"]
    assert bound(c, plain.epochs, plain.step) <= plain.reached
    assert bound(c, measured.epochs, measured.step, radius.high) <= measured.reached
    assert measured.epochs < plain.epochs
    sgd = by_name["ProxSGD"]
    assert theory.proxsgd_bound(c, sgd.gradients / c.n, sgd.step) <= sgd.reached
    assert (plain.prox_evals, sgd.prox_evals) == (plain.gradients // c.n, sgd.gradients)
    if l2 > 0:
        T = by_name["ProxRR, decreasing"].epochs
        assert theory.decreasing_bound(c, T) <= eps < theory.decreasing_bound(c, T - 1)
    with pytest.raises(rs.InputError, match="the start already has"):
        theory.predictions(problem, c, 2 * c.r0)


def test_the_theory_command_prints_constants_steps_and_preference(stand_in: Path) -> None:
    file = str(stand_in / "a1a")
    done = CliRunner().invoke(main, ["theory", file, "--l1", "0.01", "--accuracy", "0.01"])
    assert done.exit_code == 0, done.output
    for word in ("L_max", "σ_rad²", "‖∇f(x*)‖", "ProxSGD", "ProxRR, copies", "fewest prox evals"):
        assert word in done.output
    X, y = rs.datasets.load_libsvm(file)
    plain = rs.Problem(X, y)
    l2 = plain.smoothness.L_f / plain.n
    c = theory.constants(rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.01, l2)))
    assert f"{c.sigma_star_sq:.4g}" in done.output
    assert f"{theory.proxsgd_step(c, 0.01):.3g}" in done.output
    ridge = CliRunner().invoke(main, ["theory", file, "--ridge", "0.1", "--loss", "squared"])
    assert "strongly convex f_i" in ridge.output
    assert "λ2 = 0," in ridge.output


def test_a_narrow_terminal_loses_no_number(stand_in: Path) -> None:
    command = ["theory", str(stand_in / "a1a"), "--l1", "0.01", "--accuracy", "0.01"]
    wide, narrow = (CliRunner(env={"COLUMNS": w}).invoke(main, command) for w in ("200", "40"))
    assert "…" not in narrow.output
    assert narrow.output.split() == wide.output.split()


def test_the_theory_command_needs_strong_convexity(stand_in: Path) -> None:
    done = CliRunner().invoke(main, ["theory", str(stand_in / "a1a"), "--l2", "0"])
    assert done.exit_code == 1
    assert "strongly convex" in done.output
    assert "Traceback" not in done.output
