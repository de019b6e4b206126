"""Random histories of checkpoints, lost checkpoints, late commits and kills, for sinks of files and tables.

The test plays the engine: what is published is carried until its commit is confirmed, what a checkpoint that
was given up prepared comes again with the next one, and a restart begins at the newest published checkpoint.
"""

from __future__ import annotations

import itertools
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.sink import CommitOutcome, Sink, WriterContext
from penstock.connectors.source import EndOfSplit, Source
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import Epoch
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.file_system import FileCompactStrategy, FileSink, FileSource
from penstock.storage.local import LocalStorage

SCHEMA = pa.schema([("n", pa.int64()), ("country", pa.string())])
DONE = {CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED}

SINKS: dict[str, tuple[Callable[[Path], Sink], Callable[[Path], Source]]] = {
    "plain": (
        lambda place: FileSink.json_lines(place, SCHEMA, partition_by=["country"]),
        lambda place: FileSource.json_lines(place, schema=SCHEMA, partitions=["country"]),
    ),
    "compacted": (
        lambda place: FileSink.json_lines(
            place, SCHEMA, partition_by=["country"], compact=FileCompactStrategy(2, 70)
        ),
        lambda place: FileSource.json_lines(place, schema=SCHEMA, partitions=["country"]),
    ),
    "delta": (
        lambda place: DeltaSink(place, SCHEMA, partition_by=["country"]),
        lambda place: DeltaSource(place),
    ),
}


class Engine:
    """One job with one sink subtask per slot."""

    def __init__(self, sink: Sink, slots: int) -> None:
        sink.check()
        self.sink = sink
        self.slots = slots
        self.numbers = itertools.count()
        self.epoch = 0
        self.generation = 0
        self.written: list[int] = []
        self.unpublished: list[Any] = []
        self.published: tuple[int | None, list[Any], list[Any], list[int]] = (None, [], [], [])
        self.start()

    def start(self) -> None:
        """A new attempt: commit what the snapshot holds, then make writers, the states dealt anew."""
        restored, carried, states, written = self.published
        self.commit()
        self.generation += 1
        self.written, self.unpublished = list(written), []
        self.writers = [
            self.sink.create_writer(
                WriterContext(
                    job_name="histories",
                    sink_id="sink",
                    subtask=subtask,
                    parallelism=self.slots,
                    generation=self.generation,
                    restored_epoch=None if restored is None else Epoch(restored),
                    restored_state=tuple(states[(self.slots - 1 - subtask) :: self.slots]),
                    checkpointing=True,
                    clock=ManualClock(0),
                    to_driver=self.sink.on_driver_message,
                )
            )
            for subtask in range(self.slots)
        ]

    def write(self) -> None:
        """Some records for every subtask."""
        for writer in self.writers:
            values = [next(self.numbers) for _ in range(3)]
            self.written += values
            countries = pa.array([f"c{value % 2}" for value in values])
            batch = pa.record_batch([pa.array(values, pa.int64()), countries], schema=SCHEMA)
            writer.write(Batch.of_columns(batch))

    def checkpoint(self, publish: bool) -> None:
        """A barrier; if the snapshot is given up, what was prepared comes again with the next one."""
        self.epoch += 1
        states: list[Any] = []
        for writer in self.writers:
            writer.flush(False)
            self.unpublished += writer.prepare_commit(Epoch(self.epoch))
            states += writer.snapshot(Epoch(self.epoch))
        if publish:
            stored = pickle.loads(pickle.dumps((self.published[1] + self.unpublished, states)))
            self.published = (self.epoch, *stored, list(self.written))
            self.unpublished = []

    def commit(self) -> None:
        """Commit what is published and not confirmed."""
        committer = self.sink.create_committer()
        assert committer is not None
        carried = self.published[1]
        assert set(committer.commit(carried)) <= DONE
        self.published = (self.published[0], [], *self.published[2:])

    def half_commit(self) -> None:
        """The commit happens, but the driver dies before it is confirmed."""
        kept = self.published
        self.commit()
        self.published = kept

    def end(self) -> None:
        """The input is over."""
        for writer in self.writers:
            writer.flush(True)
        self.checkpoint(publish=True)
        self.commit()
        for writer in self.writers:
            writer.close()


def seen(source: Source) -> list[int]:
    found = []
    for split in source.create_enumerator(1).discover():
        reader = source.open_split(split, None, ManualClock(0))
        while True:
            try:
                batch = reader.poll(1000)
            except EndOfSplit:
                break
            found += [] if batch is None else [row["n"] for row in batch.to_rows()]
        reader.close()
    return sorted(found)


@contextmanager
def quick_place() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        yield place / "out"
    finally:
        shutil.rmtree(place)


STEPS = st.lists(
    st.sampled_from(["write", "commit", "published", "half committed", "given up", "crash", "kill"]),
    max_size=14,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SINKS)
@given(steps=STEPS, slots=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_files_histories_leave_each_published_record_once(kind: str, steps: list[str], slots: int) -> None:
    pytest.importorskip("deltalake")
    make, source = SINKS[kind]
    with quick_place() as place:
        engine = Engine(make(place), slots)
        for step in steps:
            if step in ("crash", "kill"):
                for writer in engine.writers if step == "crash" else []:
                    writer.close()
                engine.start()
                continue
            engine.write()
            if step != "write":
                engine.checkpoint(publish=step != "given up")
            if step == "commit":
                engine.commit()
            elif step == "half committed":
                engine.half_commit()
            assert set(seen(source(place))) <= set(engine.published[3])
        engine.end()
        assert seen(source(place)) == sorted(engine.written)
        assert not [path for path in place.rglob(".*") if path.is_file()] or kind == "delta"


def test_files_histories_killed_between_rename_and_removal_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_place() as place:
        engine = Engine(SINKS["compacted"][0](place), 1)
        for _ in range(2):
            engine.write()
            engine.checkpoint(publish=True)

        def killed(self: LocalStorage, path: str) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(LocalStorage, "remove", killed)
            engine.commit()
        assert seen(SINKS["compacted"][1](place)) == sorted(engine.written)
        engine.start()
        engine.end()
        assert seen(SINKS["compacted"][1](place)) == sorted(engine.written)
        assert not list(place.rglob(".*.inprogress"))
