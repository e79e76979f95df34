"""Tables at sites as people have them: texts, gaps, extra columns; and the model that a federation ends in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from test_engines import Recording

import reshuffle as rs
from reshuffle.datasets import Reading, load_data
from reshuffle.engines import Task
from reshuffle.federated.columns import Cells
from reshuffle.federated.medians import STEPS, is_threshold, search, shortest
from reshuffle.federated.private_text import retold

Site, Sites = rs.federated.Site, rs.federated.Sites
PENALTY = rs.penalties.ElasticNet(1e-3, 1e-2)
NAMES = ("north", "south", "east")
SOLVER = rs.ExactFedRR(rounds=500, tol=1e-11)


def table(kind: str = "cancer") -> pd.DataFrame:
    """A bundled set with two text columns: the levels of one differ from part to part of the rows."""
    source = {"cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}[kind]
    found = source(as_frame=True)
    frame = found.frame.iloc[:, [0, 1, 2, 3, -1]].copy()
    frame.columns = [*frame.columns[:-1], "outcome"]
    size = pd.qcut(frame.iloc[:, 2], 4, labels=["small", "medium", "large", "huge"])
    frame.insert(1, "size", size.astype(str))
    frame.insert(3, "ward", np.where(frame.iloc[:, 0] > frame.iloc[:, 0].median(), "A", "B"))
    if kind == "cancer":
        frame["outcome"] = np.where(frame["outcome"] == 1, "benign", "malignant")
    return frame


def parts(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """Three sites: the first has no huge ones, the second none that are small."""
    huge, small = frame["size"] == "huge", frame["size"] == "small"
    third = np.arange(len(frame)) % 3 == 0
    return [frame[~huge & ~third & small], frame[~small & ~third], frame[third | (~huge & ~small & third)]]  # fmt: skip


def written(folder: Path, frames: list[pd.DataFrame], ending: str = "csv") -> dict[str, Path]:
    found = {}
    for name, frame in zip(NAMES, frames, strict=True):
        found[name] = folder / f"{name}.{ending}"
        write: Any = frame.to_csv if ending.startswith("csv") else frame.to_parquet
        write(found[name], index=False)
    return found


def pooled(folder: Path, frames: list[pd.DataFrame], **reading: Any) -> Any:
    path = folder / "pooled.csv"
    pd.concat(frames).to_csv(path, index=False)
    return load_data(path, Reading(target="outcome", **reading))


# --- texts, and the model at the end --------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "loss"),
    [("cancer", rs.losses.Logistic()), ("wine", rs.losses.Multinomial()), ("diabetes", rs.losses.Huber(50.0))],
)  # fmt: skip
@pytest.mark.parametrize("standardise", [False, True])
def test_tables_with_different_levels_end_in_the_model_of_the_pooled_table(
    kind: str, loss: Any, standardise: bool, tmp_path: Path
) -> None:
    frames = parts(table(kind))
    if not standardise:  # raw columns are for other tests
        frames = [f.drop(columns=f.columns[[2, 4]]) for f in frames]
    assert len({frozenset(f["size"]) for f in frames}) == 3
    sites = Sites(
        written(tmp_path, frames), loss, PENALTY, fit_intercept=True, standardise=standardise
    )
    model = rs.estimators.from_federation(SOLVER.solve(sites))
    X, y, encoding = pooled(tmp_path, frames, standardise=standardise)
    assert model.encoding_.feature_names == encoding.feature_names
    for mine, theirs in zip(model.encoding_.columns, encoding.columns, strict=True):
        assert mine.features == theirs.features
        for name in ("centre", "scale"):
            assert getattr(mine, name, 0) == pytest.approx(getattr(theirs, name, 0), rel=1e-12)
    kind_of = rs.RRRegressor if kind == "diabetes" else rs.RRClassifier
    own = loss if kind == "diabetes" else "logistic"
    best = kind_of(loss=own, penalty=PENALTY, tol=1e-13).fit(X, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=2e-4 * np.abs(best.coef_).max())
    if kind != "diabetes":
        assert model.classes_.tolist() == best.classes_.tolist()
    assert model.certificate_.measure == "gap"
    assert model.certificate_.value <= model.certificate_.tol == 1e-11
    assert model.n_samples_fit_ == len(y)


def test_a_model_file_of_a_federation_predicts_raw_rows(tmp_path: Path) -> None:
    frames = parts(table())
    sites = Sites(written(tmp_path, frames), penalty=PENALTY, fit_intercept=True, standardise=True)
    result = SOLVER.solve(sites)
    model = rs.estimators.from_federation(result)
    model.save(tmp_path / "model.npz")
    again = rs.estimators.load(tmp_path / "model.npz")
    assert again.classes_.tolist() == ["benign", "malignant"]
    assert again.certificate_ == model.certificate_
    assert again.feature_names_in_.tolist() == model.encoding_.feature_names
    raw = frames[0].drop(columns="outcome")
    assert np.mean(again.predict(raw) == frames[0]["outcome"]) > 0.8
    np.testing.assert_array_equal(again.decision_function(raw), model.decision_function(raw))
    (rows,) = rs.datasets.stream(tmp_path / "north.csv", again.encoding_, lambda text: None)
    margins = np.asarray(rows) @ again.coef_.ravel() + again.intercept_
    np.testing.assert_allclose(again.decision_function(raw), margins, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["cancer", "wine"])
def test_scales_of_matrices_are_part_of_the_coefficients(kind: str, intercept: bool) -> None:
    X, y = (load_breast_cancer if kind == "cancer" else load_wine)(return_X_y=True)
    homes = [(X[k::3], y[k::3]) for k in range(3)]
    loss = rs.losses.Logistic() if kind == "cancer" else rs.losses.Multinomial()
    sites = Sites(homes, loss, PENALTY, fit_intercept=intercept, standardise=True)
    result = SOLVER.solve(sites)
    model = rs.estimators.from_federation(result)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    margins = Z @ result.x[: X.shape[1]] + (result.x[-1] if intercept else 0.0)
    found = model.decision_function(X)
    if found.ndim > 1:  # intercepts of several classes are told apart up to a constant
        found, margins = (m - m.mean(axis=1, keepdims=True) for m in (found, margins))
    np.testing.assert_allclose(found, margins, atol=1e-8)
    assert model.score(X, y) > 0.95
    assert model.classes_.dtype == np.int64


def test_a_result_that_is_no_federations_is_refused() -> None:
    problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.1))
    with pytest.raises(rs.InputError, match=r"result must be what solve\(sites\)"):
        rs.estimators.from_federation(rs.FISTA(epochs=3).solve(problem))


# --- gaps -----------------------------------------------------------------------------------------


def gappy(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Cells of numbers and texts are gone, and all of one column at the last site."""
    rng, found = np.random.default_rng(0), [frame.copy() for frame in frames]
    for frame in found:
        for column in frame.columns[:3]:
            frame.loc[rng.random(len(frame)) < 0.1, column] = np.nan
    found[2][found[2].columns[4]] = np.nan
    return found


