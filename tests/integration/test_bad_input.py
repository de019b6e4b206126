"""What can be wrong with a program or its surroundings, and what its author is told."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import LOG_TEXT as TEXT
from flow_graphs import Pace, committed_files, keyed_golden, log_sink, read_text, text_file_sink
from local_jobs import environment, finish, start_graph, until, wait_for_snapshots

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import Log, LogSink, LogSource
from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import (
    ConfigError,
    ConnectorError,
    CorruptSnapshotError,
    GraphError,
    JobFailedError,
    KeyError_,
    PenstockError,
    SnapshotError,
    TimestampError,
    UserCodeError,
)
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.local import LocalLauncher, local_cluster

NO_TIME = WatermarkStrategy.no_watermarks()


@pytest.fixture(autouse=True)
def _launcher() -> Iterator[LocalLauncher]:
    with local_cluster() as launcher:
        yield launcher


def _failure(client: Any) -> PenstockError:
    """The cause that a failed job names."""
    with pytest.raises(JobFailedError) as caught:
        finish(client)
    cause = caught.value.cause
    assert isinstance(cause, PenstockError)
    return cause


def _numbers(env: StreamExecutionEnvironment, count: int = 100, pace: Pace = Pace()) -> Any:
    return env.from_source(pace.source(lambda i: i, count), NO_TIME, "numbers")


def _once(checkpoints: Path | None = None, **settings: str) -> StreamExecutionEnvironment:
    return environment(checkpoints, restart_strategy__type="none", **settings).set_parallelism(2)


# --- settings --------------------------------------------------------------------------------------


def test_unknown_setting() -> None:
    config = Configuration()
    config.set_string("execution.checkpointing.intervall", "1 s")
    with pytest.raises(ConfigError, match=r"execution\.checkpointing\.intervall"):
        StreamExecutionEnvironment.get_execution_environment(config)


def test_bad_duration() -> None:
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "ten minutes")
    with pytest.raises(ConfigError, match="ten minutes"):
        StreamExecutionEnvironment.get_execution_environment(config)


def test_parallelism_above_max_parallelism(tmp_path: Path) -> None:
    env = _once().set_parallelism(4).set_max_parallelism(2)
    _numbers(env).sink_to(text_file_sink(tmp_path / "out"))
    with pytest.raises(GraphError, match="parallelism 4, above its max parallelism 2"):
        env.execute_async()


def test_checkpoint_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    env = _once(tmp_path / "file")
    _numbers(env).map(str).sink_to(text_file_sink(tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"file cannot hold snapshots.*execution\.checkpointing\.dir"):
        env.execute_async()
    assert committed_files(tmp_path / "out") == []


def test_sink_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    env = _once()
    _numbers(env).map(str).sink_to(text_file_sink(tmp_path / "file" / "out"))
    with pytest.raises(ConnectorError, match="cannot write"):
        env.execute_async()


def test_topic_that_does_not_exist(tmp_path: Path) -> None:
    Log(tmp_path).create_topic("there")
    env = _once()
    source = env.from_source(LogSource(tmp_path, "missing", TEXT), NO_TIME, "log")
    source.sink_to(text_file_sink(tmp_path / "out"))
    with pytest.raises(ConnectorError, match=r"no topic 'missing' .*topics there: there"):
        env.execute_async()
    env = _once()
    _numbers(env).sink_to(LogSink(tmp_path, "missing", TEXT))
    with pytest.raises(ConnectorError, match="no topic 'missing'"):
        env.execute_async()


# --- functions and records -------------------------------------------------------------------------


def test_function_that_cannot_be_shipped(tmp_path: Path) -> None:
    lock = threading.Lock()
    env = _once()
    _numbers(env).map(lambda value: (lock, value)).name("locked").sink_to(text_file_sink(tmp_path / "out"))
    with pytest.raises(GraphError, match=r"'locked' cannot be sent.*open\(\)"):
        env.execute_async()


def test_source_function_that_cannot_be_shipped(tmp_path: Path) -> None:
    lock = threading.Lock()
    env = _once()
    source = DataGeneratorSource(lambda i: lock.locked(), 10)
    env.from_source(source, NO_TIME, "locked").sink_to(text_file_sink(tmp_path / "out"))
    with pytest.raises(GraphError, match="cannot be sent"):
        env.execute_async()


def test_key_selector_that_cannot_be_shipped(tmp_path: Path) -> None:
    lock = threading.Lock()
    env = _once()
    keyed = _numbers(env).key_by(lambda value: lock.locked())
    keyed.map(str).sink_to(text_file_sink(tmp_path / "out"))
    with pytest.raises(GraphError, match="cannot be sent"):
        env.execute_async()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_none_as_a_key(parallelism: int, tmp_path: Path) -> None:
    env = _once().set_parallelism(parallelism)
    keyed = _numbers(env).key_by(lambda value: None if value == 7 else value)
    keyed.map(str).sink_to(text_file_sink(tmp_path / "out"))
    assert isinstance(_failure(env.execute_async()), KeyError_)
    assert read_text(tmp_path / "out") == []


@pytest.mark.parametrize("parallelism", [1, 2])
def test_null_in_a_key_column(parallelism: int, tmp_path: Path) -> None:
    import pyarrow as pa

    env = _once().set_parallelism(parallelism)
    make = lambda indices: pa.record_batch(  # noqa: E731
        {"k": pa.array([None if i == 7 else int(i) for i in indices], pa.int64()), "v": indices}
    )
    stream = env.from_source(DataGeneratorSource(make, 100, columns=True), NO_TIME, "columns")
    stream.key_by("k").map(str).sink_to(text_file_sink(tmp_path / "out"))
    assert isinstance(_failure(env.execute_async()), KeyError_)


def test_record_without_a_timestamp_in_an_event_time_window(tmp_path: Path) -> None:
    env = _once()
    windows = _numbers(env).key_by(lambda value: value % 3).window(TumblingEventTimeWindows.of(100))
    windows.reduce(max).map(str).sink_to(text_file_sink(tmp_path / "out"))
    cause = _failure(env.execute_async())
    assert isinstance(cause, TimestampError) and "assign_timestamps_and_watermarks" in str(cause)
    assert read_text(tmp_path / "out") == []


def explode(value: int) -> int:
    if value == 42:
        raise ValueError("cannot digest this")
    return value


@pytest.mark.parametrize("keyed", [False, True])
def test_user_exception_names_step_subtask_record_and_traceback(keyed: bool, tmp_path: Path) -> None:
    env = _once()
    numbers = _numbers(env)
    stream = numbers.key_by(lambda value: value) if keyed else numbers
    stream.map(explode).name("digest").sink_to(text_file_sink(tmp_path / "out"))
    cause = _failure(env.execute_async())
    assert isinstance(cause, UserCodeError)
    text = str(cause)
    for expected in ("digest", "42", "cannot digest this", "in explode", "ValueError"):
        assert expected in text, f"{expected!r} is missing in:\n{text}"
    assert "penstock/operators" not in text and "java" not in text.lower()
    assert read_text(tmp_path / "out") == []


class FailsToOpen(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise RuntimeError("no database")

    def process_element(self, value: Any, ctx: Any) -> Any:
        return iter(())


def test_exception_in_open(tmp_path: Path) -> None:
    env = _once()
    opened = _numbers(env).key_by(lambda value: value).process(FailsToOpen()).name("lookup")
    opened.sink_to(text_file_sink(tmp_path / "out"))
    cause = _failure(env.execute_async())
    assert isinstance(cause, UserCodeError) and "no database" in str(cause) and "lookup" in str(cause)


class Odd(Exception):
    """Cannot be pickled and built again: its constructor wants two arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def test_user_exception_that_does_not_pickle(tmp_path: Path) -> None:
    def fail(value: int) -> int:
        raise Odd("this", "that")

    env = _once()
    _numbers(env).map(fail).sink_to(text_file_sink(tmp_path / "out"))
    assert "this and that" in str(_failure(env.execute_async()))


