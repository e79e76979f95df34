"""The losses of generalised linear models in the corpus: written twice, and judged against each other and other projects."""

from __future__ import annotations

import numpy as np
import pytest

import reshuffle as rs
from benchmarks import glm_losses
from benchmarks.canonical import canonical
from benchmarks.corpus import CORPUS, SHORT
from benchmarks.instances import Instance
from benchmarks.profile_solvers import FISTA, OURS, contestants, twin
from benchmarks.truth import has_minimiser, optimum

SMALL = [
    name
    for name, entry in CORPUS.items()
    if entry.size == "small" and SHORT.get(f"{name}, ,".split(", ")[1]) in glm_losses.GLMS
]


def instance(loss: glm_losses.GlmName) -> Instance:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    classes = loss in glm_losses.CLASSES
    y = 1.0 + rng.poisson(2.0, 40)
    if classes:
        y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    return Instance(
        name=loss, X=X, y=np.asarray(y, dtype=np.float64), loss=loss, penalty="l2", l2=0.1
    )


@pytest.mark.parametrize("loss", glm_losses.GLMS)
def test_both_write_the_same_loss(loss: glm_losses.GlmName) -> None:
    own = instance(loss)
    x = np.array([0.3, -0.7, 0.1])
    problem, model = own.problem(), canonical(own)
    assert np.isclose(problem.objective(x), model.objective(x), rtol=1e-12)
    z, y, step = model.margins(x), own.y, 1e-6
    up, down = (glm_losses.value(loss, z + s, y) for s in (step, -step))
    assert np.allclose(glm_losses.slope(loss, z, y), (up - down) / (2 * step), atol=1e-7)
    up, down = (glm_losses.slope(loss, z + s, y) for s in (step, -step))
    assert np.allclose(glm_losses.curvature(loss, z, y), (up - down) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("name", SMALL)
def test_what_is_called_converged_is_within_its_tolerance(name: str) -> None:
    own = CORPUS[name].build()
    truth, _ = optimum(own)
    result = rs.ExactProxRR(tol=1e-9).solve(own.problem())
    assert has_minimiser(canonical(own))
    assert truth.width < 1e-12
    assert result.converged
    assert canonical(own).objective(result.x) - truth.upper <= 1e-9 * truth.at_zero


@pytest.mark.parametrize("loss", glm_losses.GLMS)
def test_every_contestant_solves_the_problem_that_is_meant(loss: glm_losses.GlmName) -> None:
    own = instance(loss).with_(intercept=True)
    assert twin(own).problem().n == 80  # its targets are of this loss too
    truth, _ = optimum(own)
    # FISTA needs a bounded curvature.
    field = [each for each in contestants(own, bench=False) if each.name != FISTA]
    assert {OURS, "scipy L-BFGS-B"} <= {each.name for each in field}
    for each in field:
        reached = canonical(own).objective(each(1e-8))
        assert reached - truth.upper < 1e-6 * truth.at_zero, each.name
