"""The protected unit, a client or a sample, and how much noise hides one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.privacy.epsilon import noise_for_releases
from reshuffle.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class Level:
    """A bound C on the influence of one unit, and Gaussian noise of standard deviation z·C.

    Parameters
    ----------
    clip : C, the largest Euclidean norm of what one unit adds to a sum. Anything longer is scaled down to it.
    noise : z, the noise multiplier: the noise on each coordinate of a sum has the standard deviation z·C.
    epsilon : ε of the whole run, from which z is computed. Give either this or ``noise``.
    delta : δ, which must be smaller than 1 over the number of units.
    """

    clip: float
    noise: float | None = None
    epsilon: float | None = None
    delta: float

    unit: ClassVar[str] = ""
    """The protected unit, in a word."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(f"clip of {name}", self.clip)
        if (self.noise is None) == (self.epsilon is None):
            given = "neither" if self.noise is None else "both"
            raise InputError(
                f"{name} needs noise (the multiplier z) or epsilon (ε of the whole run), got {given}"
            )
        if self.noise is not None and not _positive(self.noise):
            raise InputError(
                f"noise of {name} must be positive and finite, got {shown(self.noise)}: "
                "clipping without noise hides nobody"
            )
        if self.epsilon is not None and not _positive(self.epsilon):
            raise InputError(
                f"epsilon of {name} must be positive and finite, got {shown(self.epsilon)}: no finite noise "
                "gives ε = 0, and a large ε promises nothing; values between 0.1 and 10 are usual"
            )
        if not (_positive(self.delta) and self.delta < 1):
            raise InputError(
                f"delta of {name} must lie between 0 and 1, and below 1 over the number of "
                f"{self.unit}s, got {shown(self.delta)}"
            )

    def check_units(self, count: int) -> None:
        """Refuse a δ under which one whole unit could be published."""
        if self.delta * count >= 1:
            raise InputError(
                f"delta of {type(self).__name__} must be smaller than 1/{count} for {count} "
                f"{self.unit}s, got {self.delta:g}: with a larger δ, to publish one {self.unit} chosen at "
                "random would count as private"
            )

    def multiplier(self, releases: int) -> float:
        """z, if ε is spent on ``releases`` releases."""
        if self.noise is not None:
            return float(self.noise)
        return noise_for_releases(float(self.epsilon or np.nan), self.delta, releases)


@dataclass(frozen=True, kw_only=True)
class ClientLevel(Level):
    """Hides whether a client took part, with all of its samples: Σ_m clip_C(x̂_m - x) + N(0, z²C²I), then the prox.

    Each client's change of the model in a round is clipped to norm C, and the sum over clients gets noise of standard
    deviation z·C before it is divided by their number and before the prox is taken.

    Parameters
    ----------
    noise_at : "sites": each of the K clients of a round adds noise of standard deviation z·C/√K, so that the sum has
        z·C. The driver then never holds a sum without noise, but unless sums are secure it sees single replies
        with little noise. "driver": the driver adds the noise and is trusted.

    Examples
    --------
    >>> import reshuffle as rs
    >>> rs.privacy.ClientLevel(clip=0.5, noise=1.0, delta=1e-5)
    ClientLevel(clip=0.5, noise=1.0, epsilon=None, delta=1e-05, noise_at='driver')
    """

    noise_at: Literal["sites", "driver"] = "driver"

    unit: ClassVar[str] = "client"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_at not in ("sites", "driver"):
            raise InputError(f'noise_at must be "sites" or "driver", got {shown(self.noise_at)}')


@dataclass(frozen=True, kw_only=True)
class SampleLevel(Level):
    """Hides whether a sample was used: steps along Σ_{i in batch} clip_C(∇f_i(x)) + N(0, z²C²I), then the prox.

    The gradient of a sample is clipped with its weight and with the part of the intercept. The ridge does not depend
    on data: it is neither clipped nor noised.

    Examples
    --------
    >>> import reshuffle as rs
    >>> rs.privacy.SampleLevel(clip=1.0, epsilon=2.0, delta=1e-5)
    SampleLevel(clip=1.0, noise=None, epsilon=2.0, delta=1e-05)
    """

    unit: ClassVar[str] = "sample"


LEVELS: Mapping[str, type[Level]] = {"client": ClientLevel, "sample": SampleLevel}
"""The levels by their protected unit."""
NEEDED = {
    "clip": "the largest influence of one unit on a sum, for example 1.0",
    "delta": "a number below 1 over the number of units, for example 1e-5",
}
"""Explanations of the settings that have no default."""


def level_of(settings: Mapping[str, object]) -> Level:
    """The level of ``unit`` ("client" or "sample") with ``clip``, ``delta``, ``noise`` or ``epsilon``, and ``noise_at``.

    A setting that is None, or an empty text, is taken as not given. A hyphen may stand for the underscore.

    Examples
    --------
    >>> level_of({"unit": "client", "clip": 0.5, "epsilon": 2.0, "delta": 1e-3, "noise-at": "sites"})
    ClientLevel(clip=0.5, noise=None, epsilon=2.0, delta=0.001, noise_at='sites')
    """
    given = {name.replace("-", "_"): v for name, v in settings.items() if v is not None and v != ""}
    unit = given.pop("unit", None)
    kind = LEVELS.get(unit) if isinstance(unit, str) else None
    if kind is None:
        raise InputError(f'the unit of privacy must be "client" or "sample", got {shown(unit)}')
    known = [field.name for field in fields(kind)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(
            f"privacy for each {unit} has no {unknown[0]}: it takes {', '.join(known)}"
        )
    for name, why in NEEDED.items():
        if name not in given:
            raise InputError(f"privacy for each {unit} needs {name}: {why}")
    made: Level = kind(**given)  # type: ignore[arg-type]
    return made


def _positive(value: object) -> bool:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return bool(number and 0 < value < np.inf)  # type: ignore[operator]