# --- snapshots -------------------------------------------------------------------------------------


class Keeps(KeyedProcessFunction):
    """State that is too large to be inline."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("blob"))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self._state.update("x" * 5000 + str(value))
        yield str(value)


def _keeping(checkpoints: Path, out: Path, pace: Pace = Pace()) -> Any:
    env = environment(
        checkpoints,
        restart_strategy__type="none",
        execution__checkpointing__num_retained="2",
        execution__checkpointing__data_inline_threshold="1 kb",
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
    ).set_parallelism(2)
    kept = _numbers(env, 600, pace).uid("numbers").key_by(lambda value: value % 20).process(Keeps())
    kept.uid("keep").sink_to(text_file_sink(out)).uid("out")
    return env.execute_async("keeping")


def _stopped(launcher: LocalLauncher, tmp_path: Path) -> list[Path]:
    """Two retained snapshots, oldest first."""
    client = _keeping(tmp_path / "chk", tmp_path / "out", Pace(1500.0, tmp_path / "gate"))
    wait_for_snapshots(launcher, 4)
    client.cancel().result()
    found = (
        path
        for path in (tmp_path / "chk" / job_directory("keeping")).glob("chk-*")
        if list(path.glob("_metadata*"))
    )
    snapshots = sorted(found, key=lambda path: int(path.name[4:]))
    assert len(snapshots) == 2
    return snapshots


def _damage(snapshot: Path, how: str) -> None:
    state = next(snapshot.glob("*.state"))
    manifest = next(snapshot.glob("_metadata*"))
    if how == "truncated":
        state.write_bytes(state.read_bytes()[:-10])
    elif how == "missing":
        state.unlink()
    elif how == "flipped":
        raw = bytearray(state.read_bytes())
        raw[len(raw) // 2] ^= 0xFF
        state.write_bytes(bytes(raw))
    elif how == "manifest":
        manifest.write_bytes(manifest.read_bytes()[:100])


@pytest.mark.parametrize("how", ["truncated", "missing", "manifest", "flipped"])
def test_damaged_snapshot_is_left_aside_loudly(
    how: str, tmp_path: Path, _launcher: LocalLauncher, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before it is used; records committed by the damaged one come again, nothing is lost."""
    _, newest = _stopped(_launcher, tmp_path)
    _damage(newest, how)
    with caplog.at_level(logging.WARNING):
        finish(_keeping(tmp_path / "chk", tmp_path / "out"))
    assert any(newest.name in record.getMessage() for record in caplog.records)
    assert set(read_text(tmp_path / "out")) == set(map(str, range(600)))


