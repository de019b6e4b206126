"""However a job ends, every queue, file, thread and descriptor is back afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deciding_sink import DecidingSink
from held_resources import nothing_left
from local_jobs import environment, finish, wait_for_snapshots

from penstock.common import WatermarkStrategy
from penstock.connectors.sink import CommitOutcome
from penstock.core.errors import JobFailedError
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

COUNT = 400
BACKENDS = ["hashmap", "rocksdb"]


class Later(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return [value]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where working files go."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield temporary


def start(place: Path, backend: str, fail_at: int | None = None, **settings: str) -> Any:
    """A job with all kinds of things that must be given back: files, a database, an event loop."""
    broken = place.parent / "broken"

    def step(value: int) -> int:
        if value == fail_at and not (broken.exists() and settings.get("once")):
            broken.touch()
            raise ValueError("this one")
        return value

    chosen = {key: value for key, value in settings.items() if key != "once"}
    env = environment(place.parent / "chk", state__backend__type=backend, **chosen).set_parallelism(2)
    source = DataGeneratorSource(lambda i: i, COUNT if fail_at != -1 else 10**9, 4000.0)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(step)
    counted = numbers.key_by(lambda v: v % 7).reduce(lambda a, b: a + b)
    asked = AsyncDataStream.ordered_wait(counted, Later(), 10_000, 10)
    asked.sink_to(DecidingSink(lambda _: CommitOutcome.COMMITTED))
    return env.execute_async("leaving nothing")


def finished(launcher: LocalLauncher, place: Path, backend: str) -> None:
    finish(start(place, backend))


def restarted(launcher: LocalLauncher, place: Path, backend: str) -> None:
    finish(start(place, backend, fail_at=COUNT // 2, once="yes"))
    assert launcher.jobs[-1].driver.restarts == 1


def failed(launcher: LocalLauncher, place: Path, backend: str) -> None:
    with pytest.raises(JobFailedError, match="this one"):
        finish(start(place, backend, fail_at=COUNT // 2, restart_strategy__type="none"))


def cancelled(launcher: LocalLauncher, place: Path, backend: str) -> None:
    client = start(place, backend, fail_at=-1)
    wait_for_snapshots(launcher, 2)
    client.cancel().result(PATIENCE_S)


def stopped(launcher: LocalLauncher, place: Path, backend: str) -> None:
    client = start(place, backend, fail_at=-1)
    wait_for_snapshots(launcher, 1)
    client.stop_with_savepoint(False, str(place.parent / "savepoints")).result(PATIENCE_S)


ENDS: list[Callable[[LocalLauncher, Path, str], None]] = [
    finished,
    restarted,
    failed,
    cancelled,
    stopped,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("end", ENDS)
def test_a_job_gives_everything_back(end: Any, backend: str, place: Path) -> None:
    with local_cluster(2) as launcher:
        finished(launcher, place, backend)  # what is opened once in a process is open now
        with nothing_left(place):
            end(launcher, place, backend)
            launcher.jobs.clear()
            launcher.clusters.clear()
    if end is not failed:
        left = [path for path in (place.parent / "chk").rglob("*") if path.is_file()]
        assert not any("chk-" in str(path) for path in left), "only a failed job leaves its checkpoints"


def test_a_batch_job_gives_everything_back(place: Path) -> None:
    with local_cluster(2) as launcher:
        start(place, "hashmap", execution__runtime_mode="BATCH").get_job_execution_result().result(PATIENCE_S)
        with nothing_left(place):
            start(place, "hashmap", execution__runtime_mode="BATCH").get_job_execution_result().result(
                PATIENCE_S
            )
            launcher.jobs.clear()
