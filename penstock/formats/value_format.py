"""Between the bytes in a log and the records in a job.

A :class:`ValueFormat` works on many values at once.  ``decode`` gets the values of some records and
returns as many records, as a list or as columns; ``encode`` does the reverse for a sink.  Any object
with ``deserialize(bytes)`` or ``serialize(record)`` can stand in for one, a value at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.formats.bad_records import DecodeError, deserialized


class ValueFormat(ABC):
    """How values are written. Shipped to slots by pickling."""

    skips_none = False
    """Whether ``None`` among the decoded records means that there is no record at that place."""

    @abstractmethod
    def decode(self, values: pa.BinaryArray) -> pa.RecordBatch | list[Any]:
        """One record per value, in order; :class:`DecodeError` with the place of a bad one."""

    @abstractmethod
    def encode(self, batch: Batch) -> pa.BinaryArray | list[bytes]:
        """One value per record, in order."""


@runtime_checkable
class HasValueFormat(Protocol):
    """A schema of single values that knows a quicker way for many."""

    def value_format(self) -> ValueFormat:
        """The format that decodes to the same records."""
        ...


class Raw(ValueFormat):
    """Records are ``bytes``, or one column of them."""

    def decode(self, values: pa.BinaryArray) -> list[Any]:
        return list(values.to_pylist())

    def encode(self, batch: Batch) -> pa.BinaryArray | list[bytes]:
        if batch.columns is not None:
            return _only_column(batch.columns, "Raw").cast(pa.binary())
        return _only_type(batch.to_rows(), bytes, "Raw")


class Text(ValueFormat):
    """Records are ``str``, or one column of them; values are UTF-8."""

    def decode(self, values: pa.BinaryArray) -> list[Any]:
        return list(as_text(values).to_pylist())

    def encode(self, batch: Batch) -> pa.BinaryArray | list[bytes]:
        if batch.columns is not None:
            return _only_column(batch.columns, "Text").cast(pa.string()).cast(pa.binary())
        return pa.array(_only_type(batch.to_rows(), str, "Text"), pa.string()).cast(pa.binary())


class SchemaFormat(ValueFormat):
    """Adapts an object with ``deserialize(bytes)`` (for sources) or ``serialize(record)`` (for sinks)."""

    skips_none = True

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    @property
    def is_by_value(self) -> bool:
        """Whether ``decode_each`` is the only way, so that there is no use in an Arrow array."""
        return True

    def decode(self, values: pa.BinaryArray) -> pa.RecordBatch | list[Any]:
        return self.decode_each(values.to_pylist())

    def decode_each(self, values: list[bytes]) -> list[Any]:
        """The same for values that are Python objects already."""
        return deserialized(self._schema, values)

    def encode(self, batch: Batch) -> list[bytes]:
        return [self._schema.serialize(record) for record in batch.to_rows()]


def as_format(value_format: Any) -> ValueFormat:
    """``value_format`` itself, or the adapter that makes it one."""
    if isinstance(value_format, ValueFormat):
        return value_format
    if isinstance(value_format, HasValueFormat):
        return value_format.value_format()
    if hasattr(value_format, "deserialize") or hasattr(value_format, "serialize"):
        return SchemaFormat(value_format)
    raise ConfigError(
        f"{value_format!r} is no value format: use Raw(), Text(), Json(), a subclass of ValueFormat, or an "
        "object with deserialize(bytes) or serialize(record)"
    )


def as_text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text, checked to be UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        for index, value in enumerate(values.to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError as e:
                raise DecodeError(index, f"not UTF-8 ({e})") from None
        raise


def _only_column(columns: pa.RecordBatch, name: str) -> pa.Array:
    if columns.num_columns != 1:
        raise ConnectorError(
            f"{name} writes one column and the records have {columns.num_columns} "
            f"({', '.join(columns.schema.names)}): select one, or write Json()"
        )
    return columns.column(0)


def _only_type(rows: list[Any], kind: type, name: str) -> list[Any]:
    for row in rows:
        if not isinstance(row, kind):
            raise ConnectorError(
                f"{name} writes {kind.__name__} and a record is {type(row).__name__}: {row!r:.200}. "
                "Map records to that type first, or choose another format."
            )
    return rows
