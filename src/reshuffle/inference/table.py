"""Estimates with their standard errors, as a table with names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.html_tables import html_table
from reshuffle.validation import as_array, check_finite

if TYPE_CHECKING:
    from scipy.stats.distributions import rv_frozen

COLUMNS = ("estimate", "std_error", "statistic", "p_value", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Inference:
    """Estimates, standard errors, statistics, p-values and intervals, one of each per name.

    The statistic is estimate/std_error. If ``df`` is finite it is compared with Student's distribution with that many degrees of
    freedom, otherwise with the normal distribution; p-values are two-sided, for the hypothesis that the coefficient is zero.
    """

    names: list[str]
    estimate: Array
    covariance: Array
    level: float
    """The probability with which an interval covers its target."""
    df: float
    method: str
    """How the standard errors were found."""
    about: str
    """The target of the intervals, in words."""

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def std_error(self) -> Array:
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def statistic(self) -> Array:
        """z, or t if ``df`` is finite."""
        return np.asarray(self.estimate / self.std_error)

    @property
    def p_value(self) -> Array:
        return np.asarray(2.0 * self._distribution.sf(np.abs(self.statistic)))

    @property
    def lower(self) -> Array:
        return np.asarray(self.estimate - self._width)

    @property
    def upper(self) -> Array:
        return np.asarray(self.estimate + self._width)

    def conf_int(self, level: float | None = None) -> Array:
        """Lower and upper ends of the intervals, one row per name."""
        given = self if level is None else replace(self, level=level)
        return np.column_stack([given.lower, given.upper])

    @property
    def _distribution(self) -> rv_frozen:
        # This import takes half a second of CPU time, which the process of a site does not need.
        from scipy import stats

        return stats.t(self.df) if np.isfinite(self.df) else stats.norm()

    @property
    def _width(self) -> Array:
        return np.asarray(self._distribution.ppf(0.5 + self.level / 2.0) * self.std_error)

    def to_dict(self) -> dict[str, dict[str, float]]:
        columns = [getattr(self, name) for name in COLUMNS]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return {
            name: dict(zip(COLUMNS, row, strict=True))
            for name, row in zip(self.names, rows, strict=True)
        }

    def to_frame(self) -> object:
        """A DataFrame with a row per name; needs pandas."""
        from pandas import DataFrame

        return DataFrame({name: getattr(self, name) for name in COLUMNS}, index=self.names)

    def transformed(self, matrix: object, names: Sequence[str]) -> Inference:
        """The table for linear combinations of the coefficients: one row of the matrix and one name for each."""
        rows = as_array("matrix", matrix)
        if rows.shape != (len(names), len(self)) or rows.dtype.kind not in "fiub":
            raise InputError(
                f"matrix must have a row of {len(self)} numbers for each of the {len(names)} names, got shape {rows.shape}, "
                f"dtype {rows.dtype}"
            )
        check_finite("matrix", rows)
        found = rows @ self.covariance @ rows.T
        return replace(self, names=list(names), estimate=rows @ self.estimate, covariance=found)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        width = max([len(name) for name in self.names], default=0)
        letter = "t" if np.isfinite(self.df) else "z"
        share = f"{100 * self.level:g} %"
        head = f"{'':<{width}} {'estimate':>11} {'std error':>11} {letter:>8} {'p':>9}   {share} interval"
        table = self.to_dict()
        lines = [
            f"{name:<{width}} {row['estimate']:>11.5g} {row['std_error']:>11.4g} {row['statistic']:>8.3f} "
            f"{row['p_value']:>9.3g}   {row['lower']:.5g} … {row['upper']:.5g}"
            for name, row in table.items()
        ]
        return "\n".join([head, *lines, f"errors: {self.method}", f"about: {self.about}"])

    def _repr_html_(self) -> str:
        rows = [
            (name, *(f"{value:.5g}" for value in row.values()))
            for name, row in self.to_dict().items()
        ]
        note = f"{100 * self.level:g} % intervals; {self.method}; about {self.about}"
        return html_table("Coefficients", ("", *COLUMNS), rows, note)


def check_level(level: object) -> None:
    """Check that a level is a probability."""
    if not (isinstance(level, (float, np.floating)) and 0.0 < level < 1.0):
        raise InputError(f"level must lie between 0 and 1, such as 0.95, got {shown(level)}")
