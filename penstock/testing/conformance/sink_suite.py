"""What every exactly-once sink must do: show each committed record once, and no other.

The suite plays the engine: it ships the sink to "slots", writes, takes barriers, pickles committables
as a snapshot would, kills attempts, commits once or twice.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle

from penstock.connectors.sink import CommitOutcome, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import Epoch

_DONE = {CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED}


class SinkConformance:
    """Subclass it as ``Test...`` and implement ``make_sink`` and ``visible``."""

    def make_sink(self, directory: Path) -> Sink:
        """The sink as the program on the driver makes it. Called once per test."""
        raise NotImplementedError

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        """What a reader outside sees now, in any order."""
        raise NotImplementedError

    def leftovers(self, directory: Path) -> list[Any]:
        """What the sink keeps outside that was prepared and is not committed, if one can look."""
        return []

    def batch(self, values: list[int]) -> Batch:
        """Records to write for these numbers; override for sinks of other records."""
        return Batch.of_rows(list(values))

    def shown(self, value: Any) -> int:
        """The number that a visible record was made from; the inverse of ``batch``."""
        return int(value)

    def test_committed_records_are_visible_once(self, tmp_path: Path) -> None:
        """Several epochs, several batches each."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        for epoch in (1, 2):
            writer.write(self.batch([epoch * 10]))
            writer.write(self.batch([epoch * 10 + 1, epoch * 10 + 2]))
            self._commit(sink, self._barrier(writer, epoch))
        assert self._seen(sink, tmp_path) == [10, 11, 12, 20, 21, 22]

    def test_uncommitted_records_are_never_visible(self, tmp_path: Path) -> None:
        """Not while written, not when prepared, not after the writer is gone."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        writer.write(self.batch([1, 2, 3]))
        assert self._seen(sink, tmp_path) == []
        self._barrier(writer, 1)
        writer.write(self.batch([4]))
        assert self._seen(sink, tmp_path) == []
        writer.close()
        assert self._seen(sink, tmp_path) == []

    def test_commit_is_idempotent(self, tmp_path: Path) -> None:
        """The same committables once more, together with newer ones, change nothing."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        writer.write(self.batch([1, 2]))
        first = self._barrier(writer, 1)
        self._commit(sink, first)
        self._commit(sink, first)
        writer.write(self.batch([3]))
        self._commit(sink, first + self._barrier(writer, 2))
        assert self._seen(sink, tmp_path) == [1, 2, 3]

    def test_commit_after_restart(self, tmp_path: Path) -> None:
        """The attempt dies between snapshot and commit; the next one commits before it writes."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        writer.write(self.batch([1, 2]))
        prepared = self._barrier(writer, 1)
        writer.close()
        self._commit(sink, prepared)
        second = self._writer(sink, generation=2, restored=1)
        second.write(self.batch([3]))
        self._commit(sink, prepared)
        self._commit(sink, self._barrier(second, 2))
        assert self._seen(sink, tmp_path) == [1, 2, 3]

    def test_leftovers_are_removed(self, tmp_path: Path) -> None:
        """What an attempt prepared after the restored snapshot never shows, and is cleared away."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        writer.write(self.batch([1]))
        published = self._barrier(writer, 1)
        self._commit(sink, published)
        writer.write(self.batch([98]))
        self._barrier(writer, 2)
        writer.write(self.batch([99]))
        self._commit(sink, published)
        second = self._writer(sink, generation=2, restored=1)
        assert self.leftovers(tmp_path) == []
        second.write(self.batch([2]))
        self._commit(sink, self._barrier(second, 3))
        second.close()
        assert self._seen(sink, tmp_path) == [1, 2]
        assert self.leftovers(tmp_path) == []

    def test_subtasks_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        """Equal epochs of several subtasks, and of another job start, all stay."""
        sink = self._sink(tmp_path)
        writers = [self._writer(sink, subtask=index) for index in range(3)]
        prepared = []
        for index, writer in enumerate(writers):
            writer.write(self.batch([index]))
        for writer in writers:
            prepared += self._barrier(writer, 1)
        self._commit(sink, prepared)
        assert self._seen(sink, tmp_path) == [0, 1, 2]

    def test_end_of_input(self, tmp_path: Path) -> None:
        """The last flush and the last barrier leave nothing behind."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        writer.write(self.batch([1, 2, 3]))
        writer.flush(True)
        self._commit(sink, self._barrier(writer, 1))
        writer.close()
        assert self._seen(sink, tmp_path) == [1, 2, 3]
        assert self.leftovers(tmp_path) == []

    def test_an_epoch_without_records_commits_nothing_new(self, tmp_path: Path) -> None:
        """Barriers without data are the normal case at night."""
        sink = self._sink(tmp_path)
        writer = self._writer(sink)
        self._commit(sink, self._barrier(writer, 1))
        self._commit(sink, self._barrier(writer, 2))
        assert self._seen(sink, tmp_path) == []

    def _sink(self, directory: Path) -> Sink:
        sink = self.make_sink(directory)
        sink.check()
        return sink

    def _seen(self, sink: Sink, directory: Path) -> list[int]:
        return sorted(self.shown(value) for value in self.visible(sink, directory))

    def _writer(
        self, sink: Sink, subtask: int = 0, generation: int = 1, restored: int | None = None
    ) -> SinkWriter:
        context = WriterContext(
            job_name="conformance",
            sink_id="sink",
            subtask=subtask,
            parallelism=3,
            generation=generation,
            restored_epoch=None if restored is None else Epoch(restored),
            restored_state=(),
            checkpointing=True,
            clock=ManualClock(1_700_000_000_000),
            to_driver=lambda message: sink.on_driver_message(pickle.loads(cloudpickle.dumps(message))),
        )
        shipped: Sink = pickle.loads(cloudpickle.dumps(sink))
        return shipped.create_writer(context)

    def _barrier(self, writer: SinkWriter, epoch: int) -> list[Any]:
        """What the snapshot of ``epoch`` holds for this writer."""
        writer.flush(False)
        prepared = writer.prepare_commit(Epoch(epoch))
        writer.snapshot(Epoch(epoch))
        restored: list[Any] = pickle.loads(cloudpickle.dumps(prepared))
        return restored

    def _commit(self, sink: Sink, committables: list[Any]) -> None:
        committer = sink.create_committer()
        assert committer is not None, "an exactly-once sink has a committer"
        outcomes = committer.commit(committables)
        assert len(outcomes) == len(committables) and set(outcomes) <= _DONE
        committer.close()
