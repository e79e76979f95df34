"""Sites: data at home, a handshake, and what leaves a client."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from test_engines import Recording

import reshuffle as rs
from reshuffle.engines import Failure, Reply, Task
from reshuffle.federated.local import described, local_of

Site, Sites = rs.federated.Site, rs.federated.Sites
PENALTY = rs.penalties.ElasticNet(0.01, 0.02)


def pooled(n: int = 90, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) * (rng.random((n, 5)) < 0.7)
    return X, np.where(X @ rng.standard_normal(5) + rng.standard_normal(n) > 0, 1.0, -1.0)


PARTS = [slice(0, 20), slice(20, 50), slice(50, 90)]


def both(**settings: Any) -> tuple[Any, Any]:
    """The same clients as a federation in memory and as sites."""
    X, y = pooled()
    whole = rs.Problem(X, y, penalty=PENALTY, **settings)
    lists = [list(range(90))[part] for part in PARTS]
    sites = Sites([(X[part], y[part]) for part in PARTS], penalty=PENALTY, **settings)
    return rs.federated.split(whole, by=lists), sites


SOLVERS: dict[str, Any] = {
    "FedRR": rs.FedRR(rounds=4, seed=2),
    "LocalSGD": rs.LocalSGD(rounds=4, seed=2),
    "ExactFedRR": rs.ExactFedRR(rounds=6, seed=2, step=0.1, local_passes=2),
    "participation": rs.FedRR(rounds=4, seed=2, participation=0.4),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("settings", [{}, {"ridge": 0.1, "fit_intercept": True}])
def test_sites_give_the_same_bits_as_the_data_in_the_driver(
    name: str, settings: dict[str, Any]
) -> None:
    federation, sites = both(**settings)
    here, there = SOLVERS[name].solve(federation), SOLVERS[name].solve(sites)
    assert there.digest == here.digest
    if name != "participation":  # of those that were not asked nothing is known
        assert there.trace["objective"].tolist() == here.trace["objective"].tolist()


def test_the_defaults_of_exactfedrr_reach_the_pooled_solution_and_stop() -> None:
    X, y = pooled()
    best = rs.FISTA(tol=1e-12, epochs=20000).solve(rs.Problem(X, y, penalty=PENALTY))
    for power in (0, 5):
        sites = Sites([(X[p], y[p]) for p in PARTS], penalty=PENALTY, power_rounds=power)
        found = rs.ExactFedRR(rounds=400, tol=1e-11).solve(sites)
        assert found.converged
        assert found.trace["gap"][-1] <= 1e-11
        np.testing.assert_allclose(found.x, best.x, atol=1e-5)
        problem = rs.Problem(X, y, penalty=PENALTY)
        assert found.trace["objective"][-1] == pytest.approx(problem.objective(found.x), abs=1e-14)


# --- where data may lie ------------------------------------------------------------------------


def written(folder: Path, kind: str, X: Any, y: Any) -> Any:
    path = folder / f"site.{kind}"
    if kind == "svm":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    elif kind == "npz":
        np.savez(path, X=X, y=y)
    elif kind == "sparse.npz":
        A = sp.csr_matrix(X)
        np.savez(path, data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape, y=y)
    elif kind == "csv":
        rows = [
            ",".join(map(repr, [*row, label]))
            for row, label in zip(X.tolist(), y.tolist(), strict=True)
        ]
        path.write_text("\n".join(["a,b,c,d,e,sick", *rows]) + "\n")
    elif kind == "folder":
        path.mkdir()
        np.save(path / "X.npy", X)
        np.save(path / "y.npy", y)
    elif kind == "function":
        return lambda: {"X": X, "y": y}
    return path


@pytest.mark.parametrize("kind", ["svm", "npz", "sparse.npz", "csv", "folder", "function"])
def test_every_kind_of_home(kind: str, tmp_path: Path) -> None:
    X, y = pooled()
    homes = []
    for k, part in enumerate(PARTS):
        (tmp_path / str(k)).mkdir()
        homes.append(written(tmp_path / str(k), kind, X[part], y[part]))
    solver = rs.FedRR(rounds=3, seed=1)
    expected = solver.solve(both()[1])
    found = solver.solve(Sites(homes, penalty=PENALTY))
    np.testing.assert_allclose(found.x, expected.x, atol=1e-14)


def test_the_target_column_of_a_csv_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ill,x\nyes,1\nno,2\n")
    (tmp_path / "b.csv").write_text("ill,x\nno,5\n")
    sites = [Site(tmp_path / name, target="ill") for name in ("a.csv", "b.csv")]
    assert np.isfinite(rs.FedRR(rounds=2).solve(Sites(sites)).x).all()
    with pytest.raises(rs.ClientError, match=r"client 1 .*b.csv.*'il'"):
        rs.FedRR(rounds=2).solve(Sites([sites[0], Site(tmp_path / "b.csv", target="il")]))


@pytest.mark.parametrize(
    ("home", "words"),
    [
        ("nowhere.svm", r"client 1 \(nowhere.svm\): there is no file"),
        (lambda: 7, "must be .X, y., or a dict with X and y, got 7"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        ((np.ones((3, 5)), np.ones(2)), "one entry for each of 3 rows"),
        ((np.ones((2, 5)) * np.nan, np.array([1.0, -1])), "X must be finite"),
        ((np.ones((2, 5)), np.array([1.0, np.nan])), "y must hold labels, got NaN"),
    ],
)
def test_a_site_that_cannot_load_its_data_is_named(home: Any, words: str) -> None:
    X, y = pooled()
    with pytest.raises(rs.ClientError, match=words) as caught:
        rs.FedRR(rounds=1, retries=0).solve(Sites([(X, y), home]))
    assert caught.value.clients == [1]


@pytest.mark.parametrize("given", [[], "a.svm", 3, [3], [None]])
def test_what_is_no_list_of_sites_is_refused(given: Any) -> None:
    with pytest.raises(rs.InputError, match="site"):
        Sites(given)


# --- agreement ---------------------------------------------------------------------------------


def test_a_site_with_one_class_is_welcome() -> None:
    X, y = pooled()
    up = y > 0
    sites = Sites([(X[up], y[up]), (X[~up], y[~up])], penalty=PENALTY)
    best = rs.FISTA(tol=1e-11, epochs=9999).solve(rs.Problem(X, y, penalty=PENALTY))
    found = rs.ExactFedRR(rounds=400, tol=1e-13).solve(sites)
    np.testing.assert_allclose(found.x, best.x, atol=1e-6)


def test_classes_are_those_of_all_sites() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), np.array(["a", "b", "c"])[np.arange(30) % 3]
    sites = Sites(
        [(X[y != "c"], y[y != "c"]), (X[y == "c"], y[y == "c"])],
        loss=rs.losses.Multinomial(),
        penalty=rs.penalties.L2(0.1),
    )
    whole = rs.Problem(
        X, rs.encode_labels(y)[0], loss=rs.losses.Multinomial(), penalty=rs.penalties.L2(0.1)
    )
    best = rs.FISTA(tol=1e-11, epochs=9999).solve(whole)
    found = rs.ExactFedRR(rounds=300, tol=1e-13).solve(sites)
    np.testing.assert_allclose(found.x, best.x, atol=1e-6)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ((np.ones((4, 3)), np.array([1.0, -1, 1, -1])), r"features of client 1 is 3, of client 0 5"),
        ((np.ones((2, 5)), np.array([0.0, 1.0])), r"needs two labels over all sites, .* 3 \(client 0: \[-1.0, 1.0\]; client 1: \[0.0, 1.0\]\)"),
        ((np.ones((2, 5)), np.array(["yes", "no"])), r"kind of labels of client 1 is text, of client 0 numbers"),
        ((np.ones((2, 5)), np.array([1.0, -1]), None, list("abcde")), r"names of client 1 is \[.a., "),
    ],
)  # fmt: skip
def test_sites_that_disagree_are_refused_naming_both(other: Any, words: str) -> None:
    engine = Recording()
    with pytest.raises(rs.InputError, match=words):
        rs.FedRR(rounds=1, engine=engine).solve(Sites([pooled(), other]))
    assert {task.kind for task in engine.tasks} == {"hello"}  # before the first round


@pytest.mark.parametrize("part", ["version", "loss", "intercept", "ridge"])
def test_sites_of_another_version_or_model_are_refused(part: str) -> None:
    def other(task: Task, answer: Any) -> Any:
        if task.kind != "hello" or answer.client != 1:
            return answer
        value = {"version": "0.0.9", "loss": "Squared()", "intercept": 1, "ridge": 0.5}[part]
        return replace(answer, more=answer.more | {part: value}, check=None)

    with pytest.raises(rs.InputError, match=f"{part} of client 1 is .*, of client 0"):
        rs.FedRR(rounds=1, engine=Recording(other)).solve(both()[1])


def test_sparse_files_of_different_widths_are_one_federation(tmp_path: Path) -> None:
    X, y = pooled()
    Z = X.copy()
    Z[:45, 4] = 0.0  # the first file does not mention the last feature
    for k, part in enumerate([slice(0, 45), slice(45, 90)]):
        dump_svmlight_file(Z[part], y[part], str(tmp_path / f"{k}.svm"), zero_based=False)
    sites = Sites([tmp_path / "0.svm", tmp_path / "1.svm"], penalty=PENALTY)
    assert rs.FedRR(rounds=2).solve(sites).x.shape == (5,)


def test_sample_weights_are_normalised_over_the_sites() -> None:
    X, y = pooled()
    w = np.random.default_rng(3).random(90) * np.repeat([1.0, 9.0], [20, 70])
    whole = rs.Problem(X, y, penalty=PENALTY, sample_weight=w)
    sites = Sites([(X[p], y[p], w[p]) for p in PARTS], penalty=PENALTY)
    found = rs.ExactFedRR(rounds=400, tol=1e-13).solve(sites)
    best = rs.FISTA(tol=1e-11, epochs=9999).solve(whole)
    np.testing.assert_allclose(found.x, best.x, atol=1e-6)


@pytest.mark.parametrize("layout", [np.array, sp.csr_matrix])
def test_sites_standardise_alike(layout: Any) -> None:
    X, y = pooled()
    X = X * [1.0, 100.0, 0.01, 1.0, 0.0] + (3.0 if layout is np.array else 0.0)
    sites = Sites([(layout(X[p]), y[p]) for p in PARTS], penalty=PENALTY, standardise=True)
    scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    Z = (X - X.mean(axis=0)) / scale if layout is np.array else X / scale
    best = rs.FISTA(tol=1e-11, epochs=9999).solve(rs.Problem(Z, y, penalty=PENALTY))
    found = rs.ExactFedRR(rounds=400, tol=1e-13).solve(sites)
    np.testing.assert_allclose(found.x, best.x, atol=1e-6)


# --- what leaves a client ----------------------------------------------------------------------

LEAVES = {
    "hello": {"version", "samples", "features", "sparse", "form", "names", "classes", "outputs", "loss",
              "ridge", "intercept", "weight", "data", "shifts"},
    "load": {"visits", "steps", "smoothness", "L_max", "L_mean", "L_f"},
    "columns": {"mean", "squares", "filled", "weight", "sparse"},
    "train": {"value", "gradient"},
    "value": {"value", "gradient", "floor"},
}  # fmt: skip


def test_exactly_this_leaves_a_client() -> None:
    """The list of docs/federated.md."""
    engine = Recording()
    rs.ExactFedRR(rounds=3, tol=1e-9, engine=engine).solve(both()[1])
    kinds = {task.digest + task.run: task.kind for task in engine.tasks}
    for answer in engine.answers:
        kind = kinds[answer.digest + answer.run]
        assert isinstance(answer, Reply)
        assert set(answer.more) <= LEAVES[kind]
        assert answer.model.shape == ((5,) if kind == "train" else (0,))
        for name, value in answer.more.items():
            array = isinstance(value, np.ndarray)
            long = name in ("gradient", "mean", "squares", "filled")
            assert (array and np.shape(value) == (5,)) if long else not array


@pytest.mark.parametrize(("objective", "tol"), [(False, 0.0), (False, 1e-9), (True, 0.0)])
def test_values_and_gradients_can_be_kept_at_home(objective: bool, tol: float) -> None:
    X, y = pooled()
    engine = Recording()
    sites = Sites([(X[p], y[p]) for p in PARTS], objective=objective)
    found = rs.FedRR(rounds=3, tol=tol, engine=engine).solve(sites)
    assert np.isnan(found.trace["objective"]).all() == (not objective)
    asked = {"value"} if objective else set()
    asked |= {"gradient"} if tol else set()
    told = [set(a.more) for t, a in zip(engine.tasks * 3, engine.answers, strict=False)]
    assert set().union(*(names & {"value", "gradient"} for names in told)) == asked


def test_the_audit_has_a_line_for_every_message(tmp_path: Path) -> None:
    X, y = pooled()
    homes = [Site((X[p], y[p]), audit=tmp_path / f"{k}.jsonl") for k, p in enumerate(PARTS)]
    result = rs.FedRR(rounds=4, seed=1).solve(Sites(homes, penalty=PENALTY))
    lines = [json.loads(line) for line in (tmp_path / "1.jsonl").read_text().splitlines()]
    assert [line["way"] for line in lines] == ["in", "out"] * (len(lines) // 2)
    train = [line for line in lines if line["kind"] == "train"]
    assert [line["round"] for line in train] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {line["client"] for line in lines} == {1}
    assert all(len(line["sha256"]) == 64 for line in lines)
    sent = sum(line["bytes"] for line in train if line["way"] == "out")
    assert 3 * sent == result.trace["bytes_up"][-1]


# --- the trace, resuming, held-out metrics -----------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_a_resumed_run_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    solver, sites = SOLVERS[name], both()[1]
    whole = solver.solve(sites)
    path = tmp_path / "run.npz"
    solver.solve(sites, callbacks=[rs.Checkpoint(path), lambda r: r.epoch == 2])
    resumed = solver.solve(sites, resume=path)
    assert resumed.digest == whole.digest
    np.testing.assert_array_equal(resumed.trace["objective"], whole.trace["objective"])
    X, y = pooled(seed=1)
    with pytest.raises(rs.InputError, match="different: clients"):
        solver.solve(Sites([(X[p], y[p]) for p in PARTS], penalty=PENALTY), resume=path)


def test_held_out_metrics_and_early_stopping() -> None:
    X, y = pooled(seed=4)
    T, t = pooled(seed=5)
    homes = [Site((X[p], y[p]), test=(T[p], t[p])) for p in PARTS[:2]] + [
        Site((X[PARTS[2]], y[PARTS[2]]))
    ]
    sites = Sites(homes, penalty=PENALTY)
    found = rs.FedRR(rounds=6, evaluate=2).solve(sites)
    known = ~np.isnan(found.trace["held_out_loss"])
    assert found.trace["epoch"][known].tolist() == [2, 4, 6]
    z = T[:50] @ found.x
    assert found.trace["held_out_loss"][-1] == pytest.approx(np.log1p(np.exp(-t[:50] * z)).mean())
    assert found.trace["held_out_accuracy"][-1] == np.mean(np.sign(z) == t[:50])
    from sklearn.metrics import roc_auc_score

    areas = [roc_auc_score(t[p], T[p] @ found.x) for p in PARTS[:2]]
    assert found.state["held_out"][:2, 2] == pytest.approx(areas)
    table = found.held_out
    assert list(table) == ["client 0", "client 1", "all sites"]
    assert [table[f"client {k}"]["auc"] for k in range(2)] == pytest.approx(areas)
    assert table["all sites"]["samples"] == 50
    assert repr(table).splitlines()[0].split() == ["samples", "loss", "accuracy", "auc"]
    with pytest.raises(KeyError, match="there are client 0, client 1, all sites"):
        table["client 2"]
    late = rs.FedRR(rounds=5, evaluate=2).solve(sites)  # the last round is none of every second
    assert late.trace["held_out_loss"][-1] == late.held_out["all sites"]["loss"]
    assert rs.FedRR(rounds=5).solve(sites).held_out.table == late.held_out.table
    assert found.trace["held_out_auc"][-1] == pytest.approx(np.average(areas, weights=[20, 30]))
    assert not found.state["held_out_known"][2].any()
    stopped = rs.FedRR(rounds=500, evaluate=1, step=0.2).solve(
        sites, callbacks=[rs.federated.EarlyStopping(patience=2)]
    )
    assert stopped.epoch < 500
    for federation in both():
        with pytest.raises(rs.InputError, match="evaluate is for"):
            rs.FedRR(evaluate=1).solve(federation)


def test_d2_over_sites_is_that_of_the_pooled_counts() -> None:
    """R² was computed from the logarithm of the mean."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((120, 3))
    y = rng.poisson(np.exp(X @ [0.5, -0.4, 0.1])).astype(float)
    half = [(X[part], y[part]) for part in (slice(0, 30), slice(30, 80), slice(80, 120))]
    sites = rs.federated.Sites(
        [rs.federated.Site(each, test=each) for each in half],
        loss=rs.losses.Poisson(), penalty=rs.penalties.L2(0.01), fit_intercept=True,
    )  # fmt: skip
    result = rs.FedNewton(tol=1e-9, evaluate=1).solve(sites)
    found = result.held_out["all sites"]
    model = rs.estimators.from_federation(result)
    assert found["d2"] == pytest.approx(model.score(X, y), abs=1e-12)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    assert "r2" not in found
    assert result.trace["held_out_d2"][-1] == found["d2"]


