"""Splits a problem among clients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, shown
from reshuffle.federated.federation import Federation
from reshuffle.problem import Problem
from reshuffle.randomness import check_seed, generator
from reshuffle.validation import check_positive

Indices = NDArray[np.int64]
WAYS = ("iid", "label", "quantity", "dirichlet")


def split(
    problem: Problem,
    clients: int = 10,
    by: str | Sequence[object] | AnyArray = "iid",
    *,
    seed: int = 0,
    alpha: float = 0.5,
) -> Federation:
    """Divide a problem among clients, as a federation.

    The rows are copied once, client after client, so that each client's rows are contiguous.

    Parameters
    ----------
    clients : the number of clients; not used if ``by`` determines it.
    by : how the samples are divided:

        - "iid": at random, in equal parts;
        - "label": sorted by target, then cut in equal parts, so that most clients see one label;
        - "quantity": at random, in parts whose sizes follow a Dirichlet distribution;
        - "dirichlet": each label is divided by proportions drawn from a Dirichlet distribution;
        - an array with one entry per sample (the column that names the site): one client per value;
        - a list of index lists: exactly these, each sample in one of them.
    alpha : the parameter of the Dirichlet distribution; the smaller it is, the more uneven are the parts.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer())
    >>> rs.federated.split(problem, clients=3, by="label").sizes
    array([190, 190, 189])
    """
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a Problem, got {type(problem).__name__}")
    parts = indices(problem.targets, clients, by, seed=seed, alpha=alpha)
    order = np.concatenate(parts).astype(np.uint32)
    grouped = problem.take(order)
    bounds = np.concatenate([[0], np.cumsum([part.size for part in parts])])
    pieces = [grouped.piece(int(a), int(b)) for a, b in pairwise(bounds)]
    return Federation(pieces)


def indices(
    targets: AnyArray, clients: int, by: object, *, seed: int = 0, alpha: float = 0.5
) -> list[Indices]:
    """The samples of each client."""
    n = len(targets)
    if not isinstance(by, str):
        return _given(by, n)
    if by not in WAYS:
        raise InputError(
            f"by must be one of {', '.join(WAYS)}, an array of {n} values or index lists, got {shown(by)}"
        )
    check_positive("clients", clients, integer=True)
    check_positive("alpha", alpha)
    if clients > n:
        raise InputError(f"clients must be at most the {n} samples, got {clients}")
    if by in ("label", "dirichlet") and targets.ndim > 1:
        raise InputError(f'by="{by}" needs one target per row; these rows have {targets.shape[1]}')
    rng = generator(check_seed(seed), 0)
    if by == "label":
        return list(np.array_split(np.argsort(targets, kind="stable"), clients))
    if by == "dirichlet":
        return _by_label_shares(targets, clients, alpha, rng)
    shuffled = rng.permutation(n)
    if by == "iid":
        return [np.sort(part) for part in np.array_split(shuffled, clients)]
    # Each client gets one sample, and the others follow the drawn shares.
    shares = np.cumsum(rng.dirichlet(np.full(clients, alpha)))
    cuts = np.arange(1, clients + 1) + np.floor(shares * (n - clients) + 0.5).astype(np.int64)
    return [np.sort(part) for part in np.split(shuffled, cuts[:-1])]


def _by_label_shares(
    targets: AnyArray, clients: int, alpha: float, rng: np.random.Generator
) -> list[Indices]:
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for label in np.unique(targets):
        members = rng.permutation(np.flatnonzero(targets == label))
        shares = np.cumsum(rng.dirichlet(np.full(clients, alpha)))
        for part, piece in zip(
            parts, np.split(members, (shares[:-1] * members.size).astype(int)), strict=True
        ):
            part.append(piece)
    drawn = [np.sort(np.concatenate(part)) for part in parts]
    for empty in [c for c in range(clients) if drawn[c].size == 0]:  # Every client needs a sample.
        largest = max(range(clients), key=lambda c: drawn[c].size)
        drawn[empty], drawn[largest] = drawn[largest][:1], drawn[largest][1:]
    return drawn


def _given(by: Any, n: int) -> list[Indices]:
    nested = len(by) > 0 and np.ndim(by[0]) == 1
    if not nested:
        values = np.asarray(by)
        if values.shape != (n,):
            raise InputError(f"by must have one value for each of {n} samples, got {values.shape}")
        return [np.flatnonzero(values == value) for value in np.unique(values)]
    parts = [np.asarray(part, dtype=np.int64) for part in by]
    if any(part.size == 0 for part in parts):
        raise InputError("by has a client without samples")
    if not np.array_equal(np.sort(np.concatenate(parts)), np.arange(n)):
        raise InputError(f"by must name each of the samples 0 … {n - 1} exactly once")
    return parts
