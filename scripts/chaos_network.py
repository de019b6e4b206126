"""A Spark cluster whose network is ours to cut: every host is a network namespace of this machine.

::

    namespace "driver": driver, master ─ bridge ┬─ port1 ═ eth0 ─ namespace "1": worker, executor, slot
                                                └─ port2 ═ eth0 ─ namespace "2": worker, executor, slot

The bridge is in the driver's namespace too, so nothing outside the three is touched, and all is gone with
them.  Needs root, ``ip`` and ``nsenter``; :func:`spark_hosts` says in one sentence what is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
from processes import kill

HOME = Path(pyspark.__file__).parent
DRIVER = 0
WORKERS = (1, 2)
PORT = 7077
_BRIDGE = "bridge"
_PATIENCE_S = 60.0


class NotAllowed(Exception):
    """Namespaces cannot be made on this machine; says why."""


def obstacle(user: int, find: Callable[[str], str | None] = shutil.which) -> str | None:
    """Why namespaces cannot even be tried by this user with these tools; nothing if they can."""
    if user != 0:
        return "only root may make network namespaces"
    missing = [tool for tool in ("ip", "nsenter") if find(tool) is None]
    return f"there is no {' and no '.join(missing)} here" if missing else None


def address(host: int) -> str:
    """Where a host is reached; the network is not joined to any other, so any would do."""
    return f"10.213.0.{host + 1}"


class Hosts:
    """The namespaces and their links. Use ``with``: at its end whatever runs in them is killed."""

    def __init__(self) -> None:
        self._names = [f"penstock-{os.getpid()}-{part}" for part in ("driver", *WORKERS)]
        self._made: list[str] = []

    def __enter__(self) -> Hosts:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Processes first: a namespace lives as long as one of them does."""
        for name in self._made:
            while pids := _ip("netns", "pids", name).split():
                kill(*map(int, pids))
                time.sleep(0.02)
        while self._made:
            _ip("netns", "delete", self._made.pop())

    def _build(self) -> None:
        for name in self._names:
            _ip("netns", "add", name)
            self._made.append(name)
            self._inside(name, "link", "set", "lo", "up")
        driver = self._names[DRIVER]
        self._inside(driver, "link", "add", _BRIDGE, "type", "bridge")
        for host in WORKERS:
            ends = ("netns", driver, "type", "veth", "peer", "name", "eth0", "netns", self._names[host])
            _ip("link", "add", f"port{host}", *ends)
            self._inside(driver, "link", "set", f"port{host}", "master", _BRIDGE, "up")
        for host, name in enumerate(self._names):
            device = _BRIDGE if host == DRIVER else "eth0"
            self._inside(name, "address", "add", f"{address(host)}/24", "dev", device)
            self._inside(name, "link", "set", device, "up")

    def entry(self, host: int) -> list[str]:
        """What to put before a command to run it on a host; the process stays the same."""
        return ["nsenter", f"--net=/run/netns/{self._names[host]}"]

    @contextlib.contextmanager
    def cut(self, host: int) -> Iterator[None]:
        """A host without network, during the block."""
        self._port(host, "down")
        try:
            yield
        finally:
            self._port(host, "up")

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Workers that reach the driver, but not each other."""
        for host in WORKERS:
            self._port(host, "type", "bridge_slave", "isolated", "on")
        try:
            yield
        finally:
            for host in WORKERS:
                self._port(host, "type", "bridge_slave", "isolated", "off")

    def _port(self, host: int, *change: str) -> None:
        self._inside(self._names[DRIVER], "link", "set", f"port{host}", *change)

    def _inside(self, name: str, *arguments: str) -> None:
        _ip("-n", name, *arguments)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise NotAllowed(f"'ip {' '.join(arguments)}' says {lines[-1]!r}")
    return done.stdout


class Cluster:
    """A standalone master and a worker with one core on each of the other hosts."""

    master = f"spark://{address(DRIVER)}:{PORT}"

    def __init__(self, hosts: Hosts, work: Path) -> None:
        self.hosts = hosts
        self._work = work
        self._logs = work / "cluster"
        self._logs.mkdir()
        self.workers: list[int] = []
        deploy = "org.apache.spark.deploy"
        self._launch(DRIVER, f"{deploy}.master.Master", "--host", address(DRIVER), "--port", str(PORT))
        self._until("Successfully started service 'sparkMaster'", 1)
        for host in WORKERS:
            room = ["--host", address(host), "--cores", "1", "--memory", "1g"]
            room += ["--work-dir", str(self._logs / f"worker-{host}")]
            self.workers.append(self._launch(host, f"{deploy}.worker.Worker", *room, self.master))
        self._until("Registering worker", len(WORKERS))

    def _launch(self, host: int, *arguments: str) -> int:
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": address(host),
            "SPARK_LOCAL_DIRS": str(self._work / "tmp"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
            "PYSPARK_PYTHON": sys.executable,
            "_JAVA_OPTIONS": f"-Djava.io.tmpdir={self._logs} -XX:-UsePerfData",
        }
        command = [*self.hosts.entry(host), str(HOME / "bin" / "spark-class"), *arguments]
        with (self._logs / f"host-{host}.log").open("wb") as output:
            return subprocess.Popen(
                command, cwd=self._logs, env=environment, stdout=output, stderr=output, start_new_session=True
            ).pid

    def _until(self, text: str, count: int) -> None:
        """Wait for the master to say something so many times."""
        log = self._logs / f"host-{DRIVER}.log"
        deadline = time.monotonic() + _PATIENCE_S
        while log.read_text(errors="replace").count(text) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"Spark's master never said {text!r}:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)


@contextlib.contextmanager
def spark_hosts(work: Path) -> Iterator[Cluster | None]:
    """The cluster for the length of the block; nothing, and a sentence that says why, if it cannot be."""
    with contextlib.ExitStack() as stack:
        reason = obstacle(os.geteuid())
        hosts = None
        if reason is None:
            try:
                hosts = stack.enter_context(Hosts())
            except NotAllowed as error:
                reason = str(error)
        if hosts is None:
            print(f"network cuts are left out: {reason}.", flush=True)
        yield None if hosts is None else Cluster(hosts, work)
