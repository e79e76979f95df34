"""The record of a run: a trace of equal-length columns, and a result that can be saved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.digests import Fingerprint
from reshuffle.errors import InputError, shown
from reshuffle.files import Location, write_csv
from reshuffle.html_tables import ends, html_table, number
from reshuffle.npz_archive import Archive, read_archive, write_archive
from reshuffle.privacy.guarantee import Guarantee

INTERRUPTED = "interrupted after"
"""The beginning of the message of a run that Ctrl-C ended."""
STATIONARY = "stationary:"
"""The beginning of the message of a run that the gradient mapping ended: nothing is proved about P(x) - P*."""
PHASES = {
    "newton": "Newton steps",
    "newton_kernel": "Newton steps by the kernel of the rows",
    "newton_columns": "Newton steps by coordinate descent",
    "newton_cg": "Newton-CG steps",
    "lbfgs": "L-BFGS iterations",
    "accelerated": "accelerated steps",
    "shuffled": "shuffled epochs",
}
"""The words for the steps of a phase; for other phases the name of the phase is used."""
KIND, VERSION = "saved result", 3
TRACE, STATE = "trace/", "state/"
"""The prefixes, in a file, of the names of trace columns and of state arrays."""
MOST_EPOCHS = 2**53
"""The floats of a trace cannot count epochs beyond this number."""


class Trace(Mapping[str, Array]):
    """Columns of a run, one row per evaluation; the first row is the start.

    ``epoch``, ``objective`` (P(x)), ``gradients`` (evaluations of some ∇f_i), ``prox_evals``,
    ``seconds`` (without evaluation and compilation), ``step`` (γ of the last epoch) and
    ``gap`` or ``relative_mapping``, with which ``tol`` is compared (NaN if it was not checked).
    ``header`` holds the choices that the method made by itself.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.1))
    >>> trace = rs.ProxRR(epochs=3).solve(problem).trace
    >>> trace["epoch"], trace["prox_evals"]
    (array([0., 1., 2., 3.]), array([0., 1., 2., 3.]))
    """

    def __init__(
        self, columns: Mapping[str, Any] | None = None, header: Mapping[str, str] | None = None
    ) -> None:
        self.header = dict(header or {})
        self._columns = {name: list(map(float, column)) for name, column in (columns or {}).items()}
        if len({len(column) for column in self._columns.values()}) > 1:
            raise InputError("the columns of a trace must have equal lengths")

    def append(self, row: Mapping[str, float]) -> None:
        columns = self._columns
        if not columns:
            columns.update((name, []) for name in row)
        elif row.keys() != columns.keys():
            raise InputError(f"a row of this trace has {list(columns)}, got {list(row)}")
        for name, value in row.items():
            columns[name].append(float(value))

    def amend(self, **values: float) -> None:
        """Correct entries of the latest row."""
        for name, value in values.items():
            self._columns[name][-1] = float(value)

    def latest(self, name: str) -> float:
        """The entry of this column in the latest row."""
        return self._columns[name][-1]

    def last(self) -> dict[str, float]:
        """The latest row."""
        return {name: column[-1] for name, column in self._columns.items()}

    def rows(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def copy(self) -> Trace:
        return Trace(self._columns, self.header)

    def to_csv(self, path: Location) -> None:
        write_csv(path, self._columns, zip(*self._columns.values(), strict=True))

    def __getitem__(self, name: str) -> Array:
        if name not in self._columns:
            raise KeyError(f"{name!r}; this trace has {', '.join(self._columns)}")
        return np.array(self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<Trace: {self.rows()} rows of {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        shown_rows, note = ends(self.rows())
        columns = list(self._columns.values())
        rows = [[number(column[k]) for column in columns] for k in shown_rows]
        return html_table(f"Trace of {self.rows():,} rows", list(self._columns), rows, note)


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run.

    ``x`` is the last iterate, ``converged`` whether P(x) - P* ≤ tol·f(0) is proved, and ``stationary`` whether the gradient
    mapping, which proves no distance, reached ``tol`` because there is no bound. ``message`` says why the run
    stopped and what was measured, ``epoch`` how many epochs it did. ``state`` and ``config`` are what a resumed run needs.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.1))
    >>> result = rs.FISTA(tol=1e-6).solve(problem)
    >>> result.converged, result.x.shape, "gap" in result.trace
    (True, (30,), True)
    """

    x: Array
    trace: Trace
    converged: bool
    message: str
    epoch: int
    state: dict[str, Array] = field(repr=False)
    config: dict[str, str] = field(repr=False)
    fingerprint: Fingerprint = field(repr=False, default_factory=lambda: Fingerprint({}))
    """Digests of the problem's parts; empty in results of version 0.1.0, which cannot be resumed."""

    @property
    def stationary(self) -> bool:
        """Whether the gradient mapping reached ``tol``, for a loss and penalty without a bound on P(x) - P*."""
        return self.message.startswith(STATIONARY)

    @property
    def reached(self) -> bool:
        """Whether ``tol`` was reached, in the measure that the trace records."""
        return self.converged or self.stationary

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM ended the run."""
        return self.message.startswith(INTERRUPTED)

    @property
    def privacy(self) -> Guarantee | None:
        """(ε, δ) of all models of the run, the neighbouring relation and the assumptions; None for a run without privacy."""
        text = self.trace.header.get("privacy")
        return None if text is None else Guarantee.from_text(text)

    @property
    def digest(self) -> str:
        """sha256 of the model's bytes: equal models have equal digests."""
        return hashlib.sha256(np.ascontiguousarray(self.x).tobytes()).hexdigest()

    def summary(self) -> str:
        """A summary of the run in about ten lines.

        Examples
        --------
        >>> import reshuffle as rs
        >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L1(0.01))
        >>> print(rs.ExactProxRR().solve(problem).summary())  # doctest: +ELLIPSIS
        problem      <Problem: 569 x 30 dense float64, loss=Logistic(), penalty=L1(l1=0.01), ...>
        solver       ExactProxRR, seed 0
        ended        converged: gap = ... ≤ tol
        objective    0.69315 at the start, 0.164246... now
        coefficients 11 of 30 are not zero
        ...
        """
        last, header = self.trace.last(), self.trace.header
        passes = last["gradients"] / float(header.get("samples", "nan"))
        measures = {name: last[name] for name in ("gap", "relative_mapping") if name in last}
        certificate = header.get("certificate", ", ".join(measures))
        lines = {
            "problem": header.get("problem", "?"),
            "solver": f"{self.config.get('solver', '?')}, seed {self.config.get('seed', '?')}",
            "ended": f"{'converged: ' if self.converged else ''}{self.message}",
            "objective": f"{self.trace['objective'][0]:.5g} at the start, {last['objective']:.10g} now",
            "coefficients": f"{np.count_nonzero(self.x)} of {self.x.size} are not zero",
            "epochs": f"{self.epoch}",
            "phases": self._phases(last),
            "work": f"{passes:.1f} passes over the data, {last['prox_evals']:.0f} prox evaluations",
            "certificate": f"{certificate}: {', '.join(f'{v:.3g}' for v in measures.values())}",
            "step": f"{last['step']:.4g}",
            "privacy": "" if self.privacy is None else str(self.privacy),
            "seconds": f"{last['seconds']:.4g} (without evaluation and compilation)",
        }
        return "\n".join(f"{name:<12} {text}" for name, text in lines.items() if text)

    def _phases(self, last: dict[str, float]) -> str:
        """The number of steps of each phase, for methods that have phases."""
        names = [name for name in self.trace.header.get("phases", "").split(", ") if name in last]
        made = {PHASES.get(name, f"{name} steps"): int(last[name]) for name in names}
        return ", ".join(f"{count} {words}" for words, count in made.items() if count)

    def _repr_html_(self) -> str:
        lines = [line.split(maxsplit=1) for line in self.summary().splitlines()]
        rows = [(name, text[0] if text else "") for name, *text in lines]
        return html_table("Result: " + self.message, (), rows)

    def save(self, path: Location) -> None:
        """Write to a .npz file (arrays and JSON, no pickle), completely or not at all."""
        about = {
            "converged": self.converged,
            "message": self.message,
            "epoch": self.epoch,
            "config": self.config,
            "fingerprint": dict(self.fingerprint),
            "header": self.trace.header,
        }
        arrays = {"x": self.x}
        arrays |= {f"{TRACE}{name}": column for name, column in self.trace.items()}
        arrays |= {f"{STATE}{name}": value for name, value in self.state.items()}
        write_archive(path, KIND, VERSION, about, arrays)

    @classmethod
    def load(cls, path: Location) -> Result:
        """Read what ``save`` wrote; any other file, or a damaged one, raises ``InputError``."""
        with opened_result(path) as stored:
            return result_of(stored)

    def snapshot(self) -> Result:
        """A copy that later epochs do not change."""
        state = {name: value.copy() for name, value in self.state.items()}
        return replace(self, x=self.x.copy(), trace=self.trace.copy(), state=state)


