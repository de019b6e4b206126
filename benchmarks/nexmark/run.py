"""``make bench-nexmark``: the queries of Nexmark on Penstock and, beside it, on Flink SQL.

Each engine first runs all queries into files, and the rows are compared with DuckDB's, all of them; then into
a sink that keeps nothing, ``--repeat`` times, of which the median is shown.  An engine runs its queries one
after the other in one process, started before anything is measured, each over as many events as take some
seconds (``EVENTS``); memory is the most that all its processes had together while the query ran.  Events are
rows of the tables that a query reads.  A query that fails, hangs or takes its process down is reported, and
the rest go on; what there is until then is shown.  Nothing here asserts a time.

``--kill`` and ``--rescale`` measure nothing: they disturb each query in the middle, on Spark, and compare.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.nexmark.engines import Engine, flink, penstock
from benchmarks.nexmark.events import KINDS, Feed
from benchmarks.nexmark.queries import CHANGING, EVENTS, TABLES
from benchmarks.nexmark.truth import QUERIES, Truth

BY_THE_CLOCK = frozenset({"q12"})
"""How many rows there are is for the clock to say; and at the end of its input, Flink drops open windows."""
EACH_BID = frozenset({"q0", "q1", "q10", "q13", "q22"})
"""Every bid gives one row."""
MOST_IN_DUCKDB = 4_000_000
PER_SECOND = Feed(None).per_second
console = Console(width=130)


class Results:
    """What was found of each query and engine, and what failed."""

    def __init__(self, place: Path | None) -> None:
        self._place = place
        self.found: dict[str, dict[str, dict[str, Any]]] = {}
        self.failed: list[str] = []

    def add(self, query: str, engine: str, figures: dict[str, Any]) -> None:
        """Some figures more; they are on the disk at once."""
        self.found.setdefault(query, {}).setdefault(engine, {}).update(figures)
        console.print(f"{query} {engine}: {figures}", highlight=False)
        if self._place:
            self._place.write_text(json.dumps(self.found, indent=2))

    def fail(self, query: str, what: str, error: str) -> None:
        """A query that did not work."""
        self.failed.append(f"{query} {what}: {error}")
        console.print(f"FAILED {self.failed[-1]}", markup=False, highlight=False)


def check(engine: Engine, queries: list[str], results: Results, *disturb: str) -> None:
    """Compare all rows of all queries with DuckDB's."""
    what = " ".join((engine.name, *disturb[1:]))
    with tempfile.TemporaryDirectory() as scratch, Truth(engine.checked) as truth:
        for query, said, error in engine.check(queries, "--rows", scratch, *disturb):
            if said is None:
                results.fail(query, what, error)
                continue
            try:
                rows = truth.check(query, pq.read_table(Path(scratch) / f"{query}.parquet"))
            except Exception as wrong:  # whatever DuckDB says of rows that it cannot even read
                results.fail(query, what, str(wrong))
            else:
                results.add(query, what, {**said, "checked_rows": rows})


