"""PyFlink's ``datastream.formats.avro``: rows as Avro records, by the package ``fastavro``.

A message is one record in Avro's binary encoding, without a file header: reader and writer must agree on
the schema.  Messages of Confluent's serializers have five bytes in front, which can be skipped.  For files
see ``avro_files.py``.
"""

from __future__ import annotations

import io
from typing import Any

from penstock.common.io import InputFormat
from penstock.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require
from penstock.core.row import Row
from penstock.core.typeinfo import TypeInformation
from penstock.datastream.formats.avro_files import AvroBulkWriters, AvroInputFormat, GenericRecordAvroTypeInfo
from penstock.datastream.formats.avro_schema import AvroSchema, reader_of, writer_of

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

# PyFlink has these here, too, from its other modules.
__all__ += ["BulkWriterFactory", "InputFormat"]

_HEADER_BYTES = 5


def _chosen(record_class: Any, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise ConfigError("record_class is a Java class, and there is no Java here: give avro_schema_string")
    if avro_schema_string is None:
        raise ConfigError("Avro needs a schema: give avro_schema_string, the schema's JSON")
    return AvroSchema(avro_schema_string)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Avro records to rows.

    With ``confluent_header`` the first five bytes of a message, a zero and the number of a schema in a
    registry, are skipped; messages must be written with the schema given here all the same.
    """

    def __init__(
        self, record_class: Any = None, avro_schema_string: str | None = None, confluent_header: bool = False
    ) -> None:
        self._schema = _chosen(record_class, avro_schema_string)
        self._skipped = _HEADER_BYTES if confluent_header else 0
        self._row_type = self._schema.row_type()
        self._read = reader_of(self._schema.parsed)
        self._decode = require("fastavro", "kafka").schemaless_reader

    def deserialize(self, data: bytes) -> Row:
        stream = io.BytesIO(data)
        try:
            if self._skipped and stream.read(self._skipped)[:1] != b"\0":
                raise ValueError("it does not begin with the zero of Confluent's header")
            row: Row = self._read(self._decode(stream, self._schema.parsed, None))
            if stream.tell() != len(data):
                raise ValueError(f"{len(data) - stream.tell()} bytes are left behind the record")
        except Exception as e:
            raise ConnectorError(
                f"cannot read {bytes(data)!r:.200} as Avro of {self._row_type!r}: {type(e).__name__}: {e}"
            ) from e
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._row_type

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroRowDeserializationSchema, (None, self._schema.text, bool(self._skipped)))


class AvroRowSerializationSchema(SerializationSchema):
    """Rows to Avro records."""

    def __init__(self, record_class: Any = None, avro_schema_string: str | None = None) -> None:
        self._schema = _chosen(record_class, avro_schema_string)
        self._row_type = self._schema.row_type()
        self._write = writer_of(self._schema.parsed)
        self._encode = require("fastavro", "kafka").schemaless_writer

    def serialize(self, value: Any) -> bytes:
        stream = io.BytesIO()
        try:
            self._encode(stream, self._schema.parsed, self._write(value))
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as e:
            raise ConnectorError(f"cannot write {value!r:.200} as Avro of {self._row_type!r}: {e}") from e
        return stream.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroRowSerializationSchema, (None, self._schema.text))
