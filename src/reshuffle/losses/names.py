"""Names of losses, in one list for estimators, the command, files of sites and exports.

A name may be followed by the parameters of its loss: ``tweedie(1.7)``, ``negative_binomial(0.5)``, ``quantile(0.9, 0.1)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from reshuffle.errors import InputError, shown
from reshuffle.losses import (
    ComplementaryLogLog,
    Gamma,
    Huber,
    InverseGaussian,
    Logistic,
    Loss,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Probit,
    Quantile,
    Squared,
    SquaredHinge,
    Tweedie,
)  # fmt: skip

OF_CLASSES: dict[str, type[Loss]] = {
    "logistic": Logistic, "log_loss": Logistic, "squared_hinge": SquaredHinge, "probit": Probit,
    "complementary_log_log": ComplementaryLogLog, "cloglog": ComplementaryLogLog,
}  # fmt: skip
"""Names of losses of two classes; of several names the first is the one that is shown."""
OF_NUMBERS: dict[str, type[Loss]] = {
    "squared": Squared, "huber": Huber, "quantile": Quantile, "poisson": Poisson, "gamma": Gamma,
    "tweedie": Tweedie, "inverse_gaussian": InverseGaussian, "negative_binomial": NegativeBinomial,
}  # fmt: skip
"""Names of losses for a target of numbers."""
OF_MORE: dict[type[Loss], type[Loss]] = {Logistic: Multinomial}
"""The loss that replaces a loss of two classes if there are more."""

WRITTEN = re.compile(r"([a-z_]+)(?:\s*\(([^()]*)\))?")


def split_name(text: str) -> tuple[str, list[float]]:
    """The name and the parameters of a loss that is written as ``name`` or ``name(number, …)``."""
    found = WRITTEN.fullmatch(text.strip())
    try:
        parts = (found[2] or "").split(",") if found else []
        return (found[1] if found else text), [float(part) for part in parts if part.strip()]
    except ValueError:
        raise InputError(f"loss: the parameters of {text!r} must be numbers") from None


def loss_by_name(text: str, names: Mapping[str, type[Loss]]) -> Loss:
    """The loss of this name, with the parameters that the text gives."""
    name, given = split_name(text)
    if name not in names:
        raise InputError(
            f"loss must be one of {', '.join(map(repr, names))}, or an object, got {shown(text)}"
        )
    kind = names[name]
    known: list[str] = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    if len(given) > len(known):
        takes = f"takes {', '.join(known)}" if known else "has no parameters"
        raise InputError(f"loss: {name} {takes}, got {text!r}")
    return kind(*given)
