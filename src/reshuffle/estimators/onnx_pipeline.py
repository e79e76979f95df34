"""Pipelines of scikit-learn that end in a model of this package, as ONNX graphs by skl2onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, extra
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.onnx_export import NEAR_SINGLE, compared, run

if TYPE_CHECKING:
    from onnx import ModelProto
    from skl2onnx.common.data_types import DataType
    from sklearn.pipeline import Pipeline


def pipeline_graph(pipeline: Pipeline, rows: object) -> ModelProto:
    """The graph of a fitted pipeline, checked on rows."""
    with extra("export", "skl2onnx", "export of a pipeline"):
        import skl2onnx
    steps = getattr(pipeline, "steps", None)
    if not steps or not isinstance(steps[-1][1], Linear):
        raise InputError(
            "to_onnx takes a model of this package, or a Pipeline of scikit-learn that ends in one, got "
            f"{type(pipeline).__name__}"
        )
    kind = type(pipeline)
    plain = kind([*steps[:-1], (steps[-1][0], steps[-1][1].to_sklearn())])
    inputs, feeds = _inputs(rows)
    last = plain.steps[-1][1]
    options = {id(last): {"zipmap": False}} if hasattr(last, "predict_proba") else None
    try:
        graph: ModelProto = skl2onnx.to_onnx(plain, initial_types=inputs, options=options)
    except Exception as error:
        names = ", ".join(f"{name} ({type(step).__name__})" for name, step in steps[:-1])
        said = [*str(error).strip().splitlines(), repr(error)][0].rstrip(".")
        raise InputError(
            f"skl2onnx cannot convert this pipeline ({names}): {said}. Steps of one's own, and encoders "
            "without a converter, cannot be exported; a model that `reshuffle fit` wrote brings an encoder that can"
        ) from error
    compared(run(graph, feeds), pipeline, rows, NEAR_SINGLE)
    return graph


def _inputs(rows: Any) -> tuple[list[tuple[str, DataType]], dict[str, AnyArray]]:
    """The inputs of a graph in the form that skl2onnx takes, and these rows as its feeds: one input per column."""
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if not hasattr(rows, "columns"):
        array = np.asarray(rows, dtype=np.float32)
        return [("X", FloatTensorType([None, array.shape[1]]))], {"X": array}
    inputs, feeds = [], {}
    for name in rows.columns:
        values = np.asarray(rows[name])
        numbers = values.dtype.kind in "iufb"
        inputs.append((str(name), (FloatTensorType if numbers else StringTensorType)([None, 1])))
        feeds[str(name)] = values.astype(np.float32 if numbers else object).reshape(-1, 1)
    return inputs, feeds
