"""Which cells there are, and how large each is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.connectors.database.sink import DatabaseSink, Delivery


class Workload(Enum):
    """What is written."""

    SMALL = "small aggregates"
    """200 keys, 2,000 updates a second."""
    LARGE = "raw volume"
    """As many new rows as go through."""


TABLES = {
    Workload.SMALL: "k INT PRIMARY KEY, v BIGINT, total DOUBLE PRECISION, touched INT NOT NULL DEFAULT 0",
    Workload.LARGE: (
        "id BIGINT PRIMARY KEY, user_id INT, country VARCHAR(2), amount DOUBLE PRECISION, "
        "at TIMESTAMP(3) NULL, touched INT NOT NULL DEFAULT 0"
    ),
}
COLUMNS = {
    Workload.SMALL: ("k", "v", "total"),
    Workload.LARGE: ("id", "user_id", "country", "amount", "at"),
}
KEY = {Workload.SMALL: "k", Workload.LARGE: "id"}
TABLE = "bench_sink"


@dataclass(frozen=True)
class Sizes:
    """How much work a run is."""

    intervals_s: tuple[float, ...]
    small_s: tuple[float, ...]
    """Seconds of updates, per interval."""
    large_rows: tuple[int, ...]
    """Rows, per interval."""
    crash_rows: int
    """Rows of the table beside, for vacuum and purge."""
    lock_wait_s: float
    """How long a blocked statement is watched before it counts as blocked for good."""
    spark_rows: int


FULL = Sizes((0.25, 1.0, 5.0), (4.0, 6.0, 14.0), (300_000, 1_000_000, 300_000), 10_000, 3.0, 200_000)
QUICK = Sizes((0.25, 1.0), (0.8, 2.0), (15_000, 15_000), 1_000, 0.5, 10_000)
TINY = Sizes((0.1,), (0.5,), (2_000,), 100, 0.2, 1_000)


@dataclass(frozen=True)
class Database:
    """A running server."""

    name: str
    url: str
    password: str


def sink(database: Database, workload: Workload, delivery: Delivery) -> DatabaseSink:
    """The sink of a cell, with the defaults of the builder. Raw rows are appended, where that is possible."""
    builder = DatabaseSink.builder().set_url(database.url).set_password(database.password)
    builder = builder.set_table(TABLE).set_columns(*COLUMNS[workload]).set_delivery(delivery)
    if workload is Workload.SMALL or delivery is Delivery.UPSERT:
        builder = builder.set_key_columns(KEY[workload])
    return builder.build()