@pytest.mark.parametrize("ending", ["csv", "parquet", "csv.gz"])
def test_gaps_are_filled_by_what_is_usual_in_the_federation(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frames = gappy(parts(table()))
    homes = written(tmp_path, frames, ending)
    settings: Any = {"penalty": PENALTY, "fit_intercept": True, "standardise": True}
    whole = pd.concat(frames)
    found: Any = SOLVER.solve(Sites(homes, impute=True, **settings))
    assert found.learned.encoding is not None
    columns = {part.name: part for part in found.learned.encoding.columns}
    assert columns["size"].fill == whole["size"].mode()[0]
    for name in whole.columns[[0, 2, 4, 5]]:
        values = np.sort(whole[name].dropna())
        lower = values[(len(values) + 1) // 2 - 1]
        assert columns[name].fill == pytest.approx(lower, rel=2.0**-10)
        assert columns[name].centre == pytest.approx(values.mean(), rel=1e-12)
        assert columns[name].scale == pytest.approx(values.std(), rel=1e-12)
    X, y, _ = pooled(tmp_path, frames, impute=True, standardise=True)
    best = rs.RRClassifier(penalty=PENALTY).fit(X, y)
    mine = rs.estimators.from_federation(found)
    np.testing.assert_allclose(mine.coef_, best.coef_, atol=2e-3)
    own = frames[2].iloc[:, 0].median()
    assert own != pytest.approx(whole.iloc[:, 0].median(), rel=1e-3)  # a site's own is another
    with pytest.raises(rs.ClientError, match=r"client 0 \(north\): .*north.csv.*, (line|row) \d+: column '.*' has no value.*give impute = true"):  # fmt: skip
        SOLVER.solve(Sites({"north": written(tmp_path, frames)["north"]}, **settings))


def test_medians_are_found_by_counts_to_three_digits() -> None:
    rng = np.random.default_rng(3)
    columns = [
        rng.standard_normal(101), -rng.random(40) * 1e-7, rng.integers(18, 90, 200).astype(float),
        np.zeros(5), np.array([1e300]), np.r_[np.zeros(3), np.ones(3)], -np.arange(1.0, 8.0), np.array([-0.0, 0.0, 5e-324]),
    ]  # fmt: skip
    asked = []

    def ask(at: Any) -> Any:
        assert is_threshold(at).all()
        asked.append(at)
        return np.array([np.count_nonzero(c < t) for c, t in zip(columns, at, strict=True)])

    found = search(ask, np.array([c.size for c in columns]))
    assert len(asked) == STEPS == 22
    for column, median in zip(columns, found, strict=True):
        lower = np.sort(column)[(column.size + 1) // 2 - 1]
        assert median == pytest.approx(lower, rel=2.0**-10, abs=1e-300)
    assert found[2] == np.sort(columns[2])[99]  # ages are whole numbers
    assert (found[3], found[5], found[6]) == (0.0, 0.0, -4.0)
    assert shortest(5.8477, 5.8516) == 5.85
    assert not is_threshold(np.array([37.1, 1 / 3])).any()


def test_a_site_tells_counts_for_medians_alone(tmp_path: Path) -> None:
    from reshuffle.federated.columns import read

    frames = parts(table())
    path, name = written(tmp_path, frames)["north"], frames[0].columns[0]
    columns, *_ = read(path, "outcome", Cells(impute=True))
    assert columns.below([name], np.array([15.0]))["below"] == (frames[0][name] < 15).sum()
    with pytest.raises(rs.InputError, match="no more exactly"):
        columns.below([name], np.array([15.0001]))
    with pytest.raises(rs.InputError, match="for medians alone"):
        read(path, "outcome", Cells())[0].below([name], np.array([15.0]))


# --- columns --------------------------------------------------------------------------------------


def test_columns_may_be_in_any_order_and_extra_ones_left_out(tmp_path: Path) -> None:
    frames = parts(table())
    extra = [frames[0], frames[1].assign(note="x y z"), frames[2].iloc[:, ::-1]]
    (tmp_path / "extra").mkdir()
    homes = written(tmp_path / "extra", extra)
    settings: Any = {"penalty": PENALTY, "fit_intercept": True, "standardise": True}
    solver = rs.FedRR(rounds=3)
    wanted = solver.solve(Sites(written(tmp_path, frames), **settings)).digest
    named = [Site(path, name=name, target="outcome") for name, path in homes.items()]
    with pytest.raises(rs.InputError, match=r"client 1 \(south\) has a column 'note', and client 0 \(north\) has none; leave it out with drop = \['note'\]"):  # fmt: skip
        solver.solve(Sites(named, **settings))
    assert solver.solve(Sites(named, drop=["note"], **settings)).digest == wanted
    own = [named[0], replace(named[1], drop=("note",)), named[2]]
    assert solver.solve(Sites(own, **settings)).digest == wanted
    kept = list(frames[0].columns[:-1])
    assert solver.solve(Sites(named, columns=kept, **settings)).digest == wanted
    few: Any = solver.solve(Sites(named, columns=["ward", "size"], **settings))
    assert few.learned.names == (*(f"size={s}" for s in ("huge", "large", "medium", "small")), "ward=A", "ward=B")  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"drop": ["wards"]}, r"drop must name columns of the sites, and none has 'wards'"),
        ({"categories": ["wards"]}, r"categories must name columns of the sites, and none has 'wards'"),
        ({"columns": ["wards"]}, r"client 0 \(north\): columns must name columns of .*north.csv, got 'wards'; its columns are"),
        ({"drop": "ward"}, "drop must be a list of texts, got 'ward'"),
        ({"impute": "yes"}, "impute must be True or False, got 'yes'"),
        ({"drop": ["ward"], "columns": ["ward"]}, "'ward' is in columns and in drop"),
    ],
)  # fmt: skip
def test_settings_of_tables_that_cannot_be(
    settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises((rs.InputError, rs.ClientError), match=words):
        rs.FedRR(rounds=1).solve(Sites(written(tmp_path, parts(table())), **settings))


def test_columns_of_another_kind_name_both_sites_and_the_remedy(tmp_path: Path) -> None:
    frames = [frame.assign(ward=number) for number, frame in enumerate(parts(table()), 1)]
    frames[1]["ward"] = "B7"
    homes = written(tmp_path, frames)
    with pytest.raises(rs.InputError, match=r"column 'ward' of client 1 \(south\) holds texts, of client 0 \(north\) numbers; .*categories = \['ward'\]"):  # fmt: skip
        rs.FedRR(rounds=1).solve(Sites(homes))
    found: Any = rs.FedRR(rounds=1).solve(Sites(homes, categories=["ward"]))
    assert {"ward=1", "ward=3", "ward=B7"} <= set(found.learned.names)
    for frame in frames:
        frame["ward"] = np.nan
    with pytest.raises(rs.InputError, match=r"column 'ward' holds no value at any site; leave it out with drop = \['ward'\]"):  # fmt: skip
        rs.FedRR(rounds=1).solve(Sites(written(tmp_path, frames), impute=True))


def test_settings_of_tables_are_refused_for_matrices() -> None:
    X, y = rs.datasets.breast_cancer()
    with pytest.raises(rs.ClientError, match=r"are for tables .CSV or Parquet"):
        rs.FedRR(rounds=1).solve(Sites([(X, y)], impute=True))


def test_a_table_beside_a_matrix_is_refused_by_name(tmp_path: Path) -> None:
    homes: Any = [written(tmp_path, parts(table()))["north"], rs.datasets.breast_cancer()]
    with pytest.raises(rs.InputError, match=r"form of client 1 is matrix, of client 0 .* table"):
        rs.FedRR(rounds=1).solve(Sites(homes))


def test_a_data_frame_of_numbers_gives_its_names() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    settings: Any = {"loss": rs.losses.Multinomial(), "standardise": True}
    found: Any = rs.FedRR(rounds=2).solve(Sites([lambda: (X, y)], **settings))
    model = rs.estimators.from_federation(found)
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert model.score(X, y) > 0.9
    texts = X.assign(shade="red")
    with pytest.raises(rs.ClientError, match="data frame with columns that do not hold numbers: write it to a CSV"):  # fmt: skip
        rs.FedRR(rounds=2).solve(Sites([lambda: (texts, y)], **settings))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("columns", "7"), ("columns", '{"size": "colour"}'), ("levels", "[]"), ("counts", '{"size": [1]}'), ("unused", "{"),
        ("levels", '{"size": [["small"]], "ward": ["A"]}'), ("filled", np.zeros(2)), ("counts", '{"size": [-1, 2], "ward": [1, 1]}'),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_together_are_refused_by_name(
    part: str, value: Any, tmp_path: Path
) -> None:
    def lie(task: Task, answer: Any) -> Any:
        if task.kind != "hello" or answer.client != 1:
            return answer
        return replace(answer, more=answer.more | {part: value}, check=None)

    sites = Sites(written(tmp_path, parts(table())), impute=True)
    with pytest.raises(
        rs.InputError, match=r"client 1 \(south\) reports columns, levels and counts"
    ):
        rs.FedRR(rounds=1, engine=Recording(lie)).solve(sites)


def test_targets_that_are_numbers_are_not_told_as_labels(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True)
    engine = Recording()
    with pytest.raises(rs.ClientError, match=r"214 different numbers .*losses.Squared"):
        rs.FedRR(rounds=1, engine=engine, retries=0).solve(Sites([(X, y + 0.5)]))
    assert "346.5" not in str(engine.answers)


def test_classes_are_refused_by_a_loss_of_numbers_before_the_first_round(tmp_path: Path) -> None:
    sites = Sites(written(tmp_path, parts(table())), loss=rs.losses.Squared())
    with pytest.raises(
        rs.ClientError, match=r"before the first round.*Squared\(\) needs a target of numbers, got"
    ):
        SOLVER.solve(sites)


def test_codes_with_gaps_at_one_site_are_the_codes_of_the_others(tmp_path: Path) -> None:
    """A frame with gaps writes 1.0 where one without writes 1: the same category."""
    frame = load_diabetes(as_frame=True, scaled=False).frame[["sex", "bmi", "target"]]
    frame = frame.rename(columns={"target": "outcome"}).astype({"sex": int})
    gaps, whole, last = (frame[k::3].copy() for k in range(3))
    gaps["sex"] = gaps["sex"].where(np.arange(len(gaps)) % 5 > 0)
    files = written(tmp_path, [gaps, whole, last])
    assert "1.0," in files["north"].read_text()
    homes = [Site(path, name=name, target="outcome") for name, path in files.items()]
    sites = Sites(
        homes, loss=rs.losses.Squared(), penalty=PENALTY, fit_intercept=True, impute=True,
        categories=["sex"], standardise=True,
    )  # fmt: skip
    model = rs.estimators.from_federation(SOLVER.solve(sites))
    assert model.encoding_.feature_names == ["sex=1", "sex=2", "bmi"]
    usual = frame["sex"].where(frame.index.isin(gaps.dropna().index) | (frame.index % 3 > 0))
    filled = frame.assign(sex=usual.fillna(usual.mode()[0]).astype(int).astype(str))
    scaled = (frame.bmi - frame.bmi.mean()) / frame.bmi.std(ddof=0)
    rows = np.column_stack([filled.sex == "1", filled.sex == "2", scaled])
    pooled_model = rs.RRRegressor(penalty=PENALTY).fit(rows, frame.outcome)
    np.testing.assert_allclose(model.predict(filled), pooled_model.predict(rows), rtol=1e-5)


def test_advice_is_in_the_words_of_sites() -> None:
    assert retold("leave it out with --drop 'a b'") == "leave it out with drop = ['a b']"
    assert retold("give --categorical zip.code to") == "give categories = ['zip.code'] to"
    assert "--" not in retold("or fit with --impute to, --missing x with --impute; --target must")


# --- what leaves, and engines -----------------------------------------------------------------------

COMMON = {"version", "samples", "features", "sparse", "form", "names", "classes", "outputs", "loss",
          "ridge", "intercept", "weight", "data", "shifts"}  # fmt: skip
OF_TABLES = {"columns", "levels", "unused", "target", "separator"}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set()),
        ({"standardise": True}, {"filled", "means", "squares"}),
        ({"impute": True}, {"filled", "counts"}),
    ],
)
def test_exactly_this_leaves_a_site_with_a_table(
    settings: dict[str, Any], more: set[str], tmp_path: Path
) -> None:
    """The list of docs/federated.md."""
    frames, engine = parts(table()), Recording()
    rs.FedRR(rounds=1, engine=engine).solve(Sites(written(tmp_path, frames), **settings))
    kinds = {task.digest + task.run: task.kind for task in engine.tasks}
    said = [(kinds[a.digest + a.run], set(a.more)) for a in engine.answers]
    assert all(names == COMMON | OF_TABLES | more for kind, names in said if kind == "hello")
    below = [names for kind, names in said if kind == "below"]
    assert below == [{"below"}] * (3 * STEPS if "impute" in settings else 0)