@pytest.mark.parametrize("how", ["truncated", "missing", "manifest", "flipped"])
def test_all_snapshots_damaged(how: str, tmp_path: Path, _launcher: LocalLauncher) -> None:
    for snapshot in _stopped(_launcher, tmp_path):
        _damage(snapshot, how)
    before = read_text(tmp_path / "out")
    with pytest.raises(PenstockError) as caught:
        finish(_keeping(tmp_path / "chk", tmp_path / "out"))
    cause = caught.value.cause if isinstance(caught.value, JobFailedError) else caught.value
    assert isinstance(cause, CorruptSnapshotError), cause
    assert read_text(tmp_path / "out") == before


def test_snapshot_of_a_newer_format(tmp_path: Path, _launcher: LocalLauncher) -> None:
    """Started explicitly from a snapshot that a later Penstock wrote."""
    newest = _stopped(_launcher, tmp_path)[-1]
    manifest = next(newest.glob("_metadata*"))
    content = json.loads(manifest.read_bytes())
    version = next(key for key in content if "version" in key or key == "format")
    content[version] = 999
    manifest.write_text(json.dumps(content))
    env = _once(tmp_path / "other", execution__state_recovery__path=str(newest))
    _numbers(env).map(str).sink_to(text_file_sink(tmp_path / "out2"))
    with pytest.raises(PenstockError, match="newer|999") as caught:
        finish(env.execute_async("newer"))
    assert isinstance(caught.value, SnapshotError) or isinstance(caught.value.cause, SnapshotError)
    assert committed_files(tmp_path / "out2") == []


def test_state_that_no_step_takes(tmp_path: Path, _launcher: LocalLauncher) -> None:
    _stopped(_launcher, tmp_path)
    env = _once(tmp_path / "chk")
    _numbers(env).uid("other").map(str).sink_to(text_file_sink(tmp_path / "out2")).uid("out")
    with pytest.raises(PenstockError, match="allow-non-restored-state"):
        finish(env.execute_async("keeping"))


def test_two_drivers_of_one_job(tmp_path: Path, _launcher: LocalLauncher) -> None:
    """A second driver takes over; the first is fenced, and the output is whole."""
    pace = Pace(1500.0, tmp_path / "gate")
    first = start_graph("keyed", tmp_path / "out", tmp_path / "chk", 2, 900, pace)
    wait_for_snapshots(_launcher, 3)
    second = start_graph("keyed", tmp_path / "out", tmp_path / "chk", 2, 900, pace)
    wait_for_snapshots(_launcher, 1)
    pace.gate.touch()
    finish(second)
    with pytest.raises(JobFailedError, match="does not own"):
        finish(first)
    assert read_text(tmp_path / "out") == keyed_golden(900)


def test_collected_results_arrive_once_in_spite_of_a_crash(tmp_path: Path, _launcher: LocalLauncher) -> None:
    env = environment(tmp_path / "chk").set_parallelism(2)
    pace = Pace(1500.0, tmp_path / "gate")
    results = _numbers(env, 600, pace).execute_and_collect()
    wait_for_snapshots(_launcher, 3)
    _launcher.clusters[-1].kill(0)
    pace.gate.touch()
    assert sorted(results) == list(range(600))
    until(lambda: _launcher.jobs[-1].driver.restarts == 1, "the job has restarted")


def test_log_sink_and_source_in_one_program(tmp_path: Path) -> None:
    """A topic written by one job is read by the next, bounded."""
    from penstock.connectors.log import LogOffsets

    env = _once()
    _numbers(env).map(str).sink_to(log_sink(tmp_path))
    finish(env.execute_async("writer"))
    env = _once()
    source = LogSource(tmp_path, "out", TEXT, end=LogOffsets.latest())
    env.from_source(source, NO_TIME, "log").sink_to(text_file_sink(tmp_path / "files"))
    finish(env.execute_async("reader"))
    assert read_text(tmp_path / "files") == sorted(map(str, range(100)))
