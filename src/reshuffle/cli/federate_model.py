"""Writes the files of a run over clients, for the command and for Flower."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reshuffle.cli.federate_picture import draw
from reshuffle.estimators import from_federation
from reshuffle.estimators.linear import Linear
from reshuffle.federated import FederatedResult
from reshuffle.files import write_atomically
from reshuffle.report import federated_page
from reshuffle.report.words import data_table

RUN = ("checkpoint.npz", "result.npz", "model.npz")
"""A folder with one of these files holds a run."""
LONGEST = 80
"""A feature's name is shown up to this many characters."""


def file_of_a_run(out: Path) -> Path | None:
    """A file that an earlier run has left in this folder; None if there is none."""
    return next((out / name for name in RUN if (out / name).exists()), None)


def write_outcome(result: FederatedResult, out: Path, about: Mapping[str, object]) -> Linear:
    """Write result.npz, trace.csv, federation.png, model.npz and report.html; returns the model."""
    result.save(out / "result.npz")
    result.trace.to_csv(out / "trace.csv")
    draw(result.trace, result.tally.parts, out / "federation.png")
    return write_model(result, out, about)


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
