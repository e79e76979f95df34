"""Checks of a penalty: its prox minimises what it should, and its abilities agree with its value."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from reshuffle.objective import check_penalty as check_parts
from reshuffle.penalties import ability, strong_convexity, weak_convexity
from reshuffle.penalties.abilities import as_able
from reshuffle.testing.failure import CheckFailed, run_checks
from reshuffle.testing.prox import STEPS, TriedPenalty, brief, check_prox


def check_penalty(
    penalty: object,
    shape: int | tuple[int, ...] = 6,
    *,
    seed: int = 0,
    trials: int = 12,
    tol: float = 1e-7,
) -> list[str]:
    """Check a penalty on random x of this shape; returns the names of the properties that hold.

    - ``prox``: p = prox(x, step) minimises Φ(u) = step·ψ(u) + ‖u - x‖²/2. For a ψ with weak convexity ρ,
      Φ(u) ≥ Φ(p) + (1 - step·ρ)‖u - p‖²/2 for every u.
    - ``same``: two calls return the same, and x is not changed.
    - ``convex``: ψ(x/2 + y/2) ≤ ψ(x)/2 + ψ(y)/2 - (μ - ρ)‖x - y‖²/8 with the ``strong_convexity`` μ and ``weak_convexity`` ρ it has.
    - ``conjugate``: ψ(x) + ψ*(g) ≥ ⟨g, x⟩, with equality for x = prox(z, 1) and g = z - x.
    - ``lambda_max``: prox(-g, t) is zero for t above λ_max(g), and not below.

    Parameters
    ----------
    penalty : an object with ``value(x)`` and ``prox(x, step)``.
    shape : of x: a number of features, or (features, outputs).
    tol : the relative error of Φ that is accepted; give a larger one for a prox that is computed by iterations.

    Raises
    ------
    CheckFailed : with the property, an example, and the mistake if it is a common one.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.testing.check_penalty(rs.penalties.L1(0.5))
    ['same', 'prox', 'convex', 'conjugate', 'lambda_max']
    >>> class Mine:
    ...     def value(self, x):
    ...         return 0.5 * np.abs(x).sum()
    ...
    ...     def prox(self, x, step):
    ...         return np.sign(x) * np.maximum(np.abs(x) - 0.5, 0.0)
    >>> rs.testing.check_penalty(Mine())
    Traceback (most recent call last):
    reshuffle.testing.failure.CheckFailed: prox(x, step) of Mine forgot its step: it is the prox at step = 1 whatever step it is given. Multiply the strength of the penalty by step
    """
    penalty = check_parts(penalty)
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    rng = np.random.default_rng(seed)
    points = [10.0 ** rng.uniform(-1.5, 1.0) * rng.standard_normal(size) for _ in range(trials)]
    return run_checks(
        TriedPenalty(as_able(penalty), type(penalty).__name__, points, rng, tol),
        {
            "same": _same,
            "prox": check_prox,
            "convex": _convex,
            "conjugate": _conjugate if ability(penalty, "conjugate") else None,
            "lambda_max": _lambda_max if ability(penalty, "lambda_max") else None,
        },
    )


def _same(tried: TriedPenalty) -> None:
    penalty, name = tried.penalty, tried.name
    for x in tried.points[:3]:
        given = x.copy()
        first = np.array(penalty.prox(given, 0.7))
        if not np.array_equal(given, x):
            raise CheckFailed(
                f"prox(x, step) of {name} changes the x that it is given: work on a copy"
            )
        if first.shape != x.shape or not np.isfinite(first).all():
            raise CheckFailed(
                f"prox(x, step) of {name} must return finite numbers of shape {x.shape}, got {brief(first)}"
            )
        if not np.array_equal(first, penalty.prox(given, 0.7)):
            raise CheckFailed(
                f"prox(x, step) of {name} gives something else when it is called again: it must depend on x and step alone"
            )
        if not np.isfinite(penalty.value(first)):
            raise CheckFailed(
                f"value(x) of {name} is {penalty.value(first)} at the point that prox(x, step) returned: a prox lies where the penalty is finite"
            )


def _convex(tried: TriedPenalty) -> None:
    penalty, name, points, _, tol = tried
    mu, rho = strong_convexity(penalty), weak_convexity(penalty)
    feasible = [np.array(penalty.prox(x, STEPS[0] if rho == 0 else 0.3 / rho)) for x in points]
    for x, y in pairwise(feasible):
        ends = 0.5 * penalty.value(x) + 0.5 * penalty.value(y)
        middle, apart = penalty.value(0.5 * x + 0.5 * y), float(np.vdot(x - y, x - y))
        if middle > ends + rho * apart / 8.0 + tol * (1.0 + abs(ends)):
            raise CheckFailed(
                f"value(x) of {name} is not convex: half way between {brief(x)} and {brief(y)} it is {middle:.6g}, "
                f"and {ends:.6g} on the line. Solvers need to know: give weak_convexity = ρ with ψ + (ρ/2)‖·‖² convex"
                + (f" (ρ = {rho:g} is too small)" if rho else "")
            )
        if middle > ends + (rho - mu) * apart / 8.0 + tol * (1.0 + abs(ends)):
            raise CheckFailed(
                f"strong_convexity = {mu:g} of {name} is too large: between {brief(x)} and {brief(y)} value(x) bends less. "
                "Steps that are chosen by it would be wrong"
            )


def _conjugate(tried: TriedPenalty) -> None:
    penalty, name, points, _, tol = tried
    for ridge in (0.0, 0.5):
        if not penalty.has_dual(points[0].shape, ridge):
            continue
        feasible = [np.array(penalty.prox(x, 1.0)) for x in points]
        for z, y in zip(points, feasible[1:], strict=False):
            x = np.array(penalty.prox(z / (1.0 + ridge), 1.0 / (1.0 + ridge)))
            g = z - x
            psi = penalty.value(x) + 0.5 * ridge * float(np.vdot(x, x))
            scale = penalty.dual_scale(g, ridge)
            there = penalty.conjugate(scale * g, ridge)
            of = f"conjugate(g, ridge={ridge:g}) of {name}"
            if not np.isfinite(there):
                raise CheckFailed(
                    f"{of} is infinite at dual_scale(g)·g, where it must be finite: {brief(scale * g)}"
                )
            at_y = penalty.value(y) + 0.5 * ridge * float(np.vdot(y, y))
            for point, value in ((x, psi), (y, at_y)):
                product = scale * float(np.vdot(g, point))
                if value + there < product - tol * (1.0 + abs(product) + abs(value)):
                    raise CheckFailed(
                        f"{of} is too small: ψ(x) + ψ*(g) = {value + there:.6g} < ⟨g, x⟩ = {product:.6g} at x = {brief(point)}, "
                        f"g = {brief(scale * g)}. Gaps that are computed by it would prove what is not so"
                    )
            slack = 1e-5 * (1.0 + abs(psi) + abs(there))
            if scale > 1.0 - 1e-9 and psi + there > float(np.vdot(g, x)) + slack:
                raise CheckFailed(
                    f"{of} is too large: for x = prox(z, 1) and g = z - x, ψ(x) + ψ*(g) = {psi + there:.6g} should be "
                    f"⟨g, x⟩ = {float(np.vdot(g, x)):.6g}"
                )


def _lambda_max(tried: TriedPenalty) -> None:
    penalty, name, points, *_ = tried
    if weak_convexity(penalty) > 0:  # Above λ_max zero is stationary, but it need not be the prox.
        return
    for g in points:
        largest = float(penalty.lambda_max(g))
        if not 0 < largest < np.inf:
            continue
        if np.any(np.abs(penalty.prox(-g, 1.001 * largest)) > 1e-9 * np.abs(g).max()):
            raise CheckFailed(
                f"lambda_max(g) of {name} is too small: prox(-g, t) is not zero for t = 1.001·{largest:.6g}, g = {brief(g)}"
            )
        if not np.any(penalty.prox(-g, 0.999 * largest)):
            raise CheckFailed(
                f"lambda_max(g) of {name} is too large: prox(-g, t) is zero already for t = 0.999·{largest:.6g}, g = {brief(g)}"
            )