def opened_result(path: Location) -> AbstractContextManager[Archive]:
    """The file of a result, open; version 1 has no fingerprint, versions 1 and 2 have no checksum."""
    return read_archive(path, KIND, 1, 2, VERSION)


def result_of(stored: Archive) -> Result:
    """The result in an open file; raises ``ValueError`` or the like if there is none."""
    about, arrays = stored.about, stored.arrays()
    epoch, x = about["epoch"], arrays["x"]
    if not (isinstance(epoch, int) and 0 <= epoch < MOST_EPOCHS):
        raise ValueError(f"its epoch is {shown(epoch)}")
    if x.dtype != np.float64:
        raise ValueError(f"x has dtype {x.dtype}")
    columns = under(TRACE, arrays)
    if any(c.ndim != 1 or c.dtype != np.float64 or not c.size for c in columns.values()):
        raise ValueError("a column of its trace is no column of numbers")
    return Result(
        x=x,
        trace=Trace(columns, _texts(about["header"])),
        converged=bool(about["converged"]) and "gap" in columns,
        message=str(about["message"]),
        epoch=epoch,
        state=under(STATE, arrays),
        config=_texts(about["config"]),
        fingerprint=Fingerprint(_texts(about.get("fingerprint", {}))),
    )


T = TypeVar("T")


def under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    """The arrays whose names begin with this prefix, by the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in named.items() if k.startswith(prefix)}


def _texts(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise ValueError("what it says about the run is no list of texts")
    return given
