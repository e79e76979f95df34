"""Folds of cross-validation: drawn by the seed, by groups, in the order of time; and what they say of two models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import check_page, run
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

import reshuffle as rs
from reshuffle.cli.splitting import split
from reshuffle.errors import InputError
from reshuffle.estimators import TimeFolds
from reshuffle.estimators.folds import folds_of, grouped, paired
from reshuffle.report.path import comparison

pytestmark = pytest.mark.usefixtures("without_pictures")


def sorted_diabetes(folder: Path) -> Path:
    """A regression table in the order of its target, as files that were exported by price or date are."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X["progression"] = y
    file = folder / "sorted.csv"
    X.sort_values("progression", kind="stable").to_csv(file, index=False)
    return file


def test_sorted_rows_get_shuffled_folds(tmp_path: Path) -> None:
    """Contiguous folds of a sorted file would be judged by targets that no fold has learned from."""
    file = sorted_diabetes(tmp_path)
    done = run(
        "path", file, "-t", "progression", "--rule", "min", "--out", tmp_path / "p", "--json"
    )
    found = json.loads(done.stdout)
    assert found["held_out"]["R²"] > 0.35
    table = pd.read_csv(file)
    y = table.pop("progression").to_numpy()
    X = table.to_numpy()
    shuffled = rs.RRRegressorCV(lambdas=20).fit(X, y)
    contiguous = rs.RRRegressorCV(lambdas=20, cv=KFold(5)).fit(X, y)
    spread = np.ptp(shuffled.cv_losses_, axis=1)[-1] / shuffled.cv_losses_[-1].mean()
    assert spread < 0.7  # folds of like rows have like losses
    assert np.ptp(contiguous.cv_losses_, axis=1)[-1] / contiguous.cv_losses_[-1].mean() > 1.5
    assert shuffled.lambda_min_ < 0.1 * shuffled.lambdas_[0]


def test_folds_come_from_the_seed_alone() -> None:
    X, y = load_diabetes(return_X_y=True)
    first, again, other = (
        rs.RRRegressorCV(lambdas=5, random_state=seed).fit(X, y).cv_losses_ for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_fold_has_every_class_in_its_share() -> None:
    X, y = load_iris(return_X_y=True)  # sorted by class
    for _, held in folds_of(5, X, y, y, None, 0):
        assert np.bincount(y[held]).tolist() == [10, 10, 10]


@pytest.mark.parametrize("codes", [None, np.arange(120) % 3])
def test_groups_stay_whole_and_folds_even(codes: Any) -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 23, 120)
    folds = grouped(groups, codes, 4, 0)
    held = np.concatenate([held for _, held in folds])
    assert np.array_equal(np.sort(held), np.arange(120))
    for rows, out in folds:
        assert not set(groups[rows]) & set(groups[out])
        assert 20 <= out.size <= 40
    assert any(
        not np.array_equal(a[1], b[1])
        for a, b in zip(folds, grouped(groups, codes, 4, 1), strict=True)
    )


def test_groups_of_an_estimator_are_those_of_a_splitter() -> None:
    X, y = load_diabetes(return_X_y=True)
    groups = np.arange(y.size) // 20
    theirs = rs.RRRegressorCV(lambdas=5, cv=GroupKFold(5)).fit(X, y, groups=groups)
    assert theirs.cv_losses_.shape == (5, 5)
    rs.RRRegressorCV(lambdas=5).fit(X, y, groups=groups)
    with pytest.raises(InputError, match="groups must be 442 values"):
        rs.RRRegressorCV().fit(X, y, groups=groups[:5])
    with pytest.raises(
        InputError, match=r"2 different groups cannot be divided into 5 folds.*fewer"
    ):
        rs.RRRegressorCV().fit(X, y, groups=groups > 3)


