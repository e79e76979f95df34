"""Data that changes while a run goes on is noticed, also by a process that is new for every message."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sites import PARTS, PENALTY, pooled

import reshuffle as rs
from reshuffle.engines import Threads

Site, Sites = rs.federated.Site, rs.federated.Sites


def folders(where: Path) -> list[Path]:
    X, y = pooled()
    for k, part in enumerate(PARTS):
        (where / str(k)).mkdir()
        np.save(where / str(k) / "X.npy", X[part])
        np.save(where / str(k) / "y.npy", y[part])
    return [where / str(k) for k in range(len(PARTS))]


def spoil(how: str, X: Path) -> None:
    if how == "shorter":
        os.truncate(X, X.stat().st_size // 2)
    elif how == "written":
        with open(X, "r+b") as file:
            file.seek(-8, 2)
            file.write(np.float64(7.0).tobytes())
    elif how == "another":
        np.save(X.parent / "new.npy.tmp.npy", np.load(X) + 1.0)
        os.replace(X.parent / "new.npy.tmp.npy", X)
    else:
        X.unlink()


@pytest.mark.parametrize("how", ["shorter", "written", "another", "gone"])
@pytest.mark.parametrize("solver", [rs.FedRR(rounds=6), rs.ExactFedRR(rounds=6, state="clients")])
def test_a_folder_that_changes_during_the_run_is_refused_by_name(
    tmp_path: Path, how: str, solver: Any
) -> None:
    homes = folders(tmp_path)

    def change(result: rs.Result) -> None:
        if result.epoch == 3:
            spoil(how, homes[1] / "X.npy")

    words = (
        r"client 1 \(.*1\): its data changed during the run: .*X.npy (was written to|is no longer)"
    )
    with pytest.raises(rs.ClientError, match=words) as caught:
        solver.solve(Sites(homes, penalty=PENALTY), callbacks=[change])
    assert caught.value.clients == [1]


class NewProcess(Threads):
    """Hosts that forget all they have before every message, as if each came to a new process."""

    def open(self, sizes: Any, make_host: Any) -> Any:
        return super().open(sizes, lambda clients: Forgetful(make_host(clients)))


class Forgetful:
    def __init__(self, host: Any) -> None:
        self.host, self.clients = host, host.clients

    def sizes(self) -> dict[int, int]:
        return dict(self.host.sizes())

    def work(self, task: Any) -> Any:
        return pickle.loads(pickle.dumps(self.host)).work(pickle.loads(pickle.dumps(task)))


@pytest.mark.parametrize("state", ["server", "clients"])
def test_a_process_may_be_new_for_every_message(tmp_path: Path, state: Any) -> None:
    homes = [Site(path, state=path) for path in folders(tmp_path)]
    solver = rs.ExactFedRR(rounds=8, state=state, tol=1e-3)
    expected = replace(solver, engine="threads").solve(Sites(homes, penalty=PENALTY))
    found = replace(solver, engine=NewProcess(2)).solve(Sites(homes, penalty=PENALTY))
    assert found.digest == expected.digest


def test_a_new_process_notices_that_the_data_is_another(tmp_path: Path) -> None:
    homes = folders(tmp_path)

    def change(result: rs.Result) -> None:
        if result.epoch == 3:
            np.save(homes[2] / "y.npy", np.load(homes[2] / "y.npy")[::-1])

    with pytest.raises(rs.ClientError, match=r"client 2 .*its data changed .* agreed on was"):
        rs.FedRR(rounds=6, engine=NewProcess(1)).solve(
            Sites(homes, penalty=PENALTY), callbacks=[change]
        )