def test_threads_in_any_number_and_new_processes_give_the_same_bits(tmp_path: Path) -> None:
    homes = written(tmp_path, gappy(parts(table())))
    sites = Sites(homes, penalty=PENALTY, fit_intercept=True, standardise=True, impute=True)
    digests = {
        rs.ExactFedRR(rounds=6, engine=engine).solve(sites).digest
        for engine in (rs.engines.Threads(workers=1), rs.engines.Threads(workers=3))
    }
    assert len(digests) == 1


def test_ray_gives_the_same_bits(cluster: Any, tmp_path: Path) -> None:
    homes = written(tmp_path, gappy(parts(table())))
    sites = Sites(homes, penalty=PENALTY, fit_intercept=True, standardise=True, impute=True)
    solver = rs.ExactFedRR(rounds=4)
    here: Any = solver.solve(sites)
    there: Any = replace(solver, engine=rs.engines.Ray(hosts=2)).solve(sites)
    assert there.digest == here.digest
    assert there.learned.encoding == here.learned.encoding


def test_a_resumed_run_over_tables_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    homes = written(tmp_path, gappy(parts(table())))
    sites = Sites(homes, penalty=PENALTY, fit_intercept=True, impute=True, standardise=True)
    solver, path = rs.ExactFedRR(rounds=6), tmp_path / "run.npz"
    whole = solver.solve(sites)
    solver.solve(sites, callbacks=[rs.Checkpoint(path), lambda r: r.epoch == 3])
    assert solver.solve(sites, resume=path).digest == whole.digest
    other = Sites(homes, penalty=PENALTY, fit_intercept=True, impute=True)
    with pytest.raises(rs.InputError, match="different: agreement"):
        solver.solve(other, resume=path)
