"""Avro records in Parquet files, under PyFlink's names."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import Row, WatermarkStrategy
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.avro import AvroBulkWriters, AvroSchema, GenericRecordAvroTypeInfo
from penstock.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from penstock.testing.local import local_cluster

INNER = {"type": "record", "name": "in", "fields": [{"name": "x", "type": {"type": "map", "values": "int"}}]}
FIELDS: list[dict[str, Any]] = [
    {"name": "i", "type": "int"},
    {"name": "s", "type": ["null", "string"]},
    {"name": "a", "type": {"type": "array", "items": "long"}},
    {"name": "m", "type": {"type": "map", "values": "double"}},
    {"name": "r", "type": INNER},
    {"name": "l", "type": {"type": "array", "items": "in"}},
    {"name": "b", "type": "bytes"},
    {"name": "z", "type": "boolean"},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
    {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]
RECORDS = [
    {
        "i": 1, "s": "é", "a": [1, 2], "m": {"k": 1.5}, "r": {"x": {"y": 1}}, "l": [{"x": {}}],
        "b": b"\x00\xff", "z": True, "e": "B", "d": Decimal("1.25"),
        "t": dt.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC),
    },
    {
        "i": -(2**31), "s": None, "a": [], "m": {}, "r": {"x": {}}, "l": [], "b": b"", "z": False, "e": "A",
        "d": Decimal("0.00"), "t": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    },
]  # fmt: skip


def schema_of(*fields: dict[str, Any]) -> AvroSchema:
    return AvroSchema.parse_string(json.dumps({"type": "record", "name": "rec", "fields": list(fields)}))


def source(place: Path, schema: AvroSchema) -> FileSource:
    reader = AvroParquetReaders.for_generic_record(schema)
    made: FileSource = FileSource.for_record_stream_format(reader, place).build()
    return made


def collected(place: Path, schema: AvroSchema) -> list[Any]:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    stream = env.from_source(source(place, schema), WatermarkStrategy.no_watermarks(), "in")
    return list(stream.execute_and_collect())


def test_records_of_every_type_are_written_and_read_back(tmp_path: Path) -> None:
    schema = schema_of(*FIELDS)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    sink = FileSink.for_bulk_format(tmp_path, AvroParquetWriters.for_generic_record(schema)).build()
    with local_cluster(slots=1):
        stream = env.from_collection(RECORDS)
        stream.map(lambda e: e, output_type=GenericRecordAvroTypeInfo(schema)).sink_to(sink)
        env.execute()
        assert collected(tmp_path, schema) == RECORDS
    (file,) = (path for path in tmp_path.rglob("part-*"))
    assert json.loads(pq.read_schema(file).metadata[b"parquet.avro.schema"])["name"] == "rec"


def test_columns_are_found_by_name_and_what_lacks_is_the_default(tmp_path: Path) -> None:
    pq.write_table(pa.table({"more": [1], "i": [7]}), tmp_path / "a.parquet")
    schema = schema_of(FIELDS[0], {"name": "s", "type": ["null", "string"], "default": None})
    with local_cluster(slots=1):
        assert collected(tmp_path, schema) == [{"i": 7, "s": None}]
    reader = source(tmp_path, schema_of(FIELDS[0], FIELDS[2]))
    (split,) = reader.create_enumerator(1).discover()
    with pytest.raises(ConnectorError, match=r"a\.parquet' has no column a, and the Avro schema no default"):
        reader.open_split(split, None, None)


def writer(stream: io.BytesIO, *fields: dict[str, Any]) -> Any:
    factory = pickle.loads(pickle.dumps(AvroParquetWriters.for_generic_record(schema_of(*fields))))
    return factory.create(stream)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({}, "field 'i' cannot be null"),
        ({"i": None}, "field 'i' cannot be null"),
        ({"i": 2**31}, "column 'i' of type int32"),
        ({"i": 1.5}, "1.5 is no whole number"),
        ({"i": "x"}, "column 'i' of type int32"),
        ((1,), "is a dictionary or a named Row"),
    ],
    ids=repr,
)
def test_records_that_do_not_fit_are_an_error(record: Any, message: str) -> None:
    with pytest.raises(ConnectorError, match=message):
        writer(io.BytesIO(), FIELDS[0]).write(Batch.of_rows([record]))


@pytest.mark.parametrize("wrong", [2**31, 2**70, 1.5, "x", None])
def test_avro_files_refuse_what_does_not_fit_as_well(wrong: Any) -> None:
    stream = io.BytesIO()
    out = AvroBulkWriters.for_generic_record(schema_of(*FIELDS)).create(stream)
    out.write(Batch.of_rows([*RECORDS, Row(**RECORDS[0])]))
    with pytest.raises(ConnectorError, match=r"cannot write .* as an Avro record: .*rec\.i"):
        out.write(Batch.of_rows([{**RECORDS[0], "i": wrong}]))
    out.finish()
    stream.seek(0)
    assert list(fastavro.reader(stream)) == [*RECORDS, RECORDS[0]]


def test_rows_are_records_by_their_names() -> None:
    stream = io.BytesIO()
    out = writer(stream, FIELDS[0], {"name": "n", "type": "int", "default": 5})
    out.write(Batch.of_rows([Row(i=1), {"i": 2, "n": 3, "more": 4}]))
    out.finish()
    rows = pq.read_table(pa.BufferReader(stream.getvalue())).to_pylist()
    assert rows == [{"i": 1, "n": 5}, {"i": 2, "n": 3}]


def test_schemas_that_parquet_cannot_hold() -> None:
    for wrong in ('"string"', '{"type":"record","name":"r","fields":[{"name":"u","type":["int","string"]}]}'):
        with pytest.raises(ConfigError):
            AvroParquetWriters.for_generic_record(AvroSchema.parse_string(wrong))
