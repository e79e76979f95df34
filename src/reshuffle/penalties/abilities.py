"""Defines the abilities of a penalty. A penalty must have ``value`` and ``prox``; everything else is optional.

An ability is a further method that a penalty may have. Code that needs one calls ``ability`` and never asks for the
class. A missing ability costs speed or a certificate, never correctness.

| ability | used by |
| --- | --- |
| ``strong_convexity`` | steps of the theory, defaults of the exact methods |
| ``compiled`` | the kernels, which then take the prox themselves |
| ``has_dual``, ``conjugate``, ``dual_scale`` | the duality gap |
| ``part``, ``holds_at_zero``, ``excess``, ``together`` | working sets |
| ``curvature_product`` | second-order steps of your own methods |
| ``prox_from`` | methods, which keep a warm start and ask for no more accuracy than they need (``inexact``) |
| ``lambda_max`` | paths, and strengths given as a fraction of it |
| ``weak_convexity`` | solvers that need a convex penalty, which refuse one that has it |
| ``homogeneous``, ``comonotone``, ``radial`` | ``Sum``, whose prox is composed where these allow it |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, Self, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array, Mask
from reshuffle.errors import InputError
from reshuffle.penalties.forms import Coordinates, Form, Groups

if TYPE_CHECKING:
    from reshuffle.penalties.inexact import Approximate

Features = NDArray[np.uint32]
NEEDED = ("value", "prox")
"""The methods that every penalty must have."""


@runtime_checkable
class Penalty(Protocol):
    """Anything with these two methods is a penalty; no base class is needed."""

    def value(self, x: Array) -> float:
        """ψ(x), +inf outside a constraint."""
        ...

    def prox(self, x: Array, step: float) -> Array:
        """argmin_u step·ψ(u) + ‖u - x‖²/2."""
        ...


class Able(Penalty, Protocol):
    """A penalty with every ability. Each is optional; a ridge r stands for a further (r/2)‖x‖²."""

    strong_convexity: float
    """μ with ψ - (μ/2)‖·‖² convex."""

    weak_convexity: float
    """ρ > 0 with ψ + (ρ/2)‖·‖² convex, of a penalty that is not convex itself."""
    homogeneous: bool
    """ψ(cx) = c·ψ(x) for c > 0."""
    comonotone: bool
    """∂ψ(x) depends on the order of the coordinates of x alone (of each column, for a matrix)."""
    radial: bool
    """ψ depends on ‖x‖₂ alone."""

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        """Instances for an unknown of this shape, with which the conformance tests run."""
        ...

    def compiled(self, shape: tuple[int, ...], ridge: float = 0.0) -> Form:
        """ψ on an unknown of this shape, in the form that the kernels read."""
        ...

    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        """The prox by iterations from ``start`` (empty in a first call), until their gap is at most ``gap``.

        The gap is that of ``penalties.inexact``; if it cannot become so small, the iterations end at
        what the penalty's own tolerance or rounding allow. The gap of a ``homogeneous`` ψ is found in one of the
        two ways named there. A start of another size, or of numbers that are not finite, counts as none.
        """
        ...

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        """Whether ψ* is finite near zero, so that some multiple of every g is feasible."""
        ...

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """ψ*(g) = sup_x ⟨g, x⟩ - ψ(x)."""
        ...

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        """The largest α ≤ 1 for which ψ*(αg) is finite."""
        ...

    def part(self, kept: Features, shape: tuple[int, ...]) -> Penalty:
        """The penalty restricted to these rows of an unknown of the given shape, with the others held at zero."""
        ...

    def holds_at_zero(self, g: Array, slack: float = 1.0, drift: Array | float = 0.0) -> Mask:
        """Which coordinates stay at zero for every gradient within ``drift`` of g.

        ``slack`` multiplies the strengths: below 1, fewer coordinates are reported.
        """
        ...

    def excess(self, x: Array, g: Array) -> Array:
        """The distance of -g_j from ∂ψ_j(0) if x_j = 0 (for a group: of its norm); inf if x_j ≠ 0."""
        ...

    def together(self, matter: Mask) -> Mask:
        """The coordinates that have to be kept together with those that ``matter``."""
        ...

    def curvature_product(self, x: Array, v: Array) -> Array:
        """∇²ψ(x)·v, for v that is zero where ψ has a kink at x."""
        ...

    def lambda_max(self, g: Array) -> float:
        """The smallest factor t ≥ 0 for which x = 0 minimises ⟨g, x⟩ + t·ψ(x); inf if there is none."""
        ...


def ability(penalty: Penalty, name: str) -> Callable[..., Any] | None:
    """The ability of this name, or ``None`` if the penalty lacks it.

    A subclass that has a ``value`` or ``prox`` of its own loses the abilities it inherits from a penalty, because
    they describe that penalty. Methods inherited from a class that is not a penalty are kept.
    """
    found = getattr(penalty, name, None)
    return None if found is None or _is_foreign(type(penalty), name) else found


def as_able(penalty: Penalty) -> Able:
    """The penalty, typed as ``Able``, for code that has checked by ``ability`` that it has the methods."""
    return cast(Able, penalty)


@lru_cache(maxsize=1024)
def _is_foreign(kind: type, name: str) -> bool:
    """Whether the attribute comes from a penalty further up than ``value`` or ``prox`` do."""
    own, depth = min(_depth(kind, needed) for needed in NEEDED), _depth(kind, name)
    return own < depth and any(hasattr(kind.__mro__[depth], needed) for needed in NEEDED)


def _depth(kind: type, name: str) -> int:
    """The number of classes up the hierarchy at which the attribute is defined; 0 also for an attribute of the object."""
    return next((k for k, up in enumerate(kind.__mro__) if name in vars(up)), 0)


def needed_form(penalty: Penalty, shape: tuple[int, ...], ridge: float = 0.0) -> Form:
    """The compiled form of a penalty that must have one."""
    form = compiled_form(penalty, shape, ridge)
    if form is None:
        raise InputError(f"penalty {type(penalty).__name__} must have compiled(shape, ridge) here")
    return form


def compiled_form(penalty: Penalty, shape: tuple[int, ...], ridge: float = 0.0) -> Form | None:
    """The compiled form, if there is one; refused if a kernel would read beyond its arrays."""
    compiled = ability(penalty, "compiled")
    if compiled is None:
        return None
    form, size = compiled(shape, ridge), prod(shape)
    name = f"compiled(shape, ridge) of penalty {type(penalty).__name__}"
    if not isinstance(form, (Coordinates, Groups)):
        raise InputError(f"{name} must return Coordinates or Groups, got {type(form).__name__}")
    lengths = dict.fromkeys(("l1", "l2", "low", "high"), size)
    groups = form.in_groups
    if groups is not None:
        lengths = {"l1": size, "strengths": np.size(groups.strengths)}
        _check_groups(name, groups, size)
    for part, length in lengths.items():
        array = getattr(form, part)
        good = isinstance(array, np.ndarray) and array.dtype == np.float64
        if not (good and array.shape == (length,) and array.flags.c_contiguous):
            raise InputError(f"{name}: {part} must be {length} float64 numbers in one piece")
    return form


def _check_groups(name: str, form: Groups, size: int) -> None:
    members: object = form.members
    starts: object = form.starts
    kinds = ((members, np.uint32), (starts, np.int64))
    if not all(isinstance(a, np.ndarray) and a.dtype == k and a.ndim == 1 for a, k in kinds):
        raise InputError(f"{name}: members must be uint32 and starts int64, both 1-d")
    rising = form.starts.size == np.size(form.strengths) + 1 and np.all(np.diff(form.starts) >= 0)
    inside = not form.members.size or int(form.members.max()) < size
    if not (rising and inside and form.starts[0] == 0 and form.starts[-1] <= form.members.size):
        raise InputError(f"{name}: starts must rise from 0, and members lie in 0 … {size - 1}")
    if not isinstance(form.l2, float):
        raise InputError(f"{name}: l2 must be a float")


def closed(penalty: Able, matter: Mask) -> Mask:
    """The features of which an output matters, with those that the penalty keeps together with them."""
    features = rows(matter)
    while True:
        spread = np.broadcast_to(features.reshape(-1, *[1] * (matter.ndim - 1)), matter.shape)
        more = rows(penalty.together(spread))
        if np.array_equal(more, features):
            return features
        features = more


def rows(matter: Mask) -> Mask:
    """Whether any output of a feature matters."""
    return matter if matter.ndim == 1 else np.any(matter, axis=1)


def strong_convexity(penalty: Penalty) -> float:
    """μ of ψ, 0 if the penalty does not provide it."""
    return float(getattr(penalty, "strong_convexity", 0.0))


def weak_convexity(penalty: Penalty) -> float:
    """ρ of a penalty that is not convex, 0 for others."""
    return float(getattr(penalty, "weak_convexity", 0.0))


def check_convex(penalty: Penalty, who: str) -> None:
    """Refuse a penalty that is not convex; ``who`` names the method that needs a convex one."""
    if weak_convexity(penalty) > 0:
        raise InputError(
            f"{who} needs a convex penalty, and {penalty!r} is not "
            f"(weak_convexity {weak_convexity(penalty):.3g}); FISTA, ProxRR and ProxSGD take it"
        )
