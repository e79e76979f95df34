"""Hostile inputs by the thousand: every one ends in an ``InputError`` or in the right answer.

    python -m tests.long.fuzz                                      # the long run: 100,000 files, 10,000 saved runs, 10,000 parts
    python -m tests.long.fuzz --libsvm 300 --saved 60 --parts 60   # a short one

Batches run in processes of their own, so that a crash of the interpreter is seen and not survived. What fails is
printed with the seed that makes it again. Besides ``InputError``, a run that a forged but finite number leads astray may say
``DivergenceError``, and clients that answer nonsense are a ``ClientError``: both name what is wrong.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle.npz_archive import read_archive, write_archive

ROOT = Path(__file__).parents[2]
BATCH = 1000  # inputs of one process
RNG = np.random.Generator
RIGHT, REFUSED = "right", "refused"
CLEAR = (rs.InputError, rs.DivergenceError, rs.ClientError)
WORDS = (b"nan", b"inf", b"_", b":", b"1e999", b"\0", b"99999999999", b"#", b"qid:1", b" ", b"\n", b"-", b"0:1", b"\xff",
         b"2147483648:1", b"1e-400", b"\t", b"\r\n", b"+", b".", b"e", b"7:7:7")  # fmt: skip


# --- files in LIBSVM format --------------------------------------------------------------------


def libsvm(seed: int, folder: Path) -> str:
    """A mutated file, compared with a reader of ten lines."""
    rng = np.random.default_rng(seed)
    lines = [
        b"%d " % rng.choice([-1, 1])
        + b" ".join(
            b"%d:%.3g" % (j, rng.normal()) for j in sorted(rng.choice(9, 3, replace=False) + 1)
        )
        for _ in range(6)
    ]
    text = bytearray(b"\n".join(lines) + b"\n")
    for _ in range(rng.integers(0, 4)):
        _spoil(text, rng)
    content = bytes(text)
    packer: Any = (None, None, gzip.compress, bz2.compress)[rng.integers(4)]
    if packer is not None:
        packed = bytearray(packer(content))
        if rng.random() < 0.7:
            _spoil(packed, rng)
        content = bytes(packed)
    path = folder / "file"
    path.write_bytes(content)
    try:
        X, y = rs.datasets.load_libsvm(path)
    except rs.InputError:
        return REFUSED
    rows, labels = _reference(content)
    found = [
        dict(zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True)) for i in range(X.shape[0])
    ]
    if rows != found:
        raise AssertionError(f"read {found}, not {rows}")
    two = np.unique(labels).size == 2
    if not np.array_equal(y, 2.0 * (labels == labels.max()) - 1.0 if two else labels):
        raise AssertionError(f"labels {y}, not {labels}")
    return RIGHT


def _reference(content: bytes) -> tuple[list[dict[int, float]], Any]:
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    elif content[:3] == b"BZh":
        content = bz2.decompress(content)
    kept = [line.split(b"#")[0].split() for line in content.split(b"\n")]
    samples = [line for line in kept if line]
    pairs = [[w.split(b":") for w in line[1:] if not w.startswith(b"qid:")] for line in samples]
    first = min((int(j) for line in pairs for j, _ in line), default=1)
    rows = [{int(j) - (first > 0): float(v) for j, v in line} for line in pairs]
    return rows, np.array([float(line[0]) for line in samples])


def _spoil(content: bytearray, rng: RNG) -> None:
    """One change: a byte, a word, a cut, a repetition."""
    at, how = int(rng.integers(len(content) + 1)), rng.integers(5)
    if how == 0 and content:
        content[at % len(content)] ^= int(rng.integers(1, 256))
    elif how == 1:
        content[at:at] = WORDS[rng.integers(len(WORDS))]
    elif how == 2:
        del content[at : at + int(rng.integers(1, 20))]
    elif how == 3:
        content[at:at] = content[at : at + int(rng.integers(1, 40))]
    elif rng.random() < 0.3:
        del content[at:]


# --- saved runs ---------------------------------------------------------------------------------

_DATA = np.random.default_rng(0).standard_normal((20, 4))
PROBLEM = rs.Problem(
    _DATA, np.sign(_DATA[:, 0] + 0.1), penalty=rs.penalties.L1(0.01), fit_intercept=True
)
CLIENTS = rs.federated.split(PROBLEM, clients=3, seed=0)
RUNS: list[tuple[Any, Any]] = [
    (rs.ProxRR(epochs=3, step=0.01), PROBLEM),
    (rs.FISTA(epochs=3, tol=0.0), PROBLEM),
    (rs.ExactProxRR(epochs=3, tol=0.0, finish=False, importance=True), PROBLEM),
    (rs.ExactProxRR(epochs=3, tol=1e-12, eval_every=1), PROBLEM),
    (rs.ExactFedRR(rounds=3), CLIENTS),
]


def saved(seed: int, folder: Path) -> str:
    """A damaged or forged run, resumed: what comes out is a point and its objective."""
    rng = np.random.default_rng(seed)
    which = int(rng.integers(len(RUNS)))
    solver, problem = RUNS[which]
    whole, path = folder / f"run{which}", folder / "forged"
    if not whole.exists():
        solver.solve(problem, callbacks=[lambda r: r.epoch >= 2]).save(whole)
    if rng.random() < 0.3:
        content = bytearray(whole.read_bytes())
        for _ in range(rng.integers(1, 4)):
            _spoil(content, rng)
        path.write_bytes(content)
    else:
        with read_archive(whole, "saved result", 3) as stored:
            about, arrays = stored.about, stored.arrays()
        for _ in range(rng.integers(1, 3)):
            _forge(about, arrays, rng)
        write_archive(path, "saved result", 3, about, arrays)
    try:
        rs.Result.load(path)
        result = solver.solve(problem, resume=path)
    except CLEAR:
        return REFUSED
    objective = problem.objective(result.x)
    if not abs(objective - result.trace["objective"][-1]) <= 1e-6 * (1.0 + abs(objective)):
        raise AssertionError(f"P(x) is {objective}, not {result.trace['objective'][-1]}")
    return RIGHT


def _forge(about: dict[str, Any], arrays: dict[str, Any], rng: RNG) -> None:
    values: list[Any] = [
        np.nan,
        np.inf,
        -np.inf,
        0,
        -1,
        1,
        2**31,
        2**63,
        1e300,
        -1e300,
        None,
        "x",
        [],
        {},
        1e-300,
    ]
    value = values[rng.integers(len(values))]
    if rng.random() < 0.2:
        names = sorted(set(about) - {"kind", "version"})
        about[names[rng.integers(len(names))]] = value
        return
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, how = arrays[name], rng.integers(7)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[name] = (
            array[: int(rng.integers(0, array.shape[0] + 1))] if array.ndim else array[None]
        )
    elif how == 2:
        arrays[name] = np.resize(
            array, [int(k) for k in rng.integers(0, 9, size=rng.integers(0, 4))]
        )
    elif how == 3:
        arrays[name] = array.astype(["f4", "i8", "u4", "u1", "?", "U5"][rng.integers(6)])
    elif how == 4 and array.size and isinstance(value, (int, float)):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spoiled = array.astype(np.float64).reshape(-1)
            spoiled[rng.integers(array.size)] = value
            arrays[name] = spoiled.astype(array.dtype).reshape(array.shape)
    elif how == 5:
        arrays[name] = rng.permutation(array) if array.ndim else array
    else:
        arrays[f"state/{rng.integers(3)}"] = array


# --- parts of one's own --------------------------------------------------------------------------


def parts(seed: int, folder: Path) -> str:
    """An order, a step, a penalty, an oracle, an engine or a callback that returns what it should not."""
    rng = np.random.default_rng(seed)
    kind = (_order, _step, _penalty, _oracle, _engine, _callback)[rng.integers(6)]
    plain = _result_of(kind(lambda found: found))
    seen: list[bool] = []

    def spoiled(found: Any) -> Any:
        if rng.random() < 0.5:
            return found
        given = _nonsense(found, rng)
        seen.append(not _same(given, found))
        return given

    try:
        x = _result_of(kind(spoiled))
    except CLEAR:
        return REFUSED
    if not np.isfinite(x).all():
        raise AssertionError(f"x is {x}")
    if not any(seen) and x.tobytes() != plain.tobytes():
        raise AssertionError("other bits, though all that was returned was right")
    return RIGHT


def _result_of(run: Callable[[], rs.Result]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run().x


def _nonsense(found: Any, rng: RNG) -> Any:
    array = np.asarray(found)
    with np.errstate(all="ignore"):
        several: list[Callable[[], Any]] = [
            lambda: None, lambda: "x", lambda: [], lambda: {}, lambda: np.nan, lambda: object(), lambda: 2**70, lambda: b"",
            lambda: array.astype(np.float64), lambda: array.astype(np.int64), lambda: array.astype(complex),
            lambda: array.astype(object), lambda: array.astype(str), lambda: array[..., None], lambda: array.ravel()[:-1],
            lambda: np.append(array, array), lambda: array * np.nan, lambda: array - 1, lambda: array * 10**6, lambda: -array,
            lambda: np.asfortranarray(array), lambda: np.ma.masked_array(array, True), lambda: array.tolist(),
            lambda: np.full(array.shape, np.inf), lambda: (array, array), lambda: True, lambda: array.view(_Strange),
        ]  # fmt: skip
        try:
            return several[rng.integers(len(several))]()
        except TypeError:  # of a flag there is no negative
            return None


class _Strange(np.ndarray):
    """An array that says something else each time it is asked."""

    @property
    def size(self) -> int:
        return 10**9


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(np.array_equal(np.asarray(one), np.asarray(other)))
    except Exception:
        return False


def _order(spoil: Any) -> Any:
    class Order:
        def visits(self, pool: Any, rng: Any, epoch: int) -> Any:
            return spoil(rng.permutation(pool))

    return lambda: rs.ProxRR(order=Order(), epochs=2, step=0.01).solve(PROBLEM)


def _step(spoil: Any) -> Any:
    return lambda: rs.ProxRR(step=lambda t: spoil(0.01), epochs=2).solve(PROBLEM)


def _penalty(spoil: Any) -> Any:
    class Penalty:
        def value(self, x: Any) -> Any:
            return spoil(0.1 * np.abs(x).sum())

        def prox(self, x: Any, step: float) -> Any:
            return spoil(np.sign(x) * np.maximum(np.abs(x) - 0.1 * step, 0.0))

    problem = rs.Problem(_DATA, PROBLEM.targets, penalty=Penalty())
    return lambda: rs.ProxRR(epochs=2, step=0.01).solve(problem)


def _oracle(spoil: Any) -> Any:
    problem = rs.OracleProblem(
        n=5, dim=4, gradient=lambda i, x: spoil(x - _DATA[i]), value=lambda x: spoil(float(x @ x)),
        smoothness=np.ones(5),
    )  # fmt: skip
    return lambda: rs.ProxRR(epochs=2, step=0.01).solve(problem)


def _engine(spoil: Any) -> Any:
    from reshuffle.engines import Threads

    class Engine(Threads):
        def open(self, sizes: Any, make_host: Any) -> Any:
            session = super().open(sizes, make_host)
            ask = session.run_round

            def run_round(task: Any, timeout: Any) -> Any:
                return [
                    replace(a, model=spoil(a.model)) if hasattr(a, "model") else a
                    for a in ask(task, timeout)
                ]

            session.run_round = run_round  # type: ignore[method-assign]
            return session

    return lambda: rs.FedRR(rounds=2, step=0.01, retries=1, engine=Engine()).solve(CLIENTS)


def _callback(spoil: Any) -> Any:
    return lambda: rs.ProxRR(epochs=2, step=0.01).solve(PROBLEM, callbacks=[lambda r: spoil(False)])


# --- many of them ---------------------------------------------------------------------------------

TARGETS: dict[str, Callable[[int, Path], str]] = {"libsvm": libsvm, "saved": saved, "parts": parts}


def batch(target: str, first: int, count: int) -> Counter[str]:
    """The inputs of these seeds in this process."""
    ended: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + count):
            print(f"seed {seed}", file=sys.stderr, flush=True)
            try:
                ended[TARGETS[target](seed, Path(folder))] += 1
            except Exception as error:
                ended["wrong"] += 1
                print(f"{target} {seed}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return ended


def many(target: str, count: int) -> Counter[str]:
    """The same in processes of their own, one after the other."""
    ended: Counter[str] = Counter()
    for first in range(0, count, BATCH):
        command = [
            sys.executable,
            "-m",
            "tests.long.fuzz",
            "--batch",
            target,
            str(first),
            str(min(BATCH, count - first)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        *told, counts = done.stdout.splitlines() or [""]
        print(*told, sep="\n", end="\n" if told else "")
        if done.returncode:
            ended["crashed"] += 1
            print(f"{target}: exit code {done.returncode} after {done.stderr.splitlines()[-1:]}")
        else:
            ended.update({k: int(v) for k, v in (pair.split("=") for pair in counts.split())})
    return ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for target, count in (("libsvm", 100_000), ("saved", 10_000), ("parts", 10_000)):
        parser.add_argument(f"--{target}", type=int, default=count)
    parser.add_argument("--batch", nargs=3)
    options = parser.parse_args()
    if options.batch:
        target, first, count = options.batch
        print(*(f"{k}={v}" for k, v in batch(target, int(first), int(count)).items()))
        return 0
    wrong = 0
    for target in TARGETS:
        ended = many(target, getattr(options, target))
        wrong += ended["wrong"] + ended["crashed"]
        print(target, dict(ended), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
