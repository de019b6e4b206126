"""``print()``: records as lines on the driver's standard output.

Lines are sent outside any transaction, as soon as they are written, so after a restart some appear
twice: this is for looking, not for results.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.connectors.sink import SinkWriter, TypedSink, WriterContext
from penstock.core.batch import Batch
from penstock.core.render import java_text
from penstock.core.typeinfo import TypeInformation


class PrintSink(TypedSink):
    """Prints each record, as ``identifier:n> value`` with the subtask's number if there are several.

    With the stream's type, values are rendered as Flink does; otherwise as ``str`` does.
    """

    def __init__(self, identifier: str | None = None, type_info: TypeInformation | None = None) -> None:
        self.identifier = identifier
        self.type_info = type_info

    def typed(self, type_info: TypeInformation | None) -> PrintSink:
        """The same sink for a stream of this type."""
        return PrintSink(self.identifier, type_info)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        number = str(context.subtask + 1) if context.parallelism > 1 else ""
        label = ":".join(part for part in (self.identifier, number) if part)
        return _PrintWriter(f"{label}> " if label else "", self.type_info, context)

    def on_driver_message(self, message: Any) -> None:
        sys.stdout.write(message)
        sys.stdout.flush()


class _PrintWriter(SinkWriter):
    """Renders a batch into one message."""

    def __init__(self, prefix: str, type_info: TypeInformation | None, context: WriterContext) -> None:
        self._prefix = prefix
        self._type_info = type_info
        self._to_driver = context.to_driver

    def write(self, batch: Batch) -> None:
        prefix, type_info = self._prefix, self._type_info
        lines = [f"{prefix}{java_text(value, type_info)}\n" for value in batch.to_rows()]
        if lines:
            self._to_driver("".join(lines))
