"""A SuperLink, SuperNodes and runs as processes on loopback, as long as a test runs; ended by their ids."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

PATIENCE = 300.0
"""Seconds until a server that is polled is given up: far more than it takes, since machines may be busy."""
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "PYTHONDONTWRITEBYTECODE": "",  # every message starts a process, which would compile this package anew
}  # fmt: skip
LOOK = 0.25
"""Seconds between two looks at a log, which is read as a whole: a part of a second of the processor that the nodes need."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def until(true: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait until something is true; its value."""
    deadline = time.monotonic() + patience
    while not (found := true()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:g} s: {what}")
        time.sleep(LOOK)
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def command(name: str) -> str:
    """A script of the environment that the tests run in."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else str(shutil.which(name) or name)


class Process:
    """A process whose output goes to a file; it is ended with all that it started."""

    def __init__(self, arguments: Sequence[str], log: Path, env: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as file:
            self.popen = subprocess.Popen(
                arguments, stdout=file, stderr=subprocess.STDOUT, env=env, cwd=log.parent,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    @property
    def text(self) -> str:
        return COLOURS.sub("", self.log.read_text(errors="replace"))

    def says(self, words: str, patience: float = PATIENCE) -> None:
        """Wait for words in its output."""
        until(lambda: words in self.text or self._gone(words), words, patience)

    def _gone(self, words: str) -> bool:
        if self.popen.poll() is not None and words not in self.text:
            raise AssertionError(f"ended without {words!r}:\n{self.text[-3000:]}")
        return False

    def family(self) -> list[psutil.Process]:
        """The process and all that it started."""
        with suppress(psutil.NoSuchProcess):
            mine = psutil.Process(self.popen.pid)
            return [mine, *mine.children(recursive=True)]
        return []

    def wait(self, patience: float = PATIENCE) -> int:
        return self.popen.wait(patience)

    def stop(self) -> None:
        """As a service manager does: nobody starts it again, and its own process ends as it wants to."""
        family = self.family()
        shells = [one for one in family if _name(one) == "sh"]
        _end(shells)
        asked = [one for one in family if one not in shells][:1]
        for one in asked:
            one.send_signal(signal.SIGTERM)
        psutil.wait_procs(asked, 15)
        _end(family)
        self.popen.wait()

    def kill(self) -> None:
        """As the loss of a machine: the process and all that it started at once."""
        _end(self.family())
        self.popen.wait()


def _name(process: psutil.Process) -> str:
    """The name of a process; empty if it has ended since it was listed."""
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""


def _end(processes: Sequence[psutil.Process]) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(processes, 15)


class Trial:
    """A federation on loopback, in a folder of its own."""

    def __init__(self, folder: Path, keys: Path | None = None, simulation: bool = False) -> None:
        self.folder, self.keys, self.simulation = folder, keys, simulation
        self.home, self.port = folder / "home", free_port()
        self.processes: list[Process] = []
        self.home.mkdir(parents=True)
        self.host("127.0.0.1", {})

    def host(self, address: str, namespaces: dict[str, str]) -> None:
        """Where the SuperLink listens; and the network namespaces of "server" and of sites."""
        self.server, self.namespaces = address, namespaces
        self.address = f"{address}:{self.port}"
        secure = f'root-certificates = "{self.keys}/ca.crt"' if self.keys else "insecure = true"
        config = f'[superlink]\ndefault = "trial"\n[superlink.trial]\naddress = "{self.address}"\n{secure}\n'
        (self.home / "config.toml").write_text(config)

    def env(self, home: Path | None = None) -> dict[str, str]:
        source = str(Path(__file__).parents[2] / "src")
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
        scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return os.environ | QUIET | {
            "FLWR_HOME": str(home or self.home), "PYTHONPATH": path, "PATH": scripts,
        }  # fmt: skip

    def start(
        self, *arguments: str, log: str, home: Path | None = None, at: str = "server"
    ) -> Process:
        inside = ["ip", "netns", "exec", self.namespaces[at]] if at in self.namespaces else []
        process = Process(
            [*inside, command(arguments[0]), *arguments[1:]], self.folder / log, self.env(home)
        )
        self.processes.append(process)
        return process

    def link(self) -> Process:
        """The SuperLink, once it answers; keys are asked of nodes where there are certificates."""
        secure = ["--insecure"]
        if self.keys:
            secure = [
                f"--ssl-ca-certfile={self.keys}/ca.crt", f"--ssl-certfile={self.keys}/server.crt",
                f"--ssl-keyfile={self.keys}/server.key", "--enable-supernode-auth",
            ]  # fmt: skip
        more = ["--simulation"] if self.simulation else []
        process = self.start(
            "flower-superlink", *secure, *more, f"--host={self.server}", f"--port={self.port}",
            "--isolation=subprocess", f"--database={self.folder}/link.db",
            "--disable-runtime-dependency-installation", log="link.log",
        )  # fmt: skip
        until(lambda: self._healthy(process), "a SuperLink that answers")
        return process

    def _healthy(self, process: Process) -> bool:
        if process.popen.poll() is not None:
            raise AssertionError(process.text[-3000:])
        if self.namespaces:
            return "Uvicorn running" in process.text
        trusted = ssl.create_default_context(cafile=f"{self.keys}/ca.crt") if self.keys else None
        url = f"http{'s' if self.keys else ''}://{self.address}/health"
        with suppress(OSError), urllib.request.urlopen(url, timeout=2, context=trusted) as answer:
            return bool(answer.status == 200)
        return False

    def node(self, site: str, key: str = "", persistent: bool = True, **config: str) -> Process:
        """A SuperNode with a home of its own, and the key of this name.

        It is started again when it ends with an error, as by a service manager: for a minute after a node was killed the
        SuperLink takes it for connected, and refuses another with its key.
        """
        home = self.folder / f"home-{site}"
        home.mkdir(exist_ok=True)
        said = " ".join(f'{name}="{value}"' for name, value in {"site": site, **config}.items())
        secure = ["--insecure"]
        if self.keys:
            secure = [
                f"--root-certificates={self.keys}/ca.crt",
                f"--auth-supernode-private-key={self.keys}/{key or site}",
            ]
        again = ["sh", "-c", 'until "$@"; do sleep 1; done', "again"] if persistent else []
        return self.start(
            *again, command("flower-supernode"), *secure, f"--superlink={self.address}", "--host=127.0.0.1",
            f"--port={free_port()}", f"--node-config={said}", log=f"node-{key or site}.log", home=home, at=site,
        )  # fmt: skip

    def register(self, *sites: str) -> None:
        """The keys of sites, each under its name."""
        started = [
            self.start(
                "flwr", "supernode", "register", f"{self.keys}/{site}.pub", "trial", "--name", site,
                log=f"register-{site}.log",
            )
            for site in sites
        ]  # fmt: skip
        for done in started:
            assert done.wait() == 0, done.text
            assert "Error" not in done.text, done.text

    def run(self, app: Path, log: str = "run.log", **config: Any) -> Process:
        """`flwr run`, with its log followed."""
        written = " ".join(f"{k.replace('_', '-')}={_toml(v)}" for k, v in config.items())
        more = ["--run-config", written] if config else []
        return self.start("flwr", "run", str(app), "trial", "--stream", *more, log=log)

    def close(self) -> None:
        """The run first, then nodes, then the SuperLink."""
        for process in reversed(self.processes):
            if process.popen.poll() is None:
                process.kill()
        _end([*self._orphans()])

    def _orphans(self) -> Iterator[psutil.Process]:
        """What processes of this trial have left behind: its environment names the trial's folder."""
        for one in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if one.environ().get("FLWR_HOME", "").startswith(f"{self.folder}{os.sep}"):
                    yield one


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def trial(folder: Path, keys: Path | None = None, simulation: bool = False) -> Iterator[Trial]:
    """A federation whose processes end with the test."""
    made = Trial(folder, keys, simulation)
    try:
        yield made
    finally:
        made.close()


