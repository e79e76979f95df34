"""Sentences about what is known of a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reshuffle.datasets.rows_encoding import Encoding, RowsEncoding
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.outcome import ended


def proof(model: Linear) -> tuple[str, bool]:
    """The meaning of the certificate, and whether it reaches the requested accuracy."""
    found = model.certificate_
    convex = "its penalty may have several minima" in model.message_
    if not np.isfinite(found.value):
        text = (
            "Nothing is proved about how far this model is from the best one: the run ended before it was checked "
            f"({model.message_})."
        )
        return text, False
    if found.measure == "gap":
        text = (
            f"The objective is {model.objective_:.6g}. No other coefficients with the same loss and penalty can bring it "
            f"lower by more than {found.value:.1g} times the loss of the empty model: this is proved by a bound "
            "that is computed from the data and does not depend on how the run went."
        )
    else:
        text = (
            f"The objective is {model.objective_:.6g}. At a minimum the gradient mapping is zero; here its norm is "
            f"{found.value:.1g} of the norm of the gradient at the empty model. For this loss and penalty no other "
            "measure is available: it shows that the run no longer moves, and proves no distance from the minimum."
        )
    if ended(model) != "not converged":
        return text, not convex
    missed = f" The requested accuracy, {found.tol:.1g}, was not reached: {model.message_}."
    return text + missed, False


def share(value: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.1f} %"


def left_out(rows: int) -> dict[str, str]:
    """A sentence about the rows that a fit did not use because they have no target."""
    if not rows:
        return {}
    many = "1 row without a target was" if rows == 1 else f"{rows:,} rows without a target were"
    return {"missing targets": f"{many} left out"}


def data_table(encoding: Encoding, filled: Mapping[str, int] | None = None) -> dict[str, str]:
    """How the features were made from a file.

    ``filled`` counts, for each column, the missing values that were filled in; None where they were not counted.
    """
    if isinstance(encoding, RowsEncoding):
        return {"features": f"{encoding.features:,}, taken as they are"}
    columns = encoding.columns
    numbers = [part for part in columns if not hasattr(part, "levels")]
    texts = [part for part in columns if hasattr(part, "levels")]
    found = {}
    if numbers:
        scaled = any(part.scale != 1.0 for part in numbers)
        how = "standardised (mean 0, standard deviation 1)" if scaled else "in their own units"
        found["columns of numbers"] = f"{_few([p.name for p in numbers])} – all {how}"
    if dates := [part.name for part in numbers if part.date]:
        found["columns of dates"] = f"{_few(dates)} – as days since 1970-01-01"
    if texts:
        levels = [f"{p.name} ({len(p.levels)} categories)" for p in texts]
        found["columns of categories"] = _few(levels)
    if any(part.fill is not None for part in columns):
        found["missing values"] = _filled_in(filled)
    return found


def _filled_in(filled: Mapping[str, int] | None) -> str:
    how = "the median or the most frequent category"
    if filled is None:
        return f"filled in by {how}"
    if counts := [f"{name} ({count:,})" for name, count in filled.items() if count]:
        return f"{sum(filled.values()):,} filled in by {how}: {_few(counts)}"
    return f"none here; the model would fill in {how}"


def _few(names: list[str], most: int = 30) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
