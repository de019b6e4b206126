"""spark-submit on a standalone cluster, in both deploy modes; ``make test-clusters`` runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from progress import until
from standalone import HOME, Standalone, environment
from submitting import DEMO, LINE, packed_environment, packed_module, strangers

from tests.patience import PROGRAM_S

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Started, with its workers; a driver in cluster mode takes a core, too."""
    cluster = Standalone(tmp_path_factory.mktemp("cluster"), cores=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def submit(cluster: Standalone, work: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    small = ["--conf", "spark.executor.memory=512m", "--driver-memory", "512m"]
    return subprocess.run(
        [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, *small, *arguments],
        cwd=work,
        env={**environment(work), **env},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )


def test_modules_and_an_environment_that_spark_submit_brings(cluster: Standalone, tmp_path: Path) -> None:
    sent = ["--py-files", str(packed_module(tmp_path))]
    sent += ["--archives", f"{packed_environment(tmp_path)}#environment"]
    pythons = {"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = submit(cluster, tmp_path, *sent, *DEMO, **pythons)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[-1].startswith(LINE), done.stdout
    assert strangers(said) == []


def test_spark_refuses_python_in_cluster_mode(cluster: Standalone, tmp_path: Path) -> None:
    done = submit(cluster, tmp_path, "--deploy-mode", "cluster", *DEMO)
    assert done.returncode != 0
    assert "currently not supported for python applications on standalone clusters" in done.stderr


def test_a_supervised_driver_on_a_worker(cluster: Standalone, tmp_path: Path) -> None:
    """The way round it that the guide shows: Spark's own class that runs Python, with any jar."""
    jar = next(path for path in HOME.glob("jars/spark-tags_*.jar") if "tests" not in path.name)
    runner = ["--supervise", "--class", "org.apache.spark.deploy.PythonRunner", f"file://{jar}"]
    program, *arguments = DEMO
    done = submit(
        cluster,
        tmp_path,
        "--deploy-mode",
        "cluster",
        *runner,
        program,
        str(packed_module(tmp_path)),
        *arguments,
    )
    assert "Driver successfully submitted" in done.stderr, done.stderr

    def said() -> list[str]:
        return [
            line
            for path in cluster.logs.glob("worker*/driver-*/stdout")
            for line in path.read_text().splitlines()
            if line.startswith(LINE)
        ]

    until(said, "the driver on the cluster has printed the line")
