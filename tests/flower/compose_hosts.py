"""The services of a compose file without a container engine, as root: each has its own network, processes and host name, and a root
folder that is laid over this machine's, so that what it writes is its own. The image is this machine's environment of Python.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from flower_servers import SPACE, Process, ip

NETWORK = "10.78.0"
START = """
set -e
mount -t overlay overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work {place}/root
mount -t proc proc {place}/root/proc
mount --rbind /dev {place}/root/dev
cp {hosts} {place}/root/etc/hosts
hostname {name}
{volumes}
exec chroot {place}/root env -i {environment} {command}
"""


def environment_of(containerfile: Path) -> dict[str, str]:
    """What the image's ENV says, with this environment of Python in place of its own, and its choice of BLAS kernels, which the
    last bits of a model depend on."""
    said = dict(re.findall(r"\b([A-Z_]+)=(\S+)", containerfile.read_text().partition("\nENV ")[2]))
    source = str(Path(__file__).parents[2] / "src")
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    kernels = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}
    return kernels | said | {"PATH": path, "PYTHONPATH": source, "HOME": "/root", "LANG": "C.UTF-8"}


@contextmanager
def composed(file: Path, folder: Path) -> Iterator[dict[str, Process]]:
    """The services of a file as processes, until the end; ``folder`` has their volumes."""
    said: dict[str, Any] = yaml.safe_load(file.read_text())
    names, switch = list(said["services"]), f"{SPACE}switch"
    folder.mkdir()
    hosts = folder / "hosts"
    lines = [f"{NETWORK}.{number} {name}" for number, name in enumerate(names, 2)]
    hosts.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
    for volume in said["volumes"]:
        (folder / "volumes" / volume).mkdir(parents=True)
    image = environment_of(file.parent / "Containerfile")
    with ExitStack() as ends:
        ip("netns", "add", switch)
        ends.callback(ip, "netns", "del", switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        found: dict[str, Process] = {}
        for number, name in enumerate(names, 2):
            _connect(ends, name, number, switch)
            script = _script(name, said["services"][name], folder, hosts, image)
            alone = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
            found[name] = Process(
                ["ip", "netns", "exec", f"{SPACE}{name}", *alone, "sh", "-c", script],
                folder / f"{name}.log", dict(os.environ),
            )  # fmt: skip
            ends.callback(found[name].kill)
        yield found


def _connect(ends: ExitStack, name: str, number: int, switch: str) -> None:
    """A network of its own, with a cable to the switch."""
    space = f"{SPACE}{name}"
    ip("netns", "add", space)
    ends.callback(ip, "netns", "del", space)
    cable = f"eth0 netns {space} type veth peer name port{number} netns {switch}"
    ip("link", "add", *cable.split())
    ip("-n", switch, "link", "set", f"port{number}", "master", "bridge", "up")
    ip("-n", space, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
    ip("-n", space, "link", "set", "eth0", "up")
    ip("-n", space, "link", "set", "lo", "up")


def _script(
    name: str, service: dict[str, Any], folder: Path, hosts: Path, image: dict[str, str]
) -> str:
    place = folder / name
    for part in ("upper", "work", "root"):
        (place / part).mkdir(parents=True)
    volumes = []
    for volume, target in (one.split(":") for one in service["volumes"]):
        inside = shlex.quote(f"{place}/root{target}")
        own = shlex.quote(f"{folder}/volumes/{volume}")
        volumes += [f"mkdir -p {inside}", f"mount --bind {own} {inside}"]
    variables = image | service.get("environment", {})
    return START.format(
        place=shlex.quote(str(place)), hosts=shlex.quote(str(hosts)), name=name, volumes="\n".join(volumes),
        environment=" ".join(shlex.quote(f"{key}={value}") for key, value in variables.items()),
        command=" ".join(shlex.quote(word.replace("$$", "$")) for word in service["command"]),
    )  # fmt: skip
