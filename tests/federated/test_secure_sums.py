"""Runs over sites that tell sums alone: the same models, sites that drop out, and what is refused."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("Crypto", reason='an extra: pip install "reshuffle[secure]"')

from command_line import runner

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.engines import Failure, Reply, Task, Threads
from reshuffle.errors import ClientError, InputError
from reshuffle.federated.secure.keys import make_keys

Secure, Site, Sites = rs.federated.Secure, rs.federated.Site, rs.federated.Sites
NAMES = ("north", "south", "east", "west")
PENALTY = rs.penalties.ElasticNet(1e-3, 1e-2)
CLOSE = 2.0**-38


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial") / "keys"
    make_keys(folder, NAMES)
    return folder


def data(classes: int = 2) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 6)) * np.array([1.0, 2.0, 0.5, 1.0, 4.0, 1.0])
    if classes > 2:
        y = np.argmax(X[:, :classes] + rng.standard_normal((120, classes)), axis=1)
    else:
        y = np.where(X @ rng.standard_normal(6) + rng.standard_normal(120) > 0, 1.0, -1.0)
    return [(X[rows], y[rows]) for rows in np.split(np.arange(120), [20, 50, 80])]


def sites_of(keys: Path | None, secure: Any = None, rows: Any = None, **settings: Any) -> Any:
    rows = rows or data(3 if "loss" in settings else 2)
    described = [Site(part, name=name) for name, part in zip(NAMES, rows, strict=True)]
    secure = secure or (Secure(keys=keys) if keys else False)
    return Sites(described, penalty=PENALTY, secure=secure, **settings)


SOLVERS: dict[str, Any] = {
    "FedRR": rs.FedRR(rounds=5, seed=2),
    "FedRR, two at a time": rs.FedRR(rounds=5, seed=2, participation=0.5),
    "LocalSGD": rs.LocalSGD(rounds=4, seed=2),
    "ExactFedRR": rs.ExactFedRR(rounds=60, tol=1e-9, seed=2, state="clients", scales=None),
    "ExactFedRR, plain rounds": rs.ExactFedRR(
        rounds=8, seed=2, state="clients", acceleration=0, participation=0.5, scales=None
    ),
    "FedNewton": rs.FedNewton(rounds=12, tol=1e-9),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ridge": 0.1, "fit_intercept": True},
        {"loss": rs.losses.Multinomial(), "fit_intercept": True},
    ],
    ids=["plain", "intercept", "multinomial"],
)
def test_the_model_is_that_of_the_run_without_masks(
    name: str, settings: dict[str, Any], keys: Path
) -> None:
    plain = SOLVERS[name].solve(sites_of(None, **settings))
    masked = SOLVERS[name].solve(sites_of(keys, **settings))
    assert np.linalg.norm(masked.x - plain.x) <= CLOSE * np.linalg.norm(plain.x)
    assert (masked.epoch, masked.converged) == (plain.epoch, plain.converged)
    np.testing.assert_allclose(masked.trace["objective"], plain.trace["objective"], rtol=1e-11)


@pytest.mark.parametrize("name", SOLVERS)
def test_x_may_be_rounded_where_sums_are_secure(name: str, keys: Path) -> None:
    plain = SOLVERS[name].solve(sites_of(keys))
    short = replace(SOLVERS[name], downlink="rounded").solve(sites_of(keys))
    assert short.converged == plain.converged
    np.testing.assert_allclose(short.x, plain.x, atol=1e-3 if plain.converged else 0.05)
    assert short.trace["bytes_down"][3] < plain.trace["bytes_down"][3]


@pytest.mark.parametrize("name", SOLVERS)
def test_numbers_in_fewer_digits_are_no_part_of_a_secure_sum(name: str, keys: Path) -> None:
    with pytest.raises(InputError, match=r'transport must be "float64" with secure sums'):
        replace(SOLVERS[name], transport="float32").solve(sites_of(keys))


def test_columns_of_very_different_size_and_large_values(keys: Path) -> None:
    """Ranges are raised where they have to be, and rounds repeated."""
    rows = [(X * np.array([1e4, 1e-3, 1.0, 1.0, 1e3, 1.0]), y) for X, y in data()]
    solver = rs.FedNewton(rounds=20, tol=1e-9)
    plain, masked = solver.solve(sites_of(None, rows=rows)), solver.solve(sites_of(keys, rows=rows))
    assert masked.converged
    assert np.linalg.norm(masked.x - plain.x) <= CLOSE * np.linalg.norm(plain.x)


def test_a_trial_point_that_is_far_out_leaves_later_sums_as_fine_as_before(keys: Path) -> None:
    """Newton's first step for counts goes far beyond the solution, where values are 10¹² times as large."""
    rows = [(X, np.round(np.exp(3.0 + 0.3 * X[:, 0]))) for X, _ in data()]
    solver = rs.FedNewton(rounds=30, tol=1e-10)
    more: dict[str, Any] = {"rows": rows, "loss": rs.losses.Poisson(), "fit_intercept": True}
    plain, masked = solver.solve(sites_of(None, **more)), solver.solve(sites_of(keys, **more))
    assert masked.converged
    assert (
        masked.epoch <= plain.epoch + 3
    )  # coarse sums cost a step or two while the point is far out
    assert np.linalg.norm(masked.x - plain.x) <= 1e-5 * np.linalg.norm(plain.x)


