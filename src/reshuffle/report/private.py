"""The part of a report that says what a private model guarantees."""

from __future__ import annotations

from collections.abc import Iterator

from reshuffle.report import html


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
