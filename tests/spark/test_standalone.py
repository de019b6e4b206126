"""A standalone master and two workers, started here on the loopback: a job runs on them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from drivers import ROOT, run
from flow_graphs import GRAPHS, SINKS
from processes import descendants, kill
from progress import COUNT

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.spark

HOME = Path(pyspark.__file__).parent


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def launch(work: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of Spark's own processes; its output goes to a file."""
    scratch = work / "tmp"
    scratch.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
    }
    with (work / f"{name}.log").open("wb") as output:
        return subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *arguments],
            cwd=work,
            env=environment,
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


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two workers with a core each."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    started = []
    try:
        ports = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
        started.append(launch(tmp_path, "master", f"{deploy}.master.Master", *ports))
        await_text(tmp_path / "master.log", "Successfully started service 'sparkMaster'")
        for number in range(2):
            room = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port())]
            room += ["--work-dir", str(tmp_path / f"worker{number}")]
            started.append(launch(tmp_path, f"worker{number}", f"{deploy}.worker.Worker", *room, url))
        await_text(tmp_path / "master.log", "Registering worker", count=2)
        yield url
    finally:
        for process in started:
            kill(*descendants(process.pid), process.pid)
            process.wait(PATIENCE_S)


def test_job_on_a_standalone_cluster(master: str, tmp_path: Path) -> None:
    """Executors in processes of their own get Penstock and the program's modules shipped."""
    work = tmp_path / "job"
    work.mkdir()
    run(work, "cluster.py", master, work, env={"PYTHONPATH": str(ROOT)})
    assert SINKS["log"][1](work / "keyed") == GRAPHS["keyed"][1](COUNT)
