"""Tests the claims of both figures on every data set of the catalogue that is on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from reshuffle import datasets
from reshuffle.errors import InputError
from reshuffle.experiments import figure1, figure2
from reshuffle.experiments.page import write
from reshuffle.experiments.recipe import Numbers, Report, Settings
from reshuffle.files import write_csv

TEXT = """\
Figure 1 (λ1 chosen as the paper says, for each set) and Figure 2 on every set of LIBSVM's page that is here. A set is
known by its sha256: a file that only bears its name is called a file. The paper shows Figure 1 for a1a and Figure 2
for mushrooms; elsewhere its claims are tried, and where they fail they do not carry over."""

FIGURES = {"figure1": figure1, "figure2": figure2}


def run(settings: Settings) -> Report:
    """Run both figures on each set; their pages go to a folder per set."""
    rows = []
    for name, file in here(settings.data):
        for figure, recipe in FIGURES.items():
            own = replace(settings, out=settings.out / name, dataset=str(file), data=None, l1=None)
            own.out.mkdir(parents=True, exist_ok=True)
            report = recipe.run(own)
            write(report, own.out / f"{figure}.html")
            about = f"{report.configuration['data']}, {report.configuration['rows'].split(', sha256')[0]}"
            rows += [[about, figure, c.claim, c.verdict, c.found] for c in report.checks]
    if not rows:
        raise InputError(
            f"none of the data sets is on this machine; set {datasets.VARIABLE} to the folder that holds them"
        )
    columns = ("data", "figure", "claim", "verdict", "found")
    path = settings.out / "claims.csv"
    write_csv(path, columns, rows)
    return Report(
        title="Where the claims hold, by data set",
        text=TEXT,
        configuration={"sets": ", ".join(dict.fromkeys(row[0] for row in rows))},
        tables=[Numbers("Claims by data set", columns, rows)],
        checks=[],
        files=[path],
    )


def here(folder: Path | None) -> Iterator[tuple[str, Path]]:
    """The data sets of the catalogue that are on this machine."""
    for name in datasets.CATALOGUE:
        file = datasets.find(name, folder)
        if file is not None:
            yield name, file
