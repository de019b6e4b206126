"""Servers killed with -9 in the middle of a job that writes into them exactly once: it goes on, exact."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from drivers import Driver
from fault_matrix_kills import Kills
from fault_matrix_sinks import COUNT, SINKS, describe_server

from penstock.testing.servers import KafkaServer, MariaDbServer, PostgresServer, Server
from tests.patience import PATIENCE_S
from tests.servers import skip_without

pytestmark = [pytest.mark.spark, pytest.mark.kills]

TIMES = 3


@pytest.mark.parametrize(
    ("sink", "kind"), [("xa", MariaDbServer), ("prepared", PostgresServer), ("kafka", KafkaServer)]
)
def test_killed_servers(tmp_path: Path, sink: str, kind: type[Server]) -> None:
    """Killed and brought back three times, at whatever the job does just then."""
    skip_without(kind)
    work = tmp_path / sink
    work.mkdir()
    with kind() as server:
        describe_server(work, server)
        with Driver(tmp_path, "fault_matrix_job.py", tmp_path, "server", sink) as driver:
            seen = 0
            for number in range(TIMES):
                seen = wait_for_more(driver, work, sink, seen)
                server.kill()
                time.sleep(0.3 + number)
                server.restart()
            assert wait_for_more(driver, work, sink, seen) < COUNT
            Kills(work / "kills", "server").end()
            code = driver.finish()
            assert code == 0, f"ended with {code} and printed:\n{driver.text}"
        SINKS[sink].check_exact(work, f"server killed {TIMES} times")


def wait_for_more(driver: Driver, work: Path, sink: str, seen: int, timeout_s: float = PATIENCE_S) -> int:
    """Wait until more than ``seen`` rows are visible: the job is at work. Gives their number."""
    driver_is_up = work / "kills" / "driver"
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        assert driver.process.poll() is None, f"the job ended early:\n{driver.text}"
        if driver_is_up.exists() and list((work / "kills").glob("up-*")):
            found = len(SINKS[sink].visible(work))
            if found > seen:
                return found
        time.sleep(0.05)
    raise AssertionError(f"no more than {seen} rows in {timeout_s:g} s; the program printed:\n{driver.text}")
