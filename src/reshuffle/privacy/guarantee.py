"""The guarantee of a private run, as a record in results and model files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Self

from reshuffle.errors import InputError, shown

NEIGHBOURS = {
    "client": "zero-out: two federations of equal size are neighbours if one client's change of the model is zero in one "
    "of them",
    "sample": "zero-out: two data sets of equal size are neighbours if one sample's gradients are zero in one of them",
}
"""The relation under which ε holds. For replacing a unit by another one, ε doubles and δ becomes (1 + e^ε)·δ."""


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ) of all models of a run together, with the neighbouring relation and the assumptions."""

    epsilon: float
    delta: float
    unit: str
    """The protected unit: "client" or "sample"."""
    neighbours: str
    clip: float
    noise: float
    """z, the noise multiplier."""
    releases: int
    """The number of noised sums to which one unit contributed."""
    account: str
    """How ε was computed."""
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"ε = {self.epsilon:.4g} at δ = {self.delta:.3g} for each {self.unit} ({self.releases} releases with "
            f"noise {self.noise:.4g}·C, C = {self.clip:.4g}; {self.account})"
        )

    def to_text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The guarantee of a header."""
        try:
            return cls.from_record(json.loads(text))
        except (ValueError, TypeError):
            raise InputError(
                f"privacy of a result must be a guarantee, got {shown(text)}"
            ) from None

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The guarantee of a record made by ``asdict``; raises ``ValueError`` if it is not one."""
        names = {field.name for field in fields(cls)}
        if not isinstance(record, dict) or set(record) != names:
            raise ValueError("its record of privacy is not a guarantee")
        epsilon, delta = float(record["epsilon"]), float(record["delta"])
        if not (epsilon >= 0 and 0 < delta < 1):
            raise ValueError("its ε or δ is not a valid number")
        return cls(
            epsilon, delta, str(record["unit"]), str(record["neighbours"]), float(record["clip"]),
            float(record["noise"]), int(record["releases"]), str(record["account"]),
            tuple(map(str, record["assumed"])),
        )  # fmt: skip
