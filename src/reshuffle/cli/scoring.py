"""Scores predictions whose target is known: ``reshuffle predict --score``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.cli.common import counted
from reshuffle.datasets.chunks import Values, lacking
from reshuffle.datasets.columns import number_name
from reshuffle.datasets.numbers import spelled
from reshuffle.datasets.reading import Part
from reshuffle.datasets.rows_encoding import Encoding
from reshuffle.errors import InputError
from reshuffle.estimators.linear import Linear
from reshuffle.report.held_out import HeldOut, scored, shift_of

FITTED = "If the model was fitted to some of these rows, it does better on them than on new ones."


class Scores:
    """Collects targets and predictions part by part: 16 bytes per row, and its probabilities."""

    def __init__(self, model: Linear, encoding: Encoding) -> None:
        self.model, self.target = model, encoding.target
        self.columns = (self.target,) if self.target else ()
        self.missing = frozenset(encoding.missing)
        self.unknown = 0
        """Rows without a target, which are predicted and not scored."""
        self._found: dict[str, list[AnyArray]] = {}

    def add(
        self,
        part: Part,
        predicted: AnyArray,
        probabilities: AnyArray | None,
        known_parts: Mapping[str, AnyArray],
    ) -> None:
        """Rows with their predictions."""
        if self.columns:
            true, known = self._targets(part.aside[self.target])
        elif part.y is not None:
            true, known = self._as_classes(np.asarray(part.y)), np.ones(len(part.y), dtype=bool)
        else:
            raise InputError("--score needs targets: the file holds nothing but the matrix")
        self.unknown += int(np.count_nonzero(~known))
        arrays = {
            "y": true, "predicted": predicted, "proba": probabilities, "shift": shift_of(known_parts)
        }  # fmt: skip
        for name, array in arrays.items():
            if array is not None:
                self._found.setdefault(name, []).append(array[known])

    def _targets(self, values: Values) -> tuple[AnyArray, NDArray[np.bool_]]:
        """The targets in the form of the model's classes or numbers, and a mask of the rows that have one."""
        known = ~lacking(values, self.missing)
        if isinstance(values, np.ndarray):
            return self._as_classes(values), known
        if hasattr(self.model, "classes_") and self.model.classes_.dtype.kind not in "iuf":
            return np.array(["" if t is None else t for t in values], dtype=object), known
        numbers, wrong = spelled(values, ~known)
        if wrong:
            raise InputError(
                f"--score: column {self.target!r} must hold numbers, got {values[wrong[0]]!r}"
            )
        return numbers, known

    def _as_classes(self, numbers: AnyArray) -> AnyArray:
        """Numbers as texts in the notation of the model's classes, if these are texts."""
        classes = getattr(self.model, "classes_", None)
        if classes is None or classes.dtype.kind in "iuf":
            return numbers
        return np.array(["" if v != v else number_name(v) for v in numbers.tolist()], dtype=object)

    def held(self) -> HeldOut | None:
        """The scores and those of a constant prediction; None if no target is known."""
        found = {name: np.concatenate(parts) for name, parts in self._found.items()}
        if not found or not found["y"].size:
            return None
        classes = getattr(self.model, "classes_", None)
        if classes is not None:
            known = set(classes.tolist())
            strange = [c for c in found["y"].tolist() if c not in known]
            if strange:
                raise InputError(
                    f"--score: the target holds {strange[0]!r}, which is no class of the model; its classes are "
                    f"{', '.join(map(str, classes))}"
                )
        return scored(self.model, proba=found.pop("proba", None), trained_on=found["y"], **found)

    def document(self) -> dict[str, object]:
        """The scores as a JSON object, for programs."""
        held = self.held()
        if held is None:
            return {"rows": 0, "without_target": self.unknown}
        found = {"rows": held.rows, "without_target": self.unknown} | held.scores
        return found | {"constant": held.constant}

    def text(self) -> str:
        """The scores as lines for people: the model beside the best constant for these rows."""
        held = self.held()
        rest = counted(self.unknown, "row has no target and is", "rows have no target and are")
        without = f" ({rest} not scored)" if self.unknown else ""
        if held is None:
            return f"No row has a target, so nothing can be scored ({self.unknown:,} rows)."
        scores = [
            f"  {name:<26}{value:>10.4g}  (best constant: {held.constant[name]:.4g})"
            for name, value in held.scores.items()
        ]
        head = f"Quality on {counted(held.rows, 'row', 'rows')}{without}:"
        return "\n".join([head, *scores, FITTED])
