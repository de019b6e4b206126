"""The exact database sinks pass the suite that all exact sinks pass, on real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from database_kit import MARIADB, POSTGRESQL, database

from penstock.connectors.database.sink import DatabaseSinkBuilder, Delivery
from penstock.connectors.sink import Sink
from penstock.core.batch import Batch
from penstock.testing.conformance import SinkConformance


class _Appending(SinkConformance):
    fixture = MARIADB
    delivery = Delivery.TWO_PHASE

    @pytest.fixture(autouse=True)
    def _database(self, request):
        for db in database(request, self.fixture):
            self.db = db
            yield

    def _keyed(self, builder: DatabaseSinkBuilder) -> DatabaseSinkBuilder:
        return builder

    def make_sink(self, directory: Path) -> Sink:
        self.db.run("CREATE TABLE sink_numbers (n INT NOT NULL PRIMARY KEY, t VARCHAR(20))")
        builder = self.db.builder("sink_numbers").set_columns("n", "t").set_delivery(self.delivery)
        return self._keyed(builder).build()

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        return self.db.run("SELECT n FROM sink_numbers")

    def shown(self, value: Any) -> int:
        return value[0]

    def leftovers(self, directory: Path) -> list[Any]:
        return self.db.prepared() + self.db.staging()

    def batch(self, values: list[int]) -> Batch:
        return Batch.of_rows([{"n": value, "t": f"number {value}"} for value in values])


class _ByKey(_Appending):
    def _keyed(self, builder: DatabaseSinkBuilder) -> DatabaseSinkBuilder:
        return builder.set_key_columns("n")


class TestTwoPhaseMariaDb(_Appending):
    pass


class TestTwoPhasePostgreSql(_ByKey):
    fixture = POSTGRESQL


class TestBulkMariaDb(_ByKey):
    delivery = Delivery.BULK_LOAD


class TestBulkPostgreSql(_Appending):
    fixture = POSTGRESQL
    delivery = Delivery.BULK_LOAD