def test_r2_over_sites_is_that_of_the_pooled_samples() -> None:
    X, _ = pooled()
    t = X @ np.arange(5.0) + 1.0
    homes = [Site((X[p], t[p]), test=(X[p], t[p] + 0.1)) for p in PARTS]
    sites = Sites(homes, loss=rs.losses.Squared(), fit_intercept=True)
    found = rs.ExactFedRR(rounds=30, evaluate=30).solve(sites)
    from sklearn.metrics import r2_score

    r2 = r2_score(t + 0.1, X @ found.x[:-1] + found.x[-1])
    assert found.trace["held_out_r2"][-1] == pytest.approx(r2, abs=1e-12)


# --- faults ------------------------------------------------------------------------------------


def test_a_site_whose_message_was_lost_is_asked_again() -> None:
    seen: set[Any] = set()

    def once(task: Task, answer: Any) -> Any:
        key = (task.kind, task.round, task.digest, answer.client)
        if answer.client == 2 and key not in seen:
            seen.add(key)
            return Failure(2, "lost")
        return answer

    solver = SOLVERS["ExactFedRR"]
    sites = both()[1]
    found = replace(solver, engine=Recording(once)).solve(sites)
    assert found.digest == solver.solve(sites).digest


BAD: dict[str, Callable[[Any], Any]] = {
    "a list": lambda more: [more],
    "an object": lambda more: more | {"value": {"a": 1}},
    "objects": lambda more: more | {"value": np.array([None])},
    "NaN": lambda more: more | {"value": np.nan},
}


