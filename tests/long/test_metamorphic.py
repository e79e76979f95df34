"""The same minimiser, whatever the data look like: relations between two runs that need no reference.

Rows and columns in another order, a column in another unit together with its strength, a row whose weight is split between
two, an empty column, a row without weight, another layout, another precision, other names of the classes. P at the minimum
is the same each time, and so are the fitted values wherever these are unique.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.estimators.loss_names import OF_CLASSES, OF_NUMBERS
from reshuffle.estimators.penalty_names import USES

Array = NDArray[Any]
TIGHT = 1e-12  # of f(0): fitted values then agree to about the square root
SAME = 1e-10  # of f(0): what two minima may differ by
FITTED = 3e-5  # of the largest fitted value
STRENGTH = 0.02  # in the middle of a path: some coefficients are zero, and some are not
POWER = {"l1": 1, "l2": 2}
"""By which power of a column's scale a strength goes with it."""


@dataclass(frozen=True)
class Data:
    """Samples, one strength for each column, and the rows whose fitted values are compared."""

    X: Any
    y: Array
    weight: Array
    scale: Array
    """Of the columns: a strength l1 is multiplied by it, and l2 by its square."""
    seen: Any
    order: Array
    """Which column of the first data each column is; -1 for one that is new."""


@lru_cache
def data(kind: str, wide: bool = False) -> Data:
    """Sixty samples of a target of this kind, with weights, columns of different scale and one that is 0/1."""
    rng = np.random.default_rng(7)
    n, d = 60, 170 if wide else 9
    X = np.round(rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d), 3)
    X[:, 2] = rng.random(n) < 0.3
    z = X[:, :4] @ (np.array([1.0, -1.0, 2.0, 0.5]) / (0.1 + X[:, :4].std(axis=0)))
    z = z + 0.7 * rng.standard_normal(n)
    z[::7] *= -1.0  # so that no plane separates the classes
    targets: dict[str, Array] = {
        "two": np.where(z > 0.5, "yes", "no"),
        "three": np.array(["a", "b", "c"])[np.digitize(z, [-0.7, 1.0])],
        "real": 3.0 + 2.0 * z,
        "count": rng.poisson(np.exp(np.clip(0.4 * z, -3, 3))).astype(float),
    }
    order = np.arange(d)
    return Data(X, targets[kind], rng.uniform(0.2, 2.0, n), np.ones(d), X, order)


def rows_in_another_order(given: Data) -> Data:
    order = np.random.default_rng(1).permutation(len(given.y))
    return replace(given, X=given.X[order], y=given.y[order], weight=given.weight[order])


def columns_in_another_order(given: Data) -> Data:
    order = np.random.default_rng(2).permutation(given.X.shape[1])
    X, seen = (np.ascontiguousarray(A[:, order]) for A in (given.X, given.seen))
    columns = {"X": X, "seen": seen, "scale": given.scale[order]}
    return replace(given, order=given.order[order], **columns)


def a_column_in_another_unit(given: Data) -> Data:
    factors = np.ones(given.X.shape[1])
    factors[[0, 3]] = 64.0, 1.0 / 1024.0
    columns = {"X": given.X * factors, "seen": given.seen * factors}
    return replace(given, scale=given.scale * factors, **columns)


def a_weight_split_between_two_rows(given: Data) -> Data:
    share = np.linspace(0.1, 0.9, 20)
    first = given.weight.copy()
    first[:20] *= share
    return replace(
        given,
        X=np.concatenate([given.X, given.X[:20]]),
        y=np.concatenate([given.y, given.y[:20]]),
        weight=np.concatenate([first, given.weight[:20] * (1 - share)]),
    )


