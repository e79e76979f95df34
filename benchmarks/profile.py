"""A performance profile over the corpus: who solves how many problems within which factor of the fastest.

``python -m benchmarks.profile`` takes each problem of the corpus to (P - P*)/f(0) of 1e-3, 1e-6 and 1e-9, P* being known
otherwise (``benchmarks.truth``). Seconds are those of the processor from raw arrays to the answer, set-up included (the machine
may do other things meanwhile; every solver has one thread); what a peer compiles was compiled before, on a small problem of the same kind. ``ExactProxRR`` is given the accuracy as its ``tol`` and has to say that
it converged. Every peer has the benefit of hindsight: it is run with ever tighter tolerances (half decades from 0.1 to
1e-14, decades where a fit takes longer than a tenth of a second), and the loosest whose answer truly is accurate enough
counts; a second line of ours has the same, from 0.01. A fit that takes longer than ``--cap`` seconds is stopped; a crash or an answer
that is not accurate enough is not a solution. The fits that count are then repeated in turns (at least five times below
50 ms), and the best time counts.

Results are appended to a CSV file problem by problem, and a later run goes on from there: remove the file to start anew.
"""

from __future__ import annotations

import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np

import reshuffle as rs
from benchmarks.canonical import Canonical, canonical
from benchmarks.corpus import CORPUS, Entry
from benchmarks.instances import Instance, is_sparse
from benchmarks.profile_figure import (
    ACCURACIES,
    SLOWER,
    TWICE,
    Array,
    Time,
    draw,
    power,
    ratios,
    score,
    summary,
    write_table,
)
from benchmarks.profile_solvers import OURS, Contestant, contestants, twin
from benchmarks.report import Finding
from benchmarks.timing import one_thread
from benchmarks.truth import Minima, Truth

HERE = Path(__file__).parent
RESULTS, DOCS = HERE / "results" / "profile.csv", HERE.parent / "docs"
FIGURE, PAGE = Path("images", "profile.png"), Path("profile-table.md")
CAP = 5.0
TIGHTEST = 28  # half decades of a tolerance
SLOW = 0.1  # seconds of a fit after which tolerances go down by decades
SHORT, AGAIN = 0.05, 1.0  # seconds below which a fit is repeated often, and twice; others once
FEW, OFTEN = 5, 20  # repeats of a short fit, so many that they take a tenth of a second
COLUMNS: dict[str, Callable[[str], Any]] = {
    "problem": str, "half": str, "class": str, "loss": str, "penalty": str, "solver": str, "accuracy": float,
    "seconds": float, "solved": lambda text: text == "True", "tol": float, "reached": float,
}  # fmt: skip


# --- fits that can be stopped ------------------------------------------------------------------


