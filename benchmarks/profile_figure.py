"""What the profile found: curves, ratios, a figure and a table. Nothing here measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.figures import save
from benchmarks.profile_solvers import FISTA, HINDSIGHT, OURS, OWN
from reshuffle.plotting import COLOURS

Array = NDArray[np.float64]
ACCURACIES = (1e-3, 1e-6, 1e-9)
HALVES = ("tuning", "held-out")
TWICE, SLOWER = 2.0, 1.2
MOST = 1_000.0  # the last factor of a curve
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
PACKAGES = {"sklearn": BLUE, "skglm": GREEN, "celer": PINK, "cyanure": ORANGE, "scipy": SKY}
TITLES = {"sklearn": "scikit-learn"}
BEST_PEER = "best peer on each problem"
TABLE = "<!-- table -->"
COMMAND = "<!-- numbers: python -m benchmarks.profile -->"


@dataclass(frozen=True, kw_only=True)
class Time:
    """What one solver took to one accuracy on one problem."""

    problem: str
    half: str
    size: str
    loss: str
    penalty: str
    solver: str
    accuracy: float
    seconds: float
    """Infinite where it is not solved."""
    solved: bool
    tol: float
    """The tolerance that was enough, NaN where none was."""
    reached: float
    """(P - P*)/f(0) with it, or else the best that was reached."""


@dataclass(frozen=True)
class Ratio:
    """The best peer's seconds over ours: above 1 we are faster."""

    problem: str
    half: str
    accuracy: float
    ours: float
    peer: float
    who: str
    """The best peer; empty where none takes the problem, or where none solves it."""
    peers: int
    """How many take the problem."""

    @property
    def value(self) -> float:
        """0 where only a peer solves it, infinite where only we do, NaN where nobody does."""
        if np.isinf(self.ours):
            return 0.0 if np.isfinite(self.peer) else np.nan
        return self.peer / self.ours


def power(accuracy: float) -> str:
    return f"1e{round(np.log10(accuracy))}"


def package(solver: str) -> str:
    return "ours" if solver in OWN else solver.split()[0]


def curve(seconds: Array, best: Array, factors: Array) -> Array:
    """Of all problems, the share that a solver solves within each factor of the best.

    Both times are infinite where the problem is not solved; one that nobody solves counts for nobody.
    """
    solved = np.isfinite(seconds)
    ratios = np.sort(seconds[solved] / best[solved])
    within = np.searchsorted(ratios, factors * (1 + 1e-12), side="right")
    return np.asarray(within / max(len(seconds), 1), dtype=np.float64)


def seconds_by_solver(times: Iterable[Time], accuracy: float) -> dict[str, Array]:
    """The seconds of each solver on the problems in turn; infinite where it does not solve or take them."""
    mine = [t for t in times if t.accuracy == accuracy]
    order = {name: k for k, name in enumerate(dict.fromkeys(t.problem for t in mine))}
    found = {t.solver: np.full(len(order), np.inf) for t in mine}
    for t in mine:
        if t.solved:
            found[t.solver][order[t.problem]] = t.seconds
    return found


def ratios(times: Iterable[Time]) -> list[Ratio]:
    """One for each pair of a problem and an accuracy, in the order of the times."""
    pairs: dict[tuple[str, float], list[Time]] = {}
    for t in times:
        pairs.setdefault((t.problem, t.accuracy), []).append(t)
    found = []
    for (problem, accuracy), mine in pairs.items():
        ours = min((t.seconds for t in mine if t.solver == OURS and t.solved), default=np.inf)
        peers = [t for t in mine if t.solver not in OWN]
        best = min((t for t in peers if t.solved), key=lambda t: t.seconds, default=None)
        peer, who = (np.inf, "") if best is None else (best.seconds, best.solver)
        found.append(Ratio(problem, mine[0].half, accuracy, ours, peer, who, len(peers)))
    return found


# --- in words ----------------------------------------------------------------------------------