def test_time_folds_look_ahead_only() -> None:
    rng = np.random.default_rng(0)
    times = rng.integers(0, 40, 200)
    seen: list[int] = []
    for rows, held in TimeFolds(5).split(times, groups=times):
        assert times[rows].max() < times[held].min()
        seen += held.tolist()
    assert len(seen) == len(set(seen))
    ordered = np.arange(60)
    ours = [held for _, held in TimeFolds(5).split(ordered, groups=ordered)]
    theirs = [held for _, held in TimeSeriesSplit(5).split(ordered)]
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match="need 6 different times, got 3"):
        list(TimeFolds(5).split(times, groups=times % 3))
    with pytest.raises(InputError, match="groups=times"):
        list(TimeFolds(5).split(times))


def test_lopsided_times_leave_no_fold_empty() -> None:
    times = np.concatenate([np.zeros(90), np.arange(1, 7)])
    for rows, held in TimeFolds(5).split(times, groups=times):
        assert rows.size
        assert held.size


def test_rows_held_out_by_groups_and_time() -> None:
    rng = np.random.default_rng(0)
    site = rng.choice(list("abcdefghij"), 100).astype(object)
    found = split(100, None, {"site": site}, "site", None, 0.2, 0)
    assert not set(site[found.learn]) & set(site[found.held])
    assert 8 <= found.held.size <= 35
    day = np.array([f"2024-01-{1 + k % 20:02}" for k in range(100)], dtype=object)
    found = split(100, None, {"day": day}, None, "day", 0.2, 0)
    assert max(day[found.learn]) < min(day[found.held])
    assert found.held.size == 20
    with pytest.raises(InputError, match="exclude each other"):
        split(100, None, {"day": day, "site": site}, "site", "day", 0.2, 0)
    with pytest.raises(InputError, match=r"--time day: dates are written as 2024-01-31.*'soon'"):
        split(2, None, {"day": np.array(["2024-01-02", "soon"], object)}, None, "day", 0.2, 0)
    with pytest.raises(InputError, match=r"--groups g: 1 rows have no group, the first is row 2"):
        split(2, None, {"g": np.array(["a", None], object)}, "g", None, 0.2, 0)


def test_the_command_keeps_groups_and_times_out_of_the_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 120
    table = pd.DataFrame({"x": rng.normal(size=n), "patient": np.arange(n) // 6})
    table["visit"] = pd.date_range("2020-01-01", periods=n, freq="D").astype(str)
    table["y"] = 3 * table.x + rng.normal(size=n)
    table.to_csv(tmp_path / "t.csv", index=False)
    for options in (["--groups", "patient", "--drop", "visit"], ["--time", "visit"]):
        out = tmp_path / options[1]
        run("path", tmp_path / "t.csv", "-t", "y", "--lambdas", "10", *options, "--out", out)
        model = rs.estimators.load(out / "model.npz")
        assert options[1] not in model.encoding_.names
        check_page(out / "report.html")
    done = run("fit", tmp_path / "t.csv", "-t", "y", "--groups", "hospital", code=1)
    assert "must name a column of" in done.stderr


@pytest.mark.parametrize(
    ("apart", "word"),
    [
        ([0.001, -0.001, 0.0, 0.001, -0.001], "simpler, and not measurably worse"),
        ([0.010, 0.011, 0.012, 0.010, 0.011], "simpler, and worse. Fold by fold its loss is 0.011"),
        ([0.5, -0.4, 0.3, -0.2, 0.1], "The folds do not show whether it is worse"),
    ],
)
def test_no_more_is_said_than_the_folds_support(apart: list[float], word: str) -> None:
    base = np.array([0.4, 0.9, 0.3, 0.7, 0.5])  # folds differ by far more than the two models do
    losses = np.array([base + 1.0, base + apart, base])
    found = paired(losses, 1, 2)
    assert word in comparison(found, same=False)
    assert found.difference == pytest.approx(np.mean(apart))
    assert found.error == pytest.approx(np.std(apart, ddof=1) / np.sqrt(5))
