"""A round can be read: few modules of the federated package take part in it, whatever the method."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import reshuffle as rs
from reshuffle.federated.rounds import Rounds

FOLDER = f"{Path(rs.federated.__file__).parent}/"
MOST = 12
SOLVERS = {
    "FedRR": rs.FedRR(rounds=3),
    "LocalSGD": rs.LocalSGD(rounds=3),
    "ExactFedRR": rs.ExactFedRR(rounds=3, tol=1e-9),
    "ExactFedRR, state at the clients": rs.ExactFedRR(rounds=3, tol=1e-9, state="clients"),
    "FedNewton": rs.FedNewton(rounds=3, tol=1e-9),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_a_round_takes_few_modules(
    name: str, remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (X, y), parts = rs.datasets.breast_cancer(), 5
    penalty = rs.penalties.ElasticNet(4e-3, 6e-3)
    sites = rs.federated.Sites([(X[k::parts], y[k::parts]) for k in range(parts)], penalty=penalty)
    whole = rs.Problem(X, y, penalty=penalty)
    problem: Any = sites if remote else rs.federated.split(whole, clients=parts, seed=0)
    met, inside, advance = set[str](), False, Rounds.advance

    def note(frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if inside and event == "call" and file.startswith(FOLDER):
            met.add(file[len(FOLDER) :])

    def watched(self: Rounds, *given: Any) -> Any:
        nonlocal inside
        inside = True
        try:
            return advance(self, *given)
        finally:
            inside = False

    monkeypatch.setattr(Rounds, "advance", watched)
    before = sys.getprofile(), threading.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        SOLVERS[name].solve(problem)
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])
    assert {"rounds.py", "replies.py", "host.py"} <= met
    assert len(met) <= MOST, ", ".join(sorted(met))
