"""The example programs that bring streams together."""

from __future__ import annotations

import http.server
import importlib.util
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.enrichment import StaticTable
from penstock.testing.local import local_cluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Countries(http.server.BaseHTTPRequestHandler):
    """Refuses every first question about a country."""

    asked: set[str] = set()

    def do_GET(self) -> None:
        known = self.path in self.asked
        self.asked.add(self.path)
        self.send_response(200 if known else 503)
        self.end_headers()
        if known:
            self.wfile.write(json.dumps({"currency": self.path[-2:].upper() + "X"}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Countries)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_enrichment(tmp_path: Path, service: str) -> None:
    database = str(tmp_path / "users.db")
    connection = sqlite3.connect(database)
    connection.execute("create table users (id integer primary key, name text)")
    connection.executemany("insert into users values (?, ?)", [(1, "ann"), (2, "bob")])
    connection.commit()
    connection.close()
    with local_cluster(2):
        env = StreamExecutionEnvironment.get_execution_environment()
        clicks = env.from_collection(
            [{"country": c, "user": u} for c, u in [("de", 1), ("fr", 2), ("de", 3)]]
        )
        found = list(example("enrichment").enrich(clicks, database, service).execute_and_collect())
    rows = sorted((row["user"], row["name"], row["country"], row["currency"]) for row in found)
    assert rows == [(1, "ann", "de", "DEX"), (2, "bob", "fr", "FRX"), (3, None, "de", "DEX")]


def timed(env: StreamExecutionEnvironment, rows: list[dict[str, Any]]) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(50)
    return env.from_collection(rows).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda row, _: row["ts"])
    )


def test_slowly_changing(tmp_path: Path) -> None:
    orders = [
        {"customer": 1, "currency": "usd", "amount": 10.0, "ts": 15},
        {"customer": 2, "currency": "usd", "amount": 10.0, "ts": 25},
        {"customer": 3, "currency": "gbp", "amount": 10.0, "ts": 12},
        {"customer": 1, "currency": "gbp", "amount": 10.0, "ts": 5},
    ]
    rates = [
        {"currency": "usd", "rate": 0.8, "ts": 10},
        {"currency": "gbp", "rate": 1.2, "ts": 10},
        {"currency": "usd", "rate": 0.9, "ts": 20},
    ]
    pq.write_table(pa.table({"id": [1, 2], "country": ["us", "ca"]}), tmp_path / "customers.parquet")
    customers = StaticTable(pq.read_table(tmp_path / "customers.parquet"), "id")
    with local_cluster(2):
        env = StreamExecutionEnvironment.get_execution_environment()
        converted = example("slowly_changing").convert(timed(env, orders), timed(env, rates), customers)
        found = list(converted.execute_and_collect())
    rows = sorted((row["customer"], row["euros"], row["country"]) for row in found)
    assert rows == [(1, 8.0, "us"), (2, 9.0, "ca"), (3, 12.0, None)], "there was no rate yet at 5"
