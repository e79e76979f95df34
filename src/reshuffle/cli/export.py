"""``reshuffle export``: writes the encoder and the model as one ONNX graph, checked against ``predict``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reshuffle.cli.common import Output
from reshuffle.datasets import Reading, stream_parts
from reshuffle.datasets.encoding import TableEncoding
from reshuffle.errors import InputError
from reshuffle.estimators import load
from reshuffle.estimators.onnx_export import OnnxAgreement, agreement, made_up
from reshuffle.estimators.onnx_graph import onnx_graph
from reshuffle.files import check_apart, write_atomically


def run(*, model: str, onnx: Path, rows: str | None, reading: Reading, output: Output) -> None:
    """Write the graph after checking that it predicts the same as the model."""
    check_apart(onnx, model, *([rows] if rows else []))
    fitted = load(model)
    graph = onnx_graph(fitted)
    encoding = getattr(fitted, "encoding_", None)
    if rows is None:
        if isinstance(encoding, TableEncoding):
            tried: object = made_up(encoding)
        else:
            tried = np.random.default_rng(0).normal(size=(200, fitted.n_features_in_))
        found = [agreement(graph, fitted, tried)]
    elif encoding is None:
        raise InputError(
            f"--rows: {model} does not say how rows come from a file; leave --rows out, and check in Python with "
            "reshuffle.estimators.to_onnx"
        )
    else:
        parts = stream_parts(rows, encoding, output.note, reading)
        found = [
            agreement(graph, fitted, part.X if part.chunk is None else part.chunk)
            for part in parts
            if part.X.shape[0]
        ]
    whole = OnnxAgreement(
        sum(part.rows for part in found),
        max((part.difference for part in found), default=0.0),
        sum(part.labels for part in found),
    )
    write_atomically(onnx, graph.SerializeToString())
    for option in getattr(fitted, "shifted_by_", ()):
        instead = "multiply its predictions by it" if option == "exposure" else "it is taken for 0"
        output.note(
            f"the model was fitted with --{option}, which the graph does not take: {instead}"
        )
    inputs = [value.name for value in graph.graph.input]
    outputs = [value.name for value in graph.graph.output]
    source = rows or "rows that are made up (--rows FILE checks with yours)"
    output.line(f"{onnx}: inputs {', '.join(inputs[:12])}{', …' if len(inputs) > 12 else ''}; outputs {', '.join(outputs)}")  # fmt: skip
    output.line(f"checked against predict on {source}: {whole}")
    output.document(
        {"onnx": onnx, "inputs": inputs, "outputs": outputs, "rows": whole.rows, "difference": whole.difference}
    )  # fmt: skip
