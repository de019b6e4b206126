"""Avro records in Parquet files, as PyFlink's ``AvroParquetReaders`` and ``AvroParquetWriters`` have them.

Records are dictionaries with the fields of the schema, as in Avro files.  Columns of a file are found by
name: the file may have more of them, and one that it lacks is the default of the field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.formats import BulkFormat, FileRange
from penstock.connectors.files.parquet import ParquetReader
from penstock.connectors.files.parquet_writer import ParquetWriter, ParquetWriterFactory
from penstock.connectors.files.unreadable import reading
from penstock.connectors.source import SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.datastream.formats.avro_files import GenericRecordAvroTypeInfo
from penstock.datastream.formats.avro_schema import AvroSchema, Named, resolved
from penstock.formats.bad_records import BadRecords
from penstock.storage.places import storage_of

_BASIC = {
    "string": pa.string(), "enum": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "bytes": pa.binary(),
}  # fmt: skip
_LOGICAL = {
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"), "local-timestamp-micros": pa.timestamp("us"),
}  # fmt: skip

Convert = Callable[[Any], Any]


class AvroParquetFormat(BulkFormat):
    """Reads Parquet files into dictionaries with the fields of a schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def open(self, path: str, position: Any | None) -> SplitReader:
        return _AvroParquetReader(FileRange(path), position or 0, self._schema)

    def can_split(self, path: str) -> bool:
        return True

    def open_range(self, part: FileRange, position: Any | None, bad: BadRecords) -> SplitReader:
        return _AvroParquetReader(part, position or 0, self._schema)

    def produced_type(self) -> Any | None:
        return GenericRecordAvroTypeInfo(self._schema)


class _AvroParquetReader(SplitReader):
    """Columns of one file as dictionaries."""

    def __init__(self, part: FileRange, row: int, schema: AvroSchema) -> None:
        fields = _fields(schema)
        present = set(_columns_of(part.path))
        lacking = [
            field["name"] for field in fields if field["name"] not in present and "default" not in field
        ]
        if lacking:
            raise ConnectorError(
                f"{part.path!r} has no column {', '.join(lacking)}, and the Avro schema no default for it; "
                f"the file has {', '.join(sorted(present))}"
            )
        self._defaults = {field["name"]: field["default"] for field in fields if field["name"] not in present}
        self._convert = _reader(schema.parsed, {})
        names = [field["name"] for field in fields if field["name"] in present]
        self._inner = ParquetReader(part, row, names, None)

    def poll(self, max_rows: int) -> Batch | None:
        batch = self._inner.poll(max_rows)
        if batch is None:
            return None
        convert = self._convert
        found = [{**self._defaults, **record} for record in batch.columns.to_pylist()]
        return Batch.of_rows(found if convert is None else list(map(convert, found)))

    def position(self) -> int:
        return self._inner.position()

    def close(self) -> None:
        self._inner.close()


class AvroParquetFactory(ParquetWriterFactory):
    """Makes Parquet files of the records of a schema; they carry it, for readers of Avro."""

    def __init__(self, schema: AvroSchema) -> None:
        self._avro = schema
        named: Named = {}
        columns = [(field["name"], _arrow_type(field["type"], named)) for field in _fields(schema)]
        super().__init__(pa.schema(columns, metadata={"parquet.avro.schema": schema.text}))

    def create(self, stream: BinaryIO, footer: list[Any] | None = None) -> ParquetWriter:
        return _AvroParquetWriter(stream, self, footer)

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroParquetFactory, (self._avro,))

    def completed(self, record: Any) -> Any:
        """A record with the defaults of what it lacks; a ``ConnectorError`` if that has none."""
        found = record.as_dict() if isinstance(record, Row) else record
        if not isinstance(found, dict):
            raise ConnectorError(
                f"an Avro record is a dictionary or a named Row, not {record!r:.200}; map it to one first"
            )
        full = {}
        for field in _fields(self._avro):
            name = field["name"]
            full[name] = found[name] if name in found else field.get("default")
            if full[name] is None and not _is_nullable(field["type"]):
                raise ConnectorError(f"the Avro field {name!r} cannot be null, and is: {record!r:.200}")
        return full


class _AvroParquetWriter(ParquetWriter):
    def __init__(self, stream: BinaryIO, factory: AvroParquetFactory, footer: list[Any] | None) -> None:
        super().__init__(stream, factory, footer)
        self._completed = factory.completed

    def write(self, batch: Batch) -> None:
        super().write(Batch.of_rows(list(map(self._completed, batch.to_rows()))))


def _fields(schema: AvroSchema) -> list[dict[str, Any]]:
    fields = schema.parsed.get("fields") if isinstance(schema.parsed, dict) else None
    if fields is None:
        raise ConfigError(f"an Avro schema for Parquet files must be that of a record: {schema.text:.200}")
    return list(fields)


def _columns_of(path: str) -> list[str]:
    with storage_of(path).open_read(path) as stream, reading(path, "Parquet"):
        return list(pq.ParquetFile(stream).schema_arrow.names)


def _is_nullable(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


def _arrow_type(schema: Any, named: Named) -> pa.DataType:
    found = resolved(schema, named)
    kind, logical = found["type"], found.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(found["precision"], found.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match kind:
        case "record":
            return pa.struct(
                [(field["name"], _arrow_type(field["type"], named)) for field in found["fields"]]
            )
        case "array":
            return pa.list_(_arrow_type(found["items"], named))
        case "map":
            return pa.map_(pa.string(), _arrow_type(found["values"], named))
        case "fixed":
            return pa.binary(found["size"])
    if kind not in _BASIC:
        raise ConfigError(f"Parquet has no column for the Avro type {schema!r:.200}")
    return _BASIC[kind]


def _reader(schema: Any, named: Named) -> Convert | None:
    """What makes the values that Avro files give of those of columns: maps are pairs there."""
    found = resolved(schema, named)
    match found["type"]:
        case "record":
            each = {field["name"]: _reader(field["type"], named) for field in found["fields"]}
            return _record_reader({name: one for name, one in each.items() if one is not None})
        case "array":
            element = _reader(found["items"], named)
            return None if element is None else lambda values: [_present(element, one) for one in values]
        case "map":
            value = _reader(found["values"], named)
            # The default of a field comes as a dictionary already.
            return lambda pairs: {key: _present(value, one) for key, one in dict(pairs).items()}
    return None


def _record_reader(each: dict[str, Convert]) -> Convert | None:
    if not each:
        return None
    return lambda found: {name: _present(each.get(name), value) for name, value in found.items()}


def _present(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