def test_the_power_method_is_a_sum_too(keys: Path) -> None:
    solver = rs.FedRR(rounds=3, seed=0)
    plain, masked = (solver.solve(sites_of(k, power_rounds=4)) for k in (None, keys))
    assert np.linalg.norm(masked.x - plain.x) <= CLOSE * np.linalg.norm(plain.x)


@dataclass(eq=False)
class Losing:
    """Threads, and lines that lose some answers; it writes down all that the driver gets."""

    loses: Callable[[Task, int], bool]
    heard: list[tuple[Task, Reply]] = field(default_factory=list)
    change: Callable[[Task], Task] = lambda task: task

    def open(self, sizes: Sequence[int], make_host: Any) -> Any:
        session, outer = Threads(2).open(sizes, make_host), self

        class Session:
            sizes = session.sizes

            def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
                answers = session.run_round(outer.change(task), timeout)
                return [*filter(self.arrives(task), answers)]

            def arrives(self, task: Task) -> Callable[[Reply | Failure], bool]:
                def good(answer: Reply | Failure) -> bool:
                    if outer.loses(task, answer.client):
                        return False
                    if isinstance(answer, Reply):
                        outer.heard.append((task, answer))
                    return True

                return good

            def close(self) -> None:
                session.close()

        return Session()


def test_no_answer_of_a_single_site_reaches_the_driver(keys: Path) -> None:
    engine = Losing(lambda task, client: False)
    rs.FedNewton(rounds=3, engine=engine).solve(sites_of(keys, fit_intercept=True))
    kinds = {task.kind for task, _ in engine.heard}
    assert kinds == {
        "secure-hello", "hello", "load", "secure-keys", "secure-shares", "secure-input", "secure-agree",
        "secure-unmask",
    }  # fmt: skip
    for task, reply in engine.heard:
        assert reply.model.size == 0
        numbers = [p for p in reply.more.values() if isinstance(p, float)]
        assert task.kind in ("hello", "load") or not numbers
        if task.kind == "secure-input" and "secure_masked" in reply.more:
            assert np.asarray(reply.more["secure_masked"]).dtype == np.uint64


