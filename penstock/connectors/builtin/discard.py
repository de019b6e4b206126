"""A sink that counts its records and drops them: for measuring everything before it."""

from __future__ import annotations

from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch


class DiscardingSink(Sink):
    """Drops everything."""

    takes_changes = True

    def create_writer(self, context: WriterContext) -> DiscardingWriter:
        return DiscardingWriter()


class DiscardingWriter(SinkWriter):
    """Counts what it drops, in ``rows``."""

    def __init__(self) -> None:
        self.rows = 0

    def write(self, batch: Batch) -> None:
        self.rows += len(batch)
