"""Rounds and bytes of federated methods to a relative accuracy (P - P*)/(P(0) - P*)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import reshuffle as rs
from benchmarks.federated_baselines import Scaffnew, Scaffold
from benchmarks.report import Finding
from reshuffle.datasets import load_libsvm
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.objective import Array

ACCURACIES = (1e-2, 1e-4, 1e-6)
OURS = "ExactFedRR"
SECOND = "FedNewton"
ANDERSON = "+ Anderson"  # with the server of ExactFedRR
FIRST_ORDER = (OURS, "Scaffnew", "SCAFFOLD", "FedRR", "LocalSGD")
METHODS = (*FIRST_ORDER, f"Scaffnew {ANDERSON}", f"SCAFFOLD {ANDERSON}", SECOND)
MEMORY = 10  # rounds of the accelerated baselines, as of ExactFedRR
SECOND_BAR = 9  # rounds of FedNewton to the last accuracy, on every setting
CAP = 200  # rounds
PATIENCE = 100  # rounds after which a gap that fell by less than 5% has stalled
MOST_STEPS = 400  # of Scaffnew between two rounds, each a pass over the data


class Setting(NamedTuple):
    data: str
    by: str
    clients: int

    @property
    def title(self) -> str:
        split = {"label": "by label", "quantity": "by quantity"}.get(self.by, self.by)
        return f"{self.data}, {split}, M = {self.clients}"


@dataclass(frozen=True, eq=False)
class Run:
    """One method with one choice of its parameters."""

    method: str
    variant: str
    gaps: Array
    bytes: Array
    passes: Array

    def reached(self, accuracy: float) -> int | None:
        """The first round with this accuracy."""
        found = np.flatnonzero(self.gaps <= accuracy)
        return int(found[0]) if found.size else None


def rounds(quick: bool, out: Path | None) -> list[Finding]:
    """Rounds to 1e-2, 1e-4, 1e-6, the others at the best of a grid for each accuracy (one seed)."""
    sets, counts = (["mushrooms"], [10]) if quick else (["mushrooms", "a9a"], [10, 100])
    settings = [Setting(data, by, M) for by in ("label", "iid") for data in sets for M in counts]
    runs = {setting: _runs(setting, quick) for setting in settings}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        _write(runs, out / "rounds_to_accuracy.csv")
        draw(runs, out / "rounds_to_accuracy.png")
    most = _common(quick)["rounds"]
    return [found for setting in settings for found in _findings(setting, runs[setting], most)]


def elsewhere(quick: bool, out: Path | None) -> list[Finding]:
    """The same on sets and splits that no default was chosen on, 20 clients."""
    sets = ["breast cancer"] if quick else ["breast cancer", "digits", "a1a"]
    splits = ["dirichlet 0.1"] if quick else ["dirichlet 0.1", "dirichlet 0.5", "quantity"]
    settings = [Setting(data, by, 20) for data in sets for by in splits]
    runs = {setting: _runs(setting, quick) for setting in settings}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        _write(runs, out / "rounds_elsewhere.csv")
    most = _common(quick)["rounds"]
    return [found for setting in settings for found in _findings(setting, runs[setting], most)]


def _digits() -> tuple[Array, Array]:
    """Even against odd."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    signs: Array = np.where(y % 2, 1.0, -1.0)
    return X / 16.0, signs


LOADERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "breast cancer": rs.datasets.breast_cancer,
    "digits": _digits,
}


# --- runs ----------------------------------------------------------------------------------------


def _runs(setting: Setting, quick: bool) -> list[Run]:
    """Logistic loss, λ2 = L_f/N inside the f_i, no ℓ1, from zero."""
    X, y = LOADERS[setting.data]() if setting.data in LOADERS else load_libsvm(setting.data)
    plain = rs.Problem(X, y)
    pooled = rs.Problem(X, y, ridge=plain.smoothness.L_f / plain.n)
    minimum = pooled.objective(rs.theory.solve(pooled))
    by, _, alpha = setting.by.partition(" ")
    clients = rs.federated.split(pooled, setting.clients, by, seed=0, alpha=float(alpha or 0.5))
    start = clients.objective(np.zeros(clients.shape)) - minimum

    def run(method: str, variant: str, solver: FederatedSolver) -> Run:
        return _run(method, variant, solver, clients, minimum, start)

    runs = [run(*contestant) for contestant in _contestants(clients, quick)]
    for method, memory in (("Scaffnew", 0), (f"Scaffnew {ANDERSON}", MEMORY)):
        before = (np.inf, 0)
        for variant, solver in _scaffnew(clients, quick, memory):
            runs.append(run(method, variant, solver))
            if _furthest(runs[-1]) > before:  # more local steps no longer help
                break
            before = _furthest(runs[-1])
    return runs