@pytest.mark.parametrize("kind", ["secure-keys", "secure-input"])
def test_a_round_without_one_site_stands_where_averaging_is_allowed(
    kind: str, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def loses(task: Task, client: int) -> bool:
        return client == 2 and task.round == 1 and task.kind in (kind, "train")

    solver = rs.FedRR(rounds=3, seed=1, on_missing="average", retries=0)
    plain = replace(solver, engine=Losing(loses)).solve(sites_of(None))
    with caplog.at_level(logging.WARNING):
        masked = replace(solver, engine=Losing(loses)).solve(sites_of(keys))
    assert np.linalg.norm(masked.x - plain.x) <= CLOSE * np.linalg.norm(plain.x)
    assert "the secure sum is without 1 sites (client 2 (east): no answer)" in caplog.text


@pytest.mark.parametrize("name", ["FedNewton", "ExactFedRR", "FedRR"])
def test_a_site_that_drops_out_for_a_moment_changes_nothing(name: str, keys: Path) -> None:
    """Before its input the attempt is repeated with new masks, after it the others remove its mask."""
    gone: set[str] = set()

    def loses(task: Task, client: int) -> bool:
        wanted = (
            2 if task.kind == "secure-unmask" else 1
        )  # who has not signed is not asked to unmask
        once = (
            client == 1
            and task.round == wanted
            and task.kind.startswith("secure-")
            and task.kind not in gone
        )
        gone.update({task.kind} if once else ())
        return once

    solver = SOLVERS[name]
    whole = solver.solve(sites_of(keys, Secure(threshold=3, keys=keys)))
    with_losses = replace(solver, engine=Losing(loses), retries=5).solve(
        sites_of(keys, Secure(threshold=3, keys=keys))
    )
    assert gone == {f"secure-{one}" for one in ("keys", "shares", "input", "agree", "unmask")}
    assert with_losses.digest == whole.digest


def test_below_the_threshold_the_run_ends_and_names_the_sites(keys: Path) -> None:
    engine = Losing(
        lambda task, client: client in (1, 3) and task.kind == "secure-input" and task.round == 1
    )
    solver = rs.FedRR(rounds=3, engine=engine, on_missing="average", retries=1)
    with pytest.raises(
        ClientError, match=r"round 1: no secure sum, which needs 3 of 4 sites"
    ) as caught:
        solver.solve(sites_of(keys))
    assert caught.value.clients == []  # they gave no reason, and are not heard of


def test_runs_may_be_resumed(keys: Path, tmp_path: Path) -> None:
    solver = rs.FedRR(rounds=6, seed=1)
    whole = solver.solve(sites_of(keys))
    checkpoint = tmp_path / "run.npz"
    replace(solver, rounds=3).solve(sites_of(keys), callbacks=[rs.callbacks.Checkpoint(checkpoint)])
    resumed = solver.solve(sites_of(keys), resume=checkpoint)
    assert resumed.digest == whole.digest


# --- refused before any data is touched --------------------------------------------------------


def untouched() -> Any:
    raise AssertionError("the data was touched")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda folder: (folder / "south.key").unlink(), "south.key in its folder of keys"),
        (lambda folder: (folder / "south.key").chmod(0o644), "can be read by others"),
        (
            lambda folder: shutil.copy(folder / "north.key", folder / "south.key"),
            "south.pub beside it is of another key",
        ),
        (lambda folder: (folder / "east.pub").unlink(), "no public key of 'east'"),
        (lambda folder: (folder / "east.pub").write_text("x"), "east.pub is no public key"),
    ],
)
def test_keys_that_do_not_fit_are_refused_before_the_data_is_touched(
    change: Callable[[Path], Any], why: str, keys: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "keys"
    shutil.copytree(keys, folder)
    change(folder)
    described = [
        Site(untouched, name=name, keys=folder if name == "south" else keys) for name in NAMES
    ]
    with pytest.raises(
        ClientError, match=r"before the first round: 1 of 4 sites cannot take part"
    ) as caught:
        rs.FedRR(rounds=1).solve(Sites(described, penalty=PENALTY, secure=True))
    assert why in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_sites_that_have_pinned_other_keys_are_told_apart(keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    shutil.copytree(keys, folder)
    make_keys(tmp_path / "new", ["east"])
    shutil.copy(tmp_path / "new/east.pub", folder / "east.pub")
    described = [
        Site(untouched, name=name, keys=folder if name == "south" else keys) for name in NAMES
    ]
    with pytest.raises(InputError, match=r"pinned the same keys: those of client 1 \(south\)"):
        rs.FedRR(rounds=1).solve(Sites(described, penalty=PENALTY, secure=True))


def test_a_clock_that_is_far_off_is_refused(keys: Path) -> None:
    def slow(task: Task) -> Task:
        return replace(
            task, more={**task.more, "secure_time": float(task.more["secure_time"]) - 4000.0}
        )

    described = [Site(untouched, name=name) for name in NAMES]
    sites = Sites(described, penalty=PENALTY, secure=Secure(keys=keys))
    with pytest.raises(
        ClientError, match=r"the driver's clock is at a time 4,0\d\d s before this site's clock"
    ):
        rs.FedRR(rounds=1, engine=Losing(lambda task, client: False, change=slow)).solve(sites)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda k: Sites([Site(untouched, name="north")], secure=Secure(keys=k)),
            "at least two sites",
        ),
        (
            lambda k: Sites([Site(untouched, name=n) for n in NAMES], secure=True),
            r"client 0 \(north\) has none",
        ),
        (lambda k: Sites([untouched, untouched], secure=Secure(keys=k)), "site 0 must have a name"),
        (
            lambda k: Sites(
                [Site(untouched, name="a/b"), Site(untouched, name="c")], secure=Secure(keys=k)
            ),
            "must have a name of",
        ),
        (
            lambda k: Sites(
                [Site(untouched, name="a"), Site(untouched, name="a")], secure=Secure(keys=k)
            ),
            "occurs twice",
        ),
        (
            lambda k: Sites([Site(untouched, name=n) for n in NAMES], secure=cast(Any, "yes")),
            "secure must be True",
        ),
        (
            lambda k: Sites([Site(untouched, name=n) for n in NAMES], secure=Secure(2, k)),
            "more than half",
        ),
        (
            lambda k: Sites([Site(untouched, name=n) for n in NAMES], secure=Secure(5, k)),
            "at most all",
        ),
        (
            lambda k: Sites(
                [Site(untouched, name=n) for n in NAMES], standardise=True, secure=Secure(keys=k)
            ),
            "standardise must be False",
        ),
        (
            lambda k: Sites(
                [Site(untouched, name=n) for n in NAMES], impute=True, secure=Secure(keys=k)
            ),
            "impute must be False",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    make: Callable[[Path], Any], why: str, keys: Path
) -> None:
    with pytest.raises(InputError, match=why):
        make(keys)


def test_methods_that_need_single_replies_are_refused(keys: Path) -> None:
    sites = Sites(
        [Site(untouched, name=name) for name in NAMES], penalty=PENALTY, secure=Secure(keys=keys)
    )
    with pytest.raises(InputError, match='ExactFedRR needs state="clients" with secure sums'):
        rs.ExactFedRR(rounds=1).solve(sites)
    with pytest.raises(InputError, match='transport must be "float64" with secure sums'):
        rs.ExactFedRR(rounds=1, state="clients", transport="float32").solve(sites)

    class Median(rs.federated.Averaging):
        """It inherits the words of a class that adds, and does something else."""

        def step(self, state: Any, models: Any, step: float) -> Any:
            return {"x": np.median(list(models.values()), axis=0)}

    class Robust(rs.FedRR):
        server_class = Median

    with pytest.raises(InputError, match="Median combines the replies of single clients"):
        Robust(rounds=1).solve(sites_of(keys))
    with pytest.raises(InputError, match="leaves a round with one of 4 sites"):
        rs.FedRR(rounds=1, participation=0.25).solve(sites_of(keys))


def test_a_certificate_accounts_for_the_rounding_of_sums(keys: Path) -> None:
    """With a range far too large, sums are coarse, and the run does not claim what it cannot know."""
    coarse = Secure(keys=keys, range=2.0**40)
    found = rs.FedNewton(rounds=20, tol=1e-9).solve(sites_of(keys, coarse))
    assert not found.converged
    fine = rs.FedNewton(rounds=20, tol=1e-9).solve(sites_of(keys))
    assert fine.converged


# --- the command -------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_pictures")
def test_the_command_makes_keys_and_trains_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = runner().invoke(
        main, ["federate", "keys", "keys", "--json", *(w for n in NAMES for w in ("--site", n))]
    )
    assert made.exit_code == 0, made.output
    assert sorted(json.loads(made.stdout)["fingerprints"]) == sorted(NAMES)
    again = runner().invoke(main, ["federate", "keys", "keys", "--site", "north"])
    assert again.exit_code == 1
    assert "keys are not overwritten" in again.output
    for name, (X, y) in zip(NAMES, data(), strict=True):
        np.savez(f"{name}.npz", X=X, y=y)
    lines = ["secure = true", 'keys = "keys"', "threshold = 3", "l2 = 0.01"]
    lines += [f'[[site]]\ndata = "{name}.npz"' for name in NAMES]
    Path("sites.toml").write_text("\n".join(lines))
    ran = runner().invoke(
        main, ["federate", "sites.toml", "--tol", "1e-6", "--no-progress", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["converged"]
    assert "secure-input" in document["travelled"]
    assert "train" not in document["travelled"]
    assert all(line["loss"] is None for line in document["clients"])
    Path("sites.toml").write_text("\n".join(lines[1:]))
    refused = runner().invoke(main, ["federate", "sites.toml", "--no-progress", "--out", "other"])
    assert "threshold is for secure sums" in refused.output
