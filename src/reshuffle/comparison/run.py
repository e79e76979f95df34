"""Several methods on one problem with several seeds: runs in parallel, and resumes after an interruption."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from reshuffle.callbacks import progress_bar
from reshuffle.comparison.result import Comparison, Runs
from reshuffle.errors import DivergenceError, InputError, shown
from reshuffle.objective import Objective
from reshuffle.randomness import check_seed
from reshuffle.run_cache import RunCache, keep
from reshuffle.solvers.fista import FISTA, stationary
from reshuffle.solvers.solver import BaseSolver
from reshuffle.trace import Result
from reshuffle.validation import check_number, check_positive

Job = tuple[str, int, BaseSolver]
LONGEST = 20_000  # The most iterations that FISTA makes in search of P*.
ROUNDING = 1e-9
"""A value may lie below the given minimum by this share, since the minimum may be given with few digits."""


def compare(
    problem: Objective,
    solvers: Mapping[str, BaseSolver],
    *,
    seeds: int | Iterable[int] = 5,
    workers: int = 1,
    folder: str | os.PathLike[str] | None = None,
    minimum: float | None = None,
    progress: bool = False,
) -> Comparison:
    """Run every solver with every seed on one problem.

    Parameters
    ----------
    solvers : a dict from names to solvers; each is run as it is, except for its seed.
    seeds : the seeds, or how many: 0, 1, …
    workers : processes that run at the same time. To compare ``seconds``, leave it at 1:
        runs that share a machine slow each other down.
    folder : where finished runs are kept, one file each. A second call reuses the runs it finds there, so
        that an interrupted comparison is continued, and one with more seeds makes only the new runs.
        A run is repeated if the solver, the problem or the code has changed.
    minimum : P*; if it is not given, FISTA looks for it (to 1e-12 in the gradient mapping), and P* is the
        lowest value that FISTA or any run has found.
    progress : show a bar.

    A run that diverges stays in the comparison, up to the point of divergence.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.ElasticNet(0.01, 0.01))
    >>> step = rs.steps.InverseTime()
    >>> solvers = {"ProxRR": rs.ProxRR(step=step), "ProxSGD": rs.ProxSGD(step=step)}
    >>> found = rs.compare(problem, solvers, seeds=3)
    >>> found.table(accuracy=0.1)["ProxRR"].reached, found.runs["ProxSGD"][2].epoch
    (3, 100)
    >>> found.plot(against="prox_evals").get_xscale()
    'log'
    """
    wanted = _seeds(seeds)
    check_positive("workers", workers, integer=True)
    jobs = [
        (n, seed, replace(s, seed=seed)) for n, s in _checked(solvers, problem) for seed in wanted
    ]
    with TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        store = RunCache(Path(place))
        kept = {job[:2]: store.find(_label(job), job[2], problem) for job in jobs}
        missing = [job for job in jobs if kept[job[:2]] is None]
        with progress_bar("comparing", len(missing), progress) as tick:
            for name, seed, result in _run_all(problem, missing, store, workers):
                kept[name, seed] = result
                tick()
        runs: Runs = {name: {} for name in solvers}
        for (name, seed), found in kept.items():
            if found is not None:
                runs[name][seed] = found
        return Comparison(runs, problem.n, _minimum(problem, runs, store, minimum))


# --- what is given ---------------------------------------------------------------------------------


def _seeds(seeds: object) -> list[int]:
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        check_positive("seeds", seeds, integer=True)
        return list(range(seeds))
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise InputError(f"seeds must be a number of seeds or a list of them, got {shown(seeds)}")
    found = list(dict.fromkeys(check_seed(seed) for seed in seeds))
    if not found:
        raise InputError("seeds must not be empty")
    return found


def _checked(solvers: object, problem: Objective) -> list[tuple[str, BaseSolver]]:
    if not isinstance(solvers, Mapping) or not solvers:
        raise InputError(
            f'solvers must be a dict such as {{"ProxRR": ProxRR()}}, got {shown(solvers)}'
        )
    for name, solver in solvers.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"solvers: a name must be text, got {shown(name)}")
        if not isinstance(solver, BaseSolver):
            raise InputError(
                f"solvers[{name!r}] must be a solver such as ProxRR(), got {shown(solver)}"
            )
        solver.check_problem(problem)
    return list(solvers.items())


# --- running ---------------------------------------------------------------------------------------


def _minimum(problem: Objective, runs: Runs, store: RunCache, given: float | None) -> float:
    """P*: the given one, otherwise the lowest value that FISTA or one of the runs has found."""
    lowest = min(float(r.trace["objective"].min()) for by in runs.values() for r in by.values())
    if given is not None:
        known = check_number("minimum", given)
        if lowest < known - ROUNDING * max(1.0, abs(known)):
            raise InputError(
                f"minimum = {known:.12g} is not the minimum: a run has found P(x) = {lowest:.12g}"
            )
        return known
    try:
        callbacks = [stationary(problem)]
        solver = FISTA(tol=0.0, epochs=LONGEST)
        reference = store.solve("minimum", solver, problem, callbacks=callbacks)
    except InputError:  # There are no smoothness constants, or the penalty is not convex.
        return lowest
    return min(lowest, float(reference.trace["objective"].min()))


def _label(job: Job) -> str:
    return f"{job[0]}-seed{job[1]}"


def _run_all(
    problem: Objective, jobs: list[Job], store: RunCache, workers: int
) -> Iterable[tuple[str, int, Result]]:
    tasks = [(*job, store.path(_label(job), job[2], problem)) for job in jobs]
    if workers == 1 or len(jobs) < 2:
        yield from (_run(problem, *task) for task in tasks)
        return
    from joblib import Parallel, delayed

    # loky starts fresh processes, which also take classes and functions defined interactively.
    pool = Parallel(n_jobs=workers, return_as="generator", batch_size=1)
    yield from pool(delayed(_run)(problem, *task) for task in tasks)


def _run(
    problem: Objective, name: str, seed: int, solver: BaseSolver, path: Path
) -> tuple[str, int, Result]:
    try:
        result = solver.solve(problem)
    except DivergenceError as error:
        result = error.result
    except InputError as error:
        raise InputError(f"{name}, seed {seed}: {error}") from None
    keep(result, path)
    return name, seed, result
