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


def divided(folder: Path, **settings: Any) -> Any:
    """breast_cancer in shards of 48 rows; a client holds less than its rows take, so that they stay on disk."""
    from reshuffle.datasets import Conversion, convert

    if not (folder / "shards").exists():
        X, y = rs.datasets.breast_cancer()
        np.savez(folder / "rows.npz", X=X, y=y)
        convert(folder / "rows.npz", folder / "shards", Conversion(shuffle=True, shard_rows=48))
    return rs.federated.DividedFolder(
        folder / "shards", penalty=PENALTY, clients=6, memory=12_000, **settings
    )


def test_a_divided_folder_on_ray_whose_host_is_killed_in_mid_round(
    cluster: Any, tmp_path: Path
) -> None:
    """One host or two, and one that dies when it has answered for the first of its clients: the same bits."""
    solver = rs.ExactDistributed(tol=1e-8)
    expected = replace(solver, engine="threads").solve(divided(tmp_path)).digest
    for hosts in (1, 2):
        engine, killed = Watched(hosts=hosts), list[int]()

        def kill(
            task: Any, answer: Any, reason: str, engine: Any = engine, killed: Any = killed
        ) -> None:
            if task.kind == "train" and task.round == 1 and not killed:
                killed.append(answer.client)
                cluster.kill(engine.sessions[-1].actors[0][0], no_restart=False)

        found = replace(solver, engine=engine).solve(divided(tmp_path, watch=kill))
        assert killed
        assert found.digest == expected


def test_a_shard_that_is_cut_under_a_host_ends_the_run_with_its_name(
    cluster: Any, tmp_path: Path
) -> None:
    path = tmp_path / "shards" / "00010.values.npy"

    def cut(task: Any, answer: Any, reason: str) -> None:
        if task.kind == "train" and task.round == 1:
            os.truncate(path, 1_000)

    solver = rs.ExactDistributed(tol=1e-12, engine=rs.engines.Ray(hosts=1))
    with pytest.raises(rs.ClientError, match=r"00010.values.npy has 1,000 bytes"):
        solver.solve(divided(tmp_path, watch=cut))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray itself
def test_rows_of_a_dataset_of_ray_become_shards(cluster: Any, tmp_path: Path) -> None:
    data, pyarrow = pytest.importorskip("ray.data"), pytest.importorskip("pyarrow")
    from reshuffle.datasets import Conversion, convert, open_shards

    X, y = rs.datasets.breast_cancer()
    columns = {f"x{j}": X[:, j] for j in range(4)} | {"label": np.where(y > 0, "ill", "well")}
    rows = data.from_arrow(pyarrow.table(columns)).repartition(3)
    manifest = convert(rows, tmp_path / "s", Conversion(target="label", shard_rows=100))
    assert (manifest.rows, manifest.features, manifest.names) == (569, 4, ("x0", "x1", "x2", "x3"))
    found, labels = open_shards(tmp_path / "s")
    first, again = (np.lexsort(np.asarray(A)[:, :4].T) for A in (X, found.load().values))
    np.testing.assert_array_equal(found.load().values[again], X[first, :4])
    assert np.array_equal(labels[again] == "ill", y[first] > 0)
    with pytest.raises(rs.InputError, match="of another file"):
        convert(rows, tmp_path / "s", Conversion(target="label"))
    for how, words in (
        (Conversion(), "--target must name"),
        (Conversion(target="label", shuffle=True), "convert it first"),
        (Conversion(target="label", format="csv"), "are for files"),
    ):
        with pytest.raises(rs.InputError, match=words):
            convert(rows, tmp_path / "other", how)
    with pytest.raises(rs.InputError, match=r"ray.data.Dataset of rows, got"):
        convert(3, tmp_path / "other")  # type: ignore[arg-type]


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


DIVIDED = """
import os, sys
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
from dataclasses import replace
from pathlib import Path
from ray.cluster_utils import Cluster
import ray
import reshuffle as rs
from test_sites_on_ray import divided

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
names = ["north", "south", "east"]
for name in names:
    cluster.add_node(num_cpus=1, resources={name: 1})
cluster.wait_for_nodes()
seen = []

def watch(task, answer, reason):
    if task.kind == "hello":
        seen.append(answer.client)

rows = divided(Path(sys.argv[1]), watch=watch)
solver = rs.ExactDistributed(tol=1e-8, engine="threads")
expected = solver.solve(rows).digest
for hosts in (1, 2, 3):
    engine = rs.engines.Ray(address=cluster.address, hosts=hosts)
    assert replace(solver, engine=engine).solve(rows).digest == expected, hosts
placed = rs.engines.Ray(address=cluster.address, places=["north"] * 2 + ["south"] * 2 + ["east"] * 2)
assert replace(solver, engine=placed).solve(rows).digest == expected
cluster.add_node(num_cpus=2, resources={"west": 1})  # between two runs
cluster.wait_for_nodes()
wider = rs.engines.Ray(address=cluster.address, places=["west"] * 2 + ["south"] * 2 + ["east"] * 2)
assert replace(solver, engine=wider).solve(rows).digest == expected
assert replace(solver, engine=rs.engines.Ray(address=cluster.address)).solve(rows).digest == expected
gone = [node for node in cluster.list_all_nodes() if node is not cluster.head_node][0]
cluster.remove_node(gone, allow_graceful=False)  # a node that is lost between two runs
assert replace(solver, engine=rs.engines.Ray(address=cluster.address, hosts=2)).solve(rows).digest == expected
status = Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
assert peak < 300, peak
print(f"driver {peak:.0f} MB")
print("the same on three nodes")
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_folder_divided_among_three_nodes(tmp_path: Path) -> None:
    """`pytest -m slow tests/federated/test_sites_on_ray.py`: about a minute."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", DIVIDED, str(tmp_path)],
        capture_output=True, text=True, timeout=600, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout.endswith("the same on three nodes\n"), done.stdout + done.stderr[-2000:]
