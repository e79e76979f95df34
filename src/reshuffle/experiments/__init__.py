"""The paper's experiments and theorems as recipes: each runs, checks its claim, writes a page."""

from __future__ import annotations

from importlib import import_module

from reshuffle.experiments.recipe import ClaimCheck, Numbers, Report, Settings

RECIPES = {
    "figure1": "ProxSGD, RR (heuristic) and ProxRR on a1a, and the exact method",
    "figure2": "FedRR and Local SGD on mushrooms, and the exact method",
    "theorems": "every bound against the exact expectation on tiny problems",
    "claims": "both figures on every set that is here: where their claims hold",
}
"""A description of each module of this package. A module has ``run(settings) -> Report``."""

PAPER = ("figure1", "figure2", "theorems")
"""The recipes of the paper's own results."""

__all__ = ["PAPER", "RECIPES", "ClaimCheck", "Numbers", "Report", "Settings", "run"]


def run(name: str, settings: Settings) -> Report:
    """Run a recipe and write its page into ``settings.out``."""
    from reshuffle.experiments.page import write

    settings.out.mkdir(parents=True, exist_ok=True)
    report: Report = import_module(f"reshuffle.experiments.{name}").run(settings)
    write(report, settings.out / f"{name}.html")
    return report
