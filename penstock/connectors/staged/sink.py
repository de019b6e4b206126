"""A sink that hands each epoch's rows to a function on the driver, as files.

The ladder of one epoch:

1. writers gather rows as Arrow columns; beyond 64 MB they go to files of their own;
2. on the barrier each writer completes its Parquet files and names them after the epoch;
3. the snapshot that holds the :class:`StagedFiles` is published;
4. the committer calls ``deliver(epoch, files)`` with the files of all subtasks;
5. it writes a mark with the names of these files, and 6. removes them.

A crash before 3: the files are leftovers, removed by the next attempt.  Between 3 and 5: the function is
called again, with the same epoch and the same rows.  Behind 5: the mark says that it is done.  So the
function must be idempotent in the epoch, and needs nothing else to be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import pyarrow as pa

from penstock.connectors.sink import Committer, Sink, SinkWriter, TypedSink, WriterContext
from penstock.connectors.staged.commit import EpochCommitter
from penstock.connectors.staged.writer import EpochFileWriter
from penstock.core.errors import ConfigError
from penstock.core.typeinfo import RowTypeInfo, TypeInformation, to_arrow
from penstock.storage.places import normalise, storage_of

Deliver = Callable[[int, Sequence[str]], None]
"""From an epoch and its files to something that can be repeated."""


class StagedEpochs(TypedSink):
    """Stages epochs below ``directory`` and gives each to ``deliver``.

    ``directory`` must be seen by the driver and by every slot.  Job name and sink id together must be one
    job's only there.  ``deliver`` stays on the driver; it is not sent to the slots.  ``schema`` is that of
    the files; without one the stream's declared type decides, else the columns as they come.
    """

    def __init__(self, deliver: Deliver, directory: str, schema: pa.Schema | None = None) -> None:
        self._deliver: Deliver | None = deliver
        self.directory = normalise(directory)
        self.schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_deliver": None}

    def typed(self, type_info: Any) -> Sink:
        if self.schema is not None:
            return self
        sink = copy(self)
        sink.schema = schema_of(type_info)
        sink._deliver = self._deliver
        return sink

    def check(self) -> None:
        storage_of(self.directory).make_own_directory(self.directory)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return EpochFileWriter(self.directory, self.schema, context)

    def create_committer(self) -> Committer:
        return EpochCommitter(self.deliver, base=self.directory)

    def deliver(self, epoch: int, files: Sequence[str]) -> None:
        """Call the function. Only on the driver."""
        assert self._deliver is not None, "only the driver's copy of the sink delivers"
        self._deliver(epoch, files)


def schema_of(type_info: TypeInformation) -> pa.Schema:
    """Columns for records of a declared type; what is no ROW is one column, ``value``."""
    column = to_arrow(type_info)
    if column is None:
        raise ConfigError(
            f"records of type {type_info!r} have no columns: a field has no column type of its own. Map them "
            "to a ROW of plain types, text for the rest, or give the sink a pyarrow schema"
        )
    if isinstance(type_info, RowTypeInfo) or pa.types.is_struct(column):
        return pa.schema(list(column))
    return pa.schema([("value", column)])
