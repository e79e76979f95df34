"""A client's table as its host has loaded it, and whether it is still the one that was agreed on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from reshuffle.errors import InputError
from reshuffle.federated.columns import Cells
from reshuffle.federated.site import Model, Site
from reshuffle.federated.tables import Table

Stamp = dict[str, tuple[int, ...]]
"""Of each file that is mapped: which one it is, its size, when it was last written."""


@dataclass(eq=False)
class Loaded:
    """A table, with the stamp of the folder that it is mapped from."""

    site: Site
    table: Table
    stamp: Stamp
    test: Table | None = None
    """Held-out data, where the site has some."""
    data: str = ""
    """Its sha256, as ``Model.report`` says it, once it is known."""

    @classmethod
    def of(cls, site: Site, cells: Cells) -> Loaded:
        stamp = _stamp(site)  # before anything is read
        table = site.table(cells)
        if table.columns is not None:
            table.columns.check_filled()
        return cls(site, table, stamp, site.test_table(cells, table))

    def check(self, agreed: str, model: Model) -> None:
        """Refuse a folder that was written to since it was mapped, and data other than what was ``agreed`` on.

        Rows of a mapped file are read when they are used. Were it shorter by then, the system would end the process.
        """
        now = _stamp(self.site)
        for name in dict.fromkeys([*self.stamp, *now]):
            if self.stamp.get(name) != now.get(name):
                what = "is no longer there" if name not in now else "was written to"
                raise InputError(f"its data changed during the run: {name} {what}; start anew")
        if agreed and not self.data:  # loaded by a new process
            self.data = str(model.report(self.table, "", moments=False)["data"])
        if agreed and agreed != self.data:
            raise InputError(
                f"its data changed during the run: sha256 {self.data[:12]}…, agreed on was {agreed[:12]}…; "
                "start anew"
            )


def _stamp(site: Site) -> Stamp:
    """Of the files of a folder; a single file is read whole, and may change afterwards."""
    if not isinstance(site.data, (str, os.PathLike)) or not Path(site.data).is_dir():
        return {}
    found: Stamp = {}
    for entry in sorted(Path(site.data).iterdir()):
        if entry.suffix == ".npy":
            about = entry.stat()
            found[str(entry)] = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    return found
