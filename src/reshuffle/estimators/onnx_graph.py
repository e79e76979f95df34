"""Writes a model as an ONNX graph, from the columns of a table to predictions, in double precision.

A column of numbers is an input of shape (rows, 1), a column of categories one of texts; a model without a table has
one input X. The graph fills in missing values (NaN, or a text that stands for none), scales and encodes the
columns, and computes

    z = Σ_j w_j·a_j + b,    prediction = z, exp(z), or the class with the largest z,

with probabilities where the loss has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.datasets.encoding import Category, Number, TableEncoding
from reshuffle.errors import InputError, extra
from reshuffle.estimators.loss_names import MEANS
from reshuffle.estimators.summary import coefficients
from reshuffle.losses.native import built_in

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

    from reshuffle.estimators.linear import Linear
    from reshuffle.losses import Loss

OPSET, ML_OPSET, IR = 17, 3, 9
"""Versions of the operators and of the format, of 2022, so that older runtimes can read them."""


class Graph:
    """The nodes and constants of a graph; every method adds some and returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []

    def constant(self, values: object) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        array = np.asarray(values)
        if array.dtype.kind in "US":
            array = array.astype(object)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(
        self, kind: str, *inputs: Any, ml: bool = False, called: str = "", **attributes: Any
    ) -> str:
        """Add a node; inputs are names of results, or constants, and ``called`` may give its result a name."""
        from onnx import helper

        result = called or f"{kind.lower()}_{len(self.nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        domain = {"domain": "ai.onnx.ml"} if ml else {}
        self.nodes.append(helper.make_node(kind, names, [result], **domain, **attributes))
        return result

    def flat(self, values: str, called: str = "") -> str:
        """A column as a vector."""
        return self.op("Reshape", values, np.array([-1], np.int64), called=called)

    def input(self, name: str, kind: str, width: int) -> str:
        """Add an input of shape (rows, ``width``)."""
        from onnx import helper

        self.inputs.append(helper.make_tensor_value_info(name, element_type(kind), [None, width]))
        return name


def element_type(kind: str) -> int:
    """ONNX's number for a "number", a "whole number" or a "text"."""
    from onnx import TensorProto

    names = {"number": "DOUBLE", "whole number": "INT64", "text": "STRING"}
    return int(getattr(TensorProto, names[kind]))


def onnx_graph(model: Linear) -> ModelProto:
    """The ONNX model of a fitted estimator, with its encoder if it has one."""
    with extra("export", "onnx", "export to ONNX"):
        from onnx import checker, helper
    loss = model.loss_
    if hasattr(loss, "mean"):
        raise InputError(f"ONNX: the mean(z) of {loss!r} is your own code and cannot be exported")
    graph = Graph()
    features = _features(graph, model)
    coef = coefficients(model).T.astype(np.float64)
    intercept = np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
    product = graph.op("MatMul", features, coef)
    margins = graph.op("Add", product, intercept)
    outputs = (_classes if hasattr(model, "classes_") else _numbers)(graph, model, margins)
    results = [
        helper.make_tensor_value_info(name, element_type(kind), shape)
        for name, kind, shape in outputs
    ]
    whole = helper.make_graph(graph.nodes, "reshuffle", graph.inputs, results, graph.constants)
    versions = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(
        whole, opset_imports=versions, producer_name="reshuffle", ir_version=IR
    )
    checker.check_model(made)
    return made


def _features(graph: Graph, model: Linear) -> str:
    encoding = getattr(model, "encoding_", None)
    if not isinstance(encoding, TableEncoding):
        return graph.input("X", "number", model.n_features_in_)
    missing = set(encoding.missing)
    parts = [
        _number(graph, part) if isinstance(part, Number) else _category(graph, part, missing)
        for part in encoding.columns
    ]
    return graph.op("Concat", *parts, axis=1)


def _number(graph: Graph, part: Number) -> str:
    """(value - centre)/scale, with the fill value where the number is NaN."""
    values = graph.input(part.name, "number", 1)
    if part.fill is not None:
        lacking = graph.op("IsNaN", values)
        values = graph.op("Where", lacking, np.float64(part.fill), values)
    if part.centre == 0.0 and part.scale == 1.0:
        return graph.op("Identity", values)
    centred = graph.op("Sub", values, np.float64(part.centre))
    return graph.op("Div", centred, np.float64(part.scale))


def _category(graph: Graph, part: Category, missing: set[str]) -> str:
    """The one-hot encoding of a column of categories; all zeros for an unknown text."""
    texts = graph.input(part.name, "text", 1)
    places = {level: k for k, level in enumerate(part.levels)}
    if part.fill is not None:
        places |= dict.fromkeys(sorted(missing - set(places)), places[part.fill])
    codes = graph.op(
        "LabelEncoder", texts, ml=True,
        keys_strings=list(places), values_int64s=list(places.values()), default_int64=-1,
    )  # fmt: skip
    levels = np.arange(len(part.levels), dtype=np.int64).reshape(1, -1)
    return graph.op("Cast", graph.op("Equal", codes, levels), to=element_type("number"))


Outputs = list[tuple[str, str, list[int | None]]]


def _numbers(graph: Graph, model: Linear, margins: str) -> Outputs:
    if getattr(model, "log_target_", False) or model.loss_.log_link:
        margins = graph.op("Exp", margins)
    if np.ndim(model.intercept_) == 0:
        graph.flat(margins, called="prediction")
        return [("prediction", "number", [None])]
    graph.op("Identity", margins, called="prediction")
    return [("prediction", "number", [None, np.size(model.intercept_)])]


def _classes(graph: Graph, model: Linear, margins: str) -> Outputs:
    classes, loss = model.classes_, model.loss_
    count, two = classes.size, classes.size == 2
    if classes.dtype.kind in "iub":
        kind, names = "whole number", classes.astype(np.int64)
    elif classes.dtype.kind == "f":
        kind, names = "number", classes
    else:
        kind, names = "text", np.array([str(c) for c in classes])
    if two:
        upper = graph.op("Greater", graph.flat(margins), np.float64(loss.boundary))
        codes = graph.op("Cast", upper, to=element_type("whole number"))
    else:
        codes = graph.op("ArgMax", margins, axis=1, keepdims=0)
    graph.op("Gather", names, codes, called="prediction")
    found: Outputs = [("prediction", kind, [None])]
    if type(loss) not in MEANS:
        graph.op("Identity", margins, called="decision")
        return [*found, ("decision", "number", [None, 1 if two else count])]
    if two:
        likely = _probability(graph, loss)
        if loss.boundary == 0.0:  # both classes are alike
            other = likely(graph.op("Neg", margins))
        else:
            other = graph.op("Sub", np.float64(1.0), likely(margins))
        graph.op("Concat", other, likely(margins), axis=1, called="probabilities")
    else:
        graph.op("Softmax", margins, axis=1, called="probabilities")
    return [*found, ("probabilities", "number", [None, count])]


def _probability(graph: Graph, loss: Loss) -> Callable[[str], str]:
    """The operations that turn a margin into the probability of the second class."""
    kind = built_in(type(loss))
    if kind == "probit":
        raise InputError(
            "ONNX: the probabilities of Probit() need the error function in double precision, which ONNX Runtime does not have; "
            "save(path) writes a file of this package"
        )
    if kind != "complementary_log_log":
        return lambda z: graph.op("Sigmoid", z)
    one = np.float64(1.0)

    def some_event(z: str) -> str:  # 1 - exp(-exp(z))
        return graph.op("Sub", one, graph.op("Exp", graph.op("Neg", graph.op("Exp", z))))

    return some_event
