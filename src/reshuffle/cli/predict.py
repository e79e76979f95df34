"""``reshuffle predict``: reads rows and writes predictions in pieces."""

from __future__ import annotations

import codecs
import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import click
import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.cli.common import Output, as_json
from reshuffle.cli.scoring import Scores
from reshuffle.datasets import Reading, stream_parts
from reshuffle.datasets.chunks import Values
from reshuffle.datasets.numbers import numbers_of
from reshuffle.errors import InputError
from reshuffle.estimators import load
from reshuffle.estimators.linear import Linear, for_encoded_rows
from reshuffle.files import check_apart, replacing


def run(
    *, model: str, file: str, out: str | None, proba: bool, keep: tuple[str, ...], score: bool,
    offset: str | None, exposure: str | None, reading: Reading, output: Output,
) -> None:  # fmt: skip
    """Write a prediction for each row of the file, with the columns to keep, and score them if requested."""
    shifts = {"offset": offset, "exposure": exposure}
    known = {option: column for option, column in shifts.items() if column}
    if out is not None and not _is_device(out):
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
    units = {"exposure": "1, so that predictions are for one unit of it", "offset": "0"}
    for option in getattr(fitted, "shifted_by_", ()):
        if option not in known:
            output.note(
                f"the model was fitted with --{option}; without it here, it is taken for {units[option]}"
            )
    told: set[str] = set()

    def note(text: str) -> None:
        subject = text.partition(" holds ")[0]
        if subject not in told:
            told.add(subject)
            output.note(text)

    header = ["prediction"] + ([f"p({c})" for c in fitted.classes_] if proba else [])
    _check_kept(keep, header)
    scores = Scores(fitted, encoding) if score else None
    aside = dict.fromkeys([*keep, *known.values(), *(scores.columns if scores else ())])
    bare = for_encoded_rows(fitted)
    reading = replace(reading, aside=tuple(aside))
    read = (p for p in stream_parts(file, encoding, note, reading) if p.X.shape[0])
    # A file that is refused leaves nothing behind, not even a header.
    first = list(islice(read, 1))
    with _written(out) as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if not output.json:
            writer.writerow([*keep, *header])
        for part in chain(first, read):
            shift = {
                o: numbers_of(part.aside[column], f"--{o} {column}") for o, column in known.items()
            }
            predicted, probabilities = _predictions(bare, part.X, proba or score, shift)
            if scores is not None:
                scores.add(part, predicted, probabilities, shift)
            columns = [*(_cells(part.aside[name]) for name in keep), predicted.tolist()]
            if proba and probabilities is not None:
                columns += probabilities.T.tolist()
            rows = zip(*columns, strict=True)
            if output.json:
                lined = (dict(zip([*keep, *header], as_json(row), strict=True)) for row in rows)
                lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in lined)
            else:
                writer.writerows(rows)
            lines.flush()
    if scores is not None:
        _say(scores, output, to_stderr=out is None)


def _check_kept(keep: tuple[str, ...], header: list[str]) -> None:
    twice = [name for k, name in enumerate(keep) if name in header or name in keep[:k]]
    if twice:
        raise InputError(
            f"--keep {twice[0]}: there would be two columns of this name among {', '.join([*keep, *header])}"
        )


def _predictions(
    model: Linear, X: object, proba: bool, shift: Mapping[str, AnyArray]
) -> tuple[AnyArray, AnyArray | None]:
    """Predictions, and probabilities if they are wanted and the model has them."""
    if "exposure" in shift and hasattr(model, "classes_"):
        raise InputError("--exposure is for models of numbers with a log link: give an --offset")
    if proba and hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(X, **shift)
        return model.classes_[probabilities.argmax(axis=1)], probabilities
    return model.predict(X, **shift), None


def _cells(values: Values) -> list[object]:
    """A column as it was in the file: whole numbers without a decimal point, and empty cells left empty."""
    cells: list[object] = np.asarray(values, dtype=object).tolist()
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in cells)
    return [None if v != v else v for v in whole]


def _say(scores: Scores, output: Output, to_stderr: bool) -> None:
    """Print the scores on the stream that does not carry the predictions."""
    found = scores.document()
    text = json.dumps(as_json(found), ensure_ascii=False) if output.json else scores.text()
    if not output.quiet:
        click.echo(text, err=to_stderr)


@contextmanager
def _written(out: str | None) -> Iterator[Any]:
    """Standard output, or a file that is written completely or not at all."""
    if out is None:
        yield sys.stdout
    elif _is_device(out):
        with open(out, "w", encoding="utf-8") as device:
            yield device
    else:
        with replacing(out) as file:
            yield codecs.getwriter("utf-8")(file)


def _is_device(out: str) -> bool:
    """Whether this is a pipe or a device."""
    return os.path.exists(out) and not os.path.isfile(out)
