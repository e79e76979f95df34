"""The quality of the final model on the held-out data of each site, as a table by site and metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reshuffle.engines import Record
from reshuffle.federated.held_out import overall
from reshuffle.html_tables import html_table

ALL = "all sites"
"""The row of the samples of all sites together."""
METRICS = ("samples", "loss", "accuracy", "auc", "r2", "d2", "rmse")
"""The columns; a table has those that are known of at least one site."""


class Quality(Mapping[str, Mapping[str, float]]):
    """Metrics by site: ``table["north"]["accuracy"]``; the row "all sites" is of the samples of all sites together.

    Sites without held-out data have no row, and metrics that a site cannot tell (the AUC of one class) are left out of
    its row.

    >>> found = Quality({"north": {"samples": 3, "accuracy": 1.0}, "south": {"samples": 1, "accuracy": 0.0}})
    >>> found["north"]["accuracy"], found.metrics
    (1.0, ('samples', 'accuracy'))
    >>> found
               samples  accuracy
    north            3     1.000
    south            1     0.000
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        self.table = {name: dict(row) for name, row in table.items()}

    @classmethod
    def of(cls, found: Mapping[int, Record], names: Sequence[str]) -> Quality:
        """The table from the answers of the sites; ``names`` are the names of all sites."""
        rows = {names[c]: overall({c: said}) for c, said in sorted(found.items()) if said}
        return cls(rows | ({ALL: overall(found)} if rows else {}))

    @property
    def metrics(self) -> tuple[str, ...]:
        known = {metric for row in self.table.values() for metric in row}
        return tuple(metric for metric in METRICS if metric in known)

    def cells(self) -> list[tuple[str, ...]]:
        """A row of texts for each site, its name first."""
        return [
            (name, *(_shown(metric, row.get(metric)) for metric in self.metrics))
            for name, row in self.table.items()
        ]

    def __getitem__(self, site: str) -> Mapping[str, float]:
        if site not in self.table:
            raise KeyError(f"{site!r}; there are {', '.join(self.table) or 'none'}")
        return self.table[site]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        if not self.table:
            return "no site has held-out data"
        rows = [("", *self.metrics), *self.cells()]
        widths = [max(9, *(len(row[k]) for row in rows)) for k in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width)
                if k == 0
                else cell.rjust(min(width, max(7, len(self.metrics[k - 1]))))
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        return html_table("On held-out data", ("", *self.metrics), self.cells())


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return "–"
    if metric == "samples":
        return f"{value:,.0f}"
    return f"{value:.3f}" if metric in ("accuracy", "auc", "r2", "d2") else f"{value:.4g}"
