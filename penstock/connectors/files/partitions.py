"""Batches divided by the values of some columns, and partitioned directories: ``country=DE/hour=3/``.

Every sink that writes partitioned directories or tables divides without Python per record.  Each column
becomes small codes, the codes of all columns one number per record; records with equal numbers are then
brought together by one stable sort, so within a partition they keep their order.

Names of directories follow Hive, as Spark writes and reads them: characters that paths cannot hold are
``%XX``, and null (or empty text) is ``__HIVE_DEFAULT_PARTITION__``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connectors.combinators.source_wrapper import WrappedReader
from penstock.connectors.source import SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
Values = tuple[Any, ...]


def folder_of(names: Sequence[str], values: Sequence[Any]) -> str:
    """The relative directory of records with these values."""
    return "/".join(f"{_escape(name)}={_text(value)}" for name, value in zip(names, values, strict=True))


def _text(value: Any) -> str:
    if value is None or value == "":
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return _escape(value.isoformat(sep=" "))
    return _escape(str(value))


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


class PartitionColumns:
    """Columns of a source that come from the names of directories. Names alone mean text."""

    def __init__(self, columns: pa.Schema | Sequence[str]) -> None:
        texts = [(name, pa.string()) for name in columns] if not isinstance(columns, pa.Schema) else columns
        self.schema = pa.schema(texts)

    def open(self, reader: SplitReader, path: str) -> SplitReader:
        """The reader of the file ``path``, with the columns added to its records."""
        return _PartitionedReader(reader, self.schema, self.values(path))

    def values(self, path: str) -> list[Any]:
        """The values for a file, as Arrow scalars."""
        found = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
        return [self._value(path, column, found.get(_escape(column.name))) for column in self.schema]

    def _value(self, path: str, column: Any, text: str | None) -> Any:
        if text is None:
            raise ConnectorError(
                f"{path!r} is not below a directory {column.name}=..., which gives that column"
            )
        if text == NULL:
            return pa.scalar(None, column.type)
        try:
            return pa.scalar(unquote(text), pa.string()).cast(column.type)
        except pa.ArrowInvalid:
            raise ConnectorError(
                f"{path!r}: the directory's {column.name}={text} is no {column.type}; give its own type"
            ) from None


class _PartitionedReader(WrappedReader):
    """Adds constant columns."""

    def __init__(self, reader: SplitReader, schema: pa.Schema, values: list[Any]) -> None:
        super().__init__(reader)
        self._schema = schema
        self._values = values

    def poll(self, max_rows: int) -> Batch | None:
        batch = super().poll(max_rows)
        if batch is None:
            return None
        if batch.columns is None:
            raise ConnectorError(
                "columns from directories need records with columns; give the source a schema"
            )
        columns = batch.columns
        for column, value in zip(self._schema, self._values, strict=True):
            if column.name not in columns.schema.names:
                columns = columns.append_column(column, pa.repeat(value, len(batch)))
        return Batch(columns=columns, times=batch.times)


def split_by_columns(columns: pa.RecordBatch, names: Sequence[str]) -> list[tuple[Values, pa.RecordBatch]]:
    """The parts of a batch with equal values in ``names``, each with these values as Python objects.

    The columns stay in the parts.  ``null`` is a value like any other.
    """
    if not columns.num_rows:
        return []
    if not names:
        return [((), columns)]
    codes = _codes(columns.column(names[0]))
    for name in names[1:]:
        more = _codes(columns.column(name))
        # Made dense again after each column: the product of many cardinalities might not fit.
        codes = np.unique(codes * (more.max() + 1) + more, return_inverse=True)[1]
    first, which = np.unique(codes, return_index=True, return_inverse=True)[1:]
    values = [tuple(columns.column(name)[int(row)].as_py() for name in names) for row in first]
    if len(values) == 1:
        return [(values[0], columns)]
    together = columns.take(pa.array(np.argsort(which, kind="stable")))
    ends = np.cumsum(np.bincount(which)).tolist()
    starts = [0, *ends[:-1]]
    return [
        (value, together.slice(start, end - start))
        for value, start, end in zip(values, starts, ends, strict=True)
    ]


def _codes(column: pa.Array) -> npt.NDArray[np.int64]:
    """A small number for each value, in the order of first appearance."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    indices = column.dictionary_encode(null_encoding="encode").indices
    codes: npt.NDArray[np.int64] = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
