"""Epochs as files for a function on the driver."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import Types
from penstock.connectors.sink import CommitOutcome, Sink, SinkWriter, WriterContext
from penstock.connectors.staged import (
    _KEPT_MARKS,
    EpochCommitter,
    EpochFileWriter,
    StagedEpochs,
    schema_of,
)
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.conformance.sink_suite import SinkConformance
from penstock.testing.local import local_cluster

SCHEMA = pa.schema([("value", pa.int64())])


def values(files: Sequence[str]) -> list[int]:
    return [value for file in files for value in pq.read_table(file).column("value").to_pylist()]


def recording(directory: Path) -> Callable[[int, Sequence[str]], None]:
    """Idempotent in the epoch: writes a file named after it."""

    def deliver(epoch: int, files: Sequence[str]) -> None:
        (directory / f"epoch-{epoch}").write_text(json.dumps(values(files)))

    return deliver


class TestConformance(SinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        return StagedEpochs(recording(directory), str(directory / "staging"), SCHEMA)

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        return [value for path in directory.glob("epoch-*") for value in json.loads(path.read_text())]

    def leftovers(self, directory: Path) -> list[Any]:
        staging = directory / "staging"
        return [*staging.rglob("*.parquet"), *staging.rglob("*.open")]


def context(**changes: Any) -> WriterContext:
    facts: dict[str, Any] = {
        "job_name": "job",
        "sink_id": "sink",
        "subtask": 0,
        "parallelism": 2,
        "generation": 1,
        "restored_epoch": None,
        "restored_state": (),
        "checkpointing": True,
        "clock": ManualClock(),
        "to_driver": lambda message: None,
    }
    return WriterContext(**(facts | changes))


def staged(writer: SinkWriter, epoch: int, *numbers: int) -> list[Any]:
    writer.write(Batch.of_rows(list(numbers)))
    return writer.prepare_commit(Epoch(epoch))


def test_a_task_that_repeats_its_part_alone_changes_nothing(tmp_path: Path) -> None:
    """The other subtasks know of the publication; theirs is not repeated, and the epoch is not halved."""
    calls: list[tuple[int, list[int]]] = []

    def committer() -> EpochCommitter:
        return EpochCommitter(lambda epoch, files: calls.append((epoch, sorted(values(files)))))

    first = staged(EpochFileWriter(str(tmp_path), SCHEMA, context()), 1, 1, 2)
    second = staged(EpochFileWriter(str(tmp_path), SCHEMA, context(subtask=1)), 1, 3)
    assert committer().commit(first + second) == [CommitOutcome.COMMITTED] * 2
    assert committer().commit(second) == [CommitOutcome.ALREADY_COMMITTED]
    assert calls == [(1, [1, 2, 3])]


def test_a_crash_while_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    committables = staged(EpochFileWriter(str(tmp_path), SCHEMA, context()), 1, 1)
    committables += staged(EpochFileWriter(str(tmp_path), SCHEMA, context(subtask=1)), 1, 2)
    committer = EpochCommitter(lambda epoch, files: calls.append(len(files)))

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("penstock.storage.local.LocalStorage.remove", crash)
        with pytest.raises(KeyboardInterrupt):
            committer.commit(committables)
    Path(committables[0].directory, committables[0].names[0]).unlink()
    assert set(committer.commit(committables)) == {CommitOutcome.ALREADY_COMMITTED}
    assert calls == [2] and not list(tmp_path.rglob("*.parquet"))


def test_a_crash_in_the_function_repeats_the_same_rows(tmp_path: Path) -> None:
    calls: list[list[int]] = []

    def deliver(epoch: int, files: Sequence[str]) -> None:
        calls.append(values(files))
        if len(calls) == 1:
            raise RuntimeError("the table is locked")

    committables = staged(EpochFileWriter(str(tmp_path), SCHEMA, context()), 4, 1, 2, 3)
    with pytest.raises(RuntimeError):
        EpochCommitter(deliver).commit(committables)
    EpochCommitter(deliver).commit(pickle.loads(pickle.dumps(committables)))
    assert calls == [[1, 2, 3], [1, 2, 3]]


def test_a_job_begun_anew_may_use_an_epoch_again(tmp_path: Path) -> None:
    calls: list[list[int]] = []
    for number in (1, 2):
        writer = EpochFileWriter(str(tmp_path), SCHEMA, context())
        EpochCommitter(lambda epoch, files: calls.append(values(files))).commit(staged(writer, 1, number))
    assert calls == [[1], [2]]


def test_lost_files_are_named(tmp_path: Path) -> None:
    committables = staged(EpochFileWriter(str(tmp_path), SCHEMA, context()), 3, 1, 2)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(ConnectorError, match="the 2 rows of epoch 3"):
        EpochCommitter(lambda epoch, files: None).commit(committables)


def test_large_epochs_go_to_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.staged._MEMORY_BYTES", 100)
    writer = EpochFileWriter(str(tmp_path), SCHEMA, context())
    for start in range(0, 100, 10):
        writer.write(Batch.of_rows(list(range(start, start + 10))))
    assert list(tmp_path.rglob("*.open"))
    (committable,) = writer.prepare_commit(Epoch(1))
    assert committable.rows == 100 and len(committable.names) > 2
    files = [f"{committable.directory}/{name}" for name in committable.names]
    assert sorted(values(files)) == list(range(100))
    writer.write(Batch.of_rows(list(range(20))))
    writer.close()
    assert not list(tmp_path.rglob("*.open"))


def test_marks_do_not_pile_up(tmp_path: Path) -> None:
    writer = EpochFileWriter(str(tmp_path), SCHEMA, context())
    committer = EpochCommitter(lambda epoch, files: None)
    for epoch in range(1, 3 * _KEPT_MARKS):
        if epoch % 30 == 0:
            committer = EpochCommitter(lambda epoch, files: None)
        committer.commit(staged(writer, epoch, 1))
    assert _KEPT_MARKS <= len(list(tmp_path.rglob("done-*"))) <= 2 * _KEPT_MARKS


def test_a_savepoint_of_long_ago_is_known_to_be_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.staged._KEPT_MARKS", 3)
    calls: list[int] = []
    committer = EpochCommitter(lambda epoch, files: calls.append(epoch))
    writer = EpochFileWriter(str(tmp_path), SCHEMA, context(generation=5))
    savepoint = staged(writer, 1, 1)
    committer.commit(savepoint)
    for epoch in range(2, 30):
        committer.commit(staged(writer, epoch, 1))
    for other in (committer, EpochCommitter(lambda epoch, files: calls.append(epoch))):
        assert other.commit(savepoint) == [CommitOutcome.ALREADY_COMMITTED]
    assert calls == list(range(1, 30))
    same_number = EpochFileWriter(str(tmp_path), SCHEMA, context(generation=5))
    assert committer.commit(staged(same_number, 1, 1)) == [CommitOutcome.COMMITTED], "its files are there"


def test_a_job_begun_anew_keeps_its_own_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its epochs are lower than those of the life before, and its marks the newest all the same."""
    monkeypatch.setattr("penstock.connectors.staged._KEPT_MARKS", 3)
    calls: list[int] = []

    def committer() -> EpochCommitter:
        return EpochCommitter(lambda epoch, files: calls.append(epoch))

    first = EpochFileWriter(str(tmp_path), SCHEMA, context(generation=9))
    for epoch in range(1, 10):
        committer().commit(staged(first, epoch, 1))
    again = EpochFileWriter(str(tmp_path), SCHEMA, context(generation=100))
    for epoch in range(1, 3):
        prepared = staged(again, epoch, 1)
        assert committer().commit(prepared) == [CommitOutcome.COMMITTED]
        assert committer().commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert calls == [*range(1, 10), 1, 2]


