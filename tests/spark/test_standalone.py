"""A standalone master and two workers, started here on the loopback: a job runs on them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from drivers import JOBS, ROOT, Driver, run
from flow_graphs import GRAPHS, SINKS
from packing_up import check, pack_up
from processes import descendants, kill
from progress import COUNT, until

from tests.patience import PATIENCE_S, PROGRAM_S

pytestmark = pytest.mark.spark

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
    """A cluster of two workers with a core each; its applications come one by one."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
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
        room = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port())]
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Started, with its workers."""
    cluster = Standalone(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_jobs_on_a_standalone_cluster(cluster: Standalone, tmp_path: Path) -> None:
    """Executors in processes of their own get Penstock and the program's modules shipped.

    When a machine is lost for good, a job that waits for another can be cancelled, and its slots are free.
    """
    work = tmp_path / "job"
    work.mkdir()
    with Driver(work, "cluster.py", cluster.url, work, env={"PYTHONPATH": str(ROOT)}) as driver:
        driver.wait_for("running", PROGRAM_S)
        with cluster.one_lost():
            assert driver.finish() == 0, driver.text
    assert driver.wait_for("ended ") == "ended CANCELED"
    for place in (work, work / "left"):
        assert SINKS["log"][1](place / "keyed") == GRAPHS["keyed"][1](COUNT)


def test_a_lost_machine_makes_a_job_smaller_until_there_is_another(
    cluster: Standalone, tmp_path: Path
) -> None:
    """Its output is exact, and its events say what it did and why."""
    with Driver(tmp_path, "elastic.py", cluster.url, tmp_path, env={"PYTHONPATH": str(ROOT)}) as driver:
        driver.wait_for("running", PROGRAM_S)
        with cluster.one_lost():
            driver.wait_for("smaller")
        driver.wait_for("larger")
        assert driver.finish() == 0, driver.text
    assert SINKS["log"][1](tmp_path / "keyed") == GRAPHS["keyed"][1](COUNT)
    why = r"there has been room for {} slots for [\d.]+ s"
    smaller = f"event rescale from 2 to 1 of 2, from the newest checkpoint: {why.format('1 of 2')}"
    larger = f"event the job wants 2 slots again and has 1: {why.format('2')}"
    told = [line for line in driver.lines if line.startswith("event ")]
    assert any(re.fullmatch(smaller, line) for line in told), told
    assert any(re.fullmatch(larger, line) for line in told), told
    assert told[-1] == "event rescale from 1 to 2: done"


def test_code_travels_whole_to_a_cluster(cluster: Standalone, tmp_path: Path) -> None:
    """What was unpacked is gone from the workers' machines when the application is."""
    pack_up(tmp_path)
    left = luggage_in(cluster)
    with_path = {"PYTHONPATH": str(ROOT)}
    check(run(tmp_path, "luggage.py", cluster.url, tmp_path, env=with_path), tmp_path, by_path=False)
    until(lambda: luggage_in(cluster) <= left, "the workers have cleaned up")


def luggage_in(cluster: Standalone) -> set[Path]:
    """Where something is unpacked on its machines; a worker that was killed leaves what it had."""
    return set((cluster.logs / "tmp").glob("**/penstock-luggage"))


def test_spark_submit_says_where_the_job_runs(cluster: Standalone, tmp_path: Path) -> None:
    """The demo's own master is for where none is given; its job survives a crash on the cluster."""
    options = ["--master", cluster.url, "--name", "submitted", "--conf", "spark.executor.memory=512m"]
    program = [str(JOBS / "cli.py"), "demo", "--events", "20000", "--chart", str(tmp_path / "chart.png")]
    done = subprocess.run(
        [str(HOME / "bin" / "spark-submit"), *options, *program],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line = "exactly-once: ok events=20000 lost=0 duplicated=0 crashes=1"
    assert done.stdout.splitlines()[-1].startswith(line), done.stdout
    assert "Registered app submitted" in (cluster.logs / "master.log").read_text()
