"""Estimators on arrays of other libraries: of the processor, and of a graphics card, for which the device of the tests stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_cases import missing_card
from host_device import COMPILER, HostDevice
from oracles import random_data

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem
from reshuffle.estimators import array_api


class Place:
    """A device of another library."""


CARD, PROCESSOR = Place(), Place()


class Library:
    """The namespace of arrays that numpy does not know."""

    float64 = np.float64

    @staticmethod
    def asarray(given: Any, dtype: Any = None, device: Any = None) -> Foreign:
        where = given.device if device is None else device
        inner = given.inner if isinstance(given, Foreign) else given
        return Foreign(np.asarray(inner, dtype=dtype), where)


class Foreign:
    """An array of another library, which says itself where it lies. One on a card is not turned into an array of numpy by accident."""

    def __init__(self, inner: Any, device: Place) -> None:
        self.inner, self.device = np.asarray(inner), device
        self.shape, self.dtype = self.inner.shape, self.inner.dtype
        if device is CARD:
            self.get = lambda: self.inner.copy()

    def __array_namespace__(self) -> Any:
        return Library

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self.device is CARD else 1), 0

    def __dlpack__(self, **settings: Any) -> Any:
        return self.inner.__dlpack__(**settings)

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, rows: Any) -> Foreign:
        return Foreign(self.inner[rows], self.device)

    def __matmul__(self, other: Foreign) -> Foreign:
        assert other.device is self.device
        return Foreign(self.inner @ other.inner, self.device)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.device is CARD:
            raise TypeError("implicit conversion to a numpy array is not allowed")
        return np.asarray(self.inner, dtype=dtype)


class HostCard(HostDevice):
    """A device of the tests that takes arrays of this library where they lie."""

    def put(self, array: Any, dtype: Any) -> Any:
        return super().put(array.inner if isinstance(array, Foreign) else array, dtype)


@pytest.fixture
def dispatching(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``sklearn.set_config(array_api_dispatch=True)``, for which scipy would have to be imported in another way."""
    monkeypatch.setattr(array_api, "get_config", lambda: {"array_api_dispatch": True})


@pytest.fixture(scope="module")
def device() -> HostCard:
    if COMPILER is None:
        pytest.skip("g++ is not there")
    return HostCard()


@pytest.mark.usefixtures("dispatching")
@pytest.mark.parametrize("where", [CARD, PROCESSOR], ids=["card", "processor"])
@pytest.mark.parametrize("number", ["float64", "float32"])
def test_answers_are_of_the_kind_of_X(where: Place, number: str, device: HostCard) -> None:
    X, y = random_data(rs.losses.Logistic(), n=300)
    X, weights = X.astype(number), np.linspace(0.5, 2.0, 300)
    wanted = rs.RRClassifier(l2=0.01).fit(X, y, sample_weight=weights)
    given, labels = Foreign(X, where), Foreign(y, where)
    own = device if where is CARD else None
    found = rs.RRClassifier(l2=0.01, device=own).fit(given, labels, Foreign(weights, where))
    assert found.converged_
    assert isinstance(found.coef_, np.ndarray)
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-4)
    for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        answer, plain = getattr(found, name)(given), getattr(wanted, name)(X)
        assert isinstance(answer, Foreign)
        assert answer.device is where
        np.testing.assert_allclose(answer.inner, plain, atol=1e-3)
    assert found.score(given, labels) == wanted.score(X, y)
    shift = np.linspace(0.0, 1.0, 300)
    shifted: Any = found.decision_function(given, offset=Foreign(shift, where))
    np.testing.assert_allclose(shifted.inner, wanted.decision_function(X) + shift, atol=1e-3)


@pytest.mark.usefixtures("dispatching")
def test_a_regression_with_a_log_link_on_the_card(
    device: HostCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_api, "BLOCK", 64)  # products are made in blocks
    X, y = random_data(rs.losses.Poisson(), n=300)
    wanted = rs.RRRegressor(loss="poisson", l2=0.01).fit(X, y)
    given = Foreign(X, CARD)
    found = rs.RRRegressor(loss="poisson", l2=0.01, device=device).fit(given, Foreign(y, CARD))
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-3)
    np.testing.assert_allclose(found.intercept_, wanted.intercept_, atol=1e-3)
    answer: Any = found.predict(given)
    np.testing.assert_allclose(answer.inner, wanted.predict(X), rtol=1e-3)
    assert found.score(given, Foreign(y, CARD)) == pytest.approx(wanted.score(X, y), abs=1e-4)