@pytest.mark.parametrize("name", BAD)
def test_records_that_are_not_plain_are_refused(name: str) -> None:
    def spoil(task: Task, answer: Any) -> Any:
        if task.kind != "train" or answer.client != 1:
            return answer
        return replace(answer, more=BAD[name](answer.more), check=None)

    words = "hold NaN" if name == "NaN" else "must hold arrays, numbers and strings"
    with pytest.raises(rs.ClientError, match=words):
        rs.FedRR(rounds=1, engine=Recording(spoil)).solve(both()[1])


def test_local_work_travels_as_a_record() -> None:
    for solver in SOLVERS.values():
        federation = both()[0]
        local = solver.local(federation)
        record = described(local)
        assert all(type(value) in (str, int, float) for value in record.values())
        assert local_of(json.loads(json.dumps(record))) == local

    class Backwards:
        def visits(self, pool: Any, rng: Any, epoch: int) -> Any:
            return pool[::-1]

    with pytest.raises(rs.InputError, match="not known to sites: use Reshuffle"):
        rs.FedRR(order=Backwards()).solve(both()[1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"ridge": -1.0}, "ridge"), ({"ridge": np.nan}, "ridge"), ({"power_rounds": -1}, "power_rounds")],
)  # fmt: skip
def test_bad_settings_of_sites_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        Sites([pooled()], **settings)


