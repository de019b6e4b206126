"""The sinks of the fault matrix: how to make each, how to read all that is visible in it.

``place`` is a directory of the test's own; ``server`` has what a client needs, and a ``name`` that nobody
else uses in it.  ``make`` runs at every start of the driver.

Records are ``(id, k, total)``: ids from 0 on, a key, and the sum of the key's ids so far.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from flow_graphs import committed_files, log_sink, read_log

from penstock.common import Types
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.files.manifest import Manifest, place_of
from penstock.connectors.sink import Sink
from penstock.core.optional import require
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.database import DatabaseSink, Delivery
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import FileSink, ParquetWriterFactory
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

KEYS = 8
COUNT = 2400
ROW = Types.ROW_NAMED(["id", "k", "total"], [Types.LONG(), Types.LONG(), Types.LONG()])
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("total", pa.int64())])

Place = Path
Server = dict[str, Any]
Rows = list[tuple[int, ...]]


@dataclass(frozen=True)
class MatrixSink:
    """One line of the matrix."""

    title: str
    make: Callable[[Place, Server], Sink]
    read: Callable[[Place, Server], Rows]
    server: str | None = None
    """Fixture with the server."""
    lines: bool = False
    """Whether it takes text instead of rows."""
    upsert: bool = False
    """Whether only the newest row of each key stays."""

    def expected(self) -> Rows:
        """What must be there at the end, whatever happened."""
        rows = all_rows(COUNT)
        return sorted({row[1]: row for row in rows}.values()) if self.upsert else rows

    def visible(self, work: Place) -> Rows:
        """What readers see now, in order."""
        return sorted(self.read(work, server_of(work)))

    def check_exact(self, work: Place, after: str) -> int:
        """Nothing is lost, nothing twice, nothing else there; how many rows there are."""
        found, wanted = self.visible(work), self.expected()
        lost, extra = set(wanted) - set(found), set(found) - set(wanted)
        assert not lost and not extra and len(found) == len(wanted), (
            f"{self.title}, {after}: {len(found)} rows, should be {len(wanted)}; "
            f"lost {sorted(lost)[:5]}, wrong {sorted(extra)[:5]}"
        )
        return len(found)


def describe_server(work: Place, server: Any) -> None:
    """For the programs: where the server is, if there is one, and a name for things in it."""
    known = {"name": f"matrix_{uuid.uuid4().hex[:12]}"}
    wanted = ("host", "port", "user", "password", "database", "bootstrap")
    known |= {attribute: getattr(server, attribute) for attribute in wanted if hasattr(server, attribute)}
    file = work / "server.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(known))


def server_of(work: Place) -> Server:
    """What :func:`describe_server` wrote."""
    return dict(json.loads((work / "server.json").read_text()))


def all_rows(count: int) -> Rows:
    """Every record once."""
    totals = dict.fromkeys(range(KEYS), 0)
    rows = []
    for number in range(count):
        key = number % KEYS
        totals[key] += number
        rows.append((number, key, totals[key]))
    return rows


def make_parquet(place: Place, _: Server) -> Sink:
    builder = FileSink.for_bulk_format(str(place / "parquet"), ParquetWriterFactory(SCHEMA))
    return builder.with_manifest().build()


def read_parquet(place: Place, _: Server) -> Rows:
    """What the manifest lists, which is what Spark reads: it may be behind the names, never ahead."""
    base = place / "parquet"
    listed = [url.removeprefix("file://") for url in Manifest(place_of(str(base))).listed()]
    assert set(listed) <= {str(path) for path in committed_files(base)}
    tables = [pq.ParquetFile(path).read() for path in listed]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def read_log_lines(place: Place, _: Server) -> Rows:
    return [parse(line) for line in read_log(place / "log")]


def parse(line: str) -> tuple[int, ...]:
    return tuple(int(part) for part in line.split(","))


def make_delta(place: Place, _: Server) -> Sink:
    return DeltaSink(place / "delta")


def read_delta(place: Place, _: Server) -> Rows:
    table = require("deltalake", "delta").DeltaTable(place / "delta").to_pyarrow_table()
    return [tuple(row.values()) for row in table.to_pylist()]


def iceberg_catalog(place: Place) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/iceberg"}


def make_iceberg(place: Place, _: Server) -> Sink:
    return IcebergSink("matrix.rows", properties=iceberg_catalog(place))


def read_iceberg(place: Place, _: Server) -> Rows:
    catalog = require("pyiceberg.catalog", "iceberg").load_catalog("default", **iceberg_catalog(place))
    return [tuple(row.values()) for row in catalog.load_table("matrix.rows").scan().to_arrow().to_pylist()]


def make_kafka(_: Place, server: Server) -> Sink:
    admin = require("confluent_kafka.admin", "kafka")
    client = admin.AdminClient({"bootstrap.servers": server["bootstrap"]})
    if server["name"] not in client.list_topics(timeout=300.0).topics:
        client.create_topics([admin.NewTopic(server["name"], 2, 1)])[server["name"]].result(300.0)
    schema = KafkaRecordSerializationSchema.builder().set_topic(server["name"])
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(server["bootstrap"])
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(server["name"])
        .set_property("transaction.timeout.ms", "600000")
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )


def read_kafka(_: Place, server: Server) -> Rows:
    """What a reader of committed records sees, up to the end or to an open transaction."""
    kafka = require("confluent_kafka", "kafka")
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "group.id": "unused"}
    consumer = kafka.Consumer({"bootstrap.servers": server["bootstrap"], **settings})
    consumer.assign([kafka.TopicPartition(server["name"], number, 0) for number in range(2)])
    lines, ended = [], set()
    while len(ended) < 2:
        message = consumer.poll(20)
        assert message is not None, "Kafka does not answer"
        if message.error() is None:
            lines.append(message.value().decode())
        elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return [parse(line) for line in lines]


def make_table(scheme: str, delivery: Delivery) -> Callable[[Place, Server], Sink]:
    """A sink into a table: by key for ``UPSERT``, else appending into one that has no key to hide behind."""

    def make(_: Place, server: Server) -> Sink:
        key = ", PRIMARY KEY (k)" if delivery is Delivery.UPSERT else ""
        columns = f"id BIGINT NOT NULL, k BIGINT NOT NULL, total BIGINT NOT NULL{key}"
        run_sql(scheme, server, f"CREATE TABLE IF NOT EXISTS {server['name']} ({columns})")
        address = f"{scheme}://{server['user']}@{server['host']}:{server['port']}/{server['database']}"
        builder = DatabaseSink.builder().set_url(address).set_password(server["password"])
        builder = builder.set_table(server["name"]).set_delivery(delivery)
        return (builder.set_key_columns("k") if key else builder).build()

    return make


def read_table(scheme: str) -> Callable[[Place, Server], Rows]:
    return lambda _, server: [
        tuple(row) for row in run_sql(scheme, server, f"SELECT * FROM {server['name']}")
    ]


def run_sql(scheme: str, server: Server, statement: str) -> Any:
    """The rows of a query, nothing for other statements."""
    login = {"host": server["host"], "port": server["port"], "user": server["user"]}
    login["password"] = server["password"]
    if scheme == "mysql":
        driver = require("pymysql", "mysql")
        link = driver.connect(**login, database=server["database"], autocommit=True)
    else:
        driver = require("psycopg", "postgresql")
        link = driver.connect(**login, dbname=server["database"], autocommit=True)
    with link, link.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def table_sink(title: str, scheme: str, delivery: Delivery, server: str) -> MatrixSink:
    make, read = make_table(scheme, delivery), read_table(scheme)
    return MatrixSink(title, make, read, server, upsert=delivery is Delivery.UPSERT)


SINKS: dict[str, MatrixSink] = {
    "log": MatrixSink("embedded log", lambda place, _: log_sink(place / "log"), read_log_lines, lines=True),
    "kafka": MatrixSink("Kafka, transactions", make_kafka, read_kafka, "kafka_server", lines=True),
    "xa": table_sink("MariaDB, XA", "mysql", Delivery.TWO_PHASE, "mariadb_server"),
    "mariadb_bulk": table_sink("MariaDB, bulk load", "mysql", Delivery.BULK_LOAD, "mariadb_server"),
    "mariadb_upsert": table_sink("MariaDB, upsert", "mysql", Delivery.UPSERT, "mariadb_server"),
    "prepared": table_sink(
        "PostgreSQL, prepared transactions", "postgresql", Delivery.TWO_PHASE, "postgres_server"
    ),
    "postgresql_bulk": table_sink(
        "PostgreSQL, bulk load", "postgresql", Delivery.BULK_LOAD, "postgres_server"
    ),
    "postgresql_upsert": table_sink("PostgreSQL, upsert", "postgresql", Delivery.UPSERT, "postgres_server"),
    "parquet": MatrixSink("Parquet files", make_parquet, read_parquet),
    "delta": MatrixSink("Delta table", make_delta, read_delta),
    "iceberg": MatrixSink("Iceberg table", make_iceberg, read_iceberg),
}
