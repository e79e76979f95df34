"""The report of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.outcome import ended
from reshuffle.estimators.summary import dense
from reshuffle.report import html, pictures, words
from reshuffle.report.held_out import HeldOut, calibrated
from reshuffle.report.private import privacy_part
from reshuffle.report.units import intercept, meaning, units

LARGEST = 20
"""At most this many coefficients are shown."""
MANY = 12
"""A confusion matrix of up to this many classes fits on a page."""


def fit_page(
    model: Linear, names: list[str], held: HeldOut | None, about: Mapping[str, object], target: str
) -> str:
    """The whole page; ``about`` holds the settings and what was read, by name."""
    title = f"A model of {target}" if target else "A linear model"
    lead = f"{words.loss(model)} loss, {model.n_samples_fit_:,} rows, {model.n_features_in_:,} features"
    lead = lead[0].upper() + lead[1:]
    parts = [
        html.tiles(tiles(model, held)),
        *held_out_part(held),
        coefficients_part(model, names),
        *privacy_part(model),
        proof_part(model),
        html.section("Data and settings", html.pairs({**about, "penalty": words.penalty(model)})),
    ]
    return html.page(title, lead, parts, words.made_with())


def tiles(model: Linear, held: HeldOut | None) -> Iterator[tuple[str, str]]:
    """The most important numbers, at the top of the page."""
    if held is not None:
        name, value = next(iter(held.scores.items()))
        if name == "accuracy":
            error = np.sqrt(value * (1 - value) / held.rows)
            of = f"of {held.rows:,} held-out rows are right (± {100 * error:.1f})"
            yield words.share(value), of
            yield (
                words.share(held.constant[name]),
                "would be right by always predicting the most frequent class",
            )
        elif name == "R²":
            yield f"{value:.3f}", f"R² on {held.rows:,} held-out rows: 1 is perfect, 0 is the mean"
        elif name == "D²":
            told = f"of the deviance explained on {held.rows:,} held-out rows (D²): 1 is perfect, 0 is the mean"
            yield f"{value:.3f}", told
    coef = np.atleast_2d(dense(model.coef_))
    used = int(np.count_nonzero(np.any(coef != 0, axis=0)))
    if used == coef.shape[1]:
        yield f"{used:,}", "features, all of which are used"
    else:
        unused = coef.shape[1] - used
        rest = f"the other {unused:,} have" if unused > 1 else "the other one has"
        yield f"{used:,} of {coef.shape[1]:,}", f"features are used; {rest} coefficient zero"
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
    shown: list[tuple[html.Markup, str]] = []
    if held.classes is None:
        points = min(held.rows, pictures.POINTS)
        which = f"one of {points:,} of the {held.rows:,}" if points < held.rows else "a"
        on_line = f"Each point is {which} held-out row{'s' if points < held.rows else ''}; on the line the prediction is right."
        shown.append((pictures.cloud(held.predicted, held.true), on_line))
        far = (
            f"Errors of all {held.rows:,} held-out rows. The outermost bars include the 0.5 % of rows with still larger "
            "errors on either side."
        )
        shown.append((pictures.residuals(held.true - held.predicted), far))
        shown.append((scores, "The best constant is the prediction of a model without features."))
    else:
        shown.append((scores, "The best constant is the prediction of a model without features."))
        shown.append(by_class(held))
        shown.append(_mistakes(held, held.classes))
        if held.probabilities is not None:
            of = f"of {held.classes[1]}" if held.classes.size == 2 else "of the predicted class"
            caption = (
                f"Predicted probability {of} against how often it was right, in groups of equally many rows, with one standard "
                "error. Points on the line are well calibrated: of 100 rows with 70 %, 70 are so."
            )
            shown.append((pictures.calibration(*calibrated(held)), caption))
    yield html.section(f"On {held.rows:,} held-out rows", html.figures(*shown))


def by_class(held: HeldOut) -> tuple[html.Markup, str]:
    """Precision, recall and F1 of each class, or of the classes that are predicted worst."""
    found = held.by_class()
    caption = "Precision: the share of rows predicted as the class that are so. Recall: the share of rows of the class that are predicted so."
    if len(found) > MANY:
        found = sorted(found, key=lambda row: (row[4] != row[4], row[4]))[:MANY]
        caption += f" The {MANY} classes with the lowest F1 are shown."
    rows = [
        (name, f"{count:,}", *("–" if v != v else f"{v:.3f}" for v in values))
        for name, count, *values in found
    ]
    return html.table(["class", "rows", "precision", "recall", "F1"], rows), caption


def _mistakes(held: HeldOut, classes: AnyArray) -> tuple[html.Markup, str]:
    from sklearn.metrics import confusion_matrix

    counts = confusion_matrix(held.true, held.predicted, labels=classes)
    names = [str(c) for c in classes]
    if len(names) <= MANY:
        return html.confusion(
            names, counts
        ), "Each row is a true class, each column a predicted one; entries are numbers of rows."
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MANY]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    rows = [(names[i], names[j], f"{wrong[i, j]:,}") for i, j in pairs]
    return html.table(["true class", "predicted", "rows"], rows), "The most frequent mistakes."


def coefficients_part(model: Linear, names: list[str]) -> html.Markup:
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
    per = units(model, names)
    used = int(np.count_nonzero(sizes))
    if coef.shape[0] == 1:
        up = f"towards {classes[1]}" if classes is not None else "up"
        down = f"towards {classes[0]}" if classes is not None else "down"
        first = order[0]
        text = (
            f"{_how_many(len(order), used)} A bar to the right moves the prediction {up}, one to the left {down}. "
            + meaning(model, per[first], float(coef[0, first]))
        )
        shown: object = html.bars([(names[j], per[j].short, float(coef[0, j])) for j in order])
    else:
        columns = [
            "",
            *(map(str, classes) if classes is not None else map(str, range(coef.shape[0]))),
        ]
        text = f"{_how_many(len(order), used)} One column for each {'class' if classes is not None else 'output'}."
        shown = html.heat(columns, [(names[j], per[j].short, coef[:, j].tolist()) for j in order])
    return html.section(
        "Coefficients",
        html.tag("p", text),
        shown,
        html.tag("p", intercept(model)),
        html.tag("p", _comparable(model), class_="soft"),
    )


def _how_many(shown: int, used: int) -> str:
    if used == 1:
        return "One feature has a coefficient that is not zero."
    if shown == used:
        return f"The {used:,} features whose coefficients are not zero."
    return f"The {shown} features with the largest coefficients, of {used:,} that are used."


def _comparable(model: object) -> str:
    columns = getattr(getattr(model, "encoding_", None), "columns", ())
    if any(getattr(part, "scale", 1.0) != 1.0 for part in columns):
        return (
            "Columns of numbers were standardised, so that their coefficients can be compared: each is for one standard deviation (s.d.) of "
            "its column. Divide it by the number beside its name to get the effect of one unit."
        )
    return "Each coefficient is for one unit of its column, so that coefficients of columns in different units cannot be compared."


def proof_part(model: Linear, counted: str = "epochs", advice: str = "") -> html.Markup:
    """The section about convergence: the certificate of the model, and the course of the run."""
    text, good = words.proof(model)
    found = [html.tag("p", text + advice, class_="proof" if good else "proof open")]
    trace, certificate = model.trace_, model.certificate_
    if trace.rows() > 2:
        found.append(
            html.figures(
                *pictures.convergence(trace, certificate.measure, certificate.tol, counted)
            )
        )
    return html.section("Is it the best of its kind?", *found)
