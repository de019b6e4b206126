"""Keys of another type than in the snapshot: told at the first records, before anything is lost."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace, read_text, text_file_sink
from local_jobs import environment, until

from penstock.columns import Sum
from penstock.common import WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.core.row import Row
from penstock.datastream import KeyedCoProcessFunction, KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import CountTrigger, TumblingEventTimeWindows
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


@dataclass(frozen=True)
class Number:
    value: Any


def a_day(number: int) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2024-05-0{number % 5 + 1}")


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (lambda n: ("k", n % 5), lambda n: ("k", f"{n % 5}"), "tuple of (str, str) now and of type tuple of"),
        (lambda n: ("k", n % 5), lambda n: n % 5, "number now and of type tuple of (str, number) in"),
        (lambda n: ("k", n % 5 or None), lambda n: ("k", f"{n % 5}"), "tuple of (str, str) now and of type "),
        (lambda n: Number(n % 5), lambda n: Number(f"{n % 5}"), "Number of (str) now and of type "),
        (
            a_day,
            lambda n: a_day(n).replace(tzinfo=dt.UTC),
            "datetime with a time zone now and of type datetime",
        ),
    ],
    ids=["part", "no parts", "optional part", "field", "zone"],
)
def test_parts_of_another_type_are_an_error(
    tmp_path: Path, before: Any, after: Any, told: str, backend: str
) -> None:
    with local_cluster():
        place = stopped(tmp_path, before, backend)
        again = {"execution__state_recovery__path": place, "restart_strategy__type": "none"}
        client = start(tmp_path, after, backend, waits=False, **again)
        with pytest.raises(JobFailedError, match=re.escape(told)):
            client.get_job_execution_result().result(PATIENCE_S)


def two_kinds(number: int) -> Any:
    return number % 5 if number % 2 else f"{number % 5}"


def test_keys_of_a_third_type_are_remarked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Which may be meant: a program with keys of two types may have a third one."""
    with local_cluster(), caplog.at_level(logging.WARNING, "penstock"):
        place = stopped(tmp_path, two_kinds, "hashmap")
        assert "types" not in caplog.text and "of type" not in caplog.text
        again = {"execution__state_recovery__path": place}
        client = start(tmp_path, lambda n: f"{n % 5}".encode(), "hashmap", waits=False, **again)
        client.get_job_execution_result().result(PATIENCE_S)
    (line,) = [line for line in caplog.messages if "of type" in line]
    assert "keys are of type bytes now and of type number, str in the snapshot" in line
    assert len(read_text(tmp_path / "out")) == COUNT


