"""Clicks with the user's name from a database and the country's currency from a web service.

python enrichment.py

enriches a few clicks.  For a topic that others write to:

penstock topic create clicks --partitions 4
penstock topic create enriched
penstock run enrichment.py ~/.penstock/log users.db https://example.org/countries/
"""

from __future__ import annotations

import asyncio
import http.server
import json
import sqlite3
import sys
import tempfile
import threading
import urllib.request
from contextlib import closing
from typing import Any

import pyarrow as pa

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.log import Json, LogSink, LogSource
from penstock.datastream.enrichment import LookupCache, lookup_join

CLICK = Json(pa.schema([("country", pa.string()), ("user", pa.int64())]))
RETRY = AsyncRetryStrategy.exponential_backoff(5, 100, 5_000, 2.0, None, lambda e: isinstance(e, OSError))


class Users:
    """Finds users by number. A plain function of the key: it may block, and runs in threads."""

    def __init__(self, database: str) -> None:
        self.database = database

    def __call__(self, user: int) -> str | None:
        connection = sqlite3.connect(self.database)
        try:
            found = connection.execute("select name from users where id = ?", (user,)).fetchone()
        finally:
            connection.close()
        return None if found is None else str(found[0])


class Currency(AsyncFunction[Any, Any]):
    """Asks the service about the country; clicks of countries it is silent about go on without a currency."""

    def __init__(self, service: str) -> None:
        self.service = service

    def open(self, runtime_context: RuntimeContext) -> None:
        self.known: dict[str, str] = {}

    async def async_invoke(self, click: dict[str, Any]) -> list[Any]:
        country = click["country"]
        if country not in self.known:
            self.known[country] = await asyncio.to_thread(self._ask, country)
        return [click | {"currency": self.known[country]}]

    def timeout(self, click: dict[str, Any]) -> list[Any]:
        return [click | {"currency": None}]

    def _ask(self, country: str) -> str:
        with urllib.request.urlopen(self.service + country, timeout=5) as answer:
            return str(json.load(answer)["currency"])


def enrich(clicks: DataStream, database: str, service: str) -> DataStream:
    """The clicks with names and currencies, each exactly once, in no particular order."""
    cache = LookupCache(100_000, Duration.of_minutes(10))
    named = lookup_join(clicks, Users(database), "user", with_name, how="left", cache=cache).uid("users")
    priced = AsyncDataStream.unordered_wait_with_retry(
        named, Currency(service), Duration.of_seconds(20), RETRY
    )
    return priced.name("Currency").uid("currency")


def with_name(click: Any, name: str | None) -> dict[str, Any]:
    """One record of the result."""
    return {"country": click["country"], "user": click["user"], "name": name}


def run(log: str, database: str, service: str) -> None:
    """From topic to topic, for ever."""
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(1000)
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5))
    clicks = env.from_source(LogSource(log, "clicks", CLICK), by_time, "clicks").uid("clicks")
    enrich(clicks, database, service).sink_to(LogSink(log, "enriched", Json(), "country")).uid("sink")
    env.execute("enrichment")


# --- a first try: a database and a service of its own -------------------------------------------

CLICKS = [{"country": "de", "user": 1}, {"country": "fr", "user": 2}, {"country": "de", "user": 3}]


class Countries(http.server.BaseHTTPRequestHandler):
    """The web service."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"currency": "EUR"}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants to know."""


def first_try() -> None:
    """A few clicks, to the console."""
    database = f"{tempfile.mkdtemp(prefix='penstock-users-')}/users.db"
    print(f"users are in {database}")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("create table users (id integer primary key, name text)")
        connection.executemany("insert into users values (?, ?)", [(1, "ann"), (2, "bob")])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Countries) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = StreamExecutionEnvironment.get_execution_environment()
        enrich(env.from_collection(CLICKS), database, f"http://127.0.0.1:{server.server_port}/").print()
        env.execute("enrichment")
        server.shutdown()


if __name__ == "__main__":
    run(*sys.argv[1:4]) if len(sys.argv) > 1 else first_try()
