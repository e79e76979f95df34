"""The result of a run over sites: x, the parts of a model beside x, and its quality at each site."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields, replace
from typing import Any

from reshuffle.datasets.rows_encoding import Encoding, RowsEncoding
from reshuffle.engines import Record
from reshuffle.errors import ClientError
from reshuffle.federated.held_out import HeldOutMetrics
from reshuffle.federated.quality import Quality
from reshuffle.federated.remote_federation import RemoteFederation
from reshuffle.federated.replies import Tally
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.penalties import Penalty
from reshuffle.trace import Result

logger = logging.getLogger("reshuffle")


@dataclass(frozen=True, eq=False)
class Learned:
    """The parts of a model beside x, on which the sites agreed."""

    loss: Loss
    penalty: Penalty
    intercept: bool
    samples: int
    features: int
    classes: tuple[object, ...] = ()
    names: tuple[str, ...] = ()
    encoding: Encoding | None = None
    """How rows are made from a file; the encoding of a table includes its scales."""
    centre: Array | None = None
    scale: Array | None = None
    """Common means and deviations of a matrix that was standardised."""


@dataclass(frozen=True, eq=False)
class FederatedResult(Result):
    """The result of a run over ``Sites``.

    Beside the parts of ``Result`` it has ``held_out``, the quality of the final model by site and metric (empty where no
    site has ``test`` data), ``tally``, the part of each client and what travelled, and ``learned``, from which
    ``reshuffle.estimators.from_federation`` makes a model that predicts and can be saved.
    """

    learned: Learned | None = field(default=None, repr=False)
    held_out: Quality = field(default_factory=lambda: Quality({}), repr=False)
    tally: Tally = field(default_factory=lambda: Tally(()), repr=False)
    tol: float = field(default=0.0, repr=False)
    """The accuracy that was asked for."""

    @classmethod
    def of(cls, result: Result, **more: Any) -> FederatedResult:
        """The result with the facts about its sites."""
        return cls(**{f.name: getattr(result, f.name) for f in fields(Result)}, **more)


def ended(
    sites: RemoteFederation, first: int, result: Result, evaluate: int | None, tol: float
) -> FederatedResult:
    """The result with everything that a model needs, and its quality on held-out data.

    The model is not lost if sites have gone before they could be asked. ``first`` is the index of the first feature in
    files of the sites' form.
    """
    found: dict[int, Record] = {}
    if sites.tested:
        try:
            found = sites.ask("metrics", result.x)
        except ClientError as error:
            logger.warning("how good the final model is at the sites is not known: %s", error)
    if found and evaluate is not None:
        held = HeldOutMetrics(sites, evaluate)
        told = held.told(found)
        result = replace(result, state=result.state | told)
        result.trace.amend(**held.columns(told))
    agreed, tally = sites.agreed, sites.tally
    record: Any = agreed.record
    learned = Learned(
        sites.loss,
        sites.penalty,
        sites.model.intercept,
        sites.n,
        sites.features,
        agreed.classes,
        agreed.names,
        agreed.encoding or RowsEncoding(sites.features, first),
        record.get("mean"),
        record.get("deviation"),
    )
    quality = Quality.of(found, [part.name for part in tally.parts])
    return FederatedResult.of(result, learned=learned, held_out=quality, tally=tally, tol=tol)