def _serve(field: Sequence[Contestant], pipe: Connection, cap: float) -> None:
    """In the other process: fit what is asked for, send the seconds and the point."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends compiled code too, if nobody waits for it
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # compiled code writes there too
        os.dup2(nowhere, stream)
    with suppress(EOFError, OSError):  # the other end is gone
        while True:
            k, tol = pipe.recv()
            signal.alarm(int(2 * cap) + 5)
            try:
                clock = time.process_time()
                x = field[k](tol)
                pipe.send((time.process_time() - clock, x))
            except Exception as error:  # whatever it is, the problem is not solved
                pipe.send((np.inf, repr(error)))
            signal.alarm(0)


class Bench:
    """A forked process that fits, since compiled code can be stopped in no other way."""

    def __init__(self, field: Sequence[Contestant], cap: float) -> None:
        self.field, self.cap = field, cap
        self._context = get_context("fork")
        self._process: Any = None
        self._pipe: Any = None

    def fit(self, k: int, tol: float) -> tuple[float, Array | str]:
        """Seconds and the point; infinite, and why, where there is none within the cap."""
        if self._process is None:
            self._pipe, other = self._context.Pipe()
            arguments = self.field, other, self.cap
            self._process = self._context.Process(target=_serve, args=arguments, daemon=True)
            self._process.start()
            other.close()
        try:
            self._pipe.send((k, tol))
            if self._pipe.poll(1.1 * self.cap + 0.5):
                seconds, found = self._pipe.recv()
                late = self.cap < seconds < np.inf
                return (np.inf, "too long") if late else (seconds, found)
        except (EOFError, OSError):
            self.close()
            return np.inf, "crashed"
        self.close()
        return np.inf, "too long"

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
            self._pipe.close()


_warm: set[tuple[object, ...]] = set()


def warm_up(instance: Instance, cap: float) -> None:
    """Compile and import, in this process, what the forked ones then have."""
    X = instance.X
    kind: tuple[object, ...] = (
        instance.loss, instance.penalty, instance.intercept, is_sparse(X), X.dtype.str,
        instance.labels is None, bool(np.any(instance.l1)), bool(np.any(instance.l2)),
    )  # fmt: skip
    for tol in ACCURACIES:  # which of our kernels are needed depends on these and on the sizes
        with suppress(Exception):
            rs.ExactProxRR(tol=tol, time_limit=cap).solve(instance.problem())
    if kind in _warm:
        return
    _warm.add(kind)
    for contestant in contestants(twin(instance)):
        for tol in (1e-2, 1e-8):
            with suppress(Exception):
                contestant(tol)


# --- one problem -------------------------------------------------------------------------------


Run = tuple[float, float, float]
"""Tolerance, seconds and what was reached."""


def judged(x: Array | str, model: Canonical, truth: Truth) -> float:
    """(P - P*)/f(0), infinite where there is no point."""
    if isinstance(x, str) or not np.all(np.isfinite(x)):
        return np.inf
    return (model.objective(x.ravel()) - truth.upper) / truth.at_zero


def ladder(
    fit: Callable[[float], tuple[float, Array | str]],
    judge: Callable[[Array | str], float],
    loosest: float = 0.1,
) -> list[Run]:
    """Ever tighter tolerances until the last accuracy is reached or a fit fails."""
    found: list[Run] = []
    k = round(-2 * np.log10(loosest))
    while k <= TIGHTEST:
        tol = 10.0 ** (-k / 2)
        seconds, x = fit(tol)
        if np.isinf(seconds):
            break
        found.append((tol, seconds, judge(x)))
        if found[-1][2] <= ACCURACIES[-1]:
            break
        k += 1 if seconds < SLOW else 2
    return found


def enough(runs: Iterable[Run], accuracy: float, certified: bool) -> Run | None:
    """The run with the loosest tolerance whose answer is accurate enough; with this very one if certified."""
    good = [run for run in runs if run[2] <= accuracy and (not certified or run[0] == accuracy)]
    return max(good, default=None)


def measure(entry: Entry, instance: Instance, truth: Truth, cap: float) -> list[Time]:
    """The times of all solvers that take the problem."""
    warm_up(instance, cap)
    field = contestants(instance)
    model = canonical(instance)
    bench = Bench(field, cap)
    chosen: dict[tuple[int, float], Run | None] = {}
    reached: dict[int, float] = {}
    try:
        for k, one in enumerate(field):
            runs: list[Run]
            if one.name == OURS or one.direct:
                tolerances = ACCURACIES[:1] if one.direct else ACCURACIES
                fits = [(tol, *bench.fit(k, tol)) for tol in tolerances]
                runs = [(tol, s, judged(x, model, truth)) for tol, s, x in fits if np.isfinite(s)]
            else:
                runs = ladder(partial(bench.fit, k), lambda x: judged(x, model, truth), one.loosest)
            reached[k] = min((run[2] for run in runs), default=np.inf)
            for accuracy in ACCURACIES:
                chosen[k, accuracy] = enough(runs, accuracy, one.name == OURS)
        first = {(k, run[0]): run[1] for (k, _), run in chosen.items() if run is not None}
        best = in_turns(bench, first)
    finally:
        bench.close()
    return [
        Time(
            problem=entry.name, half=entry.half, size=entry.size, loss=instance.loss,
            penalty=instance.penalty, solver=field[k].name, accuracy=accuracy,
            seconds=np.inf if run is None else best[k, run[0]], solved=run is not None,
            tol=np.nan if run is None else run[0], reached=reached[k] if run is None else run[2],
        )
        for (k, accuracy), run in chosen.items()
    ]  # fmt: skip


def repeats(seconds: float) -> int:
    """How often a fit that took so long is timed again."""
    if seconds < SHORT:
        return int(np.clip(0.1 / seconds, FEW, OFTEN))
    return 2 if seconds < AGAIN else 1


def in_turns(bench: Bench, first: dict[tuple[int, float], float]) -> dict[tuple[int, float], float]:
    """The best seconds of each fit, those of the first time included; every round has all that are still due.

    Each round has them in another order: who comes after another solver finds the caches full of that one's code
    and data, which is half of the time of a tiny fit.
    """
    best, rng = dict(first), np.random.default_rng(0)
    for number in range(OFTEN):
        due = [fit for fit, seconds in first.items() if number < repeats(seconds)]
        for place in rng.permutation(len(due)):
            k, tol = due[place]
            best[k, tol] = min(best[k, tol], bench.fit(k, tol)[0])
    return best


# --- all of them -------------------------------------------------------------------------------


def read(path: Path) -> list[Time]:
    """What was measured before."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        lines = [{name: kind(line[name]) for name, kind in COLUMNS.items()} for line in csv.DictReader(file)]  # fmt: skip
    return [Time(size=line.pop("class"), **line) for line in lines]


