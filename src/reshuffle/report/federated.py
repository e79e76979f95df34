"""The report of a federation: quality by site, convergence by round, each site's participation, and the traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from reshuffle.estimators.linear import Linear
from reshuffle.estimators.outcome import ended
from reshuffle.estimators.summary import short
from reshuffle.federated import FederatedResult, Quality
from reshuffle.federated.quality import ALL
from reshuffle.federated.replies import ClientTally, Tally
from reshuffle.report import html, pictures, words
from reshuffle.report.fit import (
    SCORES,
    certificate_tile,
    coefficients_part,
    privacy_part,
    proof_part,
    score_tile,
    settings_part,
)
from reshuffle.report.pictures import drawn
from reshuffle.trace import Trace

MOST_BARS = 30
"""Up to this many sites get a bar in the picture; the table lists all of them."""
LONGEST = 24
"""A site's name beside a bar has at most this many characters."""
LABELS = {
    "accuracy": "share of rows that are right", "rmse": "root mean squared error", "loss": "mean loss",
}  # fmt: skip
"""Metrics with their labels in pictures; the first one that is known is drawn site by site."""
MEANING = {
    "hello": "the handshake: samples, columns with their kinds and categories, classes",
    "below": "how many values are below thresholds, from which medians are found",
    "columns": "mean and spread of every feature, for the scales of the method",
    "load": "how much work a round is, and how curved the losses are",
    "curvature": "products with the curvature, from which the step is found",
    "train": "the rounds: models, and sums over a site's samples",
    "value": "the loss and its gradient at one point",
    "metrics": "sums over held-out samples",
}


def federated_page(
    model: Linear,
    result: FederatedResult,
    names: list[str],
    about: Mapping[str, object],
    target: str,
) -> str:
    """The whole page; ``names`` are the features' names, ``about`` holds the settings and what was read, by name."""
    tally, held = result.tally, result.held_out
    title = f"A model of {target}" if target else "A linear model"
    sites = f"{len(tally.parts):,} site{'s' if len(tally.parts) != 1 else ''}"
    lead = (
        f"{type(model.loss_).__name__} loss, learned over {sites} with {model.n_samples_fit_:,} rows, "
        f"{model.n_features_in_:,} features; the rows stayed where they were"
    )
    parts = [
        html.tiles(_tiles(model, result)),
        _quality_part(held, result.trace),
        proof_part(model, "rounds", "" if result.tol else " Give --tol 1e-6 to have it checked."),
        *privacy_part(model),
        _sites_part(tally, result.epoch),
        coefficients_part(model, names),
        _travelled_part(tally),
        settings_part(model, about),
    ]
    return html.page(title, lead, parts)


def _tiles(model: Linear, result: FederatedResult) -> Iterator[tuple[str, str]]:
    held, kinds = result.held_out, result.tally.by_kind().values()
    if ALL in held:
        row, sites = held[ALL], len(result.tally.parts)
        rows = f"{row['samples']:,.0f} held-out rows at {len(held) - 1:,} of {sites:,} sites"
        if metric := next((name for name in SCORES if name in row), ""):
            yield score_tile(metric, row[metric], rows)
    asked = f": {ended(model)}" if result.tol else " were made"
    yield f"{result.epoch:,}", f"rounds{asked}"
    yield from certificate_tile(model)
    down, up = sum(k.down for k in kinds), sum(k.up for k in kinds)
    yield size(up), f"came from the sites, and {size(down)} went to them"


