"""Reads penalties and lists from the texts of a run configuration, since Flower's values are only numbers, texts and switches."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from reshuffle import penalties
from reshuffle.errors import InputError, shown
from reshuffle.penalties import Penalty

Made = TypeVar("Made")
NAMES: dict[str, Callable[..., Penalty]] = {kind.__name__: kind for kind in penalties.PENALTIES}
EXAMPLES = {"penalty": "ElasticNet(l1=0.001, l2=0.01)", "transport": "TopK(0.1)"}
"""An example of each setting that is written as a call."""


def penalty_of(text: str) -> Penalty:
    """A penalty of this package, written as a call with plain values.

    >>> penalty_of("ElasticNet(l1=0.001, l2=0.01)")
    ElasticNet(l1=0.001, l2=0.01)
    """
    return call_of("penalty", text, NAMES)


def call_of(key: str, text: str, makers: Mapping[str, Callable[..., Made]]) -> Made:
    """The object that a call of one of these makers with plain values makes; ``key`` names the setting in messages.

    >>> call_of("penalty", "L1(0.1)", NAMES)
    L1(l1=0.1)
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("it is not a call")
        name = call.func.id
        given = [ast.literal_eval(value) for value in call.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{key} must be written like {EXAMPLES[key]!r}, with plain values, got {shown(text)}: {error}"
        ) from None
    if name not in makers:
        raise InputError(f"{key}: there is no {name}; there are {', '.join(sorted(makers))}")
    try:
        return makers[name](*given, **named)
    except TypeError as error:
        raise InputError(f"{key}: {shown(text)} cannot be made: {error}") from None


def list_of(name: str, text: str) -> tuple[str, ...]:
    """Names separated by commas, or a JSON list, where a name contains a comma.

    >>> list_of("drop", "nurse, ward"), list_of("drop", '["a, b"]'), list_of("drop", "")
    (('nurse', 'ward'), ('a, b',), ())
    """
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{name} is not a list in JSON: {error}") from None
        if not all(isinstance(one, str) for one in found):
            raise InputError(f"{name} must hold texts, got {shown(text)}")
        return tuple(found)
    return tuple(one.strip() for one in text.split(",") if one.strip())


def text_of(names: Sequence[str]) -> str:
    """A list as ``list_of`` reads it.

    >>> text_of(["nurse", "ward"]), text_of(["a, b"])
    ('nurse, ward', '["a, b"]')
    """
    plain = all(name and name == name.strip() and "," not in name for name in names)
    if plain and not (names and names[0].startswith("[")):
        return ", ".join(names)
    return json.dumps(list(names), ensure_ascii=False)
