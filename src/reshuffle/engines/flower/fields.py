"""Checks that an answer has the parts, and the types of parts, that its kind requires, before they are used."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reshuffle.engines.base import Record, Task
from reshuffle.errors import InputError, shown

Rule = tuple[str, Callable[[Any], bool]]
"""A requirement on a part in words, and a function that says whether a value meets it."""

MOST = 2**53
"""The largest count that is accepted, because larger integers are not all floating-point numbers."""


def _number(value: object) -> bool:
    return type(value) in (int, float)


def _array(value: object, kinds: str = "f") -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds


def _json(kind: type) -> Callable[[object], bool]:
    def is_kind(value: object) -> bool:
        try:
            return type(value) is str and isinstance(json.loads(value), kind)
        except (ValueError, RecursionError):
            return False

    return is_kind


def _labels(value: Any) -> bool:
    """Whether a value is a JSON list of texts only, or of numbers only."""
    if not _json(list)(value):
        return False
    labels = json.loads(value)
    return all(isinstance(one, str) for one in labels) or all(map(_number, labels))


def _integer(least: int) -> Rule:
    return (
        f"an integer from {least} to {MOST:,}",
        lambda value: type(value) is int and least <= value <= MOST,
    )


NUMBER: Rule = "a number", _number
POSITIVE: Rule = "a number above 0", lambda value: _number(value) and value > 0
NOT_NEGATIVE: Rule = "a number of at least 0", lambda value: _number(value) and value >= 0
STEPS: Rule = (
    f"a number from 0 to {MOST:,}",
    lambda value: _number(value) and 0 <= value <= MOST,
)
COUNT, SOME = _integer(0), _integer(1)
TEXT: Rule = "a text", lambda value: type(value) is str
LIST: Rule = "a list in JSON", _json(list)
OBJECT: Rule = "an object in JSON", _json(dict)
VECTOR: Rule = "a vector of floating-point numbers", lambda value: _array(value) and value.ndim == 1
MODEL: Rule = "an array of floating-point numbers", _array
HEAD: Mapping[str, Rule] = {
    "run": TEXT, "round": ("an integer", lambda value: type(value) is int), "digest": TEXT, "model": MODEL,
}  # fmt: skip
FAILURE: Mapping[str, Rule] = {"reason": TEXT, "diverged": COUNT, "lost": COUNT}
INTRODUCTION: Mapping[str, Rule] = {"site": TEXT, "first": COUNT, "test": COUNT}
HELLO: Mapping[str, Rule] = {
    "version": TEXT, "samples": SOME, "features": COUNT, "sparse": COUNT, "form": TEXT, "names": LIST,
    "classes": ("a list of texts or of numbers in JSON", _labels), "outputs": COUNT, "loss": TEXT,
    "ridge": NUMBER, "intercept": COUNT, "weight": POSITIVE, "data": TEXT, "shifts": TEXT,
}  # fmt: skip
TABLE: Mapping[str, Rule] = {
    "columns": OBJECT, "levels": OBJECT, "unused": LIST, "target": TEXT, "separator": TEXT,
}  # fmt: skip
MOMENTS: Mapping[str, Rule] = {"means": VECTOR, "squares": VECTOR}
WANTED: Mapping[str, Mapping[str, Rule]] = {
    "value": {"value": NUMBER}, "gradient": {"gradient": MODEL}, "floor": {"floor": NUMBER},
    "rising": {"rising": MODEL, "rising_excess": NUMBER}, "means": {"means": VECTOR},
}  # fmt: skip
"""The parts that each word of ``wants`` asks for."""
PRODUCTS: Mapping[str, Rule] = {"square": NOT_NEGATIVE, "slopes": VECTOR, "changes": VECTOR}
"""The parts of an answer whose state is kept by the client."""
PACKED = "Curved"
"""The kinds of work whose question holds more than a point, so that the answer does not have the shape of a gradient."""
BYTES: Rule = "an array of bytes", lambda value: _array(value, "u") and value.dtype == np.uint8
NUMBERS: Rule = "a vector of integers", lambda value: _array(value, "i") and value.ndim == 1
WORDS: Rule = (
    "a vector of 64-bit words",
    lambda value: _array(value, "u") and value.dtype == np.uint64 and value.ndim == 1,
)
MASKED: Mapping[str, Rule] = {"secure_masked": WORDS, "secure_layout": LIST}
ANSWERS: Mapping[str, Mapping[str, Rule]] = {
    "load": {
        "visits": COUNT, "steps": STEPS, "smoothness": NOT_NEGATIVE, "L_max": NOT_NEGATIVE,
        "L_mean": NOT_NEGATIVE, "L_f": NOT_NEGATIVE,
    },
    "secure-hello": {"secure_pins": TEXT}, "secure-keys": {"secure_keys": BYTES},
    "secure-shares": {"secure_sealed": BYTES, "secure_sealed_of": NUMBERS},
    "secure-agree": {"secure_signature": BYTES},
    "secure-unmask": {"secure_seed": BYTES, "secure_shares": BYTES, "secure_shares_of": NUMBERS},
}  # fmt: skip
"""The parts of the answers to questions that always have the same."""
METRICS: Mapping[str, Rule] = {"samples": SOME, "losses": NUMBER}


def check_fields(record: Record, rules: Mapping[str, Rule]) -> None:
    """Raise ``InputError`` with the name of the first part that is missing or has another type."""
    for name, (words, holds) in rules.items():
        if name not in record:
            raise InputError(f"{name!r} is missing")
        if not holds(record[name]):
            raise InputError(f"{name!r} must be {words}, got {_told(record[name])}")


def check_answer(task: Task, more: Record) -> None:
    """Raise ``InputError`` unless ``more`` has the parts that the task asks for."""
    check_fields(more, _rules(task, more))
    if (
        task.kind == "train"
        and "key" in task.more
        and np.shape(more["slopes"]) != np.shape(more["changes"])
    ):
        raise InputError("'slopes' and 'changes' must be of one length")


def _rules(task: Task, more: Record) -> Mapping[str, Rule]:
    asked = task.more
    if task.kind == "hello":
        table = more.get("form") == "table"
        return {**HELLO, **(TABLE if table else {}), **(MOMENTS if asked.get("moments") else {})}
    if task.kind in ANSWERS:
        return ANSWERS[task.kind]
    if task.kind == "secure-input":
        return {"secure_beyond": LIST} if "secure_beyond" in more else MASKED
    if task.kind == "metrics":
        return {**dict.fromkeys(more, NUMBER), **METRICS} if more else {}
    if task.kind == "curvature":
        return {"product": _shaped(task.x.shape)}
    if task.kind == "below":
        return {"below": _shaped(task.x.shape, "iu")}
    if task.kind == "columns":
        part = _shaped((int(asked["features"]),))
        return {"mean": part, "squares": part, "filled": part, "weight": POSITIVE, "sparse": COUNT}
    rules: dict[str, Rule] = dict(PRODUCTS) if "key" in asked else {}
    for word in str(asked.get("wants", "")).split():
        rules |= WANTED.get(word, {})
    if asked.get("work") != PACKED:
        rules |= {name: _shaped(task.x.shape) for name in ("gradient", "rising") if name in rules}
    return rules


def _shaped(shape: tuple[int, ...], kinds: str = "f") -> Rule:
    def holds(value: Any) -> bool:
        return _array(value, kinds) and value.shape == shape

    return f"an array of shape {shape}", holds


def _told(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return shown(value)
