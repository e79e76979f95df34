"""Checks that the settings of a run are compatible, before anything is asked of a site."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from reshuffle.errors import InputError, shown
from reshuffle.federated import Secure
from reshuffle.federated.downlink import check_downlink
from reshuffle.federated.transport import transport_of

if TYPE_CHECKING:
    from reshuffle.flower.settings import RunSettings

DECREASING = ("fedrr", "fedso", "local-sgd")
"""Methods whose step decreases unless one is given, as in ``reshuffle federate``."""
CHOICES = {
    "method": ("exact", *DECREASING, "newton"),
    "state": ("server", "clients"),
    "on_missing": ("raise", "average"),
    "on_lost": ("raise", "restart"),
}
"""The words that a setting accepts."""


def key_of(name: str) -> str:
    """The key of the run configuration."""
    return name.replace("_", "-")


def check_settings(settings: RunSettings) -> None:
    """Refuse incompatible settings before anything is asked of a site."""
    for name, allowed in CHOICES.items():
        if getattr(settings, name) not in allowed:
            raise InputError(
                f"{key_of(name)} must be one of {', '.join(allowed)}, got {shown(getattr(settings, name))}"
            )
    settings.made_loss()  # This raises an error if there is no loss of this name.
    if settings.method == "newton" and not settings.objective:
        raise InputError(
            "method newton keeps the best point that it has seen, and needs the sites to tell the values of their "
            "losses: objective must be true"
        )
    if not settings.names:
        raise InputError('sites must name the sites, as in "north, south"')
    if len(set(settings.names)) < len(settings.names):
        raise InputError(f"sites must be different names, got {shown(settings.sites)}")
    for name in ("wait", "round_timeout"):
        seconds = getattr(settings, name)
        if not 0 <= seconds < inf:
            raise InputError(f"{key_of(name)} must be seconds, at least 0, got {seconds!r}")
    if settings.acceleration < -1:
        raise InputError(
            f"acceleration must be at least 0, or -1 for the method's own, got {settings.acceleration}"
        )
    strangers = [name for name in settings.renewed if name not in settings.names]
    if strangers:
        raise InputError(
            f"new-keys must name sites of this run ({settings.sites}), got {shown(strangers[0])}"
        )
    if settings.secure:
        _check_secure(settings)
    elif settings.threshold:
        raise InputError(
            f"threshold is for secure sums: give secure=true as well, or leave {settings.threshold} out"
        )
    if not settings.out.strip() or "\0" in settings.out:
        raise InputError(f"out must name a folder on the server, got {shown(settings.out)}")
    if not 0 <= settings.ridge < inf:
        raise InputError(f"ridge must be finite and not negative, got {settings.ridge}")
    if settings.power_rounds < 0:
        raise InputError(f"power-rounds must be at least 0, got {settings.power_rounds}")
    if settings.target and settings.target in settings.cells.drop:
        raise InputError(f"drop names the target {settings.target!r}, which is needed")
    for name, column in settings.cells.shifts.items():
        if column == settings.target:
            raise InputError(f"{name} must be another column than the target, got {column!r}")
    if settings.made_level() is not None:
        _check_private(settings)
    if settings.batch_size != 1 and settings.method not in DECREASING:
        raise InputError(
            f"batch-size is for methods {', '.join(DECREASING)}, got {settings.method}"
        )
    transport_of(settings.made_transport())  # This raises an error if there is no such transport.
    check_downlink(settings.downlink)


def _check_private(settings: RunSettings) -> None:
    """Refuse settings that would reveal something about rows without noise, before anything is asked of a site."""
    if settings.method not in DECREASING:
        raise InputError(
            f"privacy is for methods {', '.join(DECREASING)}, got {settings.method}: it uses the data again and again without "
            "a bound on one unit's influence"
        )
    if settings.standardise:
        raise InputError("standardise must be false with privacy: it needs moments of the columns")


def _check_secure(settings: RunSettings) -> None:
    """Refuse settings that need more than sums, before anything is asked of a site."""
    for name in ("standardise", "impute"):
        if getattr(settings, name):
            raise InputError(f"{name} must be false with secure sums: it needs more than sums")
    if settings.method == "exact" and settings.state != "clients":
        raise InputError('method exact needs state="clients" with secure sums')
    settings.solver("threads").check_sums()
    if settings.threshold < 0:
        raise InputError(f"threshold must be at least 0, got {settings.threshold}")
    Secure(settings.threshold or None).check_names([*settings.names])
