"""Sites on Ray: hosts load their own shards, on the node where the data lies."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_engines import Watched
from test_sites import PARTS, PENALTY, both, pooled
from test_state_at_clients import SOLVER

import reshuffle as rs

Site, Sites = rs.federated.Site, rs.federated.Sites


def homes(folder: Path) -> list[Path]:
    X, y = pooled()
    paths = [folder / f"{k}.npz" for k in range(3)]
    for path, part in zip(paths, PARTS, strict=True):
        np.savez(path, X=X[part], y=y[part])
    return paths


def test_a_host_that_is_killed_loads_its_data_and_its_clients_state_again(
    cluster: Any, tmp_path: Path
) -> None:
    for k in range(3):
        (tmp_path / str(k)).mkdir()
    kept = [Site(path, state=tmp_path / str(k)) for k, path in enumerate(homes(tmp_path))]
    engine = Watched(hosts=1)

    def kill(result: rs.Result) -> None:
        if result.epoch == 2:
            cluster.kill(engine.sessions[-1].actors[0][0], no_restart=False)

    solver = replace(SOLVER, engine=engine)
    found = solver.solve(Sites(kept, penalty=PENALTY), callbacks=[kill])
    assert found.digest == SOLVER.solve(both()[1]).digest


def test_a_place_that_no_node_has_is_refused(cluster: Any) -> None:
    for places, words in ((("a",), "one for each of 3"), (("a", "b", "b"), "the resource a, b")):
        with pytest.raises(rs.InputError, match=words):
            rs.FedRR(engine=rs.engines.Ray(places=places)).solve(both()[1])


THREE_NODES = """
import os, sys
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
sys.path.insert(0, sys.argv[1])
from dataclasses import replace
from ray.cluster_utils import Cluster
import ray
import reshuffle as rs
from test_sites import PARTS, PENALTY, SOLVERS, both, pooled

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
names = ["north", "south", "east"]
for name in names:
    cluster.add_node(num_cpus=1, resources={name: 1})
cluster.wait_for_nodes()
folder = sys.argv[2]

def home(k):
    def load():
        import ray
        with open(f"{folder}/{k}.node", "w") as file:
            file.write(ray.get_runtime_context().get_node_id())
        X, y = pooled()
        return X[PARTS[k]], y[PARTS[k]]
    return load

sites = rs.federated.Sites([home(k) for k in range(3)], penalty=PENALTY)
engine = rs.engines.Ray(address=cluster.address, places=names)
solver = SOLVERS["ExactFedRR"]
found = replace(solver, engine=engine).solve(sites)
assert found.digest == solver.solve(both()[1]).digest
ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
where = {name: node["NodeID"] for node in ray.nodes() for name in names if name in node["Resources"]}
assert [open(f"{folder}/{k}.node").read() for k in range(3)] == [where[name] for name in names]
spread = rs.engines.Ray(address="auto", hosts=3)
assert replace(solver, engine=spread).solve(sites).digest == found.digest
assert ray.is_initialized()  # it was not ours to shut down
print("the same on three nodes")
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.slow
def test_three_nodes_each_with_its_own_data(tmp_path: Path) -> None:
    command = [sys.executable, "-c", THREE_NODES, str(Path(__file__).parent), str(tmp_path)]
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.stdout.endswith("the same on three nodes\n"), done.stderr[-2000:]


def test_secure_sums_are_the_same_on_ray(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("Crypto", reason='an extra: pip install "reshuffle[secure]"')
    from reshuffle.federated.secure.keys import make_keys

    names = ("north", "south", "east")
    make_keys(tmp_path / "keys", names)
    kept = [Site(path, name=name) for path, name in zip(homes(tmp_path), names, strict=True)]
    secure = rs.federated.Secure(keys=tmp_path / "keys")
    for solver in (
        rs.FedRR(rounds=3, seed=2),
        rs.FedNewton(rounds=3),
        rs.ExactFedRR(rounds=4, state="clients"),
    ):
        here = solver.solve(Sites(kept, penalty=PENALTY, secure=secure))
        engine = rs.engines.Ray(hosts=2)
        there = replace(solver, engine=engine).solve(Sites(kept, penalty=PENALTY, secure=secure))
        assert there.digest == here.digest
