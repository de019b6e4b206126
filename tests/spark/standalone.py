"""Spark's own cluster manager, started here on the loopback: a master and two workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from drivers import ROOT
from processes import descendants, kill

from tests.patience import PATIENCE_S

HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def environment(work: Path) -> dict[str, str]:
    """For Spark's own programs."""
    scratch = work / "tmp"
    scratch.mkdir(exist_ok=True)
    return {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
    }


def launch(work: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of Spark's own processes; its output goes to a file."""
    with (work / f"{name}.log").open("wb") as output:
        return subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *arguments],
            cwd=work,
            env=environment(work),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def await_text(path: Path, text: str, count: int = 1, timeout_s: float = PATIENCE_S) -> None:
    """Until a log says something often enough."""
    deadline = time.monotonic() + timeout_s
    while path.read_text(errors="replace").count(text) < count:
        assert time.monotonic() < deadline, f"{path.name} never said {text!r}:\n{path.read_text()}"
        time.sleep(0.1)


class Standalone:
    """A cluster of two workers; its applications come one by one."""

    def __init__(self, logs: Path, cores: int = 1) -> None:
        """``cores``: of each worker."""
        self.logs = logs
        self._cores = cores
        self._started: list[subprocess.Popen[bytes]] = []
        self._workers = 0

    def start(self) -> None:
        """The master, then its workers."""
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        ports = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
        self._started.append(launch(self.logs, "master", f"{DEPLOY}.master.Master", *ports))
        await_text(self.logs / "master.log", "Successfully started service 'sparkMaster'")
        self._add_worker()
        self._add_worker()
        self._await_workers()

    def _add_worker(self) -> None:
        name = f"worker{self._workers}"
        self._workers += 1
        room = [
            "--host",
            "127.0.0.1",
            "--cores",
            str(self._cores),
            "--memory",
            "1g",
            "--webui-port",
            str(free_port()),
        ]
        room += ["--work-dir", str(self.logs / name), self.url]
        self._started.append(launch(self.logs, name, f"{DEPLOY}.worker.Worker", *room))

    def _await_workers(self) -> None:
        await_text(self.logs / "master.log", "Registering worker", count=self._workers)

    @contextmanager
    def one_lost(self) -> Iterator[None]:
        """A machine is gone within this block: a worker and its executor. Another one comes behind it."""
        worker = self._started.pop()
        kill(worker.pid, *descendants(worker.pid))
        try:
            yield
        finally:
            worker.wait(PATIENCE_S)
            self._add_worker()
            self._await_workers()

    def stop(self) -> None:
        """All of its processes."""
        for process in self._started:
            kill(*descendants(process.pid), process.pid)
            process.wait(PATIENCE_S)
