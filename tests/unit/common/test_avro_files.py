"""Avro files, read and written by jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.common import Row
from penstock.connectors.source import Source
from penstock.core.clock import ManualClock
from penstock.core.errors import ConnectorError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema
from penstock.testing.conformance import SourceConformance
from penstock.testing.local import local_cluster

FIELDS = [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"], "default": None}]
SCHEMA = AvroSchema.parse_string(json.dumps({"type": "record", "name": "r", "fields": FIELDS}))
RECORDS = [{"n": n, "s": None if n % 3 else f"s{n}"} for n in range(50)]


def write(path: Path, schema: AvroSchema = SCHEMA, records: list[Any] = RECORDS) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, schema.parsed, records, sync_interval=40)


class TestAvroConformance(SourceConformance):
    def make_source(self, directory: Path) -> Source:
        write(directory / "a.avro")
        return AvroInputFormat(str(directory), SCHEMA).create_source()

    def expected(self) -> list[Any]:
        return RECORDS


def test_a_files_own_schema_is_resolved_to_the_one_asked_for(tmp_path: Path) -> None:
    older = AvroSchema.parse_string(json.dumps({"type": "record", "name": "r", "fields": FIELDS[:1]}))
    write(tmp_path / "a.avro", older, [{"n": 1}])
    env = StreamExecutionEnvironment.get_execution_environment()
    with local_cluster():
        found = list(env.create_input(AvroInputFormat(str(tmp_path), SCHEMA)).execute_and_collect())
    assert found == [{"n": 1, "s": None}]


def test_what_a_job_writes_is_read(tmp_path: Path) -> None:
    write(tmp_path / "in.avro")
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), AvroBulkWriters.for_generic_record(SCHEMA)).build()
    with local_cluster():
        stream = env.create_input(AvroInputFormat(str(tmp_path / "in.avro"), SCHEMA))
        stream.map(lambda record: record if record["n"] % 2 else Row(**record)).sink_to(sink)
        env.execute("avro")
        found = list(env.create_input(AvroInputFormat(str(tmp_path / "out"), SCHEMA)).execute_and_collect())
    assert sorted(found, key=lambda record: record["n"]) == RECORDS


def test_what_is_no_avro_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(b"not avro")
    source = AvroInputFormat(str(tmp_path), SCHEMA).create_source()
    [split] = source.create_enumerator(1).discover()
    with pytest.raises(ConnectorError, match="is not an Avro file"):
        source.open_split(split, None, ManualClock(0))


def test_a_damaged_file_names_the_record(tmp_path: Path) -> None:
    write(tmp_path / "a.avro")
    whole = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(whole[:-30])
    source = AvroInputFormat(str(tmp_path), SCHEMA).create_source()
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, ManualClock(0))
    with pytest.raises(ConnectorError, match=r"cannot be read as Avro behind record \d+"):
        while True:
            reader.poll(5)
    reader.close()
