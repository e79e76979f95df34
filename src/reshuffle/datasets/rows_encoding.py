"""The encoding of a file that holds a matrix, as part of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse as sp

from reshuffle.datasets.encoding import Note, TableEncoding
from reshuffle.errors import InputError


@dataclass(frozen=True)
class RowsEncoding:
    """Rows of ``features`` numbers; column 0 has the index ``first`` in a LIBSVM file. No column has a name."""

    features: int
    first: int = 0
    target: ClassVar[str] = ""
    missing: ClassVar[tuple[str, ...]] = ()

    @property
    def feature_names(self) -> list[str]:
        return [f"feature {j}" for j in range(self.first, self.first + self.features)]

    def rows(self, X: sp.csr_matrix, note: Note, where: str) -> sp.csr_matrix:
        """Convert rows whose column j has the index j into the columns of the model."""
        last = self.first + self.features
        if self.first and X[:, : self.first].nnz:
            raise InputError(
                f"{where} has the feature index 0; the file that the model was fitted on begins with 1"
            )
        if X.shape[1] > last and X[:, last:].nnz:
            note(
                f"{where} has the feature index {X.shape[1] - 1}; the model knows those up to {last - 1} and passes over "
                "the others"
            )
        wide = X[:, self.first : last]
        return sp.csr_matrix((wide.data, wide.indices, wide.indptr), (X.shape[0], self.features))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "rows", "features": self.features, "first": self.first}


Encoding = TableEncoding | RowsEncoding


def encoding_of(about: Mapping[str, Any]) -> Encoding:
    """The encoding that ``to_json`` wrote; anything else raises ``ValueError``, ``KeyError`` or ``TypeError``."""
    if about["kind"] == "table":
        return TableEncoding.from_json(about)
    if about["kind"] == "rows" and about["first"] in (0, 1):
        return RowsEncoding(int(about["features"]), int(about["first"]))
    raise ValueError("its data have a form that is not known")
