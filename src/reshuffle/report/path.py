"""The report of a path with cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reshuffle import plotting
from reshuffle.arrays import Array
from reshuffle.estimators.cross_validation import CrossValidated
from reshuffle.estimators.folds import Paired, readable, standard_error
from reshuffle.estimators.summary import short
from reshuffle.report import html, pictures
from reshuffle.report.fit import coefficients_part, held_out_part, proof_part, settings_part, tiles
from reshuffle.report.held_out import HeldOut
from reshuffle.report.pictures import ACCENT, OTHER, SOFT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = 15
"""The table of strengths has at most this many lines; the picture shows the whole path."""


def path_page(
    model: CrossValidated,
    names: list[str],
    held: HeldOut | None,
    about: Mapping[str, object],
    target: str,
) -> str:
    """The whole page."""
    title = f"A path of models of {target}" if target else "A path of models"
    lead = (
        f"{len(model.path_)} strengths λ, {model.cv_losses_.shape[1]} folds, {model.n_samples_fit_:,} rows, "
        f"{model.n_features_in_:,} features"
    )
    parts = [
        html.tiles([(f"{model.lambda_:.3g}", "the λ that was chosen"), *tiles(model, held)]),
        choice_part(model, names),
        *held_out_part(held),
        coefficients_part(model, names),
        proof_part(model),
        settings_part(model, about),
    ]
    return html.page(title, lead, parts)


def choice_part(model: CrossValidated, names: list[str]) -> html.Markup:
    """The chosen λ, and the reason for the choice."""
    means, error = model.cv_losses_.mean(axis=1), standard_error(model.cv_losses_)
    nonzeros = model.path_.nonzeros
    best, sparse = (
        int(np.argmin(np.abs(model.lambdas_ - v))) for v in (model.lambda_min_, model.lambda_1se_)
    )
    taken = "the second" if model.rule == "1se" else "the first"
    text = (
        f"The mean loss of held-out rows is lowest at λ = {model.lambda_min_:.3g}, with {nonzeros[best]:,} features. "
        f"The largest λ within one standard error of it is {model.lambda_1se_:.3g}, with {nonzeros[sparse]:,}"
        f"{comparison(model.paired_, best == sparse)} The model here is {taken}."
    )
    if best == means.size - 1:
        text += " The loss still falls at the end of the path: a smaller --smallest would show more of it."
    some = np.unique([*np.linspace(0, means.size - 1, ROWS).astype(int), best, sparse])
    words_for = {best: "lowest", sparse: "1 s.e."}
    rows = [
        (f"{model.lambdas_[k]:.3g}", f"{nonzeros[k]:,}", f"{means[k]:.5g}", readable(error[k], 2), words_for.get(int(k), ""))
        for k in some
    ]  # fmt: skip
    return html.section(
        "Which λ?",
        html.tag("p", text),
        html.figures(
            (pictures.drawn("loss by lambda", _losses, model, means, error), "Loss of held-out rows, with one standard error; the dotted lines are the two choices of λ."),
            (pictures.drawn("coefficients by lambda", _path, model, names, height=4.2), "Coefficients as λ falls; the largest by name."),
        ),
        html.table(["λ", "features", "held-out loss", "its error", ""], rows),
    )  # fmt: skip


def comparison(paired: Paired, same: bool) -> str:
    """A sentence about the simpler model, as far as a paired comparison over the folds supports it."""
    if same:
        return ": they are the same."
    higher = f"fold by fold its loss is {paired} higher"
    if paired.worse:
        return f": simpler, and worse. {higher.capitalize()}, which is more than chance explains."
    bound = (
        f"the upper bound of this difference, at the level of 95 %, is {readable(paired.bound, 2)}, where the best model gains "
        f"{readable(paired.gain, 2)} over the empty one"
    )
    if paired.as_good:
        return f": simpler, and not measurably worse ({higher}; {bound})."
    return f": simpler. The folds do not show whether it is worse: {higher}; {bound}."


def _losses(ax: Axes, model: CrossValidated, means: Array, error: Array) -> None:
    ax.fill_between(model.lambdas_, means - error, means + error, color=ACCENT, alpha=0.2, lw=0)
    ax.plot(model.lambdas_, means, color=ACCENT, lw=1.8)
    for value, colour in ((model.lambda_min_, OTHER), (model.lambda_1se_, SOFT)):
        ax.axvline(value, color=colour, lw=1.2, ls=":")
    ax.set_xscale("log")
    ax.invert_xaxis()
    pictures.labelled(ax, "λ", "held-out loss")


def _path(ax: Axes, model: CrossValidated, names: list[str]) -> None:
    named = [short(name, 22) for name in names]
    plotting.plot_path(model.path_, names=named, mark=model.lambda_, ax=ax, largest=7)
    ax.grid(alpha=1.0, lw=0.6)
    if ax.get_legend() is not None:  # It stands under the picture, where a narrow page has room.
        under = {"bbox_to_anchor": (0.45, -0.2), "ncols": 2}
        ax.legend(frameon=False, fontsize="small", loc="upper center", **under)
