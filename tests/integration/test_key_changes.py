"""Keys of another type than in the snapshot: told at the first record, before anything is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace, read_text, text_file_sink
from local_jobs import environment, until

from penstock.common import WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

COUNT = 200
GATE = COUNT * 6 // 10
"""Records that come before the gate is open."""


class Count(KeyedProcessFunction):
    """How many records of a key there were."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self._count.value()}"


def start(work: Path, key: Callable[[int], Any], backend: str, waits: bool, **settings: str) -> Any:
    env = environment(work / "chk", state__backend__type=backend, **settings).set_parallelism(2)
    source = Pace(None, work / "gate" if waits else None).source(lambda number: number, COUNT)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream.key_by(key).process(Count()).uid("count").sink_to(text_file_sink(work / "out")).uid("out")
    return env.execute_async("keys")


def stopped(work: Path, key: Callable[[int], Any], backend: str) -> str:
    """A savepoint in the middle."""
    client = start(work, key, backend, waits=True)
    until(lambda: len(read_text(work / "out")) >= COUNT // 2, "half of the records are through")
    place: str = client.stop_with_savepoint(False, str(work / "savepoints")).result(PATIENCE_S)
    return place


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_keys_of_another_type_are_an_error(tmp_path: Path, backend: str) -> None:
    with local_cluster():
        place = stopped(tmp_path, lambda number: f"{number % 5}", backend)
        told = {"execution__state_recovery__path": place, "restart_strategy__type": "none"}
        client = start(tmp_path, lambda number: number % 5, backend, waits=False, **told)
        with pytest.raises(JobFailedError, match="of type number now and of type str in the snapshot"):
            client.get_job_execution_result().result(PATIENCE_S)
        allowed = {**told, "execution__state_recovery__ignore_unclaimed_state": "true"}
        start(
            tmp_path, lambda number: number % 5, backend, waits=False, **allowed
        ).get_job_execution_result().result(PATIENCE_S)


def test_keys_of_the_same_type_go_on(tmp_path: Path) -> None:
    with local_cluster():
        place = stopped(tmp_path, lambda number: number % 5, "hashmap")
        told = {"execution__state_recovery__path": place}
        start(
            tmp_path, lambda number: float(number % 5), "hashmap", waits=False, **told
        ).get_job_execution_result().result(PATIENCE_S)
    assert max(int(line.split()[1]) for line in read_text(tmp_path / "out")) == COUNT // 5


def mixed(number: int) -> Any:
    """Text before the gate, numbers behind it."""
    return f"{number % 5}" if number < GATE else number % 5


class FailsOnce(Count):
    """Fails at the first key that is a number, if it has not before."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def process_element(self, value: int, ctx: Any) -> Any:
        if value >= GATE and not self._mark.exists():
            self._mark.touch()
            raise RuntimeError("once")
        yield from super().process_element(value, ctx)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_program_with_keys_of_two_types_goes_on_after_a_failure(tmp_path: Path, backend: str) -> None:
    """The snapshot had keys of the one type and the next records those of the other: since the program had
    not changed in between, every restart failed for no reason."""
    with local_cluster():
        env = environment(tmp_path / "chk", state__backend__type=backend).set_parallelism(2)
        source = Pace(None, tmp_path / "gate").source(lambda number: number, COUNT)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        counted = stream.key_by(mixed).process(FailsOnce(tmp_path / "mark")).uid("count")
        counted.sink_to(text_file_sink(tmp_path / "out")).uid("out")
        client = env.execute_async("keys")
        until(lambda: len(read_text(tmp_path / "out")) >= GATE - 2, "what comes before the gate is committed")
        (tmp_path / "gate").touch()
        client.get_job_execution_result().result(PATIENCE_S)
    assert (tmp_path / "mark").exists()
    assert len(read_text(tmp_path / "out")) == COUNT