def table(found: Sequence[Ratio]) -> str:
    """Markdown: a line a problem, the worst first."""
    by_problem: dict[str, list[Ratio]] = {}
    for ratio in found:
        by_problem.setdefault(ratio.problem, []).append(ratio)

    def worst(mine: list[Ratio]) -> float:
        return min((r.value for r in mine if r.peers and not np.isnan(r.value)), default=np.inf)

    lines = [
        "| problem | half | ExactProxRR, ms to 1e-3 / 1e-6 / 1e-9 | best peer over ours | who |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for name, mine in sorted(by_problem.items(), key=lambda item: worst(item[1])):
        mine = sorted(mine, key=lambda r: -r.accuracy)
        ours = " / ".join(f"{1e3 * r.ours:.3g}" if np.isfinite(r.ours) else "–" for r in mine)
        who = ", ".join(dict.fromkeys(r.who for r in mine if r.who))
        who = who or ("none solves it" if mine[0].peers else "none takes it")
        each = " / ".join(_number(r.value) for r in mine)
        lines.append(f"| {name} | {mine[0].half} | {ours} | {each} | {who} |")
    return "\n".join(lines) + "\n"


def _number(ratio: float) -> str:
    return "–" if np.isnan(ratio) else "∞" if np.isinf(ratio) else f"{ratio:.2f}"


@dataclass(frozen=True)
class Score:
    """How we stand against the best peer on the pairs that some peer takes."""

    pairs: int
    twice: int
    faster: int
    slower: list[Ratio]
    """By more than 1.2 times, the worst first; those that only a peer solves too."""
    nobody: int
    """Pairs that neither solves."""
    alone: int
    """Pairs that no peer takes, which are in none of the other counts."""


def score(found: Iterable[Ratio]) -> Score:
    found = list(found)
    mine = [r for r in found if r.peers]
    slower = [r for r in mine if r.value < 1 / SLOWER]
    return Score(
        len(mine),
        sum(r.value >= TWICE for r in mine),
        sum(r.value > 1 for r in mine),
        sorted(slower, key=lambda r: r.value),
        sum(np.isnan(r.value) for r in mine),
        len(found) - len(mine),
    )


def summary(times: Sequence[Time]) -> Iterator[str]:
    """How much each solver solves and how we stand, on all and on each half."""
    for half in ("all", *HALVES):
        mine = [t for t in times if half in ("all", t.half)]
        count = len({t.problem for t in mine})
        if not count:
            continue
        yield f"{half}: {count} problems"
        yield f"  {'solved of those it takes':<28}" + "".join(f"{power(a):>12}" for a in ACCURACIES)
        for solver in sorted({t.solver for t in mine}, key=_rank):
            cells = []
            for accuracy in ACCURACIES:
                his = [t.solved for t in mine if t.solver == solver and t.accuracy == accuracy]
                cells.append(f"{sum(his)} of {len(his)}")
            yield f"  {solver:<28}" + "".join(f"{cell:>12}" for cell in cells)
        found = score(ratios(mine))
        per = 100.0 / max(found.pairs, 1)
        yield (
            f"  against the best peer, on {found.pairs} pairs: at least twice as fast on {per * found.twice:.0f}%, "
            f"faster on {per * found.faster:.0f}%, slower by more than {SLOWER:g} on {len(found.slower)}, "
            f"solved by nobody: {found.nobody}; {found.alone} pairs that no peer takes are left out"
        )
        if half == "all":
            for r in found.slower:
                ours = f"{1e3 * r.ours:.3g} ms" if np.isfinite(r.ours) else "not solved"
                yield f"    {r.value:.2f}  {r.problem} to {power(r.accuracy)} ({r.half}): {ours}, {r.who} {1e3 * r.peer:.3g} ms"


def _rank(solver: str) -> tuple[int, str]:
    return (OWN.index(solver) if solver in OWN else len(OWN), solver)


# --- as a picture ------------------------------------------------------------------------------


def lines_of(times: Sequence[Time], accuracy: float) -> tuple[dict[str, Array], Array]:
    """The seconds of each line of a panel, and the best of all that are no hindsight of ours.

    A package's line has the best of its solvers on each problem, which is more than its users have.
    """
    each = seconds_by_solver(times, accuracy)
    count = len(next(iter(each.values())))
    nothing = np.full(count, np.inf)
    lines = {name: each.get(name, nothing) for name in OWN}
    for name in PACKAGES:
        mine = [s for solver, s in each.items() if package(solver) == name]
        lines[name] = np.min([*mine, nothing], axis=0)
    lines[BEST_PEER] = np.min([lines[name] for name in PACKAGES], axis=0)
    best = np.min([s for name, s in lines.items() if name != HINDSIGHT], axis=0)
    return lines, best


def draw(times: Sequence[Time], path: Path) -> None:
    """The share of problems solved within a factor of the best, a panel an accuracy."""
    styles = {
        OURS: (VERMILION, "-", 3.2), HINDSIGHT: (VERMILION, (0, (2, 1)), 1.6),
        BEST_PEER: (BLACK, (0, (5, 2)), 1.8), **{name: (c, "-", 1.5) for name, c in PACKAGES.items()},
        FISTA: (VERMILION, ":", 1.4),
    }  # fmt: skip
    taken = {name: {t.problem for t in times if package(t.solver) == name} for name in PACKAGES}
    count = len({t.problem for t in times})
    figure = Figure(figsize=(12.6, 5.0), layout="constrained")
    first = None
    factors = np.geomspace(1.0, MOST, 601)
    for k, accuracy in enumerate(ACCURACIES):
        first = ax = figure.add_subplot(1, len(ACCURACIES), k + 1, sharey=first)
        lines, best = lines_of(times, accuracy)
        for name, (colour, dashes, width) in styles.items():
            label = TITLES.get(name, name)
            if name in PACKAGES:
                label += f" (takes {len(taken[name])} of {count})"
            elif name == FISTA:
                label += " (ours)"
            elif name == OURS:
                label += ", by its own certificate"
            ax.plot(
                factors, curve(lines[name], best, factors), color=colour, ls=dashes, lw=width,
                label=label, zorder=4 if name == OURS else 3,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlim(1.0, MOST)
        ax.set_ylim(0.0, 1.01)
        ax.set_xticks([1, 2, 5, 10, 100, 1000], ["1", "2", "5", "10", "100", "1000"])
        ax.minorticks_off()
        ax.set_yticks(np.linspace(0, 1, 6), [f"{p}%" for p in range(0, 101, 20)])
        ax.tick_params(labelleft=k == 0)
        ax.set_title(f"to accuracy {power(accuracy)}", fontsize=10, loc="left")
        ax.set_xlabel("times the seconds of the best solver")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    assert first is not None
    figure.axes[0].set_ylabel(f"of {count} problems, solved within that factor")
    handles, labels = first.get_legend_handles_labels()
    title = "of each package the best solver and, like 'hindsight', the tolerance that turned out to be enough"
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9,
        title=title, title_fontsize=9,
    )  # fmt: skip
    save(figure, path)


def write_table(times: Sequence[Time], path: Path) -> None:
    """The table, as a page of its own and to be included after its mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"---\norphan: true\n---\n\n# Times to accuracy, problem by problem\n\n{COMMAND}\n\n{TABLE}\n\n"
    path.write_text(head + table(ratios(times)), encoding="utf-8")
