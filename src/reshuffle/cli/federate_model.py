"""The files that a federation ends with: its model and its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reshuffle.estimators import from_federation
from reshuffle.estimators.linear import Linear
from reshuffle.federated import FederatedResult
from reshuffle.files import write_atomically
from reshuffle.report import federated_page
from reshuffle.report.words import data_table

LONGEST = 80
"""A feature's name is shown up to this many characters."""


def write_model(result: FederatedResult, out: Path, about: Mapping[str, object]) -> Linear:
    """Write model.npz, which ``reshuffle predict`` takes, and report.html; returns the model."""
    model: Linear = from_federation(result)
    model.save(out / "model.npz")
    encoding = model.encoding_
    names = [n if len(n) <= LONGEST else n[: LONGEST - 1] + "…" for n in encoding.feature_names]
    target = getattr(encoding, "target", "")
    told = {**about, **data_table(encoding), "target": target or "the labels of the files"}
    page = federated_page(model, result, names, told, target)
    write_atomically(out / "report.html", page.encode())
    return model