def _common(quick: bool) -> dict[str, Any]:
    return {"rounds": 60 if quick else CAP}


def _contestants(
    clients: rs.federated.Federation, quick: bool
) -> Iterable[tuple[str, str, FederatedSolver]]:
    common, single = _common(quick), clients.smoothness.L_max
    yield OURS, "default", rs.ExactFedRR(**common)
    yield SECOND, "default", rs.FedNewton(**common)
    yield "FedRR", "γ = 1/L_max", rs.FedRR(**common)
    yield "LocalSGD", "γ = 1/(L_max H)", rs.LocalSGD(**common)
    yield "Scaffnew", "p = √(μ/L), γ = 1/L", Scaffnew(**common)
    for c in (0.1, 1.0) if quick else (0.03, 0.1, 0.3, 1.0):
        yield "SCAFFOLD", f"γ = {c}/L_max", Scaffold(step=c / single, **common)
    full = max(client.smoothness.L_f for client in clients.clients)
    for steps in (10,) if quick else (3, 10, 30, 100):
        settings: dict[str, Any] = {"local_steps": steps, "step": 1.0 / full} | common
        for method, memory in (("SCAFFOLD", 0), (f"SCAFFOLD {ANDERSON}", MEMORY)):
            variant = f"{steps} full steps, γ = 1/L"
            yield method, variant, Scaffold(acceleration=memory, **settings)
    for c in (0.1,) if quick else (0.01, 0.1):
        yield "FedRR", f"γ = {c}/L_max", rs.FedRR(step=c / single, **common)
        yield "LocalSGD", f"γ = {c}/L_max", rs.LocalSGD(step=c / single, **common)
    decreasing = rs.steps.InverseTime(initial=1.0 / single)
    yield "FedRR", "γ = O(1/t)", rs.FedRR(step=decreasing, **common)
    yield "LocalSGD", "γ = O(1/t)", rs.LocalSGD(step=decreasing, **common)


def _scaffnew(
    clients: rs.federated.Federation, quick: bool, memory: int
) -> Iterator[tuple[str, Scaffnew]]:
    """From many rounds per step to few, for as long as whoever takes the runs does not stop."""
    full = max(client.smoothness.L_f for client in clients.clients)
    theory = float(np.sqrt(clients.strong_convexity / full))
    for share in (3.0, 1.0) if quick else (10.0, 3.0, 1.0, 1 / 3):
        name, p = f"p = {share:.2g}·√(μ/L), γ = 1.9/L", min(1.0, share * theory)
        if 1.0 / p <= MOST_STEPS:
            step = 1.9 / full
            yield name, Scaffnew(communication=p, step=step, acceleration=memory, **_common(quick))


def _run(
    method: str,
    variant: str,
    solver: FederatedSolver,
    clients: rs.federated.Federation,
    minimum: float,
    start: float,
) -> Run:
    """Until the last accuracy is reached, or no more comes of it."""

    def done(result: rs.Result) -> bool:
        gaps = result.trace["objective"] - minimum
        stalled = gaps.size > PATIENCE and gaps[-1] > 0.95 * gaps[-1 - PATIENCE]
        return bool(gaps[-1] <= ACCURACIES[-1] * start or stalled)

    try:
        trace = solver.solve(clients, callbacks=[done]).trace
    except rs.DivergenceError as error:
        trace = error.result.trace
    sent = trace["bytes_up"] + trace["bytes_down"]
    gaps = (trace["objective"] - minimum) / start
    return Run(method, variant, gaps, sent, trace["gradients"] / clients.n)


