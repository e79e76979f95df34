"""What all tests share: small data, the real data where they lie on this machine, determinism."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

import reshuffle as rs

pytest.register_assert_rewrite(  # under `python -O` they would check nothing
    "command_line", "oracles", "servers", "sparse_cases", "fuzz", "reader_fuzz", "flower_servers"
)
VARIABLE = "RESHUFFLE_DATA"
MEMORY = Path("/dev/shm")
"""Where tests write on systems that have it: it is in memory, and every file that is saved is synced to its disk."""
MakeData = Callable[..., tuple[Any, Any]]

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Each worker would rewrite all tests, and each process that a test starts compile the whole package, anew.
    sys.dont_write_bytecode = False

settings.register_profile("reshuffle", deadline=None, derandomize=True, database=None)
settings.load_profile("reshuffle")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-numerics",
        action="store_true",
        help="an overflow, an underflow, a division by zero or a NaN out of numbers is an error",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--strict-numerics"):
        np.seterr(all="raise")
    quick = (
        config.getoption("markexpr") == "not slow"
    )  # slow tests may write more than fits into memory
    if quick and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(trylast=True)  # once slow tests are deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of two workers begins with the tests that wait for servers, and the second, which computes meanwhile,
    with those that share a cluster of Ray: so that only one of them starts it."""
    waiting = [one for one in items if one.get_closest_marker("servers")]
    shared = [one for one in items if "cluster" in getattr(one, "fixturenames", ())]
    apart = {*waiting, *shared}
    rest = [one for one in items if one not in apart]
    first = max(len(items) // 2 - len(waiting), 0)
    items[:] = waiting + rest[:first] + shared + rest[first:]


def pytest_collection_finish() -> None:
    """The items of all tests stay until the end; the garbage collector need not look through them again and again."""
    gc.freeze()


@pytest.fixture(scope="module")
def vanishing() -> Iterator[None]:
    """For formulas on any numbers: what is too small for a float becomes zero, also under --strict-numerics."""
    with np.errstate(under="ignore"):
        yield


@pytest.fixture(scope="session", autouse=True)
def data_folder() -> Iterator[Path | None]:
    """The folder of data files, named in RESHUFFLE_DATA as long as the tests run."""
    named, beside = os.environ.get(VARIABLE), Path(__file__).parents[2] / "shared" / "data"
    folder = next((f for f in (Path(named) if named else beside, beside) if f.is_dir()), None)
    with pytest.MonkeyPatch.context() as patch:
        if folder is not None:
            patch.setenv(VARIABLE, str(folder))
        yield folder


def load(name: str, folder: Path | None) -> tuple[Any, Any]:
    if folder is None or not (folder / name).is_file():
        pytest.skip(f"no file {name}: name a folder that has it in {VARIABLE}")
    return rs.datasets.load_libsvm(name)


@pytest.fixture(scope="session")
def a9a_file(data_folder: Path | None) -> None:
    """For tests that read the file of a9a itself: they are skipped where it is not there."""
    if data_folder is None or not (data_folder / "a9a").is_file():
        pytest.skip(f"no file a9a: name a folder that has it in {VARIABLE}")


@pytest.fixture(scope="session")
def a1a(data_folder: Path | None) -> tuple[Any, Any]:
    """The set a1a (1605 × 119, CSR) and its labels -1/+1."""
    return load("a1a", data_folder)


@pytest.fixture(scope="session")
def mushrooms(data_folder: Path | None) -> tuple[Any, Any]:
    """The set mushrooms (8124 × 112, CSR) and its labels -1/+1."""
    return load("mushrooms", data_folder)


@pytest.fixture(scope="session")
def make_data() -> MakeData:
    """``make_data(layout, dtype, targets, n, d, seed)``: rows with zeros in them, and targets.

    ``targets`` are as a loss names them: "signs", "real", "counts", "positive", or "classes" (three of them).
    """

    def make(
        layout: str = "dense",
        dtype: Any = np.float64,
        targets: str = "signs",
        n: int = 30,
        d: int = 5,
        seed: int = 0,
    ) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)).astype(dtype)
        X[4:5] = 0.0  # a row without a single value
        y = {
            "signs": np.where(np.arange(n) % 2 == 0, 1.0, -1.0),
            "real": rng.standard_normal(n),
            "counts": rng.poisson(1.5, n).astype(np.float64),
            "positive": rng.gamma(2.0, 1.0, n) + 0.1,
            "classes": np.arange(n) % 3,
        }[targets]
        return (sp.csr_matrix(X) if layout == "csr" else X), y

    return make


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty pictures, for tests of something else that a run of the command writes: to draw one takes most of its time."""
    figure = pytest.importorskip("matplotlib.figure").Figure

    def saved(self: Any, file: Any, **how: Any) -> None:
        text = '<svg xmlns="http://www.w3.org/2000/svg"></svg>'
        file.write(text) if hasattr(file, "write") else Path(file).write_text(text)

    monkeypatch.setattr(figure, "savefig", saved)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of Ray, for all tests that want one."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip('Ray is an extra: pip install "reshuffle[ray]"')
    from reshuffle.engines.ray import CLUSTER

    yield CLUSTER.enter(None)
    CLUSTER.leave()