def test_what_else_sites_may_bring() -> None:
    """Text as pandas has it, rows that are all zero, a single sample, sparse beside dense."""
    X, y = pooled()
    text = np.array(["up" if label > 0 else "down" for label in y], dtype=object)
    homes = [(X[:30], text[:30]), (0 * X[30:50], text[30:50]), (X[50:51], text[50:51]), (sp.csr_matrix(X[51:]), text[51:])]  # fmt: skip
    found = rs.ExactFedRR(rounds=400, tol=1e-11).solve(Sites(homes, penalty=PENALTY))
    assert found.converged
    Z = np.vstack([X[:30], 0 * X[30:50], X[50:]])
    best = rs.FISTA(tol=1e-11, epochs=9999).solve(rs.Problem(Z, y, penalty=PENALTY))
    np.testing.assert_allclose(found.x, best.x, atol=1e-5)


def test_other_solvers_say_who_takes_sites() -> None:
    for solver in (rs.FISTA(), rs.ExactProxRR(), rs.ProxRR()):
        with pytest.raises(rs.InputError, match="for sites use ExactFedRR"):
            solver.solve(both()[1])


def test_a_model_is_not_lost_where_sites_leave_before_the_last_message(caplog: Any) -> None:
    def gone(task: Task, answer: Any) -> Any:
        return Failure(answer.client, "gone") if task.kind == "value" else answer

    with caplog.at_level("WARNING", logger="reshuffle"):
        found = rs.FedRR(rounds=2, engine=Recording(gone), retries=0).solve(both()[1])
    assert found.epoch == 2
    assert np.isfinite(found.trace["objective"][:-1]).all()
    assert "P(x) of the last round is not known" in caplog.text


