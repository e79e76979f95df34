"""Refuses settings of an estimator that would leak what the noise of its solver hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reshuffle.errors import InputError

if TYPE_CHECKING:
    from reshuffle.estimators.linear import Linear


def is_private(solver: object) -> bool:
    """Whether a solver has differential privacy."""
    return getattr(solver, "privacy", None) is not None


def check_private_fit(model: Linear) -> None:
    """Refuse settings that use the data outside the noised steps of a private solver."""
    if not is_private(model.solver):
        return
    wrong = {
        "early_stopping": "rows that are held out would decide, without noise, when to stop",
        "warm_start": "the fit before has spent an ε of its own; resume=... of the solver adds it up",
    }
    for name, reason in wrong.items():
        if getattr(model, name, False):
            raise InputError(f"{name} must be False with a private solver: {reason}")
    if getattr(model, "class_weight", None) == "balanced":
        raise InputError(
            'class_weight must not be "balanced" with a private solver: it counts the classes without noise; '
            "give a dict of weights"
        )


def refuse_private(solver: object, purpose: str) -> None:
    """Refuse a private solver for a purpose that has no privacy account."""
    if is_private(solver):
        raise InputError(
            f"{purpose} has no account of ε: it would use the data more often than one run of the solver; "
            "give fit a solver with privacy, or leave privacy out"
        )
