"""JSON lines: one JSON object per line, as columns of a declared schema, or as dictionaries without one.

With a schema, fields that it does not name are left out, and fields that a line does not have are null.
A line whose values do not fit is a bad record, whatever stands around it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from penstock.connectors.files.lines import LineFormat, Lines, undecodable
from penstock.formats.bad_records import DecodeError

_WHITE = np.frombuffer(b" \t\r\n", np.uint8)


@dataclass(frozen=True, slots=True)
class JsonLinesFormat(LineFormat):
    """Reads JSON lines into Arrow columns of ``schema``; without one, into what each line is."""

    schema: Any | None = None

    def decode(self, lines: Lines, header: bytes) -> pa.RecordBatch | list[Any]:
        if self.schema is None:
            return _objects(lines)
        try:
            return _columns(lines, self.schema)
        except (pa.ArrowInvalid, _NotOnePerLine):
            raise undecodable(lines, self._error_of) from None

    def _error_of(self, lines: Lines) -> Exception | None:
        try:
            _columns(lines, self.schema)
        except (pa.ArrowInvalid, _NotOnePerLine) as e:
            return e
        return None


class _NotOnePerLine(Exception):
    """An object goes over several lines, or a line has several: then lines are no records."""


def _objects(lines: Lines) -> list[Any]:
    found = []
    start = 0
    for index, end in enumerate(lines.ends.tolist()):
        line = lines.data[start:end].strip()
        start = end
        if line:
            try:
                found.append(json.loads(line))
            except ValueError as e:
                raise DecodeError(index, f"this is not JSON: {e}") from None
    return found


def _columns(lines: Lines, schema: Any) -> pa.RecordBatch:
    if not lines.data.strip():
        arrays = [pa.array([], column.type) for column in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    read = pajson.read_json(
        pa.BufferReader(lines.data),
        pajson.ReadOptions(use_threads=False, block_size=len(lines.data) + 1),
        pajson.ParseOptions(
            explicit_schema=pa.schema([(column.name, _parsed_as(column.type)) for column in schema]),
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        ),
    )
    if read.num_rows != _count_filled(lines):
        raise _NotOnePerLine("a line must hold one whole JSON object")
    batch: pa.RecordBatch = read.cast(schema).combine_chunks().to_batches()[0]
    return batch


def _count_filled(lines: Lines) -> int:
    """How many lines have more than white space."""
    starts, ends = lines.starts(), lines.ends
    first = np.frombuffer(lines.data, np.uint8)[starts]
    maybe = np.flatnonzero(np.isin(first, _WHITE))
    blank = sum(not lines.data[starts[index] : ends[index]].strip() for index in maybe.tolist())
    return len(ends) - blank


def _parsed_as(kind: Any) -> Any:
    """Dates and times are text in JSON; Arrow reads only timestamps by itself."""
    return pa.string() if pa.types.is_date(kind) or pa.types.is_time(kind) else kind
