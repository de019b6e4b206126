"""A sink whose commits are a function of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.ids import Epoch


class BufferingWriter(SinkWriter):
    def __init__(self) -> None:
        self._rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        self._rows += batch.to_rows()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        rows, self._rows = self._rows, []
        return [(int(epoch), tuple(rows))] if rows else []


class _Committer(Committer):
    def __init__(self, decide: Callable[[Any], CommitOutcome]) -> None:
        self._decide = decide
        self.closed = False

    def commit(self, committables: Any) -> Any:
        assert not self.closed, "a committer was used after it was closed"
        return [self._decide(committable) for committable in committables]

    def close(self) -> None:
        self.closed = True


class DecidingSink(Sink):
    """Commits as a function of the driver says. Only the driver's copy has it."""

    def __init__(self, decide: Callable[[Any], CommitOutcome]) -> None:
        self._decide = decide

    def __getstate__(self) -> dict[str, Any]:
        return {"_decide": None}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return BufferingWriter()

    def create_committer(self) -> Committer:
        return _Committer(self._decide)
