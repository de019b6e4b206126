"""``make bench-sinks``: three ways to write into two databases, measured.

    python benchmarks/sinks/run.py [--quick] [--no-spark] [--json FILE] [--guide-only]

Starts a MariaDB and a PostgreSQL of its own.  The full run takes minutes, writes ``results.json`` and puts
tables and pictures into ``docs/guides/mysql-sink.md``; ``--quick`` takes about one, at small sizes and
without the check on Spark, and only prints; so does ``--no-spark``.  ``--guide-only`` writes the guide anew
from ``results.json``.  Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from benchmarks.sinks.cells import idle, measure, statements
from benchmarks.sinks.crash import crash, leftovers_of
from benchmarks.sinks.on_spark import on_spark
from benchmarks.sinks.plan import FULL, QUICK, Database, Sizes, Workload
from benchmarks.sinks.report import RESULTS, ROOT, tables, write_guide
from penstock.connectors.database.sink import Delivery
from penstock.core.clock import SystemClock
from penstock.testing.servers import MariaDbServer, PostgresServer, Server

SERVERS: dict[str, tuple[type[Server], str, dict[str, str]]] = {
    "MariaDB": (MariaDbServer, "mysql", {"innodb-buffer-pool-size": "256M"}),
    "PostgreSQL": (PostgresServer, "postgresql", {"shared_buffers": "256MB"}),
}


def run(sizes: Sizes, with_spark: bool, say: Any) -> dict[str, Any]:
    """Measure everything."""
    results: dict[str, Any] = {"machine": machine(), "idle": {}, "cells": [], "crashes": [], "spark": []}
    for name, (kind, scheme, settings) in SERVERS.items():
        with kind(settings) as server:
            database = Database(
                name,
                f"{scheme}://{server.user}@{server.host}:{server.port}/{server.database}",  # type: ignore[attr-defined]
                server.password,
            )
            results["machine"][name] = statements(database, "SELECT version()")[-1][0][0]
            results["idle"][name] = idle(database)
            _fill(results, database, server, sizes, with_spark, say)
            assert leftovers_of(database) == [], "something was left behind"
    return results


def _fill(
    results: dict[str, Any], database: Database, server: Server, sizes: Sizes, with_spark: bool, say: Any
) -> None:
    for workload in Workload:
        for delivery in Delivery:
            for number in range(len(sizes.intervals_s)):
                cell = measure(database, workload, delivery, number, sizes)
                say(
                    f"{database.name}, {workload.value}, {delivery.value}, every {cell.interval_s:g} s: "
                    f"{cell.rows_per_s:,.0f} rows/s"
                )
                results["cells"].append(asdict(cell))
    if with_spark:
        results["spark"] += map(asdict, on_spark(database, sizes))
        say(f"{database.name}: every row once on Spark, too")
    for delivery in Delivery:
        results["crashes"].append(asdict(crash(database, delivery, server, sizes)))
        say(f"{database.name}, {delivery.value}: killed, looked at, cleaned")


def machine() -> dict[str, str]:
    """What the figures belong to."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "processor": f"{cpus[0].split(':')[1].strip()}, {len(cpus)} cores",
        "memory": f"{int(memory) // 1_048_576} GiB",
        "system": f"Linux {platform.release()}",
        "Python": platform.python_version(),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def show(results: dict[str, Any], console: Console) -> None:
    """Print every table."""
    for name, (header, *rows) in tables(results).items():
        table = Table(title=name)
        for title in header:
            table.add_column(title)
        for row in rows:
            table.add_row(*(cell.replace("<br>", "\n") for cell in row))
        console.print(table)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, and the guide stays as it is")
    parser.add_argument("--no-spark", action="store_true", help="leave out the check on Spark")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--guide-only", action="store_true", help="tables and pictures from results.json")
    arguments = parser.parse_args()
    console, clock = Console(), SystemClock()
    if arguments.guide_only:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    else:
        begun = clock.monotonic()
        with_spark = not (arguments.quick or arguments.no_spark)
        results = run(QUICK if arguments.quick else FULL, with_spark, console.print)
        target = arguments.json or (None if arguments.quick or arguments.no_spark else RESULTS)
        if target is not None:
            target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        show(results, console)
        console.print(f"{clock.monotonic() - begun:.0f} s")
    if arguments.guide_only or not (arguments.quick or arguments.no_spark or arguments.json):
        publish(results)


def publish(results: dict[str, Any]) -> None:
    """Bring the guide up to date."""
    from benchmarks.sinks.plots import draw

    write_guide(results)
    draw(results, ROOT / "docs" / "images")


if __name__ == "__main__":
    main()
