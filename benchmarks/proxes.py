"""The operators beside the best library that has each: ratios of one run, at the accuracy that is reached.

    python -m benchmarks.proxes

Milliseconds are those of the processor, on one thread. Peers that are not installed are left out. The distance is that of each answer from ours; the optimality of ours
is tested elsewhere (tests/penalties/test_structured_penalties.py, tests/penalties/test_against_cvxpy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.timing import interleaved, spent
from reshuffle import penalties as P
from reshuffle.penalties.inexact import COLD

Array = NDArray[np.float64]
Prox = Callable[[], Array]
ROUNDS = 5
TO_1E6 = 0.5e-12  # the gap of an error of 1e-6
RNG = np.random.default_rng(0)


def pieces(n: int) -> Array:
    """A piecewise constant signal with noise."""
    return np.repeat(RNG.standard_normal(n // 50 + 1) * 3, 50)[:n] + RNG.standard_normal(n)


def image(side: int) -> Array:
    steps = np.add.outer(np.arange(side) > side // 2, np.arange(side) > side // 3)
    return 2.0 * steps + RNG.standard_normal((side, side))


def fused() -> Iterator[tuple[str, dict[str, Prox]]]:
    for n in (10_000, 1_000_000):
        y, psi = pieces(n), P.FusedLasso(1.0)
        peers: dict[str, Prox] = {"reshuffle": partial(psi.prox, y, 1.0)}
        if find_spec("copt"):
            prox = import_module("copt.penalty").FusedLasso(1.0).prox
            peers["copt"] = partial(prox, y, 1.0)
        yield f"FusedLasso, {n:,}", peers


def images() -> Iterator[tuple[str, dict[str, Prox]]]:
    for side in (28, 128):
        x, psi = image(side), P.TotalVariation2D(0.5, (side, side))
        peers: dict[str, Prox] = {"reshuffle": partial(psi.prox, x.ravel(), 1.0)}
        if find_spec("copt"):
            other = import_module("copt.penalty").TotalVariation2D(
                0.5, (side, side), max_iter=10_000, tol=1e-6
            )
            peers["copt, to 1e-6"] = partial(other.prox, x.ravel(), 1.0)
        if find_spec("skimage"):
            bregman = import_module("skimage.restoration").denoise_tv_bregman

            def split(x: Array = x, bregman: Any = bregman) -> Array:  # λ‖u - x‖²/2 + TV, so λ = 2
                u = bregman(x, weight=2.0, eps=1e-6, max_num_iter=10_000, isotropic=False)
                return np.asarray(u).ravel()

            peers["scikit-image, another border"] = split
        yield f"TotalVariation2D, {side} × {side}", peers


def sorted_ones() -> Iterator[tuple[str, dict[str, Prox]]]:
    x = RNG.standard_normal(100_000)
    simplex: dict[str, Prox] = {"reshuffle": lambda: P.Simplex(1.0).prox(x, 1.0)}
    ball: dict[str, Prox] = {"reshuffle": lambda: P.L1Ball(10.0).prox(x, 1.0)}
    matrix = RNG.standard_normal((300, 300))
    nuclear: dict[str, Prox] = {"reshuffle": lambda: P.NuclearNorm(1.0).prox(matrix, 20.0).ravel()}
    if find_spec("pyproximal"):
        theirs = import_module("pyproximal")
        both = theirs.Simplex(x.size, 1.0), theirs.L1Ball(x.size, 10.0)
        simplex["pyproximal"] = lambda: both[0].prox(x, 1.0)
        ball["pyproximal"] = lambda: both[1].prox(x, 1.0)
        norm = theirs.Nuclear((300, 300), 1.0)
        nuclear["pyproximal"] = lambda: norm.prox(matrix.ravel(), 20.0)
    if find_spec("copt"):
        trace = import_module("copt.penalty").TraceNorm(1.0, (300, 300))
        nuclear["copt"] = lambda: trace.prox(matrix.ravel(), 20.0)
    yield "Simplex, 100,000", simplex
    yield "L1Ball, 100,000", ball
    yield "NuclearNorm, 300 × 300", nuclear


def isotonic() -> Iterator[tuple[str, dict[str, Prox]]]:
    from scipy.optimize import isotonic_regression

    x = RNG.standard_normal(10_000) + np.linspace(0.0, 3.0, 10_000)
    yield (
        "Monotone, 10,000",
        {
            "reshuffle": lambda: P.Monotone().prox(x, 1.0),
            "scipy": lambda: isotonic_regression(x).x,
        },
    )


def osqp_of(A: Array, b: Array, x: Array, warm_starting: bool) -> Any:
    import scipy.sparse as sp

    model = import_module("osqp").OSQP()
    model.setup(
        sp.eye_array(x.size, format="csc"), -x, sp.csc_matrix(A), np.full(b.size, -np.inf), b,
        verbose=False, eps_abs=1e-6, eps_rel=1e-6, max_iter=100_000, warm_starting=warm_starting,
    )  # fmt: skip
    return model


def polyhedron() -> Iterator[tuple[str, dict[str, Prox]]]:
    A, b, x = RNG.standard_normal((400, 200)), RNG.random(400), RNG.standard_normal(200)
    psi = P.Polyhedron(A, b)
    peers: dict[str, Prox] = {"reshuffle": lambda: psi.prox(x, 1.0)}
    if find_spec("osqp"):
        model = osqp_of(A, b, x, warm_starting=False)

        def solve() -> Array:
            model.update(q=-x)
            return np.asarray(model.solve().x)

        peers["OSQP, to 1e-6"] = solve
    if find_spec("cvxpy"):
        model_of = P.FromCvxpy(lambda v: [A @ v <= b])
        peers["cvxpy with Clarabel"] = lambda: model_of.prox(x, 1.0)
    yield "Polyhedron, 400 × 200", peers


def overlapping() -> Iterator[tuple[str, dict[str, Prox]]]:
    for count, with_cvxpy in ((200, True), (10_000, False)):
        groups = [list(range(7 * k, 7 * k + 10)) for k in range(count)]
        x = 3.0 * RNG.standard_normal(7 * count + 3)
        for strength in (0.3, 1.0):
            exact = P.OverlappingGroupLasso(strength, groups)
            rough = P.OverlappingGroupLasso(strength, groups, tolerance=1e-6)
            peers: dict[str, Prox] = {
                "reshuffle": partial(exact.prox, x, 1.0),
                "reshuffle, to 1e-6": partial(rough.prox, x, 1.0),
            }
            if with_cvxpy and find_spec("cvxpy"):
                cp: Any = import_module("cvxpy")

                def norms(v: Any, cp: Any = cp, groups: Any = groups, s: float = strength) -> Any:
                    return s * np.sqrt(10) * sum(cp.norm(v[g]) for g in groups)

                model_of = P.FromCvxpy(norms)
                peers["cvxpy with Clarabel"] = partial(model_of.prox, x, 1.0)
            yield f"OverlappingGroupLasso, {count:,} groups, {strength:g}", peers


def walk(x: Array, points: int = 10) -> list[Array]:
    """Points as a run comes along them: each a hundredth of its size away from the last."""
    step = 0.01 * RNG.standard_normal(x.shape)
    return [x + k * step for k in range(points)]


def warm(psi: Any, points: list[Array], gap: float, cold: bool = False) -> Array:
    """The last prox of a walk, each begun where the last one ended, or from nothing."""
    start = COLD
    for x in points:
        found = psi.prox_from(x, 1.0, COLD if cold else start, gap)
        start = found.start
    return np.asarray(found.point)


def walks() -> Iterator[tuple[str, dict[str, Prox]]]:
    """Ten proxes in a row, to an error of 1e-6 by their own bound; milliseconds of all ten."""
    for strength in (0.3, 1.0):
        groups = [list(range(7 * k, 7 * k + 10)) for k in range(10_000)]
        psi: Any = P.OverlappingGroupLasso(strength, groups)
        points = walk(3.0 * RNG.standard_normal(70_003))
        yield (
            f"10 × OverlappingGroupLasso, 10,000 groups, {strength:g}",
            {
                "reshuffle": partial(warm, psi, points, TO_1E6),
                "reshuffle, from nothing": partial(warm, psi, points, TO_1E6, True),
            },
        )
    A, b = RNG.standard_normal((400, 200)), RNG.random(400)
    points, psi = walk(RNG.standard_normal(200)), P.Polyhedron(A, b)
    peers: dict[str, Prox] = {
        "reshuffle": partial(warm, psi, points, 0.0),
        "reshuffle, from nothing": partial(warm, psi, points, 0.0, True),
    }
    if find_spec("osqp"):
        model = osqp_of(A, b, points[0], warm_starting=True)

        def along() -> Array:
            for x in points:
                model.update(q=-x)
                found = model.solve().x
            return np.asarray(found)

        peers["OSQP, warm, to 1e-6"] = along
    yield "10 × Polyhedron, 400 × 200", peers


def main() -> None:
    table = Table("operator", "library", "ms", "times ours", "distance from ours")
    for make in (fused, images, sorted_ones, isotonic, polyhedron, overlapping, walks):
        for operator, peers in make():
            answers = {name: prox() for name, prox in peers.items()}
            seconds = interleaved({name: spent(prox) for name, prox in peers.items()}, ROUNDS)
            for name, prox_seconds in seconds.items():
                apart = float(np.abs(answers[name] - answers["reshuffle"]).max())
                ratio = prox_seconds / seconds["reshuffle"]
                table.add_row(
                    operator, name, f"{1e3 * prox_seconds:.3g}", f"{ratio:.2f}", f"{apart:.1g}"
                )
            table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
