"""Partitioned directories, ``country=DE/hour=3/``: names to columns and back.

The names follow Hive, as Spark writes and reads them: characters that paths cannot hold are ``%XX``, and
null (or empty text) is ``__HIVE_DEFAULT_PARTITION__``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from penstock.connectors.combinators.source_wrapper import WrappedReader
from penstock.connectors.source import SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


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