# --- what was found ------------------------------------------------------------------------------


def best(runs: list[Run], method: str, accuracy: float) -> tuple[float, Run | None]:
    """The least rounds of any of its variants; infinite where none gets there."""
    found = [(run.reached(accuracy), run) for run in runs if run.method == method]
    there = [(float(k), run) for k, run in found if k is not None]
    return min(there, key=lambda pair: pair[0]) if there else (np.inf, None)


def _findings(setting: Setting, runs: list[Run], most: int) -> Iterable[Finding]:
    for accuracy in ACCURACIES:
        least = {method: best(runs, method, accuracy) for method in METHODS}
        for method, (count, run) in least.items():
            what = f"{setting.title}, {accuracy:.0e}: {method}"
            detail = "not reached" if run is None else _detail(run, int(count))
            limit = SECOND_BAR if method == SECOND and accuracy == ACCURACIES[-1] else None
            yield Finding(what, count, "rounds", "at most", limit, detail)
        rival = min((m for m in METHODS if m not in (OURS, SECOND)), key=lambda m: least[m][0])
        other = least[rival][0]
        told = f"{rival}, {other:.0f} rounds" if other < np.inf else f"none within {most} rounds"
        bar = 0.5 if setting.by == "label" and accuracy < 1e-2 else None
        ratio = least[OURS][0] / min(other, most)
        what = f"{setting.title}, {accuracy:.0e}: {OURS} to the best other"
        yield Finding(what, ratio, "of the rounds", "at most", bar, told)


def _detail(run: Run, count: int) -> str:
    return f"{run.bytes[count] / 1e6:.2f} MB, {run.passes[count]:.0f} passes, {run.variant}"


def _write(runs: dict[Setting, list[Run]], path: Path) -> None:
    """Every run, also those that were not the best."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        columns = ["data", "split", "clients", "method", "variant", "lowest gap"]
        per = [f"{word} to {a:.0e}" for a in ACCURACIES for word in ("rounds", "bytes", "passes")]
        writer.writerow(columns + per)
        for setting, found in runs.items():
            for run in found:
                cells: list[object] = []
                for k in map(run.reached, ACCURACIES):
                    cells += ["", "", ""] if k is None else [k, run.bytes[k], run.passes[k]]
                writer.writerow(
                    [*setting, run.method, run.variant, f"{run.gaps.min():.3g}", *cells]
                )


def draw(runs: dict[Setting, list[Run]], path: Path) -> None:
    """The least gap so far against the rounds; of each method the variant that got furthest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from reshuffle.experiments.figures import STYLE
    from reshuffle.plotting import COLOURS, MARKERS

    rows = len({setting.by for setting in runs})
    across = len(runs) // rows
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(3.4 * max(across, 2), 2.9 * rows + 0.9), layout="constrained")
        grid = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
        for ax, (setting, found) in zip(grid.flat, runs.items(), strict=True):
            for k, method in enumerate(FIRST_ORDER):
                run = min((r for r in found if r.method == method), key=_furthest)
                every = max(5, min(run.gaps.size // 4, 50))
                look: Any = {"color": COLOURS[k], "marker": MARKERS[k], "mec": "white", "ms": 7}
                look |= {"markevery": (every * (k + 2) // 7, every), "zorder": 9 - k}
                gaps = np.minimum.accumulate(run.gaps)
                ax.plot(gaps, label=method, lw=2.4 if method == OURS else 1.6, **look)
            ax.set_title(setting.title, fontsize=12)
            ax.set_yscale("log")
            ax.set_ylim(ACCURACIES[-1], 1.5)
            ax.set_xlim(0, max(run.gaps.size for run in found) - 1)
            ax.xaxis.set_major_locator(MaxNLocator(4, prune="upper"))
        figure.supxlabel("communication rounds", fontsize=13)
        figure.supylabel("least (P(x) - P*) / (P(0) - P*) so far", fontsize=13)
        handles = grid[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=len(FIRST_ORDER), frameon=False)
        figure.savefig(path, dpi=150)


def _furthest(run: Run) -> tuple[float, int]:
    return max(float(run.gaps.min()), ACCURACIES[-1]), run.gaps.size
