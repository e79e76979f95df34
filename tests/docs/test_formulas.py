"""Formulas of docstrings on the pages of the site: each is translated, and none loses a sign."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import reshuffle as rs


def extension() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "_extensions" / "formulas.py"
    spec = importlib.util.spec_from_file_location("formulas", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formulas = extension()
FORMULAS = [*rs.losses.LOSSES, *rs.penalties.PENALTIES]


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        (
            "l1·‖x‖₁ + (l2/2)‖x‖²",
            r"\mathrm{l1}\cdot \Vert x\Vert _{1} + (\mathrm{l2}/2)\Vert x\Vert ^{2}",
        ),
        ("Σ_{j<n} √(εμ)/σ_rad²", r"\sum _{j<n} \sqrt{\varepsilon \mu}/\sigma _{\mathrm{rad}}^{2}"),
        ("x̂_m - x*", r"\hat{x}_{m} - x^{*}"),
        ("σ*²/L_max", r"\sigma _{*}^{2}/L_{\max }"),
        ("log(1 + exp(-yz))", r"\log (1 + \exp (-yz))"),
    ],
)
def test_a_formula_is_translated(text: str, latex: str) -> None:
    assert formulas.latex(text) == latex


def test_prose_and_literals_stay_as_they_are() -> None:
    line = "With ``a = b``, as ‖x‖ ≤ radius in `docs` or a file (docs/x.md), a loss."
    assert formulas.sentence(line) == line.replace(
        "‖x‖ ≤ radius", r":math:`\Vert x\Vert \le \mathrm{radius}`"
    )


@pytest.mark.parametrize("kind", FORMULAS, ids=lambda kind: kind.__name__)
def test_the_objective_of_every_loss_and_penalty_is_set_as_mathematics(kind: type) -> None:
    first = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    found = formulas.sentence(first)
    assert found.startswith((r":math:`\psi (x) =", r":math:`l(z, y) ="))
    left = re.sub(":math:`.*?`|``.*?``", "", found)
    assert not set(left) & set(formulas.SIGNS), f"{left!r} has signs outside of formulas"
