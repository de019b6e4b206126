"""A standalone master and two workers, started here on the loopback: a job runs on them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from drivers import JOBS, ROOT, Driver, run
from flow_graphs import GRAPHS, SINKS
from packing_up import check, pack_up
from progress import COUNT, until
from standalone import HOME, Standalone, environment

from tests.patience import PROGRAM_S

pytestmark = pytest.mark.spark


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


@pytest.mark.clusters
def test_a_job_starts_on_a_cluster_that_has_shrunk(cluster: Standalone, tmp_path: Path) -> None:
    """As it does when a supervisor starts its program again after a machine was lost; then it grows."""
    with ExitStack() as left:
        with cluster.one_lost():
            lost = Driver(
                tmp_path, "elastic.py", cluster.url, tmp_path, "lost", env={"PYTHONPATH": str(ROOT)}
            )
            driver = left.enter_context(lost)
            driver.wait_for("smaller", PROGRAM_S)
        driver.wait_for("larger", PROGRAM_S)
        assert driver.finish() == 0, driver.text
    assert SINKS["log"][1](tmp_path / "keyed") == GRAPHS["keyed"][1](COUNT)
    why = r"there has been room for 1 of 2 slots for [\d.]+ s"
    smaller = f"event rescale from 2 to 1 of 2, from the newest checkpoint: {why}"
    assert any(re.fullmatch(smaller, line) for line in driver.lines), driver.text
    assert driver.wait_for("done ") == "done restarts=0", "nothing has failed"


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
