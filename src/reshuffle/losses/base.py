"""The interface of a loss: two small functions and a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from math import inf
from typing import ClassVar, Self

from numpy.typing import ArrayLike

from reshuffle.arrays import Array, Mask
from reshuffle.errors import InputError
from reshuffle.losses.native import address_of
from reshuffle.losses.targets import KINDS, Targets


class Loss:
    """A loss l(z, y) of one margin z = aᵀx and one target y.

    A subclass has the static functions (compiled by numba if the extra of that name is installed)

    - ``value(z, y)``: l(z, y);
    - ``derivative(z, y)``: l'(z, y) in z;

    and ``curvature``, a bound on l''(z, y) over all z and y (infinite if there is none: then only
    Newton steps are possible, and they need ``second``). Parameters are the fields of a
    dataclass; the functions take them as further arguments, in order. Nothing else is needed: the
    core calls the functions by their addresses, and takes addresses of compiled ones as they are.

    ``conjugate(s, y)`` = sup_z sz - l(z, y) is optional, and called only for values s of the derivative
    (and for s scaled towards zero); with it the exact method can bound the gap to the minimum.

    ``second(z, y)`` = l''(z, y) is needed for Newton steps; at a kink of l' either side will do. Their
    bound on P(x) - P* is valid if l'' has a single peak in z, or with a ``self_concordance``.

    A loss over several outputs (``vector = True``) gets z as an array with one entry per output
    and its ``derivative`` overwrites z. Its ``second`` overwrites z with numbers p ≥ 0 that sum to 1,
    which stand for the Hessian diag(p) - ppᵀ; a vector loss with another Hessian has no ``second``.

    The losses of the package also have ``oracle(z, y)``, the formula once more in plain numpy for
    arrays of margins and targets, which the tests compare the compiled functions with.

    Examples
    --------
    The log-cosh loss, compiled where numba is installed:

    >>> from math import cosh, exp, log, log1p, tanh
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> class LogCosh(rs.losses.Loss):
    ...     curvature = 1.0
    ...     @staticmethod
    ...     def value(z, y):
    ...         r = abs(z - y)
    ...         return r + log1p(exp(-2.0 * r)) - log(2.0)
    ...     @staticmethod
    ...     def derivative(z, y):
    ...         return tanh(z - y)
    >>> problem = rs.Problem(np.eye(2), np.array([1.0, -1.0]), loss=LogCosh())
    >>> bool(np.isclose(problem.objective(np.zeros(2)), log(cosh(1.0))))
    True
    """

    curvature: float
    """A bound on the second derivative in z (for a vector loss, on its spectral norm)."""
    targets: ClassVar[str | Targets] = "real"
    """The kind of targets: "signs" (-1/+1), "real" numbers, "rows" of them (one number per output), "counts"
    (not negative), "positive" numbers, "classes" 0 … K-1, or an object that checks."""
    vector: ClassVar[bool] = False
    value: ClassVar[Callable[..., float]]
    derivative: ClassVar[Callable[..., float | Array]]
    conjugate: ClassVar[Callable[..., float] | None] = None
    second: ClassVar[Callable[..., float | Array] | None] = None
    core: ClassVar[str]
    """The name of this loss in the compiled core; a user's loss has none."""
    self_concordance: ClassVar[float] = inf
    """M with ``|l'''| ≤ M·l''`` everywhere, if there is one: it bounds how fast l'' falls. For a vector loss, M times
    the range of a change of its margins bounds the change of the logarithm of l'' along it."""
    convex: bool = True
    """Whether l is convex in z. If not, ``second`` returns positive numbers that are not below l'', Newton steps end at a stationary point,
    which only the gradient mapping recognises, and no bound on P(x) - P* is claimed."""
    largest_target: float = inf
    """The largest target: beyond it the loss leaves the range of floating point near its own minimum."""
    log_link: ClassVar[bool] = False
    """Whether l is half the deviance of targets with mean exp(z): then an exposure is meaningful, and the score is D²."""
    boundary: ClassVar[float] = 0.0
    """For a loss of two classes: the margin at which both are equally likely."""
    quadratic: ClassVar[bool] = False
    """Whether l'' is constant: Newton's model is then f itself, and one step is enough."""
    probabilities: ClassVar[bool] = False
    """For a vector loss: whether slopes are p - e_y with probabilities p, and l*(p - e_y) = Σ_k p_k log p_k."""
    balanced: ClassVar[Callable[..., Array] | None] = None
    """``balanced(slopes, y, weights)``, for a gap with an intercept: slopes near the given ones with Σ_i w_i s_i = 0.
    Without it, a loss of one output has the slopes of one sign shortened, and a vector loss has no gap."""
    each: ClassVar[type[Loss] | None] = None
    """For a loss that is a sum over several outputs: the loss of one output."""
    recedes: ClassVar[Callable[..., Mask] | None] = None
    """``recedes(z, y, clear)`` in plain numpy: whether l(tz, y) falls for all t ≥ 1, for each sample, by margins above ``clear``."""
    oracle: ClassVar[Callable[..., Array] | None] = None

    @classmethod
    def examples(cls) -> list[Self]:
        """Instances that the conformance tests run with."""
        return [cls()]

    def for_targets(self, y: ArrayLike) -> Loss:
        """The loss for these targets: another one if y has a column for each of several outputs."""
        return self

    @property
    def kind(self) -> Targets:
        """The check of the targets."""
        kind = KINDS.get(self.targets) if isinstance(self.targets, str) else self.targets
        if kind is None:
            raise InputError(
                f"loss {self!r}: targets must be one of {', '.join(KINDS)}, got {self.targets!r}"
            )
        return kind

    @property
    def params(self) -> tuple[float, ...]:
        """The parameters in the order of the arguments of the compiled functions."""
        if not is_dataclass(self):
            return ()
        return tuple(float(getattr(self, field.name)) for field in fields(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.params))})"


def on_the_right_side(z: Array, y: Array, clear: float) -> Mask:
    """``recedes`` of a loss of two classes that falls as the margin goes to the side of y."""
    return y * z > clear


def towards_no_events(z: Array, y: Array, clear: float) -> Mask:
    """``recedes`` of a loss of counts with mean exp(z), which falls without end for y = 0 as z → -∞."""
    zero: Mask = y == 0
    return zero & (z < -clear)


def check_loss(loss: object) -> Loss:
    """The loss, checked to have all required functions and a valid curvature."""
    if not isinstance(loss, Loss):
        raise InputError(f"loss must be an instance of reshuffle.losses.Loss, got {loss!r}")
    for name in ("value", "derivative"):
        function = getattr(type(loss), name, None)
        if not callable(function) and (function is None or address_of(function) is None):
            raise InputError(f"loss {loss!r} must have a static function {name}(z, y)")
    bound = getattr(loss, "curvature", None)
    if not isinstance(bound, (int, float)) or isinstance(bound, bool) or not bound > 0:
        raise InputError(f"loss {loss!r}: curvature must be a positive number, got {bound!r}")
    return loss