def test_a_model_is_not_lost_where_sites_cannot_judge_it(caplog: Any) -> None:
    def gone(task: Task, answer: Any) -> Any:
        return Failure(answer.client, "gone") if task.kind == "metrics" else answer

    X, y = pooled()
    homes = [Site((X[p], y[p]), test=(X[p], y[p]), name=f"s{k}") for k, p in enumerate(PARTS)]
    with caplog.at_level("WARNING", logger="reshuffle"):
        found = rs.FedRR(rounds=2, engine=Recording(gone), retries=0).solve(Sites(homes))
    assert not found.held_out
    assert "how good the final model is at the sites is not known" in caplog.text
    assert rs.estimators.from_federation(found).score(X, y) > 0.5


def test_sites_of_one_name_are_told_apart() -> None:
    X, y = pooled()
    homes = [Site((X[p], y[p]), test=(X[p], y[p]), name="all sites") for p in PARTS]
    assert list(rs.FedRR(rounds=1).solve(Sites(homes)).held_out) == [
        "all sites (0)", "all sites (1)", "all sites (2)", "all sites",
    ]  # fmt: skip


def test_the_tally_agrees_with_the_trace() -> None:
    found = rs.FedRR(rounds=4, seed=1, participation=0.4).solve(both()[1])
    kinds = found.tally.by_kind()
    assert kinds["train"].up == found.trace["bytes_up"][-1]
    assert kinds["train"].down == found.trace["bytes_down"][-1]
    assert sum(part.rounds for part in found.tally.parts) == 4
    assert [part.samples for part in found.tally.parts] == [20, 30, 40]


