"""Parameters of parameters: ``penalty__l1`` of an estimator whose penalty is an object."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Self

from sklearn.base import BaseEstimator

from reshuffle.errors import InputError

PARTS = ("loss", "penalty", "solver")
"""Parameters that may be objects with their own parameters."""


DATA = ("data_", "problem_")
"""Attributes that hold the data of a fit, for ``inference``: neither pickles nor copies have them."""


class Nested(BaseEstimator):  # type: ignore[misc]
    """``get_params`` and ``set_params`` that reach into a loss, a penalty or a solver.

    These objects are values: setting one of their parameters replaces the object by a new one.
    """

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Parameters of this estimator and, if ``deep``, of its loss, penalty and solver."""
        found: dict[str, object] = super().get_params(deep)
        if deep:
            found |= {
                f"{part}__{name}": getattr(found[part], name)
                for part in PARTS
                if part in found
                for name in _names(found[part])
            }
        return found

    def __getstate__(self) -> dict[str, object]:
        """Without the data of the fit."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in DATA}

    def set_params(self, **params: object) -> Self:
        """Set parameters of this estimator, or ``penalty__l1`` and the like of its parts."""
        inner = {key: v for key, v in params.items() if "__" in key and key.split("__")[0] in PARTS}
        super().set_params(**{key: value for key, value in params.items() if key not in inner})
        for key, value in inner.items():
            part, _, name = key.partition("__")
            held = getattr(self, part)
            if name not in _names(held):
                raise InputError(
                    f"{key} cannot be set: {part} is {held!r}, which has "
                    f"{', '.join(_names(held)) or 'no parameters'}"
                )
            setattr(self, part, replace(held, **{name: value}))
        return self


def _names(held: object) -> list[str]:
    """The parameters of an object that is a dataclass; none of others."""
    if isinstance(held, type) or not is_dataclass(held):
        return []
    return [field.name for field in fields(held) if field.init]