def measure(
    engine: Engine, sizes: dict[str, int], repeat: int, wanted: dict[str, int], results: Results
) -> None:
    """Medians of the figures; the number of rows must be the right one where it is known."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for turn in range(repeat):
        for query, said, error in engine.run(sizes, PER_SECOND):
            if said is None:
                results.fail(query, engine.name, error)
            elif said.get("rows", 0) != wanted.get(query, said.get("rows", 0)) and "rows" in said:
                results.fail(query, engine.name, f"{said['rows']} rows, and there are {wanted[query]}")
            else:
                console.print(f"  run {turn + 1}: {query} {engine.name} {said}", highlight=False)
                runs.setdefault(query, []).append(said)
    for query, found in runs.items():
        events = sum(KINDS[kind].count(sizes[query]) for kind in TABLES[query])
        middle = {name: statistics.median(run[name] for run in found) for name in found[0]}
        figures = {
            "events": events,
            "seconds": round(middle["seconds"], 1),
            "events_s": round(events / middle["seconds"]),
            "processor_s_per_million": round(middle["processor_s"] / events * 1e6, 2),
            "peak_mb": middle["peak_mb"],
        }
        results.add(query, engine.name, figures)


def show(results: Results) -> None:
    """The table, and what it comes to."""
    table = Table(title="Nexmark: events/s, processor seconds per million events, peak memory")
    heads = (
        "query",
        "Penstock",
        "cpu s/M",
        "MB",
        "Flink SQL",
        "cpu s/M",
        "MB",
        "ratio",
        "cpu ratio",
        "rows checked",
    )
    for column in heads:
        table.add_column(column, justify="left" if column == "query" else "right")
    ratios, paces = {}, {}
    for query in (it for it in QUERIES if it in results.found):
        own, other = (results.found[query].get(name, {}) for name in ("Penstock", "Flink SQL"))
        shown = ["", ""]
        if "events_s" in own:
            paces[query] = own["events_s"]
            if "events_s" in other:
                ratios[query] = own["events_s"] / other["events_s"]
                saved = other["processor_s_per_million"] / max(own["processor_s_per_million"], 0.01)
                shown = [f"{ratios[query]:.2f}", f"{saved:.2f}"]
        table.add_row(query, *_cells(own), *_cells(other), *shown, f"{own.get('checked_rows', 0):,}")
    console.print(table)
    for name, found, form in (("events/s", paces, ",.0f"), ("ratio to Flink SQL", ratios, ".2f")):
        if found:
            worst = min(found, key=lambda it: found[it])
            middle = statistics.median(found.values())
            console.print(f"{name}: median {middle:{form}}, worst {found[worst]:{form}} ({worst})")


def _cells(found: dict[str, Any]) -> tuple[str, str, str]:
    if "events_s" not in found:
        return "", "", ""
    return f"{found['events_s']:,}", f"{found['processor_s_per_million']:.2f}", f"{found['peak_mb']:,.0f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", default=",".join(QUERIES), help="such as q0,q5; all if left out")
    parser.add_argument("--events", type=int, help="of all kinds, where it is measured, for every query")
    parser.add_argument("--check-events", type=int, default=1_000_000, help="where rows are compared")
    parser.add_argument("--repeat", type=int, default=1, help="runs, of which the median is shown")
    parser.add_argument("--flink", action="store_true", help="run Flink SQL, too")
    parser.add_argument("--sql", action="store_true", help="the texts on Penstock, not the DataFrames")
    parser.add_argument("--kill", action="store_true", help="kill -9 a worker in the middle, and compare")
    parser.add_argument("--rescale", action="store_true", help="stop, resume with one slot, and compare")
    parser.add_argument("--peers-home", type=Path, default=Path(os.environ.get("PEERS_HOME", ".peers")))
    parser.add_argument("--json", type=Path, help="write what is found here, as it comes")
    args = parser.parse_args()
    args.queries = args.queries.split(",")
    unknown = [query for query in args.queries if query not in QUERIES]
    if unknown:
        parser.error(f"there is no query {unknown[0]}; there are {', '.join(QUERIES)}")
    return args


def sizes_of(args: argparse.Namespace, own: bool) -> dict[str, int]:
    """Over how many events each query is measured."""
    return {query: args.events or EVENTS[query][0 if own else 1] for query in args.queries}


def counts(sizes: dict[str, int]) -> dict[str, int]:
    """How many rows the measured runs must give where none are replaced: one of each bid, or DuckDB's."""
    found = {query: KINDS["bid"].count(events) for query, events in sizes.items() if query in EACH_BID}
    known = (
        it for it in sizes if it not in CHANGING | BY_THE_CLOCK | EACH_BID and sizes[it] <= MOST_IN_DUCKDB
    )
    for query in known:
        with Truth(Feed(sizes[query])) as truth:
            found[query] = truth.count(query)
    return found


def main() -> None:
    args = arguments()
    own, results = penstock(args.check_events, args.sql), Results(args.json)
    disturbances = [name for name in ("kill", "rescale") if getattr(args, name)]
    for name in disturbances:
        check(own, args.queries, results, "--disturb", name)
    if not disturbances:
        engines = [own, *([flink(args.peers_home)] if args.flink else [])]
        for engine in engines:
            queries = [it for it in args.queries if engine is own or it not in BY_THE_CLOCK]
            check(engine, queries, results)
        try:
            for engine in engines:
                sizes = sizes_of(args, engine is own)
                measure(engine, sizes, args.repeat, counts(sizes) if engine is own else {}, results)
        finally:
            show(results)
    if results.failed:
        raise SystemExit(f"{len(results.failed)} failed, see above")
    console.print("all equal to DuckDB")


if __name__ == "__main__":
    main()
