"""What a run leaves behind: a trace of equal-length columns, and a result that can be saved."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.content import Fingerprint
from reshuffle.errors import InputError
from reshuffle.files import write_atomically

Array = NDArray[np.float64]
FORMAT = 2  # of saved results


class Trace(Mapping[str, Array]):
    """Columns of a run, one row per evaluation; the first row is the start.

    ``epoch``, ``objective`` (P(x)), ``gradients`` (evaluations of some ∇f_i), ``prox_evals``,
    ``seconds`` (without evaluation and compilation), ``step`` (γ of the last epoch) and
    ``gap`` or ``relative_mapping``, what ``tol`` is compared with (NaN where it was not checked).
    ``header`` says what the method chose by itself.

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
        """Add one row."""
        if self._columns and set(row) != set(self._columns):
            raise InputError(f"a row of this trace has {list(self._columns)}, got {list(row)}")
        for name, value in row.items():
            self._columns.setdefault(name, []).append(float(value))

    def amend(self, **values: float) -> None:
        """Correct entries of the latest row."""
        for name, value in values.items():
            self._columns[name][-1] = float(value)

    def last(self) -> dict[str, float]:
        """The latest row."""
        return {name: column[-1] for name, column in self._columns.items()}

    def rows(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def copy(self) -> Trace:
        return Trace(self._columns, self.header)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the columns as a CSV file."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(self._columns)
        writer.writerows(zip(*self._columns.values(), strict=True))
        write_atomically(path, text.getvalue().encode())

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


@dataclass(frozen=True, eq=False)
class Result:
    """Where a run ended.

    ``x`` is the last iterate, ``converged`` whether ``tol`` was reached, ``message`` why the run
    stopped, ``epoch`` how many epochs it did. ``state`` and ``config`` are what a resumed run needs.

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
    def digest(self) -> str:
        """sha256 of the model's bytes: equal models have equal digests."""
        return hashlib.sha256(np.ascontiguousarray(self.x).tobytes()).hexdigest()

    def summary(self) -> str:
        """What was done, in some ten lines.

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
        first, last = ({name: column[k] for name, column in self.trace.items()} for k in (0, -1))
        header, newton = self.trace.header, int(last.get("newton", 0))
        phases = (
            f"{self.epoch - newton} epochs, {newton} Newton steps" if newton else f"{self.epoch}"
        )
        passes = last["gradients"] / float(header.get("samples", "nan"))
        measures = {name: last[name] for name in ("gap", "relative_mapping") if name in last}
        certificate = header.get("certificate", ", ".join(measures))
        lines = {
            "problem": header.get("problem", "?"),
            "solver": f"{self.config.get('solver', '?')}, seed {self.config.get('seed', '?')}",
            "ended": f"{'converged: ' if self.converged else ''}{self.message}",
            "objective": f"{first['objective']:.5g} at the start, {last['objective']:.10g} now",
            "coefficients": f"{np.count_nonzero(self.x)} of {self.x.size} are not zero",
            "epochs": phases,
            "work": f"{passes:.1f} passes over the data, {last['prox_evals']:.0f} prox evaluations",
            "certificate": f"{certificate}: {', '.join(f'{v:.3g}' for v in measures.values())}",
            "step": f"{last['step']:.4g}",
            "seconds": f"{last['seconds']:.4g} (without evaluation and compilation)",
        }
        return "\n".join(f"{name:<12} {text}" for name, text in lines.items())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .npz file (arrays and JSON, no pickle), whole or not at all."""
        about = {
            "format": FORMAT,
            "converged": self.converged,
            "message": self.message,
            "epoch": self.epoch,
            "config": self.config,
            "fingerprint": dict(self.fingerprint),
            "header": self.trace.header,
        }
        arrays: dict[str, Any] = {"about": np.array(json.dumps(about)), "x": self.x}
        arrays |= {f"trace/{name}": column for name, column in self.trace.items()}
        arrays |= {f"state/{name}": value for name, value in self.state.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read what ``save`` wrote."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            about = json.loads(str(arrays["about"]))
            if about["format"] not in (1, FORMAT):  # 1, of version 0.1.0, has no fingerprint
                raise InputError(f"{path} has result format {about['format']}, this is {FORMAT}")
            return cls(
                x=arrays["x"],
                trace=Trace(_under("trace/", arrays), about["header"]),
                converged=bool(about["converged"]),
                message=str(about["message"]),
                epoch=int(about["epoch"]),
                state=_under("state/", arrays),
                config=dict(about["config"]),
                fingerprint=Fingerprint(dict(about.get("fingerprint", {}))),
            )
        except FileNotFoundError:
            raise
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not a saved result, or is damaged: {error}") from None

    def snapshot(self) -> Result:
        """A copy that later epochs do not change."""
        state = {name: value.copy() for name, value in self.state.items()}
        return replace(self, x=self.x.copy(), trace=self.trace.copy(), state=state)


def _under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
