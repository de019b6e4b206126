"""The benchmark of the sinks runs, at tiny sizes, and its guide shows what was measured."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.sinks.cells import idle, measure
from benchmarks.sinks.crash import crash, leftovers_of
from benchmarks.sinks.plan import TINY, Database, Workload
from benchmarks.sinks.plots import draw
from benchmarks.sinks.report import GUIDE, RESULTS, ROOT, tables, write_guide
from benchmarks.sinks.run import machine
from penstock.connectors.database.sink import Delivery
from penstock.testing.servers import MariaDbServer, PostgresServer
from tests.servers import skip_without


def database(name: str, scheme: str, server: Any) -> Database:
    url = f"{scheme}://{server.user}@{server.host}:{server.port}/{server.database}"
    return Database(name, url, server.password)


def test_tiny_cells_and_crashes(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    """Two cells, then both outcomes of a kill, on a server that may be restarted."""
    maria = database("MariaDB", "mysql", mariadb_server)
    cells = [
        asdict(measure(maria, Workload.SMALL, Delivery.TWO_PHASE, 0, TINY)),
        asdict(measure(maria, Workload.LARGE, Delivery.BULK_LOAD, 0, TINY)),
    ]
    skip_without(PostgresServer)
    with PostgresServer() as server:
        postgres = database("PostgreSQL", "postgresql", server)
        deliveries = (Delivery.UPSERT, Delivery.TWO_PHASE)
        crashes = [asdict(crash(postgres, delivery, server, TINY)) for delivery in deliveries]
        assert leftovers_of(postgres) == []
    without, prepared = crashes
    assert without["left"] == [] and "blocked" not in without["update"]
    assert len(prepared["left"]) == 1 and "blocked" in prepared["update"] and "blocked" in prepared["alter"]
    assert prepared["after_server_restart"] == "still there"
    assert "blocked" in prepared["update_after_server_restart"]
    assert "blocked" not in prepared["update_after_release"]
    assert prepared["by_hand"].startswith("ROLLBACK PREPARED 'ps_")

    spark = {"database": "MariaDB", "delivery": "upsert", "rows": 1, "seconds": 1.0}
    results = {
        "machine": machine(),
        "idle": {"MariaDB": idle(maria, 0.2)},
        "cells": cells,
        "crashes": crashes,
        "spark": [spark],
    }
    guide = tmp_path / "guide.md"
    guide.write_text(GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    write_guide(json.loads(json.dumps(results)), guide)
    assert f"| {cells[1]['rows']:,} |" in guide.read_text(encoding="utf-8")
    assert all(picture.stat().st_size > 1000 for picture in draw(results, tmp_path))
    assert maria.password not in json.dumps(results)


def test_the_guide_shows_the_results(tmp_path: Path) -> None:
    """``python benchmarks/sinks/run.py --guide-only`` mends it."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    guide = tmp_path / "guide.md"
    guide.write_text(GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    write_guide(results, guide)
    assert guide.read_text(encoding="utf-8") == GUIDE.read_text(encoding="utf-8")
    assert all(len(table) > 1 for table in tables(results).values()), "a table without rows"
    for name in ("mysql_sink_small.png", "mysql_sink_large.png"):
        assert (ROOT / "docs" / "images" / name).exists()
