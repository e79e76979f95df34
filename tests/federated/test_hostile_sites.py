"""Sites as they may come: copies, names that do not fit, audit files that cannot be written, counts."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from test_sites import PENALTY, pooled

import reshuffle as rs
from reshuffle.cli import main

Site, Sites = rs.federated.Site, rs.federated.Sites
X, Y = pooled(60)
SOLVER = rs.ExactFedRR(rounds=300, tol=1e-12)
SOLVERS: dict[str, Any] = {
    "server": SOLVER,
    "clients": replace(SOLVER, state="clients"),
    "newton": rs.FedNewton(tol=1e-12),
}
WEIGHTS = np.where(np.arange(60) % 3, 1.0, 0.0)
GOOD: dict[str, tuple[list[Any], Any]] = {
    "one row": ([(X[:1], Y[:1]), (X[1:], Y[1:])], None),
    "one class each": ([(X[s], Y[s]) for s in (Y > 0, Y < 0)], None),
    "a row a site": ([(X[k : k + 1], Y[k : k + 1]) for k in range(60)], None),
    "dtypes": ([(X[:20], Y[:20].astype(int)), (X[20:], Y[20:].astype(np.int8))], None),
    "sparse and dense": ([(sp.csr_matrix(X[:20]), Y[:20]), (X[20:], Y[20:])], None),
    "layouts": ([(sp.csc_array(X[:20]), Y[:20]), (sp.coo_matrix(X[20:]), Y[20:])], None),
    "weights with zeros": ([(X[:20], Y[:20], WEIGHTS[:20]), (X[20:], Y[20:], WEIGHTS[20:])], WEIGHTS),
    "weights at one site": ([(X[:20], Y[:20], np.full(20, 2.0)), (X[20:], Y[20:])],
                            np.r_[np.full(20, 2.0), np.ones(40)]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:X is sparse")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", GOOD)
def test_any_split_has_the_pooled_solution(name: str, solver: str) -> None:
    sites, weights = GOOD[name]
    whole = rs.Problem(X, Y, penalty=PENALTY, sample_weight=weights)
    best = rs.ExactProxRR(tol=1e-12).solve(whole).trace["objective"][-1]
    found = SOLVERS[solver].solve(Sites(sites, penalty=PENALTY))
    assert found.converged
    assert found.trace["objective"][-1] - best < 1e-12


BAD: dict[str, tuple[Any, str]] = {
    "no rows": ((X[:0], Y[:0]), "client 1: X must have at least one row"),
    "fewer names": ({"X": X, "y": Y, "names": ["a", "b"]}, "client 1: names must name each of 5 columns, got 2"),
    "other order": ({"X": X, "y": Y, "names": list("baecd")}, 'names of client 1 is .*"b", "a"'),
    "no weight at all": ((X, Y, np.zeros(60)), "client 1: sample_weight must not be zero everywhere"),
    "other labels": ((X, np.where(Y > 0, 1, 0)), r"client 1: \[0.0, 1.0\]"),
    "text for numbers": ((X, np.where(Y > 0, "yes", "no")), "kind of labels of client 1 is text"),
    "raises": (lambda: 1 / 0, "client 1: ZeroDivisionError"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_with_the_name_of_who_has_it(name: str) -> None:
    bad, words = BAD[name]
    first = {"X": X, "y": Y, "names": list("abcde")} if "names" in str(words) else (X, Y)
    with pytest.raises((rs.InputError, rs.ClientError), match=words):
        SOLVER.solve(Sites([first, bad], penalty=PENALTY))


def test_copies_are_told_of(caplog: Any) -> None:
    homes = [Site((X, Y), name=name) for name in ("north", "south")]
    with caplog.at_level(logging.WARNING, logger="reshuffle"):
        SOLVER.solve(Sites(homes, penalty=PENALTY))
        assert "client 1 (south) has the same data as client 0 (north)" in caplog.text
        caplog.clear()
        SOLVER.solve(Sites([(X, Y)] * 9, penalty=PENALTY))
        assert caplog.text.count("has the same data") == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("path", "named"), [("/dev/full", "…/full"), ("nowhere/audit.jsonl", "nowhere/audit.jsonl")]
)
def test_what_cannot_be_written_down_neither_comes_nor_leaves(path: str, named: str) -> None:
    """And the neighbour on the same host is not blamed for it."""
    homes = [Site((X[:30], Y[:30]), audit=path), Site((X[30:], Y[30:]))]
    with pytest.raises(
        rs.ClientError, match=f"client 0: its audit file {named} cannot be"
    ) as caught:
        rs.FedRR(engine=rs.engines.Threads(1)).solve(Sites(homes, penalty=PENALTY))
    assert caught.value.clients == [0]


def a_row_in_the_text() -> Any:
    raise ValueError("bad row: Jo Smith, 1961-02-03, 7.5 mmol/l")


def test_of_an_error_that_is_not_ours_the_type_alone_leaves_the_site(caplog: Any) -> None:
    """Its text may hold a row; whoever looks after the site finds it in the log there."""
    words = r"client 1: ValueError; its text is in the log of the site"
    with (
        caplog.at_level(logging.ERROR, logger="reshuffle"),
        pytest.raises(rs.ClientError, match=words) as caught,
    ):
        replace(SOLVER, retries=0).solve(Sites([(X, Y), a_row_in_the_text], penalty=PENALTY))
    assert "Smith" not in str(caught.value)
    assert "bad row: Jo Smith, 1961-02-03, 7.5 mmol/l" in caplog.text


def test_a_state_that_is_damaged_does_not_say_in_which_folder_it_lies(
    tmp_path: Path, caplog: Any
) -> None:
    home = Site((X, Y), state=tmp_path)
    solver = rs.ExactFedRR(rounds=4, state="clients", retries=0)
    path = tmp_path / "run.npz"
    solver.solve(Sites([home]), callbacks=[rs.Checkpoint(path), lambda r: r.epoch == 2])
    (mine,) = tmp_path.glob("client-0-*.npz")
    mine.write_bytes(b"half a file")
    with pytest.raises(rs.ClientError, match=r"its state in …/client-0-\w+.npz is") as caught:
        solver.solve(Sites([home]), resume=path)
    assert str(tmp_path) not in str(caught.value)
    assert str(tmp_path) in caplog.text


def command(*words: str) -> Any:
    return CliRunner().invoke(main, ["federate", *words, "--no-progress"])


def test_counts_by_the_command(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(0.3 * X[:, 0]))
    for name, rows in (("north", slice(0, 25)), ("south", slice(25, 60))):
        np.savez(tmp_path / f"{name}.npz", X=X[rows], y=counts[rows])
    toml = 'loss = "poisson"\nintercept = true\n[[site]]\ndata = "north.npz"\n[[site]]\ndata = "south.npz"\n'
    (tmp_path / "sites.toml").write_text(toml)
    where = str(tmp_path / "sites.toml")
    done = command(where, "--method", "newton", "--tol", "1e-8", "--out", str(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    assert "≤ tol" in done.output
    assert (tmp_path / "run" / "federation.png").stat().st_size > 1000
    refused = command(where, "--out", str(tmp_path / "other"))
    assert refused.exit_code == 1
    assert "FedNewton" in refused.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('l1 = "0.1"', "l1 cannot be '0.1'"),
        ("l1 = nan", "l1 must be finite"),
        ("intercept = 1", "intercept cannot be 1: it must be true or false"),
        ('[site]\ndata = "a.npz"', "each site begins with [[site]], in double brackets"),
        ('loss = "linear"', "loss must be one of"),
        ('colour = "red"', "'colour' is not known"),
        ('[[site]]\ndata = ""', "site 0 must say where its data lies"),
        ('[[site]]\ndata = ["a"]', "data cannot be"),
        ('[[site]]\ndata = "gone.npz"', r"(gone): there is no file or folder"),
    ],
)
def test_a_file_of_sites_that_says_something_else(tmp_path: Path, change: str, words: str) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    (tmp_path / "sites.toml").write_text(change + '\n[[site]]\ndata = "a.npz"\n')
    done = command(str(tmp_path / "sites.toml"), "--out", str(tmp_path / "run"))
    assert done.exit_code == 1
    assert words in done.output
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())