def append(path: Path, times: Sequence[Time]) -> None:
    """All lines of a problem at once, so that a run that is stopped leaves no half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.is_file()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(COLUMNS)
        for t in times:
            numbers = [f"{t.accuracy:g}", f"{t.seconds:.6g}", t.solved, f"{t.tol:.4g}", f"{t.reached:.4g}"]  # fmt: skip
            writer.writerow([t.problem, t.half, t.size, t.loss, t.penalty, t.solver, *numbers])


def chosen_entries(
    half: str | None = None, only: str = "", small: bool = False, sample: int = 1
) -> list[Entry]:
    """The problems of the corpus that are asked for: of these, every so-many-th."""
    found = [
        entry for name, entry in CORPUS.items()
        if half in (None, entry.half) and only in name and (not small or entry.size == "small")
    ]  # fmt: skip
    return found[::sample]


def run(entries: Sequence[Entry], path: Path, cap: float) -> Iterator[Time]:
    """Measure what is not in the file yet, and put it there."""
    done = {t.problem for t in read(path)}
    minima = Minima()
    with one_thread():
        for number, entry in enumerate(entries, 1):
            if entry.name in done:
                continue
            clock = time.perf_counter()
            instance = entry.build()
            known = len(minima.known)
            truth = minima.of(instance)
            if len(minima.known) > known:
                minima.save()
            times = measure(entry, instance, truth, cap)
            append(path, times)
            each = ", ".join(f"{ratio.value:.2f}" for ratio in ratios(times))
            taken = time.perf_counter() - clock
            print(f"{number}/{len(entries)} {entry.name}: {each} ({taken:.0f} s)", file=sys.stderr, flush=True)  # fmt: skip
            yield from times


def findings(times: Sequence[Time]) -> list[Finding]:
    """The shares solved and how we stand against the best peer, with the bars of the race."""
    found: list[Finding] = []
    for accuracy in ACCURACIES:
        mine = [t.solved for t in times if t.solver == OURS and t.accuracy == accuracy]
        what = f"solved to {power(accuracy)} by its own certificate"
        found.append(Finding(what, 100.0 * float(np.mean(mine)), "%", detail=f"{len(mine)} problems"))  # fmt: skip
    how = score(ratios(times))
    pairs = f"of {how.pairs} pairs of a problem and an accuracy"
    twice = 100.0 * how.twice / max(how.pairs, 1)
    return [
        *found,
        Finding(f"at least {TWICE:g} times as fast as the best peer", twice, "%", "at least", 80.0, pairs),
        Finding(f"slower by more than {SLOWER:g}", len(how.slower), "pairs", "at most", 0.0, pairs),
    ]  # fmt: skip


def profile(quick: bool, out: Path | None = None) -> list[Finding]:
    """Seconds to true accuracy over the corpus: ExactProxRR by its certificate, peers with hindsight."""
    path = RESULTS.with_stem("profile-quick") if quick else RESULTS
    if out is not None and (out / "profile.csv").resolve() == path.resolve():
        raise rs.InputError(f"{path} has the times: choose another folder for the findings")
    list(run(chosen_entries(small=quick, sample=12 if quick else 1), path, CAP))
    times = read(path)
    if out is not None:
        draw(times, out / FIGURE.name)
        write_table(times, out / PAGE)
    return findings(times)


@click.command()
@click.option("--only-small", is_flag=True, help="Problems with few stored values alone.")
@click.option("--sample", default=1, help="Every so-many-th problem.")
@click.option("--half", type=click.Choice(["tuning", "held-out"]), help="Problems of one half.")
@click.option("--only", default="", help="Problems whose name has this in it.")
@click.option("--cap", default=CAP, help="Seconds after which a fit is stopped.")
@click.option(
    "--csv",
    "path",
    type=click.Path(path_type=Path),
    default=RESULTS,
    help="The file that results are appended to, and read from.",
)
@click.option(
    "--docs",
    type=click.Path(path_type=Path),
    default=DOCS,
    help="Folder for the table and images/.",
)
@click.option(
    "--draw", "only_draw", is_flag=True, help="Measure nothing, draw what is in the file."
)
def main(
    only_small: bool, sample: int, half: str | None, only: str, cap: float, path: Path, docs: Path, only_draw: bool,
) -> None:  # fmt: skip
    """Measure what the file lacks, then draw and sum up all that is in it."""
    if not only_draw:
        list(run(chosen_entries(half, only, only_small, sample), path, cap))
    times = read(path)
    if not times:
        raise click.ClickException(f"{path} has no times")
    draw(times, docs / FIGURE)
    write_table(times, docs / PAGE)
    print("\n".join(summary(times)))


if __name__ == "__main__":
    main()
