"""Checks of a loss: derivatives, curvature and conjugate agree with its value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses import Loss
from reshuffle.losses import check_loss as check_parts
from reshuffle.testing.failure import CheckFailed, run_checks

STEP = 1e-5
"""The width of a central difference, whose error is then near 1e-10 of the third derivative."""
NEAR = 1e-4
"""The relative error of a derivative that is accepted."""
FAR = (-40.0, 40.0)
"""TriedLoss at which the square of a carelessly written exp overflows."""


def check_loss(loss: Loss, y: object = None, *, seed: int = 0, trials: int = 200) -> list[str]:
    """Check a loss l(z, y) at random margins z; returns the names of the properties that hold.

    - ``derivative``: l' is the slope of value, by central differences.
    - ``convex``: l' does not fall.
    - ``curvature``: l'(w) - l'(z) ≤ curvature·(w - z) for w > z.
    - ``second``: l'' is the slope of l', or lies between its one-sided slopes at a kink.
    - ``conjugate``: l*(s) = sz - l(z) for s = l'(z), and l*(s) ≥ sw - l(w) for every w.
    - ``far``: value and l' are finite at z = ±40.

    Parameters
    ----------
    loss : an instance of a subclass of ``reshuffle.losses.Loss``; of a vector loss the derivative alone is checked.
    y : targets to check with, if ``loss.targets`` cannot provide them.

    Examples
    --------
    >>> import reshuffle as rs
    >>> rs.testing.check_loss(rs.losses.Huber(1.0))
    ['derivative', 'far', 'convex', 'curvature', 'second', 'conjugate']
    >>> class Cubed(rs.losses.Loss):
    ...     curvature = 1.0
    ...
    ...     @staticmethod
    ...     def value(z, y):
    ...         return (z - y) ** 2
    ...
    ...     @staticmethod
    ...     def derivative(z, y):
    ...         return z - y
    >>> rs.testing.check_loss(Cubed())
    Traceback (most recent call last):
    reshuffle.testing.failure.CheckFailed: derivative(z, y) of Cubed() is 0.5 times the slope of value(z, y): is there a factor too much, or one missing?
    """
    check_parts(loss)
    rng = np.random.default_rng(seed)
    targets = np.asarray(loss.kind.sample(trials, rng) if y is None else y)
    if loss.vector:
        z = rng.standard_normal((len(targets[:20]), *loss.kind.outputs(targets)))
        return run_checks(TriedLoss(loss, z, targets[:20]), {"derivative": _vector_slope})
    return run_checks(
        TriedLoss(loss, 3.0 * rng.standard_normal(targets.size), targets),
        {
            "derivative": _derivative,
            "far": _far,
            "convex": _convex,
            "curvature": _curvature if loss.curvature < np.inf else None,
            "second": _second if loss.second is not None else None,
            "conjugate": _conjugate if loss.conjugate is not None else None,
        },
    )


class TriedLoss(NamedTuple):
    """A loss, and the margins and targets at which it is tried."""

    loss: Loss
    z: Array
    y: Array

    def values(self, name: str, z: Array, y: Array | None = None) -> Array:
        """A function of the loss at these margins."""
        function = getattr(type(self.loss), name)
        pairs = zip(z.tolist(), np.ravel(self.y if y is None else y).tolist(), strict=True)
        return np.array([float(function(a, b, *self.loss.params)) for a, b in pairs])

    def pairs(self) -> tuple[Array, Array]:
        """Pairs of margins, near to each other and far apart."""
        rng, z = np.random.default_rng(1), self.z
        return z, z + np.where(np.arange(z.size) % 2, 1e-2, 1.0) * rng.standard_normal(z.size)


def _derivative(tried: TriedLoss) -> None:
    loss, z, y = tried
    given = tried.values("derivative", z)
    true = (tried.values("value", z + STEP) - tried.values("value", z - STEP)) / (2 * STEP)
    wrong = np.abs(given - true) > NEAR * (1.0 + np.abs(true))
    if not wrong.any():
        return
    of = f"derivative(z, y) of {loss!r}"
    clear = np.abs(true) > 1e-2
    ratio = given[clear] / true[clear]
    in_y = (tried.values("value", z, y + STEP) - tried.values("value", z, y - STEP)) / (2 * STEP)
    if clear.any() and np.allclose(ratio, -1.0, rtol=NEAR):
        if np.allclose(given, in_y, rtol=NEAR, atol=NEAR):
            raise CheckFailed(
                f"{of} has the wrong sign: it is the slope of value in y, and that in z is wanted"
            )
        raise CheckFailed(f"{of} has the wrong sign: it is minus the slope of value(z, y)")
    if clear.any() and np.ptp(ratio) < NEAR * abs(ratio.mean()):
        raise CheckFailed(
            f"{of} is {ratio.mean():.4g} times the slope of value(z, y): is there a factor too much, or one missing?"
        )
    if np.allclose(given * y, true, rtol=NEAR, atol=NEAR):
        raise CheckFailed(f"{of} lacks the factor y: the slope in z is wanted, not that in y·z")
    if np.allclose(given, in_y, rtol=NEAR, atol=NEAR):
        raise CheckFailed(f"{of} is the slope of value in y, and that in z is wanted")
    k = int(np.argmax(np.abs(given - true)))
    raise CheckFailed(
        f"{of} is not the slope of value(z, y): at z = {z[k]:.4g}, y = {y[k]:.4g} it is {given[k]:.6g}, and differences of value "
        f"give {true[k]:.6g}" + (f" ({np.mean(wrong):.0%} of the points are wrong)")
    )


def _far(tried: TriedLoss) -> None:
    loss = tried.loss
    for name in ("value", "derivative") if loss.curvature < np.inf else ():
        for z in FAR:
            try:
                found = tried.values(name, np.full(tried.y.size, z))
            except (OverflowError, ValueError, ZeroDivisionError) as error:
                raise CheckFailed(f"{name}(z, y) of {loss!r} fails at z = {z:g}: {error}") from None
            if not np.isfinite(found).all():
                raise CheckFailed(
                    f"{name}(z, y) of {loss!r} is not finite at z = {z:g}: write it without a large exp, as by log1p and by cases of the sign"
                )


def _convex(tried: TriedLoss) -> None:
    loss, _, y = tried
    if not getattr(loss, "convex", True):
        return  # It says so itself, and the methods that need convexity refuse it.
    a, b = tried.pairs()
    low, high = np.minimum(a, b), np.maximum(a, b)
    fall = tried.values("derivative", low) - tried.values("derivative", high)
    if (fall > 1e-9).any():
        k = int(np.argmax(fall))
        raise CheckFailed(
            f"{loss!r} is not convex in z: at y = {y[k]:.4g} its derivative falls by {fall[k]:.3g} from z = {low[k]:.4g} to "
            f"{high[k]:.4g}. The methods here are for convex losses"
        )


def _curvature(tried: TriedLoss) -> None:
    loss, _, y = tried
    a, b = tried.pairs()
    rise = np.abs(tried.values("derivative", a) - tried.values("derivative", b))
    bend = rise / np.maximum(np.abs(a - b), 1e-12)
    k = int(np.argmax(bend))
    if bend[k] > float(loss.curvature) * (1.0 + 1e-6) + 1e-9:
        raise CheckFailed(
            f"curvature = {loss.curvature:g} of {loss!r} is too small: between z = {a[k]:.4g} and {b[k]:.4g} (y = {y[k]:.4g}) the "
            f"derivative rises {bend[k]:.4g} times as fast as z. Steps of 1/L would be too long, and runs diverge"
        )


def _second(tried: TriedLoss) -> None:
    loss, z, y = tried
    slopes = tried.values("derivative", z)
    given = tried.values("second", z)
    left = (slopes - tried.values("derivative", z - STEP)) / STEP
    right = (tried.values("derivative", z + STEP) - slopes) / STEP
    low, high = np.minimum(left, right), np.maximum(left, right)
    slack = 1e-3 * (1.0 + np.abs(high))
    wrong = given < low - slack
    # A curvature above the true one keeps Newton's models convex where the loss is not.
    if getattr(loss, "convex", True):
        wrong |= given > high + slack
    if wrong.any():
        k = int(np.argmax(np.maximum(low - given, given - high)))
        raise CheckFailed(
            f"second(z, y) of {loss!r} is not the slope of derivative(z, y): at z = {z[k]:.4g}, y = {y[k]:.4g} it is {given[k]:.6g}, and "
            f"differences give {right[k]:.6g}"
        )


def _conjugate(tried: TriedLoss) -> None:
    loss, z, y = tried
    slopes = tried.values("derivative", z)
    given, true = tried.values("conjugate", slopes), slopes * z - tried.values("value", z)
    of = f"conjugate(s, y) of {loss!r}"
    size = 1.0 + np.abs(true)
    k = int(np.argmax(np.abs(given - true) / size))
    if not np.abs(given[k] - true[k]) <= 1e-6 * size[k]:
        clear = np.abs(true) > 1e-2
        ratio = given[clear] / true[clear]
        if clear.any() and np.allclose(ratio, -1.0, rtol=NEAR):
            raise CheckFailed(f"{of} has the wrong sign: it is sup_z sz - l(z, y)")
        raise CheckFailed(
            f"{of} must be sz - l(z, y) at s = l'(z, y): at z = {z[k]:.4g}, y = {y[k]:.4g}, s = {slopes[k]:.4g} it is {given[k]:.6g}, "
            f"and {true[k]:.6g} is wanted. Gaps that are computed by it would be wrong"
        )


def _vector_slope(tried: TriedLoss) -> None:
    """∇l by central differences, one output after the other; derivative overwrites z."""
    loss = tried.loss
    for z, target in zip(tried.z, tried.y, strict=True):
        given = z.copy()
        type(loss).derivative(given, target, *loss.params)
        for k in range(z.size):
            move = np.zeros_like(z)
            move[k] = STEP
            ends = [type(loss).value(z + sign * move, target, *loss.params) for sign in (1, -1)]
            true = (ends[0] - ends[1]) / (2 * STEP)
            if abs(given[k] - true) > NEAR * (1.0 + abs(true)):
                raise CheckFailed(
                    f"derivative(z, y) of {loss!r} must overwrite z with the gradient: its entry {k} is {given[k]:.6g} and differences "
                    f"of value give {true:.6g}"
                    + (" (z was not changed)" if np.array_equal(given, z) else "")
                )