# --- found by an attack ---------------------------------------------------------------------------


def _halves(offset: float = 0.0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) + offset
    y = np.where((X - offset) @ [1, -2, 0.5, 0] + 0.5 * rng.normal(size=80) > 0, 1, 0)
    return X, y, (X[:40], y[:40]), (X[40:], y[40:])


def test_a_run_is_not_resumed_with_another_loss(tmp_path: Path) -> None:
    _, _, one, other = _halves()
    solver = rs.ExactFedRR(rounds=200, tol=1e-6)
    sites = rs.federated.Sites
    solver.solve(sites([one, other], penalty=rs.penalties.L2(0.1))).save(tmp_path / "r.npz")
    for loss in (rs.losses.SquaredHinge(), rs.losses.Huber(0.1)):
        with pytest.raises(rs.InputError, match="another problem"):
            solver.solve(
                sites([one, other], loss, penalty=rs.penalties.L2(0.1)), resume=tmp_path / "r.npz"
            )


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_standardised_columns_keep_their_digits(offset: float) -> None:
    X, y, one, other = _halves(offset)
    psi = rs.penalties.ElasticNet(1e-2, 1e-2)
    sites = rs.federated.Sites([one, other], penalty=psi, fit_intercept=True, standardise=True)
    found = rs.ExactFedRR(rounds=300, tol=1e-7).solve(sites)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    pooled = rs.ExactProxRR(tol=1e-10).solve(rs.Problem(Z, y, penalty=psi, fit_intercept=True))
    np.testing.assert_allclose(found.x, pooled.x, atol=1e-4)


