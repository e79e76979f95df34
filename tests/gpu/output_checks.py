"""Checks of several outputs that are made on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from output_cases import LAYOUTS, classes_of, softmax, targets

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem

MAKERS = {
    "softmax": lambda layout, **more: softmax(layout(classes_of()[0]), classes_of()[1], **more),
    "squares": targets,
}


def check_solution(problem: rs.Problem, device: Any, tol: float = 1e-9) -> Any:
    """A claim of the device, against the processor's minimiser at a tighter tolerance."""
    found = rs.ExactProxRR(tol=tol, device=device).solve(problem)
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert found.converged, found.message
    assert found.x.shape == problem.shape
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert -1e-11 <= above / problem.datafit.at_zero <= tol
    return found


def check_pass(layout: str, kind: str, bias: bool, device: Any) -> None:
    """Values, slopes, conjugates, the Hessian and a choice of rows, against the core and finite differences."""
    problem = MAKERS[kind](LAYOUTS[layout], ridge=0.1, sample_weight=np.linspace(0.5, 2.0, 600))
    if not bias:
        fit = problem.datafit
        problem = rs.Problem(
            LAYOUTS[layout](_rows(kind)), problem.targets, rs.losses.Multinomial() if kind == "softmax" else rs.losses.Squared(),
            ridge=0.1, sample_weight=fit.weights,
        )  # fmt: skip
    there, fit = DeviceProblem.of(problem, device), problem.datafit
    x, get = np.random.default_rng(1).normal(size=problem.shape), device.get
    assert there.value(x) == pytest.approx(problem.value(x), rel=1e-13)
    np.testing.assert_allclose(there.gradient(x), problem.gradient(x), rtol=0, atol=1e-11)
    slopes, mean = fit.slopes(x)
    found, other = there.datafit.slopes(x)
    np.testing.assert_allclose(get(found), slopes, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other, mean, rtol=0, atol=1e-12)
    half = there.datafit.combined(0.5 * found)
    np.testing.assert_allclose(half, fit.combined(0.5 * slopes), rtol=0, atol=1e-12)
    assert there.datafit.conjugates(found, 0.7) == pytest.approx(fit.conjugates(slopes, 0.7))
    np.testing.assert_allclose(get(there.datafit.margins(x)), fit.margins(x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(there.datafit.column_squares, fit.column_squares, rtol=1e-9)
    assert there.datafit.at_zero == pytest.approx(fit.at_zero, rel=1e-13)
    assert there.gradient(x).tobytes() == there.gradient(x).tobytes()
    chosen = np.arange(0, problem.n, 7)
    part, wanted = there.datafit.take(chosen), fit.take(chosen.astype(np.uint32))
    assert part.at(x).value * part.n == pytest.approx(wanted.value(x), rel=1e-12)
    d = np.random.default_rng(2).normal(size=problem.shape)
    d[-1] -= d[-1].mean() if bias and kind == "softmax" else 0.0  # softmax sees no common shift
    change = (there.datafit.slopes(x + 1e-5 * d)[1] - there.datafit.slopes(x - 1e-5 * d)[1]) / 2e-5
    bent = (there.datafit.hessian(x) @ d.reshape(-1)).reshape(d.shape)
    np.testing.assert_allclose(bent, change, rtol=0, atol=1e-7 * np.abs(change).max())


def _rows(kind: str) -> Any:
    return classes_of()[0] if kind == "softmax" else np.random.default_rng(2).normal(size=(600, 9))
