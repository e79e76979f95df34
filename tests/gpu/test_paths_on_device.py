"""``device=`` of cross-validations and paths: the models are those of the processor, and refusals come before any work."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from host_device import COMPILER, HostDevice
from oracles import random_data

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not there")


@pytest.fixture(scope="module")
def device() -> HostDevice:
    return HostDevice()


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_cross_validation_is_that_of_the_processor(device: HostDevice, n_jobs: Any) -> None:
    X, y = random_data(rs.losses.Logistic(), n=300)
    wanted = rs.RRClassifierCV(lambdas=8, cv=3).fit(X, y)
    found = rs.RRClassifierCV(lambdas=8, cv=3, device=device, n_jobs=n_jobs).fit(X, y)
    np.testing.assert_allclose(found.cv_losses_, wanted.cv_losses_, atol=1e-6)
    np.testing.assert_allclose(found.path_.coefs, wanted.path_.coefs, atol=1e-4)
    assert found.path_.converged.all()
    assert found.lambda_ == wanted.lambda_


def test_rows_are_copied_once_for_a_fold(
    device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[int] = []
    of = DeviceProblem.of.__func__  # type: ignore[attr-defined]

    def counted(cls: Any, problem: Any, where: Any) -> Any:
        copies.append(problem.n)
        return of(cls, problem, where)

    monkeypatch.setattr(DeviceProblem, "of", classmethod(counted))
    X, y = random_data(rs.losses.Squared(), n=120)
    model = rs.RRRegressorCV(lambdas=6, cv=3, device=device).fit(X, y)
    assert model.converged_
    assert copies == [80, 80, 80, 120]


def test_a_path_takes_a_device(device: HostDevice) -> None:
    X, y = random_data(rs.losses.Squared(), n=200)
    wanted = rs.rr_path(X, y, loss="squared", lambdas=6)
    found = rs.rr_path(X, y, loss="squared", lambdas=6, device=device)
    np.testing.assert_allclose(found.coefs, wanted.coefs, atol=1e-4)
    assert found.converged.all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "gpu"}, 'device must be None or "cuda"'),
        ({"solver": "fista"}, 'device needs solver="exact"'),
        ({"solver": rs.ExactProxRR()}, "give it to the solver"),
        ({"loss": rs.losses.Probit()}, "has no kernel"),
        ({"device": "cuda"}, "needs cupy"),
    ],
    ids=str,
)
def test_refusals_come_before_any_work(
    settings: dict[str, Any], said: str, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: Any, **__: Any) -> None:
        raise AssertionError("work has begun")

    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(rs.Problem, "lambda_max", work)
    X, y = random_data(rs.losses.Logistic(), n=60)
    with pytest.raises(rs.InputError, match=said):
        rs.RRClassifierCV(**{"device": device} | settings).fit(X, y)
    with pytest.raises(rs.InputError, match=said):
        rs.rr_path(X, y, **{"device": device} | settings)
