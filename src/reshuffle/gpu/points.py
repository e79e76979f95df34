"""The vectors z_m of all clients, or differences of them, stored as one number for each row: z_m = anchor + A_mᵀ c_m.

All clients share one anchor, a vector of the processor, except those that skipped rounds or made a plain step (see exact_passes.cuh).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array


class Points(NamedTuple):
    """A vector for every client."""

    anchors: Array
    """A row for each anchor, on the processor."""
    anchor_of: NDArray[np.int32]
    """The row of each client's anchor; empty if all have the first."""
    coefs: Any
    """c, on the device; None if no products are wanted."""

    def rows(self, clients: int) -> NDArray[np.int32]:
        """``anchor_of`` with one entry for each client."""
        return self.anchor_of if len(self.anchor_of) else np.zeros(clients, dtype=np.int32)

    def anchored(self, anchors: Array, clients: NDArray[np.int64], total: int) -> Points:
        """These points with new anchors for ``clients``, one for all or one for each; anchors that no client uses any more are dropped."""
        if not len(clients):
            return self
        rows = self.rows(total).copy()
        rows[clients] = len(self.anchors) + np.arange(len(clients)) * (len(anchors) > 1)
        used, found = np.unique(rows, return_inverse=True)
        kept = np.concatenate([self.anchors, anchors])[used]
        return Points(kept, _shortest(found.reshape(-1), len(used)), self.coefs)


def combined(weights: Sequence[float], points: Sequence[Points]) -> Points:
    """Σ_j weights_j · points_j, for the same clients."""
    parts = [(w, p) for w, p in zip(weights, points, strict=True) if w != 0.0]
    coefs = parts[0][0] * parts[0][1].coefs
    for w, p in parts[1:]:
        coefs = coefs + w * p.coefs
    clients = max(len(p.anchor_of) for _, p in parts)
    if not clients:
        anchors = sum(w * p.anchors[:1] for w, p in parts)
        return Points(np.asarray(anchors), np.empty(0, dtype=np.int32), coefs)
    together = np.stack([p.rows(clients) for _, p in parts])
    rows, found = np.unique(together, axis=1, return_inverse=True)
    anchors = sum(w * p.anchors[own] for (w, p), own in zip(parts, rows, strict=True))
    return Points(np.asarray(anchors), _shortest(found.reshape(-1), rows.shape[1]), coefs)


def _shortest(rows: NDArray[np.signedinteger], count: int) -> NDArray[np.int32]:
    return np.empty(0, dtype=np.int32) if count == 1 else rows.astype(np.int32)
