"""Divides one folder of shards among clients on the hosts of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from reshuffle.datasets.opening import finished_manifest, open_part, part_identity
from reshuffle.errors import InputError
from reshuffle.federated.replies import Watch
from reshuffle.federated.site import Site
from reshuffle.federated.sites import Sites
from reshuffle.files import Location
from reshuffle.losses import Loss
from reshuffle.shards import Manifest
from reshuffle.validation import check_positive

CLIENTS = 32
"""The default number of clients: enough for this many hosts, and few enough for ``ExactFedRR``, whose rounds grow with the clients."""
MEMORY = 64 << 20
"""The default bytes of rows that a client may hold: a host with all 32 clients holds at most 2 GiB."""


@dataclass(frozen=True)
class ShardRange:
    """Shards ``first`` up to ``last`` of a folder, opened on the host that calls this."""

    folder: str
    first: int
    last: int
    memory: int
    identity: str
    """A digest of the entries of the driver's manifest for these shards, so that a host with another folder is refused."""

    def __call__(self) -> tuple[object, ...]:
        """X, y, no weights, and the names of the columns if there are any."""
        X, y = open_part(Path(self.folder), self.first, self.last, self.memory, self.identity)
        return X, y, None, X.manifest.names or None


class DividedFolder(Sites):
    """The rows of one folder of shards as a federation, for ``ExactDistributed``, ``FedNewton``, ``ExactFedRR`` and ``FedRR``.

    A client is a group of consecutive shards. The number of clients depends on the folder and on ``clients``, never on the
    number of hosts, each of which may have several clients: so the model does not depend on the hosts, to the last bit.
    The driver reads the manifest and nothing else. A host opens the folder under the same name, on a shared disk or
    on its own, which must hold the manifest and the files of its own shards (``files_of``).

    Parameters
    ----------
    folder : made by ``reshuffle convert``; best with ``--shuffle``, so that clients are alike.
    loss, penalty, ridge, fit_intercept : as for ``Problem``.
    clients : groups of shards, at most as many as there are shards; by default 32. Hosts beyond that number
        have nothing to do.
    memory : bytes of rows that each client may hold, by default 64 MiB. The rows of a client with fewer bytes are read
        once and stay in its host; larger ones are read window by window in every pass. A model of ``ExactFedRR`` depends on it.
    watch : as for ``Sites``.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> place = tempfile.mkdtemp()
    >>> np.savez(place + "/rows.npz", X=X, y=y)
    >>> how = rs.datasets.Conversion(shuffle=True, shard_rows=100)
    >>> _ = rs.datasets.convert(place + "/rows.npz", place + "/shards", how)
    >>> rows = rs.federated.DividedFolder(place + "/shards", penalty=rs.penalties.L2(0.01), clients=3)
    >>> rows
    <DividedFolder: 569 rows in 6 shards, 3 clients, loss=Logistic(), penalty=L2(l2=0.01)>
    >>> rs.ExactDistributed(tol=1e-6, engine="threads").solve(rows).converged
    True
    """

    def __init__(
        self,
        folder: Location,
        loss: Loss | None = None,
        penalty: object = None,
        ridge: float = 0.0,
        fit_intercept: bool = False,
        *,
        clients: int | None = None,
        memory: int = MEMORY,
        watch: Watch | None = None,
    ) -> None:
        check_positive("memory", memory, integer=True)
        if clients is not None:
            check_positive("clients", clients, integer=True)
        self.folder, self.manifest = Path(folder).absolute(), finished_manifest(folder)
        count = len(self.manifest.shards)
        if not (count and self.manifest.features):
            raise InputError(
                f"{self.folder} must have rows and features, and has {count} shards and {self.manifest.features} features"
            )
        if clients is not None and clients > count:
            raise InputError(
                f"clients must be at most the {count} shards of {self.folder}, got {clients}; "
                "`reshuffle convert FOLDER OTHER --shard-rows N` makes smaller ones"
            )
        self.memory = memory
        self.bounds = (
            np.linspace(0, count, (clients or min(CLIENTS, count)) + 1).astype(int).tolist()
        )
        super().__init__(
            [self._site(first, last) for first, last in pairwise(self.bounds)],
            loss, penalty, ridge, fit_intercept, watch=watch,
        )  # fmt: skip

    def _site(self, first: int, last: int) -> Site:
        part = self.manifest.part(first, last)
        data = ShardRange(str(self.folder), first, last, self.memory, part_identity(part))
        return Site(data, name=f"shards {first} to {last - 1}")

    def part(self, client: int) -> Manifest:
        """The manifest of a client's shards."""
        return self.manifest.part(self.bounds[client], self.bounds[client + 1])

    def files_of(self, client: int) -> list[str]:
        """The names of a client's files, for a host that has only these."""
        return [file.name for shard in self.part(client).shards for file in shard.files.values()]

    @property
    def values_per_row(self) -> float:
        """The average number of stored values of a row."""
        return self.manifest.stored / self.manifest.rows

    @property
    def in_memory(self) -> bool:
        """Whether the rows of every client fit into its memory."""
        return all(self.part(c).row_bytes <= self.memory for c in range(len(self.sites)))

    def __repr__(self) -> str:
        about = self.manifest
        return (
            f"<DividedFolder: {about.rows} rows in {len(about.shards)} shards, {len(self.sites)} clients, "
            f"loss={self.model.loss!r}, penalty={self.penalty!r}>"
        )
