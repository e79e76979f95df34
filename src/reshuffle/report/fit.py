"""The report of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import loss_words
from reshuffle.estimators.outcome import ended
from reshuffle.estimators.summary import by_size, coefficients, short
from reshuffle.report import html, pictures, words
from reshuffle.report.held_out import HeldOut, calibrated
from reshuffle.report.pictures import drawn
from reshuffle.report.units import columns_of, intercept, meaning, standardised, units

LARGEST = 20
"""At most this many coefficients are shown."""
MANY = 12
"""A confusion matrix of up to this many classes fits on a page."""
SCORES = {
    "accuracy": "of {} are right",
    "r2": "R² on {}: 1 is perfect, 0 is the mean",
    "d2": "of the deviance explained on {} (D²): 1 is perfect, 0 is the mean",
}
"""Scores that a page begins with, each with what it says of held-out rows."""


def fit_page(
    model: Linear, names: list[str], held: HeldOut | None, about: Mapping[str, object], target: str
) -> str:
    """The whole page; ``about`` holds the settings and what was read, by name."""
    title = f"A model of {target}" if target else "A linear model"
    lead = f"{loss_words(model.loss_)} loss, {model.n_samples_fit_:,} rows, {model.n_features_in_:,} features"
    lead = lead[0].upper() + lead[1:]
    parts = [
        html.tiles(tiles(model, held)),
        *held_out_part(held),
        coefficients_part(model, names),
        *privacy_part(model),
        proof_part(model),
        settings_part(model, about),
    ]
    return html.page(title, lead, parts)


def settings_part(model: Linear, about: Mapping[str, object]) -> html.Markup:
    """What was read and how the model was fitted."""
    told = {**about, "penalty": short(repr(model.penalty_), 160)}
    return html.section("Data and settings", html.pairs(told))


def score_tile(metric: str, value: float, rows: str) -> tuple[str, str]:
    """One of ``SCORES`` on these held-out rows."""
    shown = words.share(value) if metric == "accuracy" else f"{value:.3f}"
    return shown, SCORES[metric].format(rows)


def certificate_tile(model: Linear) -> Iterator[tuple[str, str]]:
    """The distance from the minimum, if something is known of it."""
    found = model.certificate_
    if np.isfinite(found.value):
        what = "proved distance from the minimum" if found.measure == "gap" else "gradient mapping"
        yield f"{found.value:.0e}", f"{what}, relative"


def tiles(model: Linear, held: HeldOut | None) -> Iterator[tuple[str, str]]:
    """The most important numbers, at the top of the page."""
    if held is not None:
        name, value = next(iter(held.scores.items()))
        metric = name.lower().replace("²", "2")
        if metric in SCORES:
            shown, what = score_tile(metric, value, f"{held.rows:,} held-out rows")
            if name == "accuracy":
                what += f" (± {100 * np.sqrt(value * (1 - value) / held.rows):.1f})"
            yield shown, what
        if name == "accuracy":
            usual = "would be right by always predicting the most frequent class"
            yield words.share(held.constant[name]), usual
    coef = coefficients(model)
    used = int(np.count_nonzero(np.any(coef != 0, axis=0)))
    if used == coef.shape[1]:
        yield f"{used:,}", "features, all of which are used"
    else:
        unused = coef.shape[1] - used
        rest = f"the other {unused:,} have" if unused > 1 else "the other one has"
        yield f"{used:,} of {coef.shape[1]:,}", f"features are used; {rest} coefficient zero"
    yield from certificate_tile(model)
    if not hasattr(model, "lambda_"):
        yield f"{model.n_iter_:,}", f"epoch{'s' * (model.n_iter_ != 1)}, {ended(model)}"


def held_out_part(held: HeldOut | None) -> Iterator[html.Markup]:
    """Scores and pictures of rows that the model has not seen."""
    if held is None:
        text = "No rows were held out, so nothing is known of how the model does on new ones."
        yield html.section("On held-out rows", html.tag("p", text))
        return
    rows = [(name, f"{v:.4g}", f"{held.constant[name]:.4g}") for name, v in held.scores.items()]
    scores = (
        html.table(["", "this model", "best constant"], rows),
        "The best constant is the prediction of a model without features.",
    )
    if held.classes is None:
        points = min(held.rows, pictures.POINTS)
        which = f"one of {points:,} of the {held.rows:,}" if points < held.rows else "a"
        on_line = f"Each point is {which} held-out row{'s' if points < held.rows else ''}; on the line the prediction is right."
        far = (
            f"Errors of all {held.rows:,} held-out rows. The outermost bars include the 0.5 % of rows with still larger "
            "errors on either side."
        )
        cloud = drawn("predictions", pictures.cloud, held.predicted, held.true)
        errors = drawn("residuals", pictures.residuals, held.true - held.predicted)
        shown = [(cloud, on_line), (errors, far), scores]
    else:
        shown = [scores, by_class(held), _mistakes(held, held.classes)]
        if held.probabilities is not None:
            of = f"of {held.classes[1]}" if held.classes.size == 2 else "of the predicted class"
            caption = (
                f"Predicted probability {of} against how often it was right, in groups of equally many rows, with one standard "
                "error. Points on the line are well calibrated: of 100 rows with 70 %, 70 are so."
            )
            picture = drawn("calibration", pictures.calibration, *calibrated(held))
            shown.append((picture, caption))
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
        caption = (
            "Each row is a true class, each column a predicted one; entries are numbers of rows."
        )
        return html.confusion(names, counts), caption
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MANY]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    rows = [(names[i], names[j], f"{wrong[i, j]:,}") for i, j in pairs]
    return html.table(["true class", "predicted", "rows"], rows), "The most frequent mistakes."


def coefficients_part(model: Linear, names: list[str]) -> html.Markup:
    """The largest coefficients, by name."""
    coef = coefficients(model)
    order, used = by_size(coef, LARGEST), int(np.count_nonzero(coef.any(axis=0)))
    if not order:
        text = "Every coefficient is zero: the penalty is stronger than any effect."
        return html.section("Coefficients", html.tag("p", text))
    classes, per = getattr(model, "classes_", None), units(model, names)
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
        columns = ["", *map(str, range(coef.shape[0]) if classes is None else classes)]
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
    if standardised(columns_of(model)):
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
        shown = pictures.convergence(trace, certificate.measure, certificate.tol, counted)
        found.append(html.figures(*shown))
    return html.section("Is it the best of its kind?", *found)


def privacy_part(model: object) -> Iterator[html.Markup]:
    """ε and δ, the neighbouring relation and the assumptions; empty for a model without privacy."""
    spent = getattr(model, "privacy_", None)
    if spent is None:
        return
    rows = {
        "guarantee": str(spent),
        "neighbours": spent.neighbours,
        **{f"assumed {k}": text for k, text in enumerate(spent.assumed, start=1)},
    }
    text = (
        "The guarantee is that of the model. Scores on held-out rows and of the best constant prediction are computed without "
        "noise: do not publish this page together with the model where the data must stay private."
    )
    yield html.section("Differential privacy", html.pairs(rows), html.tag("p", text, class_="soft"))