def test_constant_columns_stay_as_they_are() -> None:
    X, y, _, _ = _halves()
    X = np.c_[X, np.full(80, 0.1)]
    sites = rs.federated.Sites([(X[:33], y[:33]), (X[33:], y[33:])], standardise=True)
    found = rs.ExactFedRR(rounds=5).solve(sites)
    assert np.abs(found.x[4]) < 1e-12


def test_held_out_columns_are_those_of_the_data(tmp_path: Path) -> None:
    X, y, _, _ = _halves()
    order = {"a": "abcd", "b": "abcd", "same": "abcd", "test": "dcba", "less": "abc"}
    for name, columns in order.items():
        rows = X[:, ["abcd".index(c) for c in columns]].tolist()
        lines = [",".join([*map(str, x), str(t)]) for x, t in zip(rows, y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([",".join([*columns, "t"]), *lines]))

    def solved(test: str) -> Any:
        home = rs.federated.Site(tmp_path / "a.csv", test=tmp_path / f"{test}.csv")
        return rs.ExactFedRR(rounds=2).solve(rs.federated.Sites([home, tmp_path / "b.csv"]))

    assert solved("test").held_out.table == solved("same").held_out.table  # columns go by name
    with pytest.raises(rs.ClientError, match=r"client 0 .*columns of test.*got 'd'"):
        solved("less")


def test_a_site_that_exits_is_a_failure_and_no_hang() -> None:
    _, _, _, other = _halves()

    def gone() -> Any:
        raise SystemExit(3)

    with pytest.raises(rs.ClientError, match="SystemExit"):
        rs.ExactFedRR(rounds=2).solve(rs.federated.Sites([gone, other]))


def test_cells_of_a_table_stay_at_the_site(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that a reader cannot take was quoted in the error that the driver shows."""
    north, south = tmp_path / "north.csv", tmp_path / "south.csv"
    north.write_text("a,b,ill\n1,2,0\n3,4,1\n")
    south.write_text("a,b,ill\n1,2,0\n3,4,1,John Smith 1961 HIV\n")
    sites = Sites([Site(north, target="ill"), Site(south, target="ill")])
    with pytest.raises(rs.ClientError) as caught:
        rs.FedRR(rounds=1).solve(sites)
    said = str(caught.value)
    assert "south.csv" in said
    assert "line 3" in said
    assert "John" not in said
    assert "…/south.csv" in said  # Sites of one machine name the path themselves
    assert "John Smith" in caplog.text


def test_a_penalty_may_be_chosen_by_what_the_sites_said() -> None:
    """The model is that of the penalty given at once; tables are asked for medians once, too."""
    X, y = pooled()
    homes = [(X[p], y[p]) for p in PARTS]
    asked: list[str] = []

    def watch(task: Any, answer: Any, reason: str) -> None:
        asked.append(task.kind)

    def choose(federation: Any) -> Any:
        return rs.penalties.L2(federation.smoothness.L_f / federation.n)

    solver = rs.ExactFedRR(rounds=5, tol=0.0)
    found = solver.solve(Sites(homes, choose_penalty=choose, watch=watch))
    assert found.learned is not None
    assert asked.count("hello") == len(homes)
    assert found.digest == solver.solve(Sites(homes, penalty=found.learned.penalty)).digest
    with pytest.raises(rs.InputError, match="give penalty or choose_penalty, not both"):
        Sites(homes, penalty=PENALTY, choose_penalty=choose)
    with pytest.raises(rs.InputError, match="penalty"):
        solver.solve(Sites(homes, choose_penalty=lambda _: 3.0))  # type: ignore[arg-type, return-value]
