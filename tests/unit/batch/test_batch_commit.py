"""Output of BATCH jobs: invisible until the end, then committed once, also if the driver dies meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.common.serialization import Encoder
from penstock.connectors.log import Consumer, Log, LogSink, Text
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import JobFailedError
from penstock.core.ids import Epoch
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.local import LocalLauncher, local_cluster


@pytest.fixture(autouse=True)
def cluster() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


class Shelf(Sink):
    """One file per prepared part; committing renames it. ``trouble`` names what the committer does first."""

    def __init__(self, place: Path, trouble: str = "") -> None:
        self.place = place
        self.trouble = trouble

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _ShelfWriter(self.place, context)

    def create_committer(self) -> Committer:
        return _ShelfCommitter(self.place, self.trouble)


class _ShelfWriter(SinkWriter):
    def __init__(self, place: Path, context: WriterContext) -> None:
        self.place = place
        self.name = f"{context.subtask}-{context.generation}-{context.attempt}"
        self.rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        self.rows += batch.to_rows()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        (self.place / f"{self.name}.tmp").write_text("\n".join(map(str, self.rows)))
        return [self.name]


class _ShelfCommitter(Committer):
    def __init__(self, place: Path, trouble: str) -> None:
        self.place = place
        self.trouble = trouble
        self.tries = 0

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        self.tries += 1
        outcomes = []
        for number, name in enumerate(committables):
            if self.trouble == "dies" and number == 1:
                raise OSError("the power is gone")
            if self.trouble == "too late":
                outcomes.append(CommitOutcome.DROPPED)
                continue
            if self.trouble == "not yet" and self.tries == 1 and number == 1:
                outcomes.append(CommitOutcome.RETRY)
                continue
            source, target = self.place / f"{name}.tmp", self.place / f"{name}.done"
            if target.exists():
                outcomes.append(CommitOutcome.ALREADY_COMMITTED)
            else:
                source.rename(target)
                outcomes.append(CommitOutcome.COMMITTED)
        return outcomes

    def finish(self) -> None:
        left = sorted(path.name for path in self.place.glob("*.tmp"))
        (self.place / "finished").write_text(" ".join(left))
        raise OSError("nobody cares")


def run(
    place: Path,
    sink: Sink,
    checkpoints: Path | None = None,
    fail_at: int | None = None,
    name: str = "shelf",
    uid: str = "sink",
) -> None:
    """Numbers 0 to 99 into a sink, in two subtasks; every run leaves a mark."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(2)
    if checkpoints is not None:
        env._configuration.set_string("execution.checkpointing.dir", str(checkpoints))
    marks = place / "runs"

    def look(value: int) -> str:
        if value == 0:
            marks.write_text(marks.read_text() + "x" if marks.exists() else "x")
        if value == fail_at:
            raise ValueError("no")
        return str(value)

    env.from_collection(range(100)).map(look).rebalance().sink_to(sink).uid(uid)
    env.execute(name)


def visible(place: Path) -> list[int]:
    return sorted(int(line) for path in place.glob("*.done") for line in path.read_text().split())


def test_everything_is_committed_once_at_the_end(tmp_path: Path) -> None:
    run(tmp_path, Shelf(tmp_path))
    assert visible(tmp_path) == list(range(100))


def test_a_failed_job_leaves_nothing_visible(tmp_path: Path) -> None:
    with pytest.raises(JobFailedError):
        run(tmp_path, Shelf(tmp_path), fail_at=99)
    assert visible(tmp_path) == []


def test_what_cannot_be_committed_yet_is_tried_again(tmp_path: Path) -> None:
    run(tmp_path, Shelf(tmp_path, "not yet"))
    assert visible(tmp_path) == list(range(100))


def test_a_rerun_after_a_death_in_the_commit_finishes_it_and_runs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, checkpoints = tmp_path / "out", tmp_path / "checkpoints"
    place.mkdir()
    with pytest.raises(JobFailedError, match="the power is gone"):
        run(place, Shelf(place, "dies"), checkpoints)
    assert 0 < len(visible(place)) < 100
    run(place, Shelf(place), checkpoints)
    assert visible(place) == list(range(100))
    assert (place / "runs").read_text() == "x"
    assert "had ended but for the commit" in caplog.text
    run(place, Shelf(place), checkpoints)
    assert (place / "runs").read_text() == "xx", "the one after that is a new run"
    assert visible(place) == sorted([*range(100)] * 2)


def test_a_rerun_does_not_finish_the_commit_of_a_job_whose_name_looks_alike(tmp_path: Path) -> None:
    """It committed the other one's output, ran nothing, and forgot the list."""
    checkpoints, first, second = tmp_path / "checkpoints", tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with pytest.raises(JobFailedError, match="the power is gone"):
        run(first, Shelf(first, "dies"), checkpoints, name="полка")
    run(second, Shelf(second), checkpoints, name="棚")
    assert visible(second) == list(range(100))
    run(first, Shelf(first), checkpoints, name="полка")
    assert visible(first) == list(range(100))


def test_a_changed_program_does_not_take_the_list_of_the_one_before(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    with pytest.raises(JobFailedError, match="the power is gone"):
        run(tmp_path, Shelf(tmp_path, "dies"), checkpoints)
    files = sorted(checkpoints.rglob("*.json"))
    with pytest.raises(JobFailedError, match="state of operators that the program does not have"):
        run(tmp_path, Shelf(tmp_path), checkpoints, uid="another")
    assert sorted(checkpoints.rglob("*.json")) == files, "nothing was taken over"
    run(tmp_path, Shelf(tmp_path), checkpoints)
    assert visible(tmp_path) == list(range(100))


def test_committers_finish_when_all_is_committed_and_not_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    finished = tmp_path / "finished"
    with pytest.raises(JobFailedError):
        run(tmp_path, Shelf(tmp_path, "dies"), tmp_path / "checkpoints")
    assert not finished.exists(), "the next run commits the rest"
    run(tmp_path, Shelf(tmp_path, "not yet"), tmp_path / "checkpoints")
    assert finished.read_text() == "" and visible(tmp_path) == list(range(100))
    assert "could not be removed: nobody cares" in caplog.text


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING])
def test_output_that_can_never_be_committed_is_a_fact_of_the_job(
    mode: RuntimeExecutionMode, cluster: LocalLauncher, tmp_path: Path
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode).set_parallelism(2)
    env.from_collection(range(10)).rebalance().sink_to(Shelf(tmp_path, "too late"))
    env.execute("shelf")
    assert cluster.jobs[-1].facts()["outputs_dropped"] == 2


def test_files_and_log(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.create_topic("out", 2)
    for _ in range(2):
        run(tmp_path, LogSink(tmp_path / "log", "out", Text()), tmp_path / "checkpoints")
    topic = log.topic("out")
    rows: list[int] = []
    with Consumer(topic) as consumer:
        while found := consumer.poll():
            rows += [int(value) for _, batch in found for value in batch.column("value").to_pylist()]
    assert sorted(rows) == sorted([*range(100)] * 2)
    sink = FileSink.for_row_format(str(tmp_path / "files"), Encoder.simple_string_encoder()).build()
    run(tmp_path, sink)
    lines = [line for path in (tmp_path / "files").rglob("part-*") for line in path.read_text().split()]
    assert sorted(map(int, lines)) == list(range(100))
    assert not list((tmp_path / "files").rglob(".*.inprogress"))
