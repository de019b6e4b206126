"""Avro files: records as dictionaries, a file's own schema resolved to the one that is asked for.

The position is the number of the next record in the file.  To go on in the middle, blocks before it are
passed over without decoding them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from penstock.common.io import InputFormat
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.connectors.files.formats import BulkFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.files.unreadable import shrunk
from penstock.connectors.source import EndOfSplit, Source, SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.optional import require
from penstock.core.row import Row
from penstock.core.typeinfo import TypeInformation
from penstock.datastream.formats.avro_schema import AvroSchema
from penstock.storage.places import storage_of


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records that are dictionaries with the fields of a schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def parts(self) -> tuple[Any, ...]:
        return (self.schema.text,)


class AvroFormat(BulkFormat):
    """Reads Avro files; records are dictionaries."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def open(self, path: str, position: Any | None) -> SplitReader:
        return AvroReader(path, position or 0, self._schema)

    def produced_type(self) -> Any | None:
        return GenericRecordAvroTypeInfo(self._schema)


class AvroReader(SplitReader):
    """Reads one Avro file from a record on."""

    def __init__(self, path: str, record: int, schema: AvroSchema) -> None:
        self._path = path
        self._record = record
        self._stream = storage_of(path).open_read(path)
        fastavro = require("fastavro", "kafka")
        try:
            self._blocks = fastavro.block_reader(self._stream, schema.parsed)
        except (ValueError, EOFError, KeyError) as e:
            self._stream.close()
            raise ConnectorError(f"{path!r} is not an Avro file: {e}") from e
        self._records = self._from(record)

    def _from(self, record: int) -> Iterator[Any]:
        passed = 0
        for block in self._blocks:
            skip = min(max(0, record - passed), block.num_records)
            passed += block.num_records
            if skip < block.num_records:
                yield from islice(block, skip, None)
        if passed < record:
            raise shrunk(self._path, "record", record, passed)

    def poll(self, max_rows: int) -> Batch | None:
        try:
            rows = list(islice(self._records, max_rows))
        except ConnectorError:
            raise
        except Exception as e:
            raise ConnectorError(
                f"{self._path!r} cannot be read as Avro behind record {self._record}: {type(e).__name__}: {e}"
            ) from e
        if not rows:
            raise EndOfSplit
        self._record += len(rows)
        return Batch.of_rows(rows)

    def position(self) -> int:
        return self._record

    def close(self) -> None:
        self._stream.close()


class AvroInputFormat(InputFormat):
    """Avro files as a bounded input for ``env.create_input``."""

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = path
        self._schema = schema

    def create_source(self) -> Source:
        return FileSource.for_bulk_file_format(AvroFormat(self._schema), self._path).build()

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """The type of the records."""
        return GenericRecordAvroTypeInfo(self._schema)


class AvroBulkWriters:
    """Writers of Avro files, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Files of one schema; records are dictionaries or rows with its fields."""
        return _AvroWriterFactory(schema)


class _AvroWriterFactory(BulkWriterFactory):
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def create(self, stream: BinaryIO) -> BulkWriter:
        return _AvroWriter(stream, self._schema)


class _AvroWriter(BulkWriter):
    def __init__(self, stream: BinaryIO, schema: AvroSchema) -> None:
        self._stream = stream
        writer = require("fastavro.write", "kafka").Writer
        # Without it fastavro writes an int that does not fit, and cuts fractions off, without a word.
        self._writer = writer(stream, schema.parsed, codec="deflate", validator=True)

    def write(self, batch: Batch) -> None:
        for row in batch.to_rows():
            try:
                self._writer.write(row.as_dict() if isinstance(row, Row) else row)
            except Exception as e:
                reason = " ".join(str(e).split())
                raise ConnectorError(f"cannot write {row!r:.200} as an Avro record: {reason}") from e

    def size(self) -> int:
        return self._stream.tell()

    def finish(self) -> None:
        self._writer.flush()
