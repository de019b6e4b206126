"""Tables of SQL on real servers: rows that are replaced and deleted arrive so in databases and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.common import Row, WatermarkStrategy
from penstock.dataframe import from_data_stream
from penstock.sql import Session
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, cued_source
from tests.integration.local_jobs import environment
from tests.kafka_kit import TestTopic
from tests.patience import PATIENCE_S
from tests.servers import KafkaServer
from tests.sql_kit import rows_of
from tests.unit.connectors.database_kit import MARIADB, POSTGRESQL, Db, database

RATED = """SELECT k, COUNT(*) AS n, SUM(v) AS total FROM (VALUES ('a', 1), ('b', 2), ('a', 3), ('c', 9))
    AS t(k, v) GROUP BY k"""
KEPT = """SELECT k, n, total FROM (SELECT k, COUNT(*) AS n, NULLIF(SUM(v), 9) AS total FROM clicks GROUP BY k)
    AS r WHERE total < 9"""
"""What deletes a row says nothing of its total, which is declared NOT NULL."""


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


@pytest.fixture(params=[MARIADB, POSTGRESQL])
def db(request: pytest.FixtureRequest) -> Iterator[Db]:
    yield from database(request, request.param)


def _database_table(db: Db) -> str:
    return (
        "CREATE TABLE d (k VARCHAR, n BIGINT, total BIGINT NOT NULL, PRIMARY KEY (k) NOT ENFORCED) WITH "
        f"('connector' = 'jdbc', 'url' = '{db.url}', 'password' = '{db.server.password}', "
        "'table-name' = 'sink_sql', 'scan.partition.column' = 'n', 'scan.partition.num' = '2', "
        "'sink.max-retries' = '3')"
    )


def _made(db: Db) -> None:
    db.run("CREATE TABLE sink_sql (k VARCHAR(20) PRIMARY KEY, n BIGINT, total BIGINT)")


def test_rows_are_replaced_in_a_database_and_read_from_it(db: Db) -> None:
    _made(db)
    db.run("INSERT INTO sink_sql VALUES ('a', 77, 77), ('c', 1, 1), ('old', 5, 5)")
    session = Session()
    session.sql(_database_table(db))
    for _ in range(2):  # written again, rows say the same
        session.sql(f"INSERT INTO d {RATED}")
        session.env.execute("upserts")
        assert sorted(db.run("SELECT k, n, total FROM sink_sql")) == [
            ("a", 2, 4),
            ("b", 1, 2),
            ("c", 1, 9),
            ("old", 5, 5),
        ]
    assert rows_of(session.sql("SELECT k, total FROM d WHERE n = 1")) == [("b", 2), ("c", 9)]


def _crashing(checkpoints: Path, statement: str) -> Session:
    """A session whose table ``clicks`` has ``c`` first below nine and then not, with crashes in between."""
    rows = [Row(k=k, v=v) for k, v in [("a", 1), ("c", 3), ("b", 2), ("c", 6), ("a", 3)]]
    script = [*rows[:2], AwaitCheckpoint(), rows[2], Crash(), rows[3], AwaitCheckpoint(), Crash(), rows[4]]
    env = environment(checkpoints)
    env.set_parallelism(1)
    stream = env.from_source(cued_source(script), WatermarkStrategy.no_watermarks(), "clicks")
    session = Session(env)
    session.register("clicks", from_data_stream(stream, pa.schema({"k": pa.string(), "v": pa.int64()})))
    session.sql(statement)
    return session


def test_deleted_rows_are_gone_from_a_database_after_crashes(db: Db, tmp_path: Path) -> None:
    _made(db)
    session = _crashing(tmp_path, _database_table(db))
    session.sql(f"INSERT INTO d {KEPT}")
    session.env.execute("deletes")
    assert sorted(db.run("SELECT k, n, total FROM sink_sql")) == [("a", 2, 4), ("b", 1, 2)]


def _topic_options(topic: TestTopic) -> str:
    return f"'topic' = '{topic.name}', 'properties.bootstrap.servers' = '{topic.bootstrap}'"


def test_a_topic_is_written_and_read(kafka_server: KafkaServer) -> None:
    topic = TestTopic(kafka_server.bootstrap, 2)
    session = Session()
    session.sql(
        "CREATE TABLE t (id BIGINT, name STRING, price DECIMAL(6, 2)) WITH ('connector' = 'kafka', "
        f"{_topic_options(topic)}, 'format' = 'json', 'scan.bounded.mode' = 'latest-offset')"
    )
    session.sql("INSERT INTO t VALUES (1, 'ann', 1.50), (2, NULL, 20.25)")
    session.env.execute("write")
    found = rows_of(session.sql("SELECT id, name, CAST(price AS STRING) AS price FROM t"))
    assert found == [(1, "ann", "1.50"), (2, None, "20.25")]


def test_a_topic_of_upserts_has_the_last_value_of_each_key(kafka_server: KafkaServer, tmp_path: Path) -> None:
    topic = TestTopic(kafka_server.bootstrap, 1)
    table = (
        "CREATE TABLE u (k STRING, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = "
        f"'upsert-kafka', {_topic_options(topic)}, 'key.format' = 'json', 'value.format' = 'json')"
    )
    session = _crashing(tmp_path, table)
    session.sql(f"INSERT INTO u {KEPT}")
    session.env.execute("upserts")
    last = _by_key(topic)
    assert last["c"] is None, "there was one, and its deletion is a record without a value"
    assert {key: row["total"] for key, row in last.items() if row is not None} == {"a": 4, "b": 2}


def test_a_topic_of_upserts_is_read_as_changes(kafka_server: KafkaServer, tmp_path: Path) -> None:
    topic = TestTopic(kafka_server.bootstrap, 2)
    table = (
        "CREATE TABLE u (k STRING, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = "
        f"'upsert-kafka', {_topic_options(topic)}, 'key.format' = 'json', 'value.format' = 'json', "
        "'scan.bounded.mode' = 'latest-offset')"
    )
    session = _crashing(tmp_path / "written", table)
    session.sql(f"INSERT INTO u {KEPT}")
    session.env.execute("upserts")
    reading = _crashing(tmp_path / "read", table)
    assert rows_of(reading.sql("SELECT k, total FROM u")) == [("a", 4), ("b", 2)]
    both = "SELECT k, total AS x FROM u UNION ALL SELECT k, v AS x FROM clicks"
    sums = reading.sql(f"SELECT k, SUM(x) AS s FROM ({both}) AS t GROUP BY k")
    assert rows_of(sums) == [("a", 8), ("b", 4), ("c", 9)], "read once, though the job began anew"


def _by_key(topic: TestTopic) -> dict[str, Any]:
    """What a compacted topic keeps: the last value of each key."""
    consumer = Consumer(
        {
            "bootstrap.servers": topic.bootstrap,
            "group.id": "by-key",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    last: dict[str, Any] = {}
    try:
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            value = message.value()
            last[json.loads(message.key())["k"]] = None if value is None else json.loads(value)
    finally:
        consumer.close()
    return last
