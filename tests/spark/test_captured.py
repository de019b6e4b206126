"""All bytes between hosts, caught: with no setting made, none of a job's records, plan or passwords is seen.

The hosts are network namespaces, as in ``make chaos``.  The same job without TLS is the proof that the
capture sees what is in clear.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from drivers import ROOT, Driver

sys.path.insert(0, str(ROOT / "scripts"))

from chaos_network import DRIVER, WORKERS, Cluster, Hosts, NotAllowed, address, obstacle

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if reason := obstacle(os.geteuid()):
        pytest.skip(f"no namespaces here: {reason}")
    try:
        with Hosts() as hosts:
            yield Cluster(hosts, tmp_path)
    except NotAllowed as error:
        pytest.skip(f"no namespaces here: {error}")


def test_nothing_of_a_job_is_seen_on_the_network(cluster: Cluster, tmp_path: Path) -> None:
    caught = tmp_path / "caught"
    entry = cluster.hosts.entry(DRIVER)
    devices = [f"port{host}" for host in WORKERS]
    command = [*entry, sys.executable, str(ROOT / "scripts" / "capture.py"), str(caught), *devices]
    closed, opened = secrets.token_hex(8), secrets.token_hex(8)
    listener = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout is not None and listener.stdout.readline() == "listening\n"
        where = {"SPARK_LOCAL_IP": address(DRIVER)}
        arguments = ("captured.py", cluster.master, tmp_path / "out", closed, opened)
        with Driver(tmp_path, *arguments, env=where, entry=entry) as driver:
            assert driver.finish() == 0, driver.text
    finally:
        listener.kill()
        listener.wait()
    data = caught.read_bytes()
    for mark in (closed, opened):
        written = [line for part in (tmp_path / "out" / mark).rglob("part-*") for line in part.open()]
        assert len(written) == 2000, "the job itself did its work"
    assert {what for what in ("record", "plan", "password") if f"{what}-{opened}".encode() in data} == {
        "record",
        "plan",
        "password",
    }, "without TLS all of it is there to be seen"
    assert closed.encode() not in data
