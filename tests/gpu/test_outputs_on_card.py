"""Softmax and matrices of targets on a graphics card, against the processor: ``pytest -n 0 tests/gpu`` where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_cases import missing_card
from output_cases import LAYOUTS, PROBLEMS, classes_of, separable, softmax, targets
from output_checks import MAKERS, check_pass, check_solution

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import CudaDevice
from reshuffle.solvers.exact import device_checks

pytestmark = pytest.mark.skipif(bool(missing_card()), reason=missing_card() or "there is a card")


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return CudaDevice()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pass_is_that_of_the_core(layout: str, kind: str, bias: bool, device: CudaDevice) -> None:
    check_pass(layout, kind, bias, device)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimiser_is_that_of_the_processor(name: str, device: CudaDevice) -> None:
    check_solution(PROBLEMS[name](), device)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("widest", [10, 4000], ids=["lbfgs", "newton"])
def test_tall_sets(
    layout: str, widest: int, device: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_checks, "MANY", widest)
    X, y = classes_of(200_000, 20, 10)
    problem = softmax(LAYOUTS[layout](X), y, ridge=1e-5)
    found = check_solution(problem, device, 1e-9)
    solver = rs.ExactProxRR(tol=1e-9, device=device)
    assert {solver.solve(problem).x.tobytes() for _ in range(3)} == {found.x.tobytes()}
    check_solution(targets(LAYOUTS[layout], ridge=0.1), device)


def test_wide_models_are_inverted_on_the_card(device: CudaDevice) -> None:
    X, y = classes_of(20_000, 700, 10)
    check_solution(softmax(X.astype(np.float32), y, ridge=1e-3), device, 1e-8)


def test_separable_classes_without_a_penalty_are_not_called_converged(device: CudaDevice) -> None:
    problem = separable()
    found = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert not found.converged
    assert DeviceProblem.of(problem, device).recedes(found.x) == problem.recedes(found.x)


def test_arrays_of_the_card_are_used_where_they_lie() -> None:
    import cupy
    import torch

    X, y = classes_of()
    wanted = rs.ExactProxRR(tol=1e-12).solve(softmax(X, y, ridge=1e-2)).x
    rows, labels = cupy.asarray(X), torch.from_numpy(y).cuda()
    given: tuple[Any, ...] = (labels, cupy.asarray(y, dtype=np.uint8))
    for own in given:
        there = DeviceProblem(rows, own, rs.losses.Multinomial(), ridge=1e-2, fit_intercept=True)
        assert there.datafit.rows[0].data.ptr == rows.data.ptr
        found = rs.ExactProxRR(tol=1e-12).solve(there)
        np.testing.assert_allclose(found.x[:-1], wanted[:-1], atol=2e-5)
    Y = np.column_stack([X[:, 0] + y, X[:, 1]])
    for own in (cupy.asarray(Y), torch.from_numpy(Y).cuda()):
        there = DeviceProblem(rows, own, rs.losses.Squared(), ridge=1e-2)
        plain = rs.Problem(X, Y, rs.losses.Squared(), ridge=1e-2)
        found = rs.ExactProxRR(tol=1e-12).solve(there)
        np.testing.assert_allclose(found.x, rs.ExactProxRR(tol=1e-12).solve(plain).x, atol=2e-5)
