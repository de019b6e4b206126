"""``results.json`` as tables: in the guide between markers, and on the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "mysql-sink.md"
RESULTS = Path(__file__).parent / "results.json"
DELIVERIES = ("upsert", "two-phase", "bulk load")

Table = list[Sequence[str]]
"""Header, then rows."""


def tables(results: dict[str, Any]) -> dict[str, Table]:
    """Every table of the guide, by the name in its markers."""
    return {
        "machine": _machine(results),
        "small": _small(results),
        "large": _large(results),
        "spark": _spark(results),
        "crash": _crash(results),
        "left": _left(results),
    }


def _machine(results: dict[str, Any]) -> Table:
    return [("what", "measured with"), *((name, str(value)) for name, value in results["machine"].items())]


def _small(results: dict[str, Any]) -> Table:
    header = (
        "database",
        "sink",
        "checkpoint",
        "event to visible row, p50 / p99",
        "competing update, p50 / p99 / max",
    )
    rows: Table = [header]
    for name, idle in results["idle"].items():
        rows.append((name, "no job", "", "", _waits(idle)))
    for cell in _cells(results, "small aggregates"):
        latency = f"{cell['latency_p50_s']:.2f} / {cell['latency_p99_s']:.2f} s"
        rows.append((cell["database"], cell["delivery"], f"{cell['interval_s']:g} s", latency, _waits(cell)))
    return rows


def _large(results: dict[str, Any]) -> Table:
    rows: Table = [
        (
            "database",
            "sink",
            "checkpoint",
            "rows",
            "rows a second",
            "event to visible row, p50 / p99",
            "update of the newest row, p50 / max",
        )
    ]
    for cell in _cells(results, "raw volume"):
        latency = f"{cell['latency_p50_s']:.2f} / {cell['latency_p99_s']:.2f} s"
        waits = f"{cell['wait_p50_ms']:.1f} / {cell['wait_max_ms']:.0f} ms" if cell["waits"] else "none"
        rows.append(
            (
                cell["database"],
                cell["delivery"],
                f"{cell['interval_s']:g} s",
                f"{cell['rows']:,}",
                f"{cell['rows_per_s']:,.0f}",
                latency,
                waits,
            )
        )
    return rows


def _spark(results: dict[str, Any]) -> Table:
    rows: Table = [("database", "sink", "rows", "seconds, start of the job included")]
    for job in results["spark"]:
        rows.append((job["database"], job["delivery"], f"{job['rows']:,}", f"{job['seconds']:.1f}"))
    return rows if results["spark"] else [*rows, ("", "left out of this run", "", "")]


def _waits(cell: dict[str, Any]) -> str:
    return f"{cell['wait_p50_ms']:.1f} / {cell['wait_p99_ms']:.0f} / {cell['wait_max_ms']:.0f} ms"


def _cells(results: dict[str, Any], workload: str) -> Iterable[dict[str, Any]]:
    found = [cell for cell in results["cells"] if cell["workload"] == workload]
    return sorted(found, key=lambda c: (c["database"], DELIVERIES.index(c["delivery"]), c["interval_s"]))


_CRASH_LINES = {
    "SELECT of a row": "read",
    "UPDATE of a row": "update",
    "ALTER TABLE": "alter",
    "old row versions": "garbage",
    "after kill -9 and restart of the server": "after_server_restart",
    "UPDATE of a row then": "update_after_server_restart",
    "the restarted job's commit": "release_ms",
    "UPDATE of a row then ": "update_after_release",
    "cleaning up by hand": "by_hand_ms",
}


def _crash(results: dict[str, Any]) -> Table:
    crashes = results["crashes"]
    rows: Table = [("after the kill", *(f"{crash['database']}, {crash['delivery']}" for crash in crashes))]
    for title, name in _CRASH_LINES.items():
        rows.append((title.strip(), *(_shown(crash, name) for crash in crashes)))
    return rows


def _shown(crash: dict[str, Any], name: str) -> str:
    value = crash[name]
    if isinstance(value, str):
        return value
    nothing = not crash["left"]
    return "nothing to do" if nothing else f"{value:.1f} ms"


def _left(results: dict[str, Any]) -> Table:
    rows: Table = [("database", "sink", "what an administrator finds", "what takes it away")]
    for crash in results["crashes"]:
        found = "<br>".join(f"`{line}`" for line in crash["left"]) or "nothing"
        by_hand = f"`{crash['by_hand']}`" if crash["left"] else "nothing to do"
        rows.append((crash["database"], crash["delivery"], found, by_hand))
    return rows


def markdown(table: Table) -> str:
    """A table in Markdown."""
    header, *rows = table
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_guide(results: dict[str, Any], guide: Path = GUIDE) -> None:
    """Put the tables between their markers."""
    text = guide.read_text(encoding="utf-8")
    for name, table in tables(results).items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{guide} has no markers {begin} ... {end}")
        filled = f"{begin}\n{markdown(table)}\n{end}"
        text = pattern.sub(lambda _, filled=filled: filled, text)
    guide.write_text(text, encoding="utf-8")
