"""A client given by the place of its data, and the problem that its host makes of the data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, DataMatrix
from reshuffle.datasets.encoding import TableEncoding
from reshuffle.design import check_rows
from reshuffle.digests import digest
from reshuffle.disk_datafit import datafit_on
from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError, shown
from reshuffle.federated.columns import Cells
from reshuffle.federated.site_data import PLAIN, SiteTable, Source, load
from reshuffle.labels import check_apart
from reshuffle.losses import Loss
from reshuffle.losses.offsets import check_offsets
from reshuffle.penalties import L2
from reshuffle.problem import Problem
from reshuffle.shards import Shards
from reshuffle.validation import check_weights, mean_weight, read_only

LABELLED = ("signs", "classes")
"""Kinds of targets that are labels; all sites agree on the set of labels."""
FEW_LABELS = 20
"""More different numbers than this, if not all are whole, do not count as labels, and a site does not reveal them."""


@dataclass(frozen=True, eq=False)
class Site:
    """One client of ``Sites``.

    Parameters
    ----------
    data : a path, a function or arrays (see ``Sites``). A path and a function are used where the host
        of this client runs, and nowhere else.
    name : the name in messages and tables; by default the path, or the client's number.
    test : held-out data of the same form, on which the final model is evaluated, and with ``evaluate`` also the models
        during the run.
    audit : a file at the client, to which a line is added for every message in and out.
    state : a folder at the client, where its part of ``ExactFedRR(state="clients")`` is saved in every round.
    target : the column of a table to predict; by default the last.
    drop : columns of this site's table that are left out. ``Sites`` takes those of all sites.
    keys : a folder at the client with its signing key and the public keys of all sites, for secure sums.
    """

    data: Source
    name: str | None = None
    test: Source | None = None
    audit: str | os.PathLike[str] | None = None
    state: str | os.PathLike[str] | None = None
    target: str | None = None
    drop: tuple[str, ...] = ()
    keys: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        texts = isinstance(self.drop, (list, tuple)) and all(isinstance(n, str) for n in self.drop)
        if not texts:
            raise InputError(f"drop must be a list of names of columns, got {shown(self.drop)}")

    @property
    def path(self) -> Path | None:
        """The path of its data, if it is given by one."""
        return Path(self.data) if isinstance(self.data, (str, os.PathLike)) else None

    @property
    def first_index(self) -> int:
        """The index of the first feature in files of this form: 1 in LIBSVM format, else 0."""
        path = self.path
        return int(path is not None and path.suffix != ".npz" and not path.is_dir())

    @property
    def paths(self) -> tuple[object, ...]:
        """The paths of its files, which must not be revealed to others; some entries may be arrays or None."""
        return self.data, self.test, self.audit, self.state, self.keys

    def table(self, cells: Cells) -> SiteTable:
        return load(self.data, self.target, cells, self.drop)

    def test_table(self, cells: Cells, agreed: SiteTable) -> SiteTable | None:
        """The held-out data; a table is reduced to the columns that the site's data has."""
        if self.test is None:
            return None
        if agreed.columns is None:
            found = load(self.test, self.target)
            if found.names != agreed.names:
                raise InputError(
                    f"the columns of test must be those of the data, {agreed.names}, got {found.names}"
                )
            return found
        wanted = tuple(agreed.columns.columns)
        same = replace(cells, columns=wanted, drop=())
        try:
            found = load(self.test, agreed.columns.reading.target, same)
        except InputError as error:
            raise InputError(f"the columns of test must be those of the data: {error}") from None
        if found.columns is not None:
            found.columns.check_filled()
        return found

    def called(self, number: int) -> str:
        """The words by which messages name the site."""
        name = self.name or self.path
        return f"client {number}" if name is None else f"client {number} ({name})"