def an_empty_column(given: Data) -> Data:
    d = given.X.shape[1]
    columns = {
        "X": np.insert(given.X, d // 2, 0.0, axis=1),
        "seen": np.insert(given.seen, d // 2, 0.0, axis=1),
        "scale": np.insert(given.scale, d // 2, 1.0),
    }
    return replace(given, order=np.insert(given.order, d // 2, -1), **columns)


def a_row_without_weight(given: Data, far: float = 3.0) -> Data:
    return replace(
        given,
        X=np.vstack([np.full((1, given.X.shape[1]), far), given.X]),
        y=np.concatenate([given.y[-1:], given.y]),
        weight=np.concatenate([[0.0], given.weight]),
    )


def sparse_rows(given: Data) -> Data:
    return replace(given, X=sp.csr_matrix(given.X), seen=sp.csr_matrix(given.seen))


def all_weights_in_another_unit(given: Data) -> Data:
    return replace(given, weight=1e4 * given.weight)


RELATIONS: tuple[Callable[[Data], Data], ...] = (
    rows_in_another_order,
    columns_in_another_order,
    a_column_in_another_unit,
    a_weight_split_between_two_rows,
    an_empty_column,
    a_row_without_weight,
    sparse_rows,
    all_weights_in_another_unit,
)


# --- the estimators -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """An estimator with a loss and a penalty by their names."""

    loss: str
    penalty: str
    kind: str
    wide: bool = False

    @property
    def strictly(self) -> bool:
        """Whether fitted values are unique: the loss bends everywhere, or the penalty does."""
        return self.loss not in ("huber", "quantile", "squared_hinge") or "l2" in USES[self.penalty]

    def fit(self, given: Data) -> Any:
        kind: Any = rs.RRRegressor if self.kind in ("real", "count") else rs.RRClassifier
        strengths = dict.fromkeys(USES[self.penalty], STRENGTH)
        settings: dict[str, Any] = {}
        if (given.scale != 1).any() and strengths:
            (name,) = strengths
            settings["penalty_factors"] = given.scale ** POWER[name]
        model = kind(loss=self.loss, penalty=self.penalty, tol=TIGHT, **strengths, **settings)
        return model.fit(given.X, given.y, sample_weight=given.weight)


def fitted(model: Any, seen: Any) -> Array:
    """Margins of classes, or means of numbers."""
    values = model.decision_function(seen) if hasattr(model, "classes_") else model.predict(seen)
    return np.asarray(values)


@lru_cache
def first_fit(model: Model) -> tuple[float, Array, float]:
    """P at the minimum, the fitted values, and f(0)."""
    given = data(model.kind, model.wide)
    found = model.fit(given)
    assert found.converged_, found.message_ if hasattr(found, "message_") else model
    return float(found.objective_), fitted(found, given.seen), at_zero(model)


def at_zero(model: Model) -> float:
    given = data(model.kind, model.wide)
    y: Any = given.y
    if model.kind in ("two", "three"):
        y = np.unique(given.y, return_inverse=True)[1]
    names = OF_NUMBERS if model.kind in ("real", "count") else OF_CLASSES
    loss = rs.losses.Multinomial() if model.kind == "three" else names[model.loss]()
    whole = rs.Problem(given.X, y, loss, sample_weight=given.weight)
    return float(whole.value(np.zeros(whole.shape)))


def check_same(model: Model, other: Data) -> None:
    objective, values, unit = first_fit(model)
    found = model.fit(other)
    assert found.converged_
    assert abs(found.objective_ - objective) <= SAME * unit
    if model.strictly:
        theirs = fitted(found, other.seen)
        scale = float(np.abs(values).max())
        np.testing.assert_allclose(theirs, values, rtol=0, atol=FITTED * scale)


MODELS = [
    *(Model(loss, penalty, "two") for loss in ("logistic", "squared_hinge") for penalty in USES),
    *(Model("logistic", penalty, "three") for penalty in ("l1", "l2", "elasticnet")),
    *(
        Model(loss, penalty, "real")
        for loss in ("squared", "huber", "quantile")
        for penalty in USES
    ),
    *(Model("poisson", penalty, "count") for penalty in USES),
    Model("probit", "l2", "two"),
    *(Model(loss, "l2", "count") for loss in ("tweedie", "negative_binomial")),
    Model("logistic", "l1", "two", wide=True),
    Model("squared", "elasticnet", "real", wide=True),
]


def name_of(model: Model) -> str:
    return f"{model.loss}-{model.penalty}-{model.kind}{'-wide' * model.wide}"


def test_all_names_are_here() -> None:
    aliases = {"log_loss", "cloglog"}
    # Targets of the first two are positive, and the third is not symmetric in its classes: tests/losses has them.
    others = {"gamma", "inverse_gaussian", "complementary_log_log"}
    assert {m.loss for m in MODELS} | aliases | others == {*OF_CLASSES, *OF_NUMBERS}
    assert {m.penalty for m in MODELS} == set(USES)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.__name__)
def test_estimators(model: Model, relation: Callable[[Data], Data]) -> None:
    other = relation(data(model.kind, model.wide))
    if len(USES[model.penalty]) > 1 and (other.scale != 1).any():
        # one factor for both strengths: what l1 takes by the scale, l2 takes by its square
        _check_elastic_net(model, other)
        return
    check_same(model, other)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_a_row_without_weight_is_not_there(model: Model) -> None:
    """However far away it is: no weight times a loss that is infinite is nothing."""
    check_same(model, a_row_without_weight(data(model.kind, model.wide), 1e4))


def _check_elastic_net(model: Model, other: Data) -> None:
    """The same through an object, which has a strength of each kind for each column."""
    objective, values, unit = first_fit(model)
    shape = (-1, 1) if model.kind == "three" else (-1,)
    l1, l2 = ((STRENGTH * other.scale**k).reshape(shape) for k in (1, 2))
    kind: Any = rs.RRRegressor if model.kind in ("real", "count") else rs.RRClassifier
    psi = rs.penalties.ElasticNet(l1, l2)
    found = kind(loss=model.loss, penalty=psi, tol=TIGHT)
    found.fit(other.X, other.y, sample_weight=other.weight)
    assert found.converged_
    assert abs(found.objective_ - objective) <= SAME * unit
    scale = float(np.abs(values).max())
    np.testing.assert_allclose(fitted(found, other.seen), values, rtol=0, atol=FITTED * scale)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_narrow_numbers(model: Model, layout: Callable[[Any], Any]) -> None:
    """float32 is the float64 problem of the rounded numbers."""
    given = data(model.kind, model.wide)
    narrow = given.X.astype(np.float32)
    wide, short = (
        replace(given, X=layout(X), seen=layout(X)) for X in (narrow.astype(float), narrow)
    )
    exact, other = model.fit(wide), model.fit(short)
    unit = first_fit(model)[2]
    assert exact.converged_
    assert other.converged_
    assert abs(exact.objective_ - other.objective_) <= SAME * unit
    if model.strictly:
        values, theirs = fitted(exact, wide.seen), fitted(other, wide.seen)
        atol = FITTED * float(np.abs(values).max())
        np.testing.assert_allclose(theirs, values, rtol=0, atol=atol)


@pytest.mark.parametrize("model", [m for m in MODELS if m.kind in ("two", "three")], ids=name_of)
def test_a_class_by_another_name(model: Model) -> None:
    """'no' is now 'zero', which changes the order of the classes, and 'a' is now 'd'."""
    given = data(model.kind, model.wide)
    renamed = {"no": "zero", "a": "d"}
    y = np.array([renamed.get(label, label) for label in given.y])
    objective, values, unit = first_fit(model)
    found = model.fit(replace(given, y=y))
    assert abs(found.objective_ - objective) <= SAME * unit
    theirs = fitted(found, given.seen)
    if model.kind == "two":
        assert found.classes_.tolist() == ["yes", "zero"]
        theirs = -theirs
    else:
        assert found.classes_.tolist() == ["b", "c", "d"]
        theirs = theirs[:, [2, 0, 1]]
    if model.kind == "three":  # margins of all classes may move together
        theirs, values = (v - v.mean(axis=1, keepdims=True) for v in (theirs, values))
    if model.strictly:
        atol = FITTED * float(np.abs(values).max())
        np.testing.assert_allclose(theirs, values, rtol=0, atol=atol)
        np.testing.assert_array_equal(
            np.array([renamed.get(label, label) for label in model.fit(given).predict(given.seen)]),
            found.predict(given.seen),
        )


# --- penalties that have no name, through a problem -----------------------------------------------


def groups(given: Data) -> Array:
    """Three groups of the first columns; a new one is a group of its own."""
    labels = np.where(given.order >= 0, given.order % 3, 3)
    return np.unique(labels, return_inverse=True)[1]


def group_weights(given: Data) -> Array:
    return np.array([1.0, 0.7, 1.5, 1.0])[: groups(given).max() + 1]


def by_column(given: Data, first: Array, new: float = 1.0) -> Array:
    """One number for each of the first columns, and one for what is new."""
    return np.where(given.order >= 0, first[given.order], new)


PENALTIES: dict[str, Callable[[Data], Any]] = {
    "L1": lambda g: rs.penalties.L1(STRENGTH * g.scale * by_column(g, np.linspace(0.0, 2.0, 9))),
    "L2": lambda g: rs.penalties.L2(STRENGTH * g.scale**2),
    "Box": lambda g: rs.penalties.Box(-0.1 / g.scale, 0.05 / g.scale),
    "NonNegative": lambda g: rs.penalties.NonNegative(STRENGTH * g.scale, 0.01 * g.scale**2),
    "GroupLasso": lambda g: rs.penalties.GroupLasso(STRENGTH, groups(g), group_weights(g)),
    "SparseGroupLasso": lambda g: rs.penalties.SparseGroupLasso(0.01, STRENGTH, groups(g), group_weights(g)),
    "SLOPE": lambda g: rs.penalties.SLOPE(
        STRENGTH, np.append(np.linspace(2.0, 0.4, 9), np.zeros(len(g.order) - 9))
    ),
    "L1Ball": lambda g: rs.penalties.L1Ball(0.7),
    "L2Ball": lambda g: rs.penalties.L2Ball(0.4),
}  # fmt: skip
SCALED = ("L1", "L2", "Box", "NonNegative")
"""Penalties that have a number for each column."""
OF_PROBLEMS: dict[str, tuple[str, Callable[[], Any]]] = {
    "logistic": ("two", rs.losses.Logistic),
    "squared": ("real", rs.losses.Squared),
}


def solve(loss: str, penalty: str, given: Data, intercept: bool = True) -> tuple[float, Array]:
    """P at the minimum and the fitted values."""
    kind, make = OF_PROBLEMS[loss]
    y: Any = given.y
    if kind != "real":
        y = np.unique(y, return_inverse=True)[1]
    psi = PENALTIES[penalty](given)
    problem = rs.Problem(
        given.X, y, make(), psi, sample_weight=given.weight, fit_intercept=intercept
    )
    found = rs.ExactProxRR(tol=1e-11, epochs=20_000).solve(problem)
    assert found.converged, found.message
    coefficients = found.x[: given.X.shape[1]]
    margins = np.asarray(given.seen @ coefficients) + (found.x[-1] if intercept else 0.0)
    return float(problem.objective(found.x)), margins


@lru_cache
def first_solution(loss: str, penalty: str) -> tuple[float, Array]:
    return solve(loss, penalty, data(OF_PROBLEMS[loss][0]))


CASES = [
    (loss, penalty, relation)
    for loss in OF_PROBLEMS
    for penalty in PENALTIES
    for relation in RELATIONS
    if penalty in SCALED or relation is not a_column_in_another_unit
]


@pytest.mark.parametrize(("loss", "penalty", "relation"), CASES)
def test_problems(loss: str, penalty: str, relation: Callable[[Data], Data]) -> None:
    objective, values = first_solution(loss, penalty)
    found, theirs = solve(loss, penalty, relation(data(OF_PROBLEMS[loss][0])))
    assert abs(found - objective) <= 1e-9 * max(1.0, objective)
    np.testing.assert_allclose(theirs, values, rtol=0, atol=1e-4 * float(np.abs(values).max()))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_chain_read_from_its_other_end(loss: str) -> None:
    given = data(OF_PROBLEMS[loss][0])
    y = np.unique(given.y, return_inverse=True)[1] if loss == "logistic" else given.y
    psi = rs.penalties.FusedLasso(STRENGTH, 0.01)
    ends = []
    for X in (given.X, given.X[:, ::-1].copy()):
        problem = rs.Problem(X, y, OF_PROBLEMS[loss][1](), psi, fit_intercept=True)
        found = rs.ExactProxRR(tol=1e-10, epochs=20_000).solve(problem)
        assert found.converged, found.message
        ends.append((problem.objective(found.x), X @ found.x[:-1] + found.x[-1]))
    assert ends[0][0] == pytest.approx(ends[1][0], abs=1e-8)
    atol = 1e-3 * float(np.abs(ends[0][1]).max())
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=0, atol=atol)