def test_columns_follow_from_the_type() -> None:
    assert schema_of(Types.INT()) == pa.schema([("value", pa.int32())])
    row = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()])
    assert schema_of(row) == pa.schema([("a", pa.string()), ("b", pa.int64())])
    with pytest.raises(ConfigError, match="no columns"):
        schema_of(Types.MAP(Types.STRING(), Types.INT()))


def test_objects_without_a_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="output_type"):
        EpochFileWriter(str(tmp_path), None, context()).write(Batch.of_rows([object()]))


def test_in_a_job_that_crashes(tmp_path: Path) -> None:
    """Every record once, although the function fails now and then and is called again."""
    calls: list[int] = []
    keep = recording(tmp_path)

    def deliver(epoch: int, files: Sequence[str]) -> None:
        keep(epoch, files)
        calls.append(epoch)
        if len(calls) % 3 == 1:
            raise ConnectorError("the answer got lost")

    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.enable_checkpointing(20)
        stream = env.from_collection(list(range(2000)), Types.LONG()).rebalance()
        doubled = stream.map(lambda i: i * 2, output_type=Types.LONG())
        doubled.sink_to(StagedEpochs(deliver, str(tmp_path / "staging")))
        env.execute()
    found = [value for path in tmp_path.glob("epoch-*") for value in json.loads(path.read_text())]
    assert sorted(found) == [i * 2 for i in range(2000)]
    assert len(calls) > len(set(calls))
