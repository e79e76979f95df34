"""Exports models to ONNX. Before a graph is returned, its predictions are compared with the model's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.chunks import Chunk
from reshuffle.datasets.encoding import Category, TableEncoding
from reshuffle.datasets.frames import chunk_of, is_table
from reshuffle.errors import InputError, extra
from reshuffle.estimators.linear import Linear, for_encoded_rows
from reshuffle.estimators.onnx_graph import onnx_graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from onnx import ModelProto

    from reshuffle.datasets.chunks import Values

NEAR = 1e-9
"""Relative difference up to which two double-precision computations in different orders count as equal."""
NEAR_SINGLE = 1e-3
"""``NEAR`` for a pipeline, which skl2onnx computes in single precision."""


@dataclass(frozen=True)
class OnnxAgreement:
    """How closely the graph agrees with the model."""

    rows: int
    difference: float
    """The largest difference of a number (a prediction, a probability or a margin), relative to the largest of them."""
    labels: int
    """The number of rows with different classes: ties, which rounding decides."""

    def __str__(self) -> str:
        ties = f", {self.labels} labels differ where rounding decides" if self.labels else ""
        return f"{self.rows:,} rows agree, the largest relative difference is {self.difference:.1g}{ties}"


def to_onnx(model: object, rows: object) -> ModelProto:
    """An ONNX model (``onnx.ModelProto``) with the predictions of ``model``, checked on ``rows``.

    Parameters
    ----------
    model : a fitted estimator of this package, with its encoder where a command made it; or a Pipeline of
        scikit-learn that ends in one, whose other steps ``skl2onnx`` can convert (a ColumnTransformer with
        OneHotEncoder, StandardScaler and SimpleImputer for instance).
    rows : some rows as ``model.predict`` takes them; the graph must give the same predictions for them.

    Its inputs have the names of the columns, each of shape (rows, 1), or one input X for arrays. A graph of an
    estimator computes in double precision, one of a pipeline in single precision, as ``skl2onnx`` does.
    Its first output, ``prediction``, is followed by ``probabilities`` if there are any. A graph takes neither offset nor
    exposure: its predictions are those of ``model.predict(rows)`` without them.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> model = rs.RRClassifier(penalty="l1", l1=0.01).fit(X, y)
    >>> graph = rs.estimators.to_onnx(model, X[:50])
    >>> [output.name for output in graph.graph.output]
    ['prediction', 'probabilities']
    """
    if isinstance(model, Linear):
        graph = onnx_graph(model)
        agreement(graph, model, rows)
        return graph
    from reshuffle.estimators.onnx_pipeline import pipeline_graph

    return pipeline_graph(model, rows)


def agreement(graph: ModelProto, model: object, rows: object) -> OnnxAgreement:
    """Run the graph on rows and compare; raises ``InputError`` if its predictions differ."""
    encoding = getattr(model, "encoding_", None)
    if isinstance(encoding, TableEncoding):
        if not (is_table(rows) or isinstance(rows, Chunk)):
            raise InputError(
                f"rows must be a table with the columns of the model, got {type(rows).__name__}"
            )
        chunk = rows if isinstance(rows, Chunk) else chunk_of(rows, encoding.names, encoding.dates)
        X = encoding.rows(chunk, lambda text: None)
        feeds = feeds_of(encoding, chunk)
    else:
        X = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows, dtype=np.float64)
        feeds = {"X": X}
    return compared(run(graph, feeds), model, X, NEAR)


def run(graph: ModelProto, feeds: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """The outputs of a graph, by name."""
    with extra("export", "onnxruntime", "a graph is checked by running it, which"):
        import onnxruntime
    where = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=where)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def compared(found: dict[str, AnyArray], model: Any, X: object, near: float) -> OnnxAgreement:
    """Compare the outputs of a graph with the model's predictions for the same rows."""
    bare = for_encoded_rows(model) if isinstance(model, Linear) else model
    first, *others = found.values()
    predicted = bare.predict(X)
    numbers = [] if hasattr(bare, "classes_") else [(first, predicted)]
    if others:
        second = "predict_proba" if hasattr(bare, "predict_proba") else "decision_function"
        numbers.append((others[0], getattr(bare, second)(X)))
    worst = max((_apart(a, b) for a, b in numbers), default=0.0)
    if not worst <= near:
        raise InputError(
            f"the ONNX graph does not predict what the model predicts: numbers differ by {worst:.2g}, relative to the "
            f"largest, where {near:g} is rounding. The graph was not written"
        )
    labels = 0
    if hasattr(bare, "classes_"):
        other = _labels(first) != _labels(predicted)
        labels = int(np.count_nonzero(other))
        if wrong := np.count_nonzero(other & ~_tied(bare, X, near)):
            raise InputError(
                f"the ONNX graph does not predict what the model predicts: {wrong:,} of {len(predicted):,} labels differ. "
                "The graph was not written"
            )
    return OnnxAgreement(len(predicted), worst, labels)


def _labels(values: ArrayLike) -> AnyArray:
    """Labels as text; a graph writes True and False as 1 and 0."""
    array = np.ravel(values)
    array = array.astype(np.int64) if array.dtype.kind == "b" else array
    return np.array([str(value) for value in array.tolist()])


def _tied(model: Any, X: object, near: float) -> NDArray[np.bool_]:
    """The rows whose two largest margins are equal up to rounding."""
    margins = np.asarray(model.decision_function(X))
    if margins.ndim == 1:
        margins = np.column_stack([-margins, margins])
    top = np.sort(margins, axis=1)[:, -2:]
    return np.asarray(top[:, 1] - top[:, 0] <= near * (1.0 + np.abs(margins).max()))


def _apart(one: AnyArray, other: AnyArray) -> float:
    one, other = np.ravel(one).astype(np.float64), np.ravel(other).astype(np.float64)
    if one.shape != other.shape:
        return np.inf
    if not one.size:
        return 0.0
    size = max(float(np.abs(other).max()), np.finfo(float).tiny)
    return float(np.abs(one - other).max() / size)


def feeds_of(encoding: TableEncoding, chunk: Chunk) -> dict[str, AnyArray]:
    """The inputs of the graph: numbers, with NaN for a missing one, and texts, with "" for a missing one."""
    feeds: dict[str, AnyArray] = {}
    for part, column in zip(encoding.columns, encoding.collected(chunk), strict=True):
        if isinstance(part, Category):
            levels, codes = column.categories()
            texts = np.array([*levels, ""], dtype=object)
            feeds[part.name] = texts[codes].reshape(-1, 1)
        else:
            feeds[part.name] = column.numbers().reshape(-1, 1)
    return feeds


def made_up(encoding: TableEncoding, rows: int = 200, seed: int = 0) -> Chunk:
    """Rows to check with if the user gives none: every category, an unknown one, and missing values
    if the model fills them in."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Values] = {}
    for part in encoding.columns:
        if isinstance(part, Category):
            texts = [*part.levels, "no such category", *[None] * (part.fill is not None)]
            columns[part.name] = rng.choice(np.array(texts, dtype=object), rows).tolist()
        else:
            values = part.centre + part.scale * rng.normal(size=rows)
            gaps = (rng.random(rows) < 0.1) & (part.fill is not None)
            columns[part.name] = np.where(gaps, np.nan, values)
    return Chunk(columns, range(rows), "rows that are made up", "row")
