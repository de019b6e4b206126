"""Records of the connector ``upsert-kafka``, and what its table must say."""

from __future__ import annotations

import datetime as dt
import pickle

import pyarrow as pa
import pytest

from penstock.common import Row, RowKind
from penstock.core.errors import ConfigError
from penstock.sql import Session
from penstock.sql.connectors import sink_of
from penstock.sql.upsert_kafka import UpsertKafkaSink, UpsertRecords

OPTIONS = (
    "WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', "
    "'key.format' = 'json', 'value.format' = 'json')"
)


def test_the_last_record_of_a_key_holds() -> None:
    schema = pa.schema({"k": pa.string(), "n": pa.int64(), "ts": pa.timestamp("ms")})
    records = pickle.loads(pickle.dumps(UpsertRecords("t", schema, ["k"])))
    time = dt.datetime.fromtimestamp(1, dt.UTC).replace(tzinfo=None)
    row = Row(k="a", n=None, ts=time)
    assert records.topic(row) == "t" and records.key(row) == b'{"k":"a"}'
    assert records.value(row).startswith(b'{"k":"a","n":null,"ts":"1970-01-01')
    row.set_row_kind(RowKind.DELETE)
    assert records.value(row) is None and records.key(row) == b'{"k":"a"}'


def test_a_table_of_upserts_has_a_key() -> None:
    session = Session()
    session.sql(f"CREATE TABLE t (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) {OPTIONS}")
    sink = sink_of(session.catalog.tables["t"])
    assert isinstance(sink, UpsertKafkaSink) and sink.upsert_key == ("k",)
    session.sql(f"CREATE TABLE u (k STRING, n BIGINT) {OPTIONS}")
    with pytest.raises(ConfigError, match="needs a PRIMARY KEY"):
        sink_of(session.catalog.tables["u"])
