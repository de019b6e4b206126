"""Jobs that write Kafka exactly once, on the in-process cluster: killed slots, savepoints, rescales."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment, finish, number_stream, until, wait_for_snapshots

from penstock.common.job_client import JobClient
from penstock.core.errors import ConfigError
from penstock.testing.local import LocalLauncher, local_cluster
from tests.unit.connectors.kafka_sinks import Bench
from tests.unit.connectors.kafka_topics import read

COUNT, RATE, TIMEOUT = 1500, 700.0, 60
INTERVAL = {"execution__checkpointing__interval": "60 ms"}
KEEP = {"execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION"}


@pytest.fixture(autouse=True)
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster() as made:
        yield made


@pytest.fixture
def bench(kafka_server: Any) -> Iterator[Bench]:
    made = Bench(kafka_server.bootstrap)
    yield made
    made.client.close()


def begin(bench: Bench, work: Path, parallelism: int = 2, gate: bool = True, **settings: str) -> JobClient:
    """Numbers into the topic; the last ones only when there is a file ``gate``."""
    env = environment(work / "chk", **{**INTERVAL, **KEEP, **settings}).set_parallelism(parallelism)
    numbers = number_stream(env, COUNT, parallelism, RATE, work / "gate" if gate else None)
    numbers.uid("numbers").sink_to(bench.sink).uid("sink")
    return env.execute_async("numbers")


def written(bench: Bench) -> list[int]:
    """What readers of committed records see once no transaction is open."""
    until(lambda: not bench.open_ids(), "all transactions are over")
    return sorted(int(message.value()) for message in read(bench.bootstrap, bench.topic))


def test_slots_are_killed(bench: Bench, tmp_path: Path, launcher: LocalLauncher) -> None:
    """Six times, at random moments."""
    chance = random.Random(7)
    client = begin(bench, tmp_path)
    for _ in range(6):
        wait_for_snapshots(launcher, 1)
        time.sleep(chance.uniform(0, 0.1))
        launcher.clusters[-1].kill(chance.randrange(2))
    wait_for_snapshots(launcher, 2)
    (tmp_path / "gate").touch()
    finish(client)
    assert written(bench) == list(range(COUNT))
    assert len(read(bench.bootstrap, bench.topic, committed=False)) > COUNT


@pytest.mark.parametrize("parallelism", [(2, 3), (3, 1)])
def test_stop_and_go_on(
    bench: Bench, tmp_path: Path, launcher: LocalLauncher, parallelism: tuple[int, int]
) -> None:
    """Stopped with a savepoint, and on from there with fewer or more subtasks."""
    client = begin(bench, tmp_path, parallelism[0])
    wait_for_snapshots(launcher, 2)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT)
    halfway = written(bench)
    assert 0 < len(halfway) < COUNT and halfway == sorted(set(halfway))
    (tmp_path / "gate").touch()
    finish(begin(bench, tmp_path, parallelism[1], execution__state_recovery__path=path))
    assert written(bench) == list(range(COUNT))


def test_a_cancelled_job_leaves_nothing_open(bench: Bench, tmp_path: Path, launcher: LocalLauncher) -> None:
    """And goes on exactly, from its newest checkpoint."""
    client = begin(bench, tmp_path)
    wait_for_snapshots(launcher, 3)
    client.cancel().result(TIMEOUT)
    until(lambda: not bench.open_ids(), "the open transactions are aborted")
    (tmp_path / "gate").touch()
    finish(begin(bench, tmp_path))
    assert written(bench) == list(range(COUNT))


def test_a_long_interval_is_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint interval is 60000 ms.*transaction\.timeout\.ms"):
        begin(bench, tmp_path, execution__checkpointing__interval="60 s")
