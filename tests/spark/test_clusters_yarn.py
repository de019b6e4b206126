"""The demo on YARN by spark-submit, with its driver here or there; ``make test-clusters`` runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from drivers import JOBS, ROOT
from flow_graphs import GRAPHS, SINKS
from progress import COUNT, until
from submitting import DEMO, LINE, packed_environment, packed_module, strangers
from yarn import Yarn

from tests.patience import PROGRAM_S

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """Started, with a node."""
    yarn = Yarn(tmp_path_factory.mktemp("yarn"))
    try:
        yarn.start()
        yield yarn
    finally:
        yarn.stop()


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_the_demo_on_yarn(cluster: Yarn, tmp_path: Path, mode: str) -> None:
    """A module by ``--py-files``, Python by ``--archives``, a slot is killed: nothing lost or doubled.

    Executors have no path to Penstock: the driver sends it to them.
    """
    archive = f"{packed_environment(tmp_path)}#environment"
    python = "./environment/bin/python"
    sent = ["--py-files", str(packed_module(tmp_path)), "--archives", archive]
    sent += ["--conf", f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}"]
    sent += ["--conf", f"spark.yarn.appMasterEnv.PYTHONPATH={ROOT}"]
    here = {"PYSPARK_PYTHON": python}
    if mode == "client":
        here["PYSPARK_DRIVER_PYTHON"] = sys.executable
    said = cluster.submit("--deploy-mode", mode, *sent, *DEMO, env=here).splitlines()
    assert [line for line in said if line.startswith(LINE)], said
    assert strangers(said) == []


def test_a_driver_whose_application_is_killed_asks_to_be_started_again(cluster: Yarn, tmp_path: Path) -> None:
    """Status 75 gets through spark-submit, and the next driver goes on: nothing is lost or doubled."""
    program = [str(JOBS / "cli.py"), "run", str(JOBS / "lost_cluster.py"), "yarn", str(tmp_path)]
    env = {"PYSPARK_PYTHON": sys.executable, "PENSTOCK_HOME": str(tmp_path / "home")}
    output = tmp_path / "output"
    first = cluster.submitted(output, "--deploy-mode", "client", *program, env=env)
    try:
        until(lambda: (tmp_path / "running").exists() or first.poll() is not None, "the job runs")
        assert cluster.end_applications() == 1
        assert first.wait(PROGRAM_S) == 75, output.read_text()
    finally:
        first.kill()
    (tmp_path / "gate").touch()
    cluster.submit("--deploy-mode", "client", *program, env=env)
    assert SINKS["log"][1](tmp_path / "keyed") == GRAPHS["keyed"][1](COUNT)
