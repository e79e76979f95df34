"""Groups of features by the columns that they came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import fit, run, write_people
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import reshuffle as rs
from reshuffle.errors import InputError
from reshuffle.penalties import GroupLasso, SparseGroupLasso, column_groups


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    table = pd.read_csv(write_people(tmp_path_factory.mktemp("people")))
    table["size_of"] = np.where(table.age > 60, "old", np.where(table.age > 40, "mid_age", "new"))
    return table


def columns_of(step: Any) -> ColumnTransformer:
    numbers = ("numbers", make_pipeline(StandardScaler()), ["age", "income"])
    return ColumnTransformer([("text", step, ["colour", "size_of"]), numbers])


def test_an_encoder_tells_the_columns(people: pd.DataFrame) -> None:
    """Category names with underscores are no trouble, nor are dropped or rare ones."""
    whole = columns_of(OneHotEncoder()).fit(people)
    assert column_groups(whole).tolist() == [0, 0, 0, 1, 1, 1, 2, 3]
    some = columns_of(OneHotEncoder(drop="first")).fit(people)
    assert column_groups(some).tolist() == [0, 0, 1, 1, 2, 3]
    rare = columns_of(OneHotEncoder(min_frequency=95)).fit(people)
    assert column_groups(rare).size == rare.transform(people).shape[1]
    rest = ColumnTransformer([("text", OneHotEncoder(), ["colour"])], remainder="passthrough")
    rest.fit(people[["age", "colour", "income"]])
    assert column_groups(rest).tolist() == [0, 0, 0, 1, 2]
    by_number = ColumnTransformer([("text", OneHotEncoder(), slice(0, 1))]).fit(people[["colour"]])
    assert column_groups(Pipeline([("a", by_number), ("b", StandardScaler(with_mean=False))]).fit(people[["colour"]])).tolist() == [0, 0, 0]  # fmt: skip


def test_names_tell_the_columns() -> None:
    assert column_groups(["a=x=1", "a=x=2", "b"]).tolist() == [0, 0, 1]
    assert column_groups(pd.Index(["a_x", "b", "a_y"]), separator="_").tolist() == [0, 1, 0]
    with pytest.raises(
        InputError, match=r"no name holds the separator '='.*give another separator"
    ):
        column_groups(["a", "b"])
    with pytest.raises(
        InputError, match="cannot tell which of the 10 outputs of PolynomialFeatures"
    ):
        column_groups(PolynomialFeatures().fit(np.ones((2, 3))))
    with pytest.raises(InputError, match="names or a fitted encoder, got"):
        column_groups("columns")


@pytest.mark.parametrize(
    "penalty", [GroupLasso(0.05, "columns"), SparseGroupLasso(0.001, 0.05, "columns")]
)
def test_an_estimator_takes_its_columns(people: pd.DataFrame, penalty: Any) -> None:
    dummies = pd.get_dummies(people[["colour", "size_of", "age"]], prefix_sep="=", dtype=float)
    dummies["age"] = (dummies.age - dummies.age.mean()) / dummies.age.std()
    model = rs.RRClassifier(penalty=penalty).fit(dummies, people.buys)
    by_hand = type(penalty)(*[getattr(penalty, n) for n in ("l1", "strength") if n in type(penalty).__dataclass_fields__],
                            groups=[0, 1, 1, 1, 2, 2, 2])  # fmt: skip
    same = rs.RRClassifier(penalty=by_hand).fit(dummies, people.buys)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    colour = model.coef_[0, 1:4]
    assert np.all(colour != 0) or np.all(colour == 0) or isinstance(penalty, SparseGroupLasso)
    assert penalty.groups == "columns"  # the user's own is left as it was


def test_a_path_of_whole_columns(people: pd.DataFrame) -> None:
    dummies = pd.get_dummies(people[["colour", "size_of", "age"]], prefix_sep="=", dtype=float)
    dummies["age"] = (dummies.age - dummies.age.mean()) / dummies.age.std()
    model = rs.RRClassifierCV(penalty=GroupLasso(1.0, "columns"), lambdas=15).fit(
        dummies, people.buys
    )
    used = model.path_.coefs[:, 0] != 0
    for part in (slice(1, 4), slice(4, 7)):
        assert np.all(used[:, part].all(axis=1) | ~used[:, part].any(axis=1))
    assert used[-1].all()


def test_where_names_are_unknown_it_says_so(people: pd.DataFrame) -> None:
    X, y = rs.datasets.breast_cancer()
    with pytest.raises(
        InputError, match=r'groups="columns" needs the names.*column_groups\(encoder\)'
    ):
        rs.RRClassifier(penalty=GroupLasso(0.1, "columns")).fit(X, y)
    with pytest.raises(InputError, match="use it in an estimator that is fitted to a table"):
        rs.Problem(X, y, penalty=GroupLasso(0.1, "columns"))
    with pytest.raises(InputError, match="groups must be labels or index lists"):
        GroupLasso(0.1, "rows")


@pytest.mark.usefixtures("without_pictures")
def test_the_command_has_a_group_penalty(tmp_path: Path) -> None:
    file = write_people(tmp_path)
    fit(file, tmp_path / "m", "-t", "buys", "--penalty", "group", "--l1", "0.03", "--drop", "spend")
    model = rs.estimators.load(tmp_path / "m/model.npz")
    names = np.array(model.encoding_.feature_names)
    colour = model.coef_[0, [n.startswith("colour=") for n in names]]
    assert np.all(colour != 0)
    run(
        "path", file, "-t", "buys", "--penalty", "group", "--lambdas", "10", "--out", tmp_path / "p"
    )
    (tmp_path / "d.svm").write_text("1 1:1\n-1 1:0\n" * 20)
    done = run("fit", tmp_path / "d.svm", "--penalty", "group", code=1)
    assert "takes the columns of a table as groups" in done.stderr
    done = run("fit", file, "-t", "buys", "--penalty", "group", "--positive", code=1)
    assert "--positive does not go with --penalty group" in done.stderr
