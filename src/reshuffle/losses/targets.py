"""The kinds of targets that losses have: their checks, their shape in the unknown, and samples for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.validation import as_array, check_finite, laid_out, read_only

if TYPE_CHECKING:
    from reshuffle.losses.base import Loss

SMALLEST = 1e-150
"""The square of a smaller number, times the share of one row among many, is subnormal or zero."""
ENCODE = "encode labels first: y, classes = reshuffle.encode_labels(labels)"


class Targets(Protocol):
    """A kind of targets."""

    def check(self, y: AnyArray, loss: object) -> AnyArray:
        """y as the kernels take it, or an ``InputError`` that names y, what it holds and what is wanted."""
        ...

    def outputs(self, y: AnyArray) -> tuple[int, ...]:
        """The shape of one margin: () for a number, (K,) for one per class."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        """n targets of this kind, for the tests."""
        ...


class Real:
    """Any finite numbers."""

    def check(self, y: AnyArray, loss: object) -> AnyArray:
        targets = laid_out(y, np.float64)
        check_finite("y", targets)
        largest = float(np.abs(targets).max(initial=0.0))
        if 0 < largest < SMALLEST:
            raise InputError(
                f"y must not lie below {SMALLEST:g} throughout, where squares vanish, got at most {largest:g}: "
                "give it in a smaller unit"
            )
        return read_only(targets)

    def outputs(self, y: AnyArray) -> tuple[int, ...]:
        return ()

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        return rng.standard_normal(n)


class RealRows(Real):
    """A row of finite numbers for each sample, one per output."""

    dimensions = 2

    def outputs(self, y: AnyArray) -> tuple[int, ...]:
        return (int(y.shape[1]),)

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        return rng.standard_normal((n, 3))


class Signs(Real):
    """-1 and +1, or 0 and 1; both must occur."""

    def check(self, y: AnyArray, loss: object) -> AnyArray:
        targets = super().check(y, loss)
        least, most = targets.min(), targets.max()
        if least == 0.0 and most == 1.0 and ((targets == 0.0) | (targets == 1.0)).all():
            return read_only(2.0 * targets - 1.0)
        if least == -1.0 and most == 1.0 and (np.abs(targets) == 1.0).all():
            return targets
        if not (least == most and most in (-1.0, 0.0, 1.0)):
            values = np.unique(targets)
            some = ", ".join(f"{v:g}" for v in values[:4])
            whole = 2 < values.size <= 100 and np.all(values == np.rint(values))
            advice = (
                f"for these {values.size} classes use reshuffle.losses.Multinomial() with the classes "
                f"0 … {values.size - 1}; {ENCODE}" if whole else ENCODE
            )  # fmt: skip
            raise InputError(
                f"y must hold -1 and +1 (or 0 and 1) for {loss!r}, got values such as {some}; {advice}"
            )
        raise InputError(f"y holds one class only ({y[0]}); {loss!r} needs two")

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        return np.where(np.arange(n) % 2 == 0, 1.0, -1.0)


class Counts(Real):
    """Numbers that are not negative: counts, or rates."""

    def check(self, y: AnyArray, loss: object) -> AnyArray:
        targets = super().check(y, loss)
        if targets.size and targets.min() < 0:
            raise InputError(f"y must not be negative for {loss!r}, got {targets.min():g}")
        return targets

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        return rng.poisson(1.5, n).astype(np.float64)


class Positive(Real):
    """Numbers above zero."""

    def check(self, y: AnyArray, loss: object) -> AnyArray:
        targets = super().check(y, loss)
        if targets.size and not targets.min() > 0:
            at = int(np.argmin(targets))
            raise InputError(
                f"y must be positive for {loss!r}, got {targets[at]:g} in row {at}; totals with zeros among them are for "
                "reshuffle.losses.Tweedie(power) with 1 < power < 2"
            )
        if targets.size and targets.min() < SMALLEST:
            raise InputError(
                f"y must not lie below {SMALLEST:g} for {loss!r}, got {targets.min():g}: give it in a smaller unit"
            )
        most = float(getattr(loss, "largest_target", np.inf))
        if targets.size and targets.max() > most:
            raise InputError(
                f"y must not exceed {most:.3g} for {loss!r}, where powers of the mean vanish, got {targets.max():g}: give it in a larger unit"
            )
        return targets

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        return rng.gamma(2.0, 1.0, n) + 0.01


class Classes:
    """0 … K-1, each at least once."""

    def check(self, y: AnyArray, loss: object) -> AnyArray:
        present = np.unique(y)
        if not np.array_equal(present, np.arange(present.size)):
            some = ", ".join(str(v) for v in present[:6])
            raise InputError(
                f"y must hold the classes 0 … K-1, each at least once, got {some}; {ENCODE}"
            )
        if present.size < 2:
            raise InputError(f"y holds one class only ({y[0]}); at least two are needed")
        return read_only(y.astype(np.int32))

    def outputs(self, y: AnyArray) -> tuple[int, ...]:
        return (int(y.max()) + 1,)

    def sample(self, n: int, rng: np.random.Generator) -> AnyArray:
        return np.arange(n) % 3


KINDS: dict[str, Targets] = {
    "real": Real(), "rows": RealRows(), "signs": Signs(), "counts": Counts(), "positive": Positive(),
    "classes": Classes(),
}  # fmt: skip
"""The kinds by the names that a loss may use."""


def check_targets(y: object, n: int, loss: Loss) -> AnyArray:
    """Check the targets, and convert them for the loss."""
    given = as_array("y", y)
    matrix = getattr(loss.kind, "dimensions", 1) == 2
    if given.shape[:1] != (n,) or given.ndim != 1 + matrix or not given.size:
        wanted = f"({n}, outputs), a row of targets" if matrix else f"({n},), one target"
        raise InputError(f"y must have shape {wanted} per row of X, got {given.shape}")
    if given.dtype.kind not in "fiub":
        raise InputError(f"y must hold numbers, got dtype {given.dtype}; {ENCODE}")
    return loss.kind.check(given, loss)
