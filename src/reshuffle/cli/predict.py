"""``reshuffle predict``: rows in, predictions out, some at a time."""

from __future__ import annotations

import codecs
import copy
import csv
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import numpy as np

from reshuffle.cli.common import Output, as_json
from reshuffle.datasets import Reading, stream
from reshuffle.errors import InputError
from reshuffle.estimators import load
from reshuffle.files import check_apart, replacing


def run(
    model: str, file: str, *, out: str | None, proba: bool, reading: Reading, output: Output
) -> None:
    """Write a prediction for each row of the file."""
    if out is not None and (not os.path.exists(out) or os.path.isfile(out)):  # no device
        check_apart(out, model, file)
    fitted = load(model)
    encoding = getattr(fitted, "encoding_", None)
    if encoding is None:
        raise InputError(
            f"{model} does not say how rows come from a file: it was not written by `reshuffle fit`; "
            "predict with it in Python, by reshuffle.estimators.load"
        )
    if proba and not hasattr(fitted, "predict_proba"):
        raise InputError(f"--proba: a model with loss {fitted.loss!r} has no probabilities")
    told: set[str] = set()

    def note(text: str) -> None:
        subject = text.partition(" holds ")[0]
        if subject not in told:
            told.add(subject)
            output.note(text)

    bare = copy.copy(fitted)
    vars(bare).pop("feature_names_in_", None)  # the rows are arrays
    read = (X for X in stream(file, encoding, note, reading) if X.shape[0])
    first = list(
        islice(read, 1)
    )  # a file that is refused leaves nothing behind, not a header either
    with _written(out) as lines:
        header = ["prediction"] + ([f"p({c})" for c in fitted.classes_] if proba else [])
        writer = csv.writer(lines, lineterminator="\n")
        if not output.json:
            writer.writerow(header)
        for X in chain(first, read):
            rows = _predictions(bare, X, proba)
            if output.json:
                found = (dict(zip(header, as_json(row), strict=True)) for row in rows)
                lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
            else:
                writer.writerows(rows)
            lines.flush()


def _predictions(model: Any, X: Any, proba: bool) -> Iterator[list[Any]]:
    if not proba:
        return ([value] for value in model.predict(X).tolist())
    probabilities = model.predict_proba(X)
    chosen = model.classes_[np.argmax(probabilities, axis=1)]
    return ([c, *row] for c, row in zip(chosen.tolist(), probabilities.tolist(), strict=True))


@contextmanager
def _written(out: str | None) -> Iterator[Any]:
    """Standard output, or a file that is there whole or not at all."""
    if out is None:
        yield sys.stdout
    elif os.path.exists(out) and not os.path.isfile(out):  # a pipe or a device
        with open(out, "w", encoding="utf-8") as device:
            yield device
    else:
        with replacing(out) as file:
            yield codecs.getwriter("utf-8")(file)