@dataclass(frozen=True, eq=False)
class Model:
    """The model that is trained, the same at every site."""

    loss: Loss
    ridge: float
    intercept: bool
    cells: Cells = PLAIN
    """How tables are read."""

    @property
    def labelled(self) -> bool:
        return self.loss.targets in LABELLED

    def report(self, table: SiteTable, version: str, moments: bool) -> dict[str, Plain]:
        """The record by which a site describes itself before the first round; nothing else is sent."""
        columns, weights = table.columns, np.empty(0)
        parts: tuple[object, ...]
        more: dict[str, Plain] = {}
        if columns is None:
            rows, n, features = check_rows(table.X)
            dense, weights = rows.dense, check_weights(table.sample_weight, n)
            parts = (rows.identity,) if isinstance(rows, Shards) else tuple(rows)
            if moments and isinstance(rows, Shards):
                raise InputError(
                    "standardise: rows on disk are not standardised on the way; standardise them before they are converted"
                )
            if moments:
                more = _moments(table.X, weights)
        else:
            n, features, dense = table.y.shape[0], len(columns.columns), True
            parts, more = (columns.content(),), columns.report(moments)
        if table.y.shape[:1] != (n,):
            raise InputError(f"y must have one entry for each of {n} rows, got {table.y.shape}")
        if not self.labelled and table.y.dtype.kind not in "fiub":
            raise InputError(
                f"{self.loss!r} needs a target of numbers, got {shown(str(table.y[0]))}; for two classes use "
                "losses.Logistic(), for more losses.Multinomial(): in sites.toml "
                'loss = "logistic" or "multinomial"'
            )
        record: dict[str, Plain] = {
            "version": version,
            "samples": n,
            "features": features,
            "sparse": int(not dense),
            "form": "matrix" if columns is None else "table",
            "names": json.dumps(table.names),
            "classes": json.dumps(labels_of(table.y) if self.labelled else []),
            "outputs": int(table.y.shape[1]) if table.y.ndim == 2 else 0,
            "loss": repr(self.loss),
            "ridge": self.ridge,
            "intercept": int(self.intercept),
            "weight": mean_weight(table.sample_weight),
            "data": digest(*parts, table.y, weights, *table.shifts.values()),
            "shifts": json.dumps(sorted(table.shifts)),
        }
        check_offsets(table.offset, table.exposure, n, self.loss)
        return record | more

    def problem(self, table: SiteTable, agreed: Record, weight: float = 1.0) -> Problem:
        """The client's problem in the form on which all sites have agreed."""
        X: Any = table.X
        d = int(agreed["features"])
        if table.columns is not None:
            X = table.columns.encoded(TableEncoding.from_json(json.loads(str(agreed["encoding"]))))
        if _sparse(X) and X.shape[1] < d:
            X = sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], d))
        if isinstance(X, Shards):
            X = X.widened(d)
        if "deviation" in agreed:
            X = standardised(X, np.asarray(agreed["mean"]), np.asarray(agreed["deviation"]))
        # Local work needs nothing else of ψ.
        convex = L2(float(agreed["mu"])) if agreed["mu"] else None
        if self.labelled:
            problem = self._of_labels(X, table, json.loads(str(agreed["classes"])), convex)
        else:
            problem = Problem(
                X, table.y, self.loss, convex, self.ridge, table.sample_weight, self.intercept,
                **table.shifts,
            )  # fmt: skip
        return problem if weight == 1.0 else problem.weighted(weight)

    def _of_labels(
        self, X: object, table: SiteTable, classes: Sequence[object], convex: L2 | None
    ) -> Problem:
        """Targets that know all classes, including those that do not occur at this site."""
        signs = self.loss.targets == "signs"
        every = np.array([-1.0, 1.0]) if signs else np.arange(len(classes), dtype=np.int32)
        rows, n, features = check_rows(X)
        empty = sp.csr_matrix((every.size, features))
        template = Problem(empty, every, self.loss, convex, self.ridge, None, self.intercept)
        codes = encoded(table.y, np.array(classes))
        weights = check_weights(table.sample_weight, n)
        like = template.datafit
        targets = read_only(every[codes])
        offsets = check_offsets(table.offset, table.exposure, n, like.loss)
        fit = datafit_on(
            rows, targets, weights, like.loss, like.bias, features, like.outputs, offsets
        )
        return template.with_datafit(fit)


def labels(y: AnyArray) -> AnyArray:
    """Labels as text or numbers; pandas stores text as objects."""
    text = y.dtype == object and all(isinstance(label, str) for label in y.ravel())
    return y.astype(str) if text else y


def labels_of(y: AnyArray) -> list[object]:
    """The labels that occur, as values of JSON."""
    y = labels(y)
    if y.ndim != 1 or y.dtype.kind not in "fiubU":
        raise InputError(f"y must hold one label per row, got {y.dtype} of shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InputError("y must hold labels, got NaN or infinity")
    found = y if y.dtype.kind == "U" else y.astype(np.float64)
    check_apart(found)
    classes: list[object] = np.unique(found).tolist()
    if len(classes) > FEW_LABELS and any(isinstance(c, float) and c % 1.0 for c in classes):
        raise InputError(
            f"y must hold labels, got {len(classes):,} different numbers like {classes[0]:g}: for a target of numbers "
            'give a loss of numbers, as losses.Squared(), or loss = "squared" in sites.toml'
        )
    return classes


def encoded(y: AnyArray, classes: AnyArray) -> NDArray[np.int64]:
    """The place of each label among the classes."""
    y = labels(y)
    codes = np.searchsorted(classes, y).clip(max=classes.size - 1)
    strange = classes[codes] != y
    if strange.any():
        raise InputError(
            f"label {shown(y[strange][0].item())} is none of the agreed classes {classes.tolist()}"
        )
    return codes


def _sparse(X: object) -> bool:
    return bool(sp.issparse(X))


def _moments(X: Any, weights: AnyArray) -> dict[str, Plain]:
    """The mean of every feature, and Σ w·(x - mean)²; for sparse rows computed from Σ w·x², which loses no digits that matter."""
    w = weights if weights.size else np.ones(X.shape[0])
    if _sparse(X):
        mean = np.asarray(X.T @ w) / w.sum()
        squares = np.asarray(X.power(2).T @ w) - w.sum() * mean**2
        return {"means": mean, "squares": np.maximum(squares, 0.0)}
    values = np.asarray(X, dtype=np.float64)
    mean = w @ values / w.sum()
    return {"means": mean, "squares": w @ (values - mean) ** 2}


def standardised(X: Any, mean: AnyArray, scale: AnyArray) -> DataMatrix:
    """(X - mean)/scale; sparse data is scaled only, so that it stays sparse."""
    if _sparse(X):
        return sp.csr_matrix(X.multiply(1.0 / scale))
    return (np.asarray(X, dtype=np.float64) - mean) / scale
