"""A BATCH job that fails before its commit removes what its sinks have prepared, at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from penstock.common.serialization import Encoder
from penstock.connectors.database.names import Maker
from penstock.connectors.log import Consumer, Log, LogSink, Text
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.staged import StagedEpochs
from penstock.coordinator.connectors import JobConnectors
from penstock.core.batch import Batch
from penstock.core.errors import JobFailedError
from penstock.core.ids import Epoch
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def cluster() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


def files(place: Path) -> Sink:
    return FileSink.for_row_format(str(place / "out"), Encoder.simple_string_encoder()).build()


def log(place: Path) -> Sink:
    if "t" not in Log(place / "log").topics():
        Log(place / "log").create_topic("t", 2)
    return LogSink(place / "log", "t", Text())


def staged(place: Path) -> Sink:
    schema = pa.schema([("value", pa.string())])
    return StagedEpochs(lambda epoch, names: None, str(place / "staged"), schema)


class Kind(NamedTuple):
    make: Callable[[Path], Sink]
    hidden: str
    """What prepared output looks like, below the place."""


KINDS = {
    "files": Kind(files, "out/**/*.inprogress"),
    "log": Kind(log, "log/t/*/pending/*"),
    "staged": Kind(staged, "staged/*/*.parquet"),
}


def run(sink: Sink, fail: bool, checkpoints: Path | None = None, name: str = "job") -> None:
    """Numbers into a sink of two subtasks; if it is to fail, the second does when the first has prepared."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(2)
    if checkpoints is not None:
        env._configuration.set_string("execution.checkpointing.dir", str(checkpoints))

    def look(value: int) -> str:
        if fail and value == 99:
            raise ValueError("no")
        return str(value)

    env.from_collection(range(100)).rebalance().map(look).sink_to(sink).uid("sink")
    env.execute(name)


@pytest.mark.parametrize("with_directory", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_a_failed_run(
    kind: str, with_directory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, hidden = KINDS[kind]
    checkpoints = tmp_path / "chk" if with_directory else None
    with monkeypatch.context() as patch:
        patch.setattr(JobConnectors, "withdraw", lambda *_: None)
        with pytest.raises(JobFailedError, match="ValueError"):
            run(make(tmp_path), True, checkpoints)
    before = list(tmp_path.glob(hidden))
    assert before, "without it something is left"
    with pytest.raises(JobFailedError, match="ValueError"):
        run(make(tmp_path), True, checkpoints)
    assert not list(tmp_path.glob(hidden))
    run(make(tmp_path), False, checkpoints)
    assert not list(tmp_path.glob(hidden))


def test_what_other_jobs_prepare_in_the_same_place_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(JobConnectors, "withdraw", lambda *_: None)
        for make, _ in KINDS.values():
            with pytest.raises(JobFailedError):
                run(make(tmp_path), True, name="other")
    others = {kind: list(tmp_path.glob(hidden)) for kind, (_, hidden) in KINDS.items()}
    assert all(others.values())
    for make, _ in KINDS.values():
        with pytest.raises(JobFailedError):
            run(make(tmp_path), True)
    assert {kind: list(tmp_path.glob(hidden)) for kind, (_, hidden) in KINDS.items()} == others


def test_output_that_was_committed_before_stays(tmp_path: Path) -> None:
    run(log(tmp_path), False)
    with pytest.raises(JobFailedError):
        run(log(tmp_path), True)
    rows: list[int] = []
    with Consumer(Log(tmp_path / "log").topic("t")) as consumer:
        while found := consumer.poll():
            rows += [int(value) for _, batch in found for value in batch.column("value").to_pylist()]
    assert sorted(rows) == list(range(100))


class Told(Sink):
    """A sink that notes what its committer is told."""

    def __init__(self, said: list[Any], refuses: bool = False) -> None:
        self.said = said
        self.refuses = refuses

    def __getstate__(self) -> dict[str, Any]:
        return {"said": [], "refuses": self.refuses}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _ToldWriter()

    def create_committer(self) -> Committer:
        return _ToldCommitter(self)


class _ToldWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        pass

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        return ["prepared"]


class _ToldCommitter(Committer):
    def __init__(self, sink: Told) -> None:
        self.sink = sink

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        self.sink.said.append("commit")
        if self.sink.refuses:
            raise OSError("the power is gone")
        return [CommitOutcome.COMMITTED] * len(committables)

    def abandon(self, job_name: str, sink_id: str, generation: int) -> None:
        self.sink.said.append((job_name, sink_id, generation > 0))
        raise OSError("nobody cares")


def test_a_committer_that_only_knows_how_to_abandon_is_asked_to(tmp_path: Path) -> None:
    said: list[Any] = []
    with pytest.raises(JobFailedError, match="ValueError"):
        run(Told(said), True)
    assert said == [("job", said[0][1], True)]


def test_what_was_published_is_never_withdrawn(tmp_path: Path) -> None:
    said: list[Any] = []
    with pytest.raises(JobFailedError, match="the power is gone"):
        run(Told(said, refuses=True), False, tmp_path)
    assert said == ["commit"]


def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    reached, go_on = threading.Event(), threading.Event()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(2)
    held = Held(reached, go_on)
    env.from_collection(range(100)).rebalance().map(held).sink_to(files(tmp_path)).uid("sink")
    client = env.execute_async("held")
    assert reached.wait(PATIENCE_S)
    assert list(tmp_path.glob(KINDS["files"].hidden)), "the first subtask has prepared"
    cancelled = client.cancel()
    go_on.set()
    cancelled.result(PATIENCE_S)
    assert client.get_job_status().result().name == "CANCELED"
    assert not list(tmp_path.glob(KINDS["files"].hidden))


EVENTS: list[tuple[threading.Event, threading.Event]] = []


class Held:
    """Waits at the last record; found again by its number where it was sent to."""

    def __init__(self, reached: threading.Event, go_on: threading.Event) -> None:
        self.number = len(EVENTS)
        EVENTS.append((reached, go_on))

    def __call__(self, value: int) -> str:
        if value == 99:
            reached, go_on = EVENTS[self.number]
            reached.set()
            assert go_on.wait(PATIENCE_S)
        return str(value)


def test_names_in_databases_of_runs_up_to_the_failed_one_are_left_over() -> None:
    def maker(generation: int, sink: str = "sink") -> Maker:
        return Maker.after("job", sink, "db", generation - 1, 3)

    failed = Maker.after("job", "sink", "db", 7)
    assert failed.is_leftover(maker(7).name(0)) and failed.is_leftover(maker(6).name(2))
    assert not failed.is_leftover(maker(8).name(0)), "of a run that has begun since"
    assert not failed.is_leftover(maker(7, "other").name(0))
