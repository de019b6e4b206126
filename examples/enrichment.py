"""Clicks with the user's name from a database and the country's currency from a web service.

penstock topic create clicks --partitions 4
penstock topic create enriched
penstock run enrichment.py ~/.penstock/log users.db https://example.org/countries/
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import urllib.request
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


if __name__ == "__main__":
    log, database, service = sys.argv[1:4]
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(1000)
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5))
    clicks = env.from_source(LogSource(log, "clicks", CLICK), by_time, "clicks").uid("clicks")
    enrich(clicks, database, service).sink_to(LogSink(log, "enriched", Json(), "country")).uid("sink")
    env.execute("enrichment")