class CountBoth(KeyedCoProcessFunction):
    """How many records of a key there were in both streams."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element1(self, value: int, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield f"{self._count.value()}"

    process_element2 = process_element1


def start_two(work: Path, second: Callable[[int], Any], waits: bool, **settings: str) -> Any:
    env = environment(work / "chk", **settings).set_parallelism(2)
    source = Pace(None, work / "gate" if waits else None).source(lambda number: number, COUNT)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    both = stream.key_by(lambda n: n % 5).connect(stream.key_by(second)).process(CountBoth()).uid("count")
    both.sink_to(text_file_sink(work / "out")).uid("out")
    return env.execute_async("keys of two")


def test_the_keys_of_each_input_are_compared(tmp_path: Path) -> None:
    with local_cluster():
        client = start_two(tmp_path, lambda n: n % 5, waits=True)
        until(lambda: len(read_text(tmp_path / "out")) >= COUNT, "half of the records are through")
        place = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        again = {"execution__state_recovery__path": place, "restart_strategy__type": "none"}
        client = start_two(tmp_path, lambda n: f"{n % 5}", waits=False, **again)
        with pytest.raises(JobFailedError, match="of type str now and of type number in the snapshot"):
            client.get_job_execution_result().result(PATIENCE_S)


def start_columns(work: Path, key: Callable[[int], Any], waits: bool, **settings: str) -> Any:
    env = environment(work / "chk", **settings).set_parallelism(2)
    source = Pace(None, work / "gate" if waits else None).source(lambda number: number, COUNT)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(source, timed, "numbers").uid("numbers")
    rows = numbers.map(lambda n: Row(k=key(n), n=n)).uid("rows")
    counted = rows.key_by("k").window(TumblingEventTimeWindows.of(10**6)).agg(Sum("n", "s"))
    lines = counted.uid("count").map(lambda row: f"{row['k']!r} {row['s']}").uid("lines")
    numbers.map(str).uid("seen").sink_to(text_file_sink(work / "seen")).uid("see")
    lines.sink_to(text_file_sink(work / "out")).uid("out")
    return env.execute_async("keys in columns")


@pytest.mark.parametrize(
    ("before", "after"), [(lambda n: f"{n % 5}", lambda n: n % 5), (lambda n: n % 5, lambda n: f"{n % 5}")]
)
def test_columns_of_keys_of_another_type_are_an_error(tmp_path: Path, before: Any, after: Any) -> None:
    """They were cast to the type that is stored: the same key then had two sums, in two subtasks."""
    with local_cluster():
        client = start_columns(tmp_path, before, waits=True)
        until(lambda: len(read_text(tmp_path / "seen")) >= COUNT // 2, "half of the records are through")
        place = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        again = {"execution__state_recovery__path": place, "restart_strategy__type": "none"}
        client = start_columns(tmp_path, after, waits=False, **again)
        with pytest.raises(JobFailedError, match=r"changed its type: 'k' from .*(number|str) keys find no"):
            client.get_job_execution_result().result(PATIENCE_S)
    assert read_text(tmp_path / "out") == []


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


class KeepsNumbers(Count):
    """Has state for keys that are numbers only; the others leave none behind."""

    def process_element(self, value: int, ctx: Any) -> Any:
        yield from super().process_element(value, ctx)
        if isinstance(ctx.get_current_key(), str):
            self._count.clear()


def sometimes_text(number: int) -> Any:
    """Numbers and text, but text alone from shortly before the gate on."""
    return "text" if number >= GATE - 4 or number % 3 == 0 else number % 5


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_type_of_keys_that_left_no_state_is_remembered(
    tmp_path: Path, backend: str, parallelism: int
) -> None:
    """Another driver met only such keys at first, and refused the program that it had run before."""

    def begin(waits: bool, width: int, **settings: str) -> Any:
        env = environment(tmp_path / "chk", state__backend__type=backend, **settings).set_parallelism(width)
        source = Pace(None, tmp_path / "gate" if waits else None).source(lambda number: number, COUNT)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        counted = stream.key_by(sometimes_text).process(KeepsNumbers()).uid("count")
        counted.sink_to(text_file_sink(tmp_path / "out")).uid("out")
        return env.execute_async("keys")

    with local_cluster():
        client = begin(True, 2)
        until(lambda: len(read_text(tmp_path / "out")) >= GATE - 2, "what comes before the gate is committed")
        place = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        told = {"execution__state_recovery__path": place, "restart_strategy__type": "none"}
        begin(False, parallelism, **told).get_job_execution_result().result(PATIENCE_S)
    assert len(read_text(tmp_path / "out")) == COUNT


def start_windows(work: Path, change: Callable[[Any], Any], waits: bool, **settings: str) -> Any:
    env = environment(work / "chk", **settings).set_parallelism(2)
    source = Pace(None, work / "gate" if waits else None).source(lambda n: Row(k=n % 5, n=n), COUNT)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.n)
    stream = env.from_source(source, timed, "numbers").uid("numbers")
    stream.map(lambda row: f"{row.n}").sink_to(text_file_sink(work / "seen")).uid("seen")
    windows = stream.key_by("k").window(TumblingEventTimeWindows.of(10_000))
    sums = change(windows).agg(Sum("n", "total")).uid("sums").map(str)
    sums.sink_to(text_file_sink(work / "out")).uid("out")
    return env.execute_async("windows")


def test_columns_that_a_changed_window_does_not_read_are_an_error(tmp_path: Path) -> None:
    """With a trigger of its own the window works row by row, and would begin empty."""
    with local_cluster():
        client = start_windows(tmp_path, lambda windows: windows, waits=True)
        until(lambda: len(read_text(tmp_path / "seen")) >= COUNT // 2, "half of the records are through")
        place = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        told = {"execution__state_recovery__path": place, "restart_strategy__type": "none"}

        def changed(windows: Any) -> Any:
            return windows.trigger(CountTrigger.of(1_000_000))

        client = start_windows(tmp_path, changed, waits=False, **told)
        with pytest.raises(JobFailedError, match="'window-partials' of this step, which it does not read"):
            client.get_job_execution_result().result(PATIENCE_S)
        allowed = {**told, "execution__state_recovery__ignore_unclaimed_state": "true"}
        start_windows(tmp_path, changed, waits=False, **allowed).get_job_execution_result().result(PATIENCE_S)
