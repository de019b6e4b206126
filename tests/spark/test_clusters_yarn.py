"""The demo on YARN by spark-submit, with its driver here or there; ``make test-clusters`` runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from drivers import ROOT
from submitting import DEMO, LINE, packed_environment, packed_module, strangers
from yarn import Yarn

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