@pytest.mark.usefixtures("dispatching")
def test_rows_of_the_card_are_not_copied(device: HostCard, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    take = DeviceProblem._take

    def noted(self: Any, samples: Any, *more: Any) -> None:
        seen.append(samples.rows[0])
        take(self, samples, *more)

    monkeypatch.setattr(DeviceProblem, "_take", noted)
    X, y = random_data(rs.losses.Logistic(), n=100)
    rs.RRClassifier(l2=0.01, device=device).fit(Foreign(X, CARD), y)
    assert np.shares_memory(seen[0], X)


@pytest.mark.usefixtures("dispatching")
def test_labels_that_are_texts_are_answered_as_texts() -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    named = np.where(y > 0, "yes", "no")
    model = rs.RRClassifier(l2=0.01).fit(Foreign(X, PROCESSOR), named)
    assert set(model.predict(Foreign(X, PROCESSOR))) == {"yes", "no"}
    assert model.score(Foreign(X, PROCESSOR), named) > 0.5


@pytest.mark.usefixtures("dispatching")
@pytest.mark.parametrize(
    ("model", "said"),
    [
        (rs.RRClassifier(solver="proxrr"), 'device needs solver="exact"'),
        (rs.RRClassifier(early_stopping=True), "early_stopping must be False"),
        (rs.RRClassifierCV(), "takes rows in the processor's memory"),
    ],
    ids=["solver", "early_stopping", "cv"],
)
def test_what_is_not_done_on_a_card_is_refused(model: Any, said: str) -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    with pytest.raises(rs.InputError, match=said):
        model.fit(Foreign(X, CARD), y)


@pytest.mark.usefixtures("dispatching")
def test_other_calls_say_what_they_need(device: HostCard) -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    given = Foreign(X, CARD)
    with pytest.raises(rs.InputError, match="partial_fit takes rows in the processor's memory"):
        rs.RRClassifier().partial_fit(given, y, classes=[-1.0, 1.0])
    model = rs.RRClassifier(penalty=None, device=device).fit(given, y)
    with pytest.raises(rs.InputError, match="needs the data of the fit"):
        model.inference()
    model.set_params(device=None).partial_fit(X, y)  # goes on from these coefficients
    with pytest.raises(rs.InputError, match="5 features, but the model has"):
        model.predict(Foreign(np.ones((2, 5)), CARD))
    with pytest.raises(rs.InputError, match="X must be finite"):
        model.predict(Foreign(np.full((2, X.shape[1]), np.nan), CARD))


def test_without_dispatch_arrays_of_a_card_are_refused_and_others_are_numpys() -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    with pytest.raises(rs.InputError, match="array_api_dispatch=True"):
        rs.RRClassifier().fit(Foreign(X, CARD), y)
    model = rs.RRClassifier().fit(Foreign(X, PROCESSOR), Foreign(y, PROCESSOR))
    assert isinstance(model.predict(Foreign(X, PROCESSOR)), np.ndarray)
    with pytest.raises(rs.InputError, match="array_api_dispatch=True"):
        model.predict(Foreign(X, CARD))


def test_names_of_columns_are_not_taken_for_attributes() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = random_data(rs.losses.Logistic(), n=60)
    table = pandas.DataFrame(X[:, :3], columns=["format", "device", "get"])
    assert rs.RRClassifier().fit(table, y).predict(table).shape == (60,)


@pytest.mark.usefixtures("dispatching")
@pytest.mark.skipif(bool(missing_card()), reason="there is no card")
@pytest.mark.parametrize("number", ["float64", "float32"])
def test_arrays_of_cupy_and_tensors_of_the_card(number: str) -> None:
    import cupy
    import cupyx.scipy.sparse
    import torch

    X, y = random_data(rs.losses.Logistic(), n=300)
    X = X.astype(number)
    wanted = rs.RRClassifier(l2=0.01).fit(X, y)
    tensors = torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda()
    for rows, labels in ((cupy.asarray(X), cupy.asarray(y)), tensors):
        model = rs.RRClassifier(l2=0.01).fit(rows, labels)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-4)
        answer = model.predict_proba(rows)
        assert type(answer) is type(rows)
        assert answer.device == rows.device
        np.testing.assert_allclose(array_api.here(answer), wanted.predict_proba(X), atol=1e-3)
        assert model.score(rows, labels) == wanted.score(X, y)
    sparse = cupyx.scipy.sparse.csr_matrix(cupy.asarray(X))
    model = rs.RRClassifier(l2=0.01).fit(sparse, cupy.asarray(y))
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-4)
    np.testing.assert_allclose(array_api.here(model.predict(sparse)), wanted.predict(X))
