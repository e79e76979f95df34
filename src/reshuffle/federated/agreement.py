"""Checks before the first round that all sites agree. The error for a disagreement names the two sites and their values."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reshuffle.datasets.encoding import TableEncoding
from reshuffle.digests import digest
from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError
from reshuffle.federated.encodings import Below, agree_encoding, pooled
from reshuffle.federated.site import Model
from reshuffle.objective import Array

logger = logging.getLogger("reshuffle")

MOST_TOLD = 5
"""The largest number of sites with equal data that a message names; there may be hundreds."""
SAME = ("version", "loss", "ridge", "intercept", "outputs", "form", "names", "shifts")
"""Parts of the handshake that must be equal at all sites."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """The facts about all sites together that are sent to every site."""

    record: Mapping[str, Plain]
    """Features, classes and loss, and the moments if features are standardised."""
    sizes: Array
    weights: list[float]
    """The factor of each client's sample weights: over the federation, their mean is 1."""
    names: tuple[str, ...]
    classes: tuple[object, ...]
    outputs: tuple[int, ...]
    data: list[str]
    """Fingerprints."""
    encoding: TableEncoding | None = None
    """The encoding of tables, if the sites have tables."""

    def with_convexity(self, mu: float) -> Agreement:
        """This agreement with another strong convexity of the penalty."""
        record = {name: part for name, part in self.record.items() if name != "agreed"} | {"mu": mu}
        return replace(self, record=record | {"agreed": digest(record)})


def agree(
    said: Mapping[int, Record],
    called: Callable[[int], str],
    model: Model,
    mu: float,
    standardise: bool,
    below: Below,
) -> Agreement:
    """Compare the reports of the sites. ``mu`` is the strong convexity of the penalty, which is sent to them.

    ``below`` asks them for counts, from which medians are found if missing values are filled in.
    """
    for name in SAME:
        _same(name, {c: record[name] for c, record in said.items()}, called)
    _warn_of_copies({c: str(record["data"]) for c, record in said.items()}, called)
    tables = next(iter(said.values()))["form"] == "table"
    classes = _classes(said, called, model)
    sizes = np.array([record["samples"] for record in said.values()])
    means = np.array([record["weight"] for record in said.values()])
    alike = bool(np.all(means == means[0]))
    factors = np.ones(len(said)) if alike else means / (means @ sizes / sizes.sum())
    encoding = None
    if tables:
        encoding = agree_encoding(said, called, model.cells, standardise, below)
        features = len(encoding.feature_names)
    else:
        features = _features(said, called)
    record: dict[str, Plain] = {
        "features": features,
        "classes": json.dumps(classes),
        "mu": mu,
        "loss": digest(model.loss),
    }
    if encoding is not None:
        record["encoding"] = json.dumps(encoding.to_json())
    elif standardise:
        record |= _moments(said, factors, features)
    first: Any = next(iter(said.values()))
    several = model.loss.targets == "classes"
    outputs = (len(classes),) if several else (first["outputs"],) if first["outputs"] else ()
    return Agreement(
        record | {"agreed": digest(record)},
        sizes,
        factors.tolist(),
        tuple(json.loads(first["names"]) if encoding is None else encoding.feature_names),
        tuple(classes),
        outputs,
        [str(r["data"]) for r in said.values()],
        encoding,
    )


def _same(name: str, values: Mapping[int, object], called: Callable[[int], str]) -> None:
    (first, wanted), *others = values.items()
    for client, value in others:
        if value != wanted:
            raise InputError(
                f"sites must agree: {name} of {called(client)} is {_short(value)}, "
                f"of {called(first)} {_short(wanted)}"
            )


def _warn_of_copies(data: Mapping[int, str], called: Callable[[int], str]) -> None:
    """Log which sites have exactly the same rows, because equal rows then count several times."""
    first: dict[str, int] = {}
    copies = [(c, first[sha]) for c, sha in data.items() if first.setdefault(sha, c) != c]
    for client, other in copies[:MOST_TOLD]:
        logger.warning("%s has the same data as %s", called(client), called(other))


def _features(said: Mapping[int, Record], called: Callable[[int], str]) -> int:
    """The number of features; for sparse data the largest of all sites, because trailing zeros are not written."""
    counts = {c: record["features"] for c, record in said.items()}
    dense = {c: counts[c] for c in counts if not said[c]["sparse"]}
    if dense:
        _same("features", dense, called)
    most = max(counts, key=lambda c: counts[c])
    _same("features", {most: counts[most]} | dense, called)
    return int(counts[most])


def _classes(
    said: Mapping[int, Record], called: Callable[[int], str], model: Model
) -> list[object]:
    """All labels that occur at any site. A single site may have only one of them."""
    if not model.labelled:
        return []
    found = {c: json.loads(str(record["classes"])) for c, record in said.items()}
    _same("kind of labels", {c: "text" if isinstance(labels[0], str) else "numbers"
                             for c, labels in found.items()}, called)  # fmt: skip
    union = sorted({label for labels in found.values() for label in labels})
    if model.loss.targets == "signs" and len(union) != 2:
        told = "; ".join(f"{called(c)}: {_short(labels)}" for c, labels in list(found.items())[:4])
        advice = (
            ""
            if len(union) < 2
            else "; for more than two use losses.Multinomial(), for numbers losses.Squared(): in sites.toml "
            'loss = "multinomial" or "squared"'
        )
        raise InputError(
            f"sites must agree: {model.loss!r} needs two labels over all sites, and these have "
            f"{len(union)} ({told}){advice}"
        )
    if len(union) < 2:
        raise InputError(f"all sites together hold one class only, {_short(union)}")
    return union


def _moments(said: Mapping[int, Record], factors: Array, features: int) -> dict[str, Plain]:
    """The mean and standard deviation of every feature over the federation; the means of sparse data are not subtracted."""
    sparse = any(record["sparse"] for record in said.values())
    sizes = np.array([record["samples"] for record in said.values()]) * factors
    means, squares = np.zeros((len(said), features)), np.zeros(features)
    for at, record, factor in zip(means, said.values(), factors, strict=True):
        own: Any = record["means"], record["squares"]
        at[: own[0].size] = own[0]
        squares[: own[1].size] += factor * own[1]
    mean, scale = pooled(np.tile(sizes[:, None], features), means, squares)
    return {"mean": np.zeros(features) if sparse else mean, "deviation": scale}


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… (sha256 {digest(value)[:12]})"
