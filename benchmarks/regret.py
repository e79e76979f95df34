"""How far the choice of phases is from the best sequence of phases: ``python -m benchmarks.regret``.

For each problem and each accuracy 1e-2, 1e-4, 1e-6, the seconds of the processor that ``ExactProxRR`` takes until it certifies
the accuracy, over the least that any sequence of phases takes which is known here (the regret):

- shuffled epochs alone, Newton steps alone, and every pair and triple of phases, each by ``phases=[…]``;
- k epochs and then one phase whenever it can act, for several k: sequences that no count of work chooses.

A run makes a fresh problem; making it is not timed. With ``--peers`` the solvers of other projects are timed as in
``benchmarks.profile``, from raw arrays to the answer, at the loosest of their tolerances that truly gives the accuracy.

The problems: of the corpus (``--corpus``, every ``--sample``-th), those named in a hostile test (``--named``), real text, images and
gene expression (``--real``, see ``benchmarks.real_sets``), the part of the corpus that is drawn anew with each version
(``--fresh``), or problems of the same kinds to tune on (``--practice``).
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import click
import numpy as np

import reshuffle as rs
from benchmarks.canonical import canonical
from benchmarks.corpus import CORPUS, FRESH, PRACTICE, Entry
from benchmarks.instances import Instance
from benchmarks.profile_solvers import OWN, contestants
from benchmarks.regret_problems import NAMED, real_entries
from benchmarks.timing import one_thread
from reshuffle.solvers.exact.lbfgs import LBFGS
from reshuffle.solvers.exact.newton import Newton
from reshuffle.solvers.exact.newton_cg import NewtonCG
from reshuffle.solvers.exact.newton_columns import NewtonColumns
from reshuffle.solvers.exact.newton_kernel import NewtonKernel
from reshuffle.solvers.exact.view import View

ACCURACIES = 1e-2, 1e-4, 1e-6
DEFAULT, EPOCHS = "default", "shuffled"
AFTER = 0, 2, 5, 10
"""Epochs before a phase acts, in sequences that are given in advance."""
ENOUGH, LEAST, MOST, JUDGING = 0.5, 2, 15, 3
"""Seconds that repeats may take, how many there are at least and at most, and at least where they judge."""
RIVALS = 2
"""Sequences that are compared with the default once more."""
HOPELESS = 1.5
"""A sequence that takes so many times the least seconds at its first run is not repeated."""
SLACK, GRACE = 4.0, 0.05
"""A run is stopped after so many times the least seconds so far, and some more, by the clock of a machine that others use too."""
CAP = 20.0
"""Seconds after which a run is stopped."""
HALF_DECADES = 26


def forced(kind: Any, after: int) -> Any:
    """A phase that acts after so many epochs, whenever it can."""

    class Forced(kind):  # type: ignore[misc]
        name: ClassVar[str] = kind.name

        def ready(self, view: View) -> bool:
            return view.epoch >= after and not view.resting and self.cost(view) < np.inf

        def steps_left(self, view: View) -> float:
            return 0.0

    return Forced()


def sequences(problem: rs.Problem) -> dict[str, dict[str, Any]]:
    """Arguments of ``ExactProxRR``, by a name for the sequence."""
    able = [p.name for p in rs.ExactProxRR()._able(problem)]
    found: dict[str, dict[str, Any]] = {DEFAULT: {}, EPOCHS: {"finish": False}}
    others = [name for name in able if name != EPOCHS]
    for size in range(1, min(len(others), 3)):
        for some in combinations(others, size):
            found["+".join((*some, EPOCHS))] = {"phases": [*some, EPOCHS]}
    if "newton" in able:
        found["newton"] = {"phases": ["newton"]}
    for kind in (Newton, NewtonKernel, NewtonColumns, NewtonCG, LBFGS):
        if kind.name in able:
            for after in AFTER:
                found[f"{after} epochs, {kind.name}"] = {"phases": [forced(kind, after), EPOCHS]}
    return found


class Ran(NamedTuple):
    """A run of a sequence."""

    seconds: float
    """Of the processor; infinite where the accuracy was not certified, or the problem is not taken."""
    steps: tuple[object, ...] = ()
    """What tells two runs apart: the phases that acted, epoch by epoch, and where they led."""


def ran(instance: Instance, tol: float, arguments: Mapping[str, Any], cap: float) -> Ran:
    """One run on a problem that nothing has touched."""
    problem = instance.problem()
    clock = time.process_time()
    try:
        result = rs.ExactProxRR(tol=tol, time_limit=cap, **arguments).solve(problem)
    except rs.InputError:  # a loss without a bound on its curvature has no epochs
        return Ran(np.inf)
    taken = time.process_time() - clock
    if not result.converged:
        return Ran(np.inf)
    return Ran(taken, (result.x.tobytes(), result.trace["gradients"].tobytes()))


class Regret(NamedTuple):
    """What was found for one problem and accuracy."""

    problem: str
    half: str
    accuracy: float
    seconds: float
    """Of the default."""
    epochs: float
    """Of shuffled epochs alone."""
    best: float
    sequence: str
    """The name of the best sequence."""
    peer: float = np.nan
    """Seconds of the best peer, and ours from raw arrays."""
    whole: float = np.nan
    name: str = ""
    """Of the best peer."""

    @property
    def regret(self) -> float:
        return self.seconds / self.best


def measured(entry: Entry, instance: Instance, tol: float) -> Regret:
    """The best sequence is chosen by some runs, and compared with the default by others, in turns.

    The least of twenty noisy times is too small: times that chose a sequence do not judge it. A sequence that
    makes the same steps as the default is the default.
    """
    ways = sequences(instance.problem())
    first: dict[str, Ran] = {}
    for name, arguments in ways.items():
        least = min((run.seconds for run in first.values()), default=np.inf)
        first[name] = ran(instance, tol, arguments, min(CAP, SLACK * least + GRACE))
    same = first[DEFAULT].steps
    others = {name: run.seconds for name, run in first.items() if not same or run.steps != same}
    least = min(others.values(), default=np.inf)
    near = [name for name in others if others[name] <= HOPELESS * least < np.inf]
    for _ in range(_repeats(sum(others[name] for name in near))):
        for name in near:
            others[name] = min(others[name], ran(instance, tol, ways[name], CAP).seconds)
    rivals = sorted(near, key=lambda name: others[name])[:RIVALS]
    if EPOCHS in near and EPOCHS not in rivals:
        rivals.append(EPOCHS)
    judged: dict[str, list[float]] = {name: [] for name in (DEFAULT, *rivals)}
    for _ in range(_repeats(first[DEFAULT].seconds * len(judged), JUDGING)):
        for name, times in judged.items():
            times.append(ran(instance, tol, ways[name], CAP).seconds)
    typical = {name: float(np.median(times)) for name, times in judged.items()}
    best = min(typical, key=lambda name: typical[name])
    return Regret(
        entry.name, entry.half, tol, typical[DEFAULT], typical.get(EPOCHS, first[EPOCHS].seconds), typical[best], best
    )  # fmt: skip


def _repeats(seconds: float, fewest: int = LEAST) -> int:
    """How often runs that take so long together are repeated."""
    return int(np.clip(ENOUGH / max(seconds, 1e-9), fewest, MOST))


# --- peers -------------------------------------------------------------------------------------


def with_peers(found: Sequence[Regret], instance: Instance) -> list[Regret]:
    """The same with the best peer of each accuracy, which has the benefit of hindsight."""
    model = canonical(instance)
    lowest = model.objective(rs.ExactProxRR(tol=1e-11).solve(instance.problem()).x.ravel())
    at_zero = abs(model.objective(np.zeros(model.size))) or 1.0
    best = {each.accuracy: (np.inf, "") for each in found}
    for one in contestants(instance):
        if one.name not in OWN:
            for accuracy, seconds in _hindsight(one, model, lowest, at_zero).items():
                best[accuracy] = min(best[accuracy], (seconds, one.name))
    return [
        each._replace(
            peer=best[each.accuracy][0], name=best[each.accuracy][1],
            whole=_least(partial(_certified, instance, each.accuracy)),
        )
        for each in found
    ]  # fmt: skip


def _certified(instance: Instance, tol: float) -> None:
    rs.ExactProxRR(tol=tol).solve(instance.problem())


def _hindsight(one: Any, model: Any, lowest: float, at_zero: float) -> dict[float, float]:
    """The seconds of a peer to each accuracy."""
    found: dict[float, float] = {}
    wanted = list(ACCURACIES)
    for k in range(2, HALF_DECADES):
        clock = time.process_time()
        try:
            x = one(10.0 ** (-k / 2))
        except Exception:  # whatever it is, the problem is not solved
            return found
        taken = time.process_time() - clock
        reached = (model.objective(x.ravel()) - lowest) / at_zero
        new = [accuracy for accuracy in wanted if reached <= accuracy]
        if new:
            least = min(taken, _least(partial(one, 10.0 ** (-k / 2))))
            found |= dict.fromkeys(new, least)
            wanted = [accuracy for accuracy in wanted if accuracy not in new]
        if not wanted or taken > CAP / 4:
            return found
    return found


def _least(work: Callable[[], object]) -> float:
    """The least seconds of several calls."""
    best = total = np.inf
    count = 0
    total = 0.0
    while count < LEAST or (count < MOST and total < ENOUGH):
        clock = time.process_time()
        work()
        taken = time.process_time() - clock
        best, total, count = min(best, taken), total + taken, count + 1
        if taken > 3.0:
            break
    return best


# --- all of them -------------------------------------------------------------------------------


def line(found: Regret) -> str:
    """A row of the table."""
    ms = 1e3
    text = (
        f"| {found.problem} | {found.accuracy:.0e} | {ms * found.seconds:.3g} | {_over(found.seconds, found.epochs)} "
        f"| {found.regret:.2f} | {found.sequence} ({ms * found.best:.3g}) |"
    )
    if np.isfinite(found.peer):
        text += f" {found.whole / found.peer:.2f} | {found.name} ({ms * found.peer:.3g}) |"
    return text


def _over(seconds: float, others: float) -> str:
    """The ratio, where the others came to an end in time."""
    return f"{seconds / others:.2f}" if others < np.inf else "-"


def entries(corpus: bool, named: bool, real: bool, fresh: bool, practice: bool) -> Iterator[Entry]:
    """The problems that are asked for, with the longest first: several processes then end at about the same time."""
    if real:
        yield from real_entries().values()
    if named:
        yield from NAMED.values()
    if corpus:
        yield from CORPUS.values()
    if fresh:
        yield from FRESH.values()
    if practice:
        yield from PRACTICE.values()


def _of_entry(chosen: Sequence[Entry], peers: bool, number: int) -> list[Regret]:
    """The regrets of one problem at all accuracies."""
    entry = chosen[number]
    instance = entry.build()
    some = [measured(entry, instance, tol) for tol in ACCURACIES]
    return with_peers(some, instance) if peers else some


def _in_processes(
    work: Callable[[int], list[Regret]], count: int, jobs: int
) -> Iterator[list[Regret]]:
    """The work on each problem as it ends, in this process or in several."""
    if jobs == 1:
        yield from map(work, range(count))
        return
    context = get_context("fork")  # the entries hold functions, which cannot be sent
    numbers, found = context.Queue(), context.Queue()
    for number in [*range(count), *[-1] * jobs]:
        numbers.put(number)

    def job() -> None:
        while (number := numbers.get()) >= 0:
            found.put(work(number))

    for _ in range(jobs):
        context.Process(target=job, daemon=True).start()
    for _ in range(count):
        yield found.get()


@click.command()
@click.option("--corpus", is_flag=True, help="The problems of the corpus.")
@click.option("--fresh", is_flag=True, help="The part of it that is drawn anew with each version.")
@click.option("--practice", is_flag=True, help="Problems of the same kinds to tune on.")
@click.option("--named", is_flag=True, help="Problems named by a hostile test.")
@click.option("--real", is_flag=True, help="Real text, images and gene expression.")
@click.option("--only", default="", help="Problems whose name has this in it.")
@click.option("--half", type=click.Choice(["tuning", "held-out", "fresh"]), help="One part alone.")
@click.option("--sample", default=1, help="Every so-many-th problem.")
@click.option(
    "--jobs", default=1, help="Processes, one problem each at a time; not more than idle cores."
)
@click.option("--peers", is_flag=True, help="Time other projects' solvers too.")
@click.option("--csv", "path", type=click.Path(path_type=Path), help="A file to append to.")
def main(
    corpus: bool, fresh: bool, practice: bool, named: bool, real: bool, only: str, half: str | None, sample: int, jobs: int,
    peers: bool, path: Path | None,
) -> None:  # fmt: skip
    """Measure the regret, problem by problem."""
    chosen = [e for e in entries(corpus, named, real, fresh, practice) if only in e.name and half in (None, e.half)]  # fmt: skip
    found: list[Regret] = []
    work = partial(_of_entry, chosen[::sample], peers)
    print("| problem | accuracy | ms | over epochs alone | regret | best sequence (ms) | over the best peer | peer (ms) |")  # fmt: skip
    print("| --- | --- | ---: | ---: | ---: | --- | ---: | --- |", flush=True)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for some in _in_processes(work, len(chosen[::sample]), jobs):
            print("\n".join(map(line, some)), flush=True)
            found += some
            if path is not None:
                with open(path, "a", newline="", encoding="utf-8") as file:
                    csv.writer(file).writerows(some)
    for part in sorted({each.half for each in found}):
        regrets = np.array([each.regret for each in found if each.half == part])
        print(
            f"\n{part}: {len(regrets)} pairs, regret: median {np.median(regrets):.2f}, largest {regrets.max():.2f}, "
            f"{np.mean(regrets > 1.2):.0%} above 1.2"
        )


if __name__ == "__main__":
    main()
