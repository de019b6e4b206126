"""What the tests of file sinks share: records, reading them back, and the engine's part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.common import Types
from penstock.connectors.sink import Sink, WriterContext
from penstock.connectors.source import EndOfSplit
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import Epoch
from penstock.datastream.connectors.file_system import (
    FileSink,
    FileSource,
)
from penstock.testing.conformance import SinkConformance

SCHEMA = pa.schema([("n", pa.int64()), ("country", pa.string())])
ROW = Types.ROW_NAMED(["n", "country"], [Types.LONG(), Types.STRING()])


def records(values: list[int]) -> Batch:
    countries = pa.array([f"c{value % 2}" for value in values], pa.string())
    return Batch.of_columns(pa.record_batch([pa.array(values, pa.int64()), countries], schema=SCHEMA))


def visible_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def hidden_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob(".*") if path.is_file()]


def read(source: FileSource) -> list[Any]:
    rows = []
    for split in source.create_enumerator(1).discover():
        reader = source.open_split(split, None, ManualClock(0))
        while True:
            try:
                batch = reader.poll(1000)
            except EndOfSplit:
                break
            rows += [] if batch is None else batch.to_rows()
    return rows


class PartitionedParquet(SinkConformance):
    """The suite for a sink whose files a source reads back; by default partitioned Parquet."""

    def make_sink(self, directory: Path) -> Sink:
        return FileSink.parquet(directory / "out", SCHEMA, partition_by=["country"])

    def source(self, place: Path) -> FileSource:
        return FileSource.parquet(place, partitions=["country"])

    def batch(self, values: list[int]) -> Batch:
        return records(values)

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        rows = read(self.source(directory / "out"))
        assert all(row["country"] == f"c{row['n'] % 2}" for row in rows)
        return [row["n"] for row in rows]

    def leftovers(self, directory: Path) -> list[Any]:
        return hidden_files(directory)


class Play(SinkConformance):
    """The suite's engine, for tests of our own."""

    def __init__(self, sink: Sink) -> None:
        sink.check()
        self.sink = sink
        self.attempt = 1
        self.writer = self._writer(sink)
        self.committed = 0
        self.states: dict[int, tuple[list[Any], list[Any]]] = {}

    def epoch(self, number: int, batch: Batch, commit: bool = True) -> list[Any]:
        self.writer.write(batch)
        self.writer.flush(False)
        prepared = self.writer.prepare_commit(Epoch(number))
        self.states[number] = (prepared, self.writer.snapshot(Epoch(number)))
        if commit:
            self._commit(self.sink, prepared)
        return prepared

    def restart(self, restored: int) -> None:
        """As the engine does: the restored snapshot's committables, then writers."""
        self.writer.close()
        prepared, state = self.states[restored]
        self._commit(self.sink, prepared)
        self.attempt += 1
        context = WriterContext(
            job_name="conformance",
            sink_id="sink",
            subtask=0,
            parallelism=3,
            generation=self.attempt,
            restored_epoch=Epoch(restored),
            restored_state=tuple(state),
            checkpointing=True,
            clock=ManualClock(0),
            to_driver=self.sink.on_driver_message,
        )
        self.writer = self.sink.create_writer(context)
