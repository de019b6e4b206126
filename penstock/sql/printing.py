"""Rows of tables as text: ``+I[1, abc]`` line by line, and a frame with names around a result."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.render import java_text
from penstock.core.row import Row
from penstock.core.typeinfo import RowTypeInfo, Types

_NARROWEST, _WIDEST = 4, 30
_PLAIN = Types.STRING()


def row_text(row: Any) -> str:
    """A row as Flink's tables print it."""
    if not isinstance(row, Row):
        return str(row)
    kind = RowTypeInfo([_PLAIN] * len(row))
    return java_text(row, kind, spaced=True)


class TablePrintSink(Sink):
    """The connector ``print``: lines on the driver's standard output, outside of any transaction."""

    takes_changes = True

    def __init__(self, identifier: str | None = None) -> None:
        self._identifier = identifier

    def create_writer(self, context: WriterContext) -> SinkWriter:
        number = str(context.subtask + 1) if context.parallelism > 1 else ""
        label = ":".join(part for part in (self._identifier, number) if part)
        return _Writer(f"{label}> " if label else "", context)

    def on_driver_message(self, message: Any) -> None:
        sys.stdout.write(message)
        sys.stdout.flush()


class _Writer(SinkWriter):
    def __init__(self, prefix: str, context: WriterContext) -> None:
        self._prefix = prefix
        self._to_driver = context.to_driver

    def write(self, batch: Batch) -> None:
        lines = [f"{self._prefix}{row_text(row)}\n" for row in batch.to_rows()]
        if lines:
            self._to_driver("".join(lines))


def framed(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Lines of a table with a frame, as the rows come; a last one says how many there were."""
    widths = [min(_WIDEST, max(_NARROWEST, len(name), 12)) for name in names]
    edge = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield edge
    yield _line([*names], widths)
    yield edge
    count = 0
    for row in rows:
        count += 1
        yield _line(["NULL" if value is None else str(value) for value in row], widths)
    yield edge
    yield f"{count} row{'' if count == 1 else 's'}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (
        "|"
        + "|".join(f" {_cut(cell, width):>{width}} " for cell, width in zip(cells, widths, strict=True))
        + "|"
    )


def _cut(text: str, width: int) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= width else plain[: width - 3] + "..."