def _quality_part(held: Quality, trace: Trace) -> html.Markup:
    """The final model on held-out rows, site by site."""
    if not held:
        text = (
            "No site has held-out rows, so nothing is known of how the model does on new ones. Give a site test data "
            '(test = "file" in its [[site]]), and the final model is judged by it there.'
        )
        return html.section("Quality by site", html.tag("p", text))
    scores = html.table(["site", *held.metrics], held.cells())
    shown = [(scores, _explained(held))]
    metric = next(m for m in LABELS if m in held.metrics)
    own = {name: row[metric] for name, row in held.items() if name != ALL and metric in row}
    if 1 < len(own) <= MOST_BARS:
        sites = [short(name, LONGEST) for name in own]
        data = sites, list(own.values()), held[ALL].get(metric), LABELS[metric]
        height = 1.2 + 0.3 * len(sites)
        picture = drawn("quality by site", pictures.by_site, *data, height=height)
        shown.append((picture, "Each bar is a site; the dashed line is for all sites together."))
    known = trace["held_out_loss"] if "held_out_loss" in trace else np.empty(0)
    if np.count_nonzero(np.isfinite(known)) > 1:
        caption = "The mean loss on held-out rows of all sites, in the rounds after which it was asked for."
        course = trace["epoch"], known, "rounds", LABELS["loss"]
        shown.append((drawn("held out by rounds", pictures.course, *course), caption))
    return html.section("Quality by site", html.figures(*shown))


def _explained(held: Quality) -> str:
    known = {
        "loss": "loss is the mean over rows",
        "accuracy": "accuracy the share of rows that are right",
        "auc": "auc the area under the ROC curve (over all sites the mean of theirs, weighed by rows)",
        "r2": "r2 the share of the variance that is explained (over all sites it may be higher than at each, since targets "
        "differ from site to site)",
        "d2": "d2 the share of the deviance of counts that is explained",
        "rmse": "rmse the root mean squared error, in the units of the target",
    }
    return f"The final model on rows that it has not seen: {'; '.join(known[m] for m in held.metrics if m in known)}."


def _sites_part(tally: Tally, rounds: int) -> html.Markup:
    """The section about participation: the number of rounds in which each site took part."""
    total = sum(part.samples or 0 for part in tally.parts)
    rows = [_site(part, total, rounds) for part in tally.parts]
    failed = [part for part in tally.parts if part.failed][:MOST_BARS]
    notes = (f"{one.name}, the last time that it did not answer: {one.reason}" for one in failed)
    columns = ["site", "rows", "share of all", "rounds", "loss on its rows", "failed answers"]
    text = (
        "Rounds are those that a site answered, the last of which may only have confirmed the model; the loss is the mean over "
        "its own rows at the last model that it was asked about."
    )
    soft, told = html.tag("p", text, class_="soft"), (html.tag("p", note) for note in notes)
    return html.section("Who took part", html.table(columns, rows), soft, *told)


def _site(part: ClientTally, total: int, rounds: int) -> Sequence[str]:
    known = part.samples is not None
    return (
        part.name,
        f"{part.samples:,}" if known else "–",
        _unbroken(words.share((part.samples or 0) / total)) if known and total else "–",
        f"{part.rounds:,}",
        "–" if part.loss is None else f"{part.loss:.4g}",
        f"{part.failed:,}",
    )


def _travelled_part(tally: Tally) -> html.Markup:
    rows = []
    for kind, one in tally.by_kind().items():
        traffic = (_unbroken(size(count)) for count in (one.down, one.up))
        rows.append((f"{MEANING.get(kind, kind)} ({kind})", f"{one.messages:,}", *traffic))
    text = (
        "No row of a table leaves a site. The page 'Federated learning' of the documentation lists every part of every message, and "
        'audit = "file" in a [[site]] writes a line for each at that site.'
    )
    table = html.table(["", "messages", "to the sites", "from the sites"], rows)
    return html.section("What travelled", table, html.tag("p", text, class_="soft"))


def _unbroken(text: str) -> str:
    """A number and its unit, kept on one line."""
    return text.replace(" ", "\u00a0")


def size(count: int) -> str:
    """A number of bytes with a unit.

    >>> size(999), size(12_345), size(3_200_000)
    ('999 bytes', '12.3 kB', '3.2 MB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"
