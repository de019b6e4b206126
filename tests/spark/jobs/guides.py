"""Program: the code of a guide's page, as it is shown.

    guides.py PAGE...

What a page reads is there before it begins.  Prints ``done`` when everything was as the page says.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.state_processor import SavepointWriter, open_snapshot

GUIDES = Path(__file__).resolve().parents[3] / "docs" / "guides"
ORDERS = [("ann", 1.0, 0), ("bob", 2.0, 1), ("ann", 4.0, 2), ("ann", 8.0, 70)]


def write_orders() -> None:
    """The table of orders: two hours of them."""
    began = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    columns = {
        "customer": [customer for customer, _, _ in ORDERS],
        "amount": [amount for _, amount, _ in ORDERS],
        "ordered_at": [began + dt.timedelta(minutes=minute) for _, _, minute in ORDERS],
    }
    pq.write_table(pa.table(columns), "orders")


def check_totals(names: dict[str, Any]) -> None:
    """The table and the epochs hold the same sums."""
    expected = [("ann", 1, 8.0), ("ann", 2, 5.0), ("bob", 1, 2.0)]
    tables = [names["spark"].table("totals"), names["spark"].read.parquet("kept")]
    found = [sorted((row.customer, row.orders, row.total) for row in table.collect()) for table in tables]
    assert found == [expected, expected], found


def write_counts() -> None:
    """A snapshot with the states that the page asks for."""
    counts = pa.table({"key": ["ann", "bob"], "value": [1, 2_000]})
    totals = pa.table({"key": ["all"], "value": [3]})
    writer = SavepointWriter.new().with_operator("counting", {"count": counts})
    writer = writer.with_timers("counting", pa.table({"time": [1_000], "key": ["ann"]}))
    writer.with_operator("totals", {"total": totals}).write("checkpoints/my-job")


def check_savepoints(names: dict[str, Any]) -> None:
    """What was read, made and changed, with Spark and without."""
    assert names["counts"].count() == 2
    states = {
        name: dict(zip(*open_snapshot(path).read("counting", "count").to_pydict().values(), strict=True))
        for name, path in (("savepoint", names["savepoint"]), ("corrected", names["corrected"]))
    }
    assert states == {"savepoint": {"ann": 10, "bob": 20}, "corrected": {"bob": 1_000}}, states
    assert open_snapshot(names["corrected"]).operators()["operator"].to_pylist() == ["counting"]
    doubled = open_snapshot(names["DIRECTORY"] + "/doubled").read("counting", "count")
    assert sorted(doubled["value"].to_pylist()) == [20, 40]


PAGES: dict[str, tuple[Callable[[], None], Callable[[dict[str, Any]], None]]] = {
    "spark.md": (write_orders, check_totals),
    "state-processor.md": (write_counts, check_savepoints),
}

if __name__ == "__main__":
    SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").getOrCreate()
    for page in sys.argv[1:]:
        prepare, check = PAGES[page]
        prepare()
        text = (GUIDES / page).read_text(encoding="utf-8")
        code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        made: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(code, page, "exec"), made)
        check(made)
    print("done")
