"""Makes a level from plain words and numbers, as in a file or a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from reshuffle.errors import InputError, shown
from reshuffle.privacy.levels import ClientLevel, Level, SampleLevel

LEVELS: Mapping[str, type[Level]] = {"client": ClientLevel, "sample": SampleLevel}
"""The levels by their protected unit."""


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
    for name in ("clip", "delta"):
        if name not in given:
            raise InputError(f"privacy for each {unit} needs {name}: {NEEDED[name]}")
    made: Level = kind(**given)  # type: ignore[arg-type]
    return made


NEEDED = {
    "clip": "the largest influence of one unit on a sum, for example 1.0",
    "delta": "a number below 1 over the number of units, for example 1e-5",
}
"""Explanations of the settings that have no default."""