def works(node: Process, before: int) -> None:
    """Wait until a node has received one more training message than before."""
    until(
        lambda: node.text.count("Receiving: train") > before, "a message in the middle of a round"
    )


# --- hosts of their own ----------------------------------------------------------------------------


SPACE = f"rs{os.getpid()}-"
"""What the names of this process's network namespaces begin with."""


def can_have_hosts() -> bool:
    return os.geteuid() == 0 and shutil.which("ip") is not None


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def three_hosts() -> Iterator[dict[str, str]]:
    """Three network namespaces: the server, and two sites with a cable each that reaches the server alone."""
    server, space = "10.77.0.1", f"{SPACE}server"
    addresses = {"server": server, "north": "10.77.1.2", "south": "10.77.2.2"}
    with ExitStack() as ends:
        for name in addresses:
            ip("netns", "add", f"{SPACE}{name}")
            ends.callback(ip, "netns", "del", f"{SPACE}{name}")
            ip("-n", f"{SPACE}{name}", "link", "set", "lo", "up")
        ip("-n", space, "address", "add", f"{server}/32", "dev", "lo")
        for name in ("north", "south"):
            site, near = f"{SPACE}{name}", addresses[name].removesuffix("2") + "1"
            ip(
                "-n",
                space,
                "link",
                "add",
                name,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                site,
            )
            ip("-n", space, "address", "add", f"{near}/24", "dev", name)
            ip("-n", site, "address", "add", f"{addresses[name]}/24", "dev", "eth0")
            ip("-n", space, "link", "set", name, "up")
            ip("-n", site, "link", "set", "eth0", "up")
            ip("-n", site, "route", "add", f"{server}/32", "via", near)
        yield addresses


def cable(site: str, state: str) -> None:
    """Pull out the cable of a site ("down"), or put it back ("up")."""
    ip("-n", f"{SPACE}server", "link", "set", site, state)


def passed(site: str) -> int:
    """Bytes that went through a site's cable so far, both ways."""
    lines = subprocess.run(
        ["ip", "netns", "exec", f"{SPACE}{site}", "cat", "/proc/net/dev"],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    numbers = next(line for line in lines if "eth0:" in line).split(":")[1].split()
    return int(numbers[0]) + int(numbers[8])
