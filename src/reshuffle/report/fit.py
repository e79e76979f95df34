"""The report of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from reshuffle.estimators.outcome import ended
from reshuffle.estimators.summary import dense
from reshuffle.report import html, pictures, words
from reshuffle.report.held_out import HeldOut, calibrated

LARGEST = 20
"""Coefficients that are shown."""
MANY = 12
"""Classes up to which a table of mistakes fits a page."""


def fit_page(
    model: Any, names: list[str], held: HeldOut | None, about: Mapping[str, Any], target: str
) -> str:
    """The whole page; ``about`` is what was asked for and read, name by name."""
    title = f"A model of {target}" if target else "A linear model"
    lead = f"{type(model.loss_).__name__} loss, {model.n_samples_fit_:,} rows, {model.n_features_in_:,} features"
    parts = [
        html.tiles(tiles(model, held)),
        *held_out_part(held),
        coefficients_part(model, names),
        proof_part(model),
        html.section("Data and settings", html.pairs({**about, "penalty": words.penalty(model)})),
    ]
    return html.page(title, lead, parts, words.made_with())


def tiles(model: Any, held: HeldOut | None) -> Iterator[tuple[str, str]]:
    """The numbers to see first."""
    if held is not None:
        name, value = next(iter(held.scores.items()))
        if name == "accuracy":
            error = np.sqrt(value * (1 - value) / held.rows)
            of = f"of {held.rows:,} held-out rows are right (± {100 * error:.1f})"
            yield words.share(value), of
            yield (
                words.share(held.constant[name]),
                "would be right by always saying the most frequent class",
            )
        elif name == "R²":
            yield f"{value:.3f}", f"R² on {held.rows:,} held-out rows: 1 is perfect, 0 is the mean"
    coef = np.atleast_2d(dense(model.coef_))
    used = int(np.count_nonzero(np.any(coef != 0, axis=0)))
    yield f"{used:,} of {coef.shape[1]:,}", "features are used; the others have coefficient zero"
    reached = model.certificate_.value
    if np.isfinite(reached):
        what = (
            "proved distance from the minimum, relative"
            if model.certificate_.measure == "gap"
            else "gradient mapping, relative"
        )
        yield f"{reached:.0e}", what
    if hasattr(model, "lambda_"):
        return
    epochs = f"epoch{'s' if model.n_iter_ != 1 else ''}, {ended(model)}"
    yield f"{model.n_iter_:,}", epochs


def held_out_part(held: HeldOut | None) -> Iterator[html.Markup]:
    """Scores and pictures of rows that the model has not seen."""
    if held is None:
        yield html.section(
            "On held-out rows",
            html.tag(
                "p", "No rows were held out, so nothing is known of how the model does on new ones."
            ),
        )
        return
    rows = [
        (name, f"{value:.4g}", f"{held.constant[name]:.4g}") for name, value in held.scores.items()
    ]
    scores = html.table(["", "this model", "best constant"], rows)
    shown: list[Any] = []
    if held.classes is None:
        on_line = "Each point is a held-out row; on the line the prediction is right."
        shown.append((pictures.cloud(held.predicted, held.true), on_line))
        far = "How far predictions are off; the ends hold all that is farther."
        shown.append((pictures.residuals(held.true - held.predicted), far))
        shown.append((scores, "A constant prediction is what no feature at all would give."))
    else:
        mistakes, caption = _mistakes(held, held.classes)
        shown.append((html.tag("div", scores, mistakes), caption))
        if held.probabilities is not None:
            of = f"of {held.classes[1]}" if held.classes.size == 2 else "of the class that was said"
            caption = f"The probability {of}, in groups of rows: on the line, 70% means 70 of 100."
            shown.append((pictures.calibration(*calibrated(held)), caption))
    yield html.section(f"On {held.rows:,} held-out rows", html.figures(*shown))


def _mistakes(held: HeldOut, classes: Any) -> tuple[html.Markup, str]:
    from sklearn.metrics import confusion_matrix

    counts = confusion_matrix(held.true, held.predicted, labels=classes)
    names = [str(c) for c in classes]
    if len(names) <= MANY:
        return html.confusion(
            names, counts
        ), "A row for each true class, a column for what was said."
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MANY]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    rows = [(names[i], names[j], f"{wrong[i, j]:,}") for i, j in pairs]
    return html.table(["is", "was said", "rows"], rows), "The most frequent mistakes."


def coefficients_part(model: Any, names: list[str]) -> html.Markup:
    """The largest coefficients, by name."""
    coef = np.atleast_2d(dense(model.coef_))
    sizes = np.abs(coef).max(axis=0)
    order = [int(j) for j in np.argsort(-sizes, kind="stable")[:LARGEST] if sizes[j] > 0]
    if not order:
        return html.section(
            "Coefficients",
            html.tag("p", "Every coefficient is zero: the penalty is stronger than any effect."),
        )
    classes = getattr(model, "classes_", None)
    if coef.shape[0] == 1:
        up = f"towards {classes[1]}" if classes is not None else "up"
        down = f"towards {classes[0]}" if classes is not None else "down"
        text = f"The largest {len(order)}. To the right: more of it moves the prediction {up}; to the left, {down}."
        shown: Any = html.bars([(names[j], float(coef[0, j])) for j in order])
    else:
        columns = [
            "",
            *(map(str, classes) if classes is not None else map(str, range(coef.shape[0]))),
        ]
        text = (
            f"The {len(order)} features with the largest coefficients, one column for each class."
        )
        shown = html.heat(columns, [(names[j], coef[:, j].tolist()) for j in order])
    units = _units(model)
    return html.section(
        "Coefficients", html.tag("p", text), shown, html.tag("p", units, class_="soft")
    )


def _units(model: Any) -> str:
    columns = getattr(getattr(model, "encoding_", None), "columns", ())
    if any(getattr(part, "scale", 1.0) != 1.0 for part in columns):
        return (
            "A coefficient of a column of numbers is per standard deviation of that column; one of a category is for "
            "being in it."
        )
    return "A coefficient is per unit of its column: those of columns in different units do not compare."


def proof_part(model: Any, counted: str = "epochs", advice: str = "") -> html.Markup:
    """How near the model is to the best of its kind, and how the run came there."""
    text, good = words.proof(model)
    found: list[Any] = [html.tag("p", text + advice, class_="proof" if good else "proof open")]
    trace, certificate = model.trace_, model.certificate_
    if trace.rows() > 2:
        found.append(
            html.figures(
                *pictures.convergence(trace, certificate.measure, certificate.tol, counted)
            )
        )
    return html.section("Is it the best of its kind?", *found)
