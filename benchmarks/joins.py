"""Joins of two streams: interval, window and temporal, on rows and on columns, every kind.

    python benchmarks/joins.py [interval window temporal] [--events N] [--users K] [--only rows|columns]
    python benchmarks/joins.py --job [--events N]

An operator is fed by hand, in processor time: nothing but the join is measured.  Both sides are the events
of ``data.py`` (a thousand users, each with an event a second, up to two seconds out of order), the right
ones with other jitter; the watermark is five seconds behind.  With ``--job`` the interval join runs as a
whole job on Spark instead, with a checkpoint a second, joined with itself as W6 of the peers is; the events
of both sides count.  Every count of results is checked.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import data  # noqa: E402

from penstock.core.batch import Batch  # noqa: E402
from penstock.core.clock import SystemClock  # noqa: E402
from penstock.core.ids import MAX_TIME, EventTime, OperatorId  # noqa: E402
from penstock.core.metrics import MetricGroup  # noqa: E402
from penstock.core.row import Row  # noqa: E402
from penstock.operators.columnar.panes import Panes  # noqa: E402
from penstock.operators.join import columnar  # noqa: E402
from penstock.operators.join.cogroup import window_join  # noqa: E402
from penstock.operators.join.columnar_temporal import ColumnarTemporalJoinOperator  # noqa: E402
from penstock.operators.join.columns import ColumnJoin  # noqa: E402
from penstock.operators.join.functions import JoinKind  # noqa: E402
from penstock.operators.join.interval import Interval, IntervalJoinOperator  # noqa: E402
from penstock.operators.join.temporal import TemporalJoinOperator  # noqa: E402
from penstock.operators.operator import Operator, OperatorContext, RuntimeInfo  # noqa: E402
from penstock.operators.window.assigners import TumblingEventTimeWindows  # noqa: E402
from penstock.state.heap.backend import heap_state  # noqa: E402
from penstock.state.operator_state import OperatorStateStore  # noqa: E402

NEAR_MS, WINDOW_MS, BEHIND_MS, BATCH_ROWS = 200, 1000, 5000, 4096
Fed = list[tuple[int, Batch, int]]


class Counted:
    """An output that only counts."""

    def __init__(self) -> None:
        self.results = 0

    def emit(self, batch: Batch) -> None:
        self.results += len(batch)

    def side(self, tag: str, batch: Batch) -> None: ...

    def watermark(self, time: EventTime) -> None: ...

    def idle(self, is_idle: bool) -> None: ...


def sides(events: int, users: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Left and right events: the right ones have numbers far away, and the times of the left ones' range."""
    left = data.events(np.arange(events), users)
    right = data.events(np.arange(events) + (1 << 40), users)
    moved = pa.array(right.column("ts_ms").to_numpy() - (1 << 40))
    return left, right.set_column(3, "ts_ms", moved)


def fed(both: tuple[pa.RecordBatch, pa.RecordBatch], columns: bool) -> Fed:
    """Batches of the two sides by turns, and the watermark behind each."""
    batches: Fed = []
    for start in range(0, both[0].num_rows, BATCH_ROWS):
        watermark = data.START_MS + start + BATCH_ROWS - BEHIND_MS
        for side, events in enumerate(both):
            piece = events.slice(start, BATCH_ROWS)
            times = piece.column("ts_ms").to_numpy()
            if columns:
                batches.append((side, Batch.of_columns(piece, times, ("user_id",)), watermark))
            else:
                lists = [column.to_pylist() for column in piece.columns]
                rows = Row.many(piece.schema.names, zip(*lists, strict=True))
                batches.append((side, Batch.of_rows(rows, times, lists[0]), watermark))
    return batches


def throughput(operator: Operator, batches: Fed) -> tuple[float, int]:
    """Records of both sides a second of processor time, and how many results there were."""
    out, info = Counted(), RuntimeInfo("joins", "joins", "joins", 0, 1, 128, 0)
    state, store = heap_state(), OperatorStateStore()
    operator.open(OperatorContext(OperatorId("joins"), info, out, SystemClock(), state, store, MetricGroup()))
    began = time.process_time()
    for side, batch, watermark in batches:
        operator.process(batch, side)
        if side:
            operator.on_watermark(EventTime(watermark))
    operator.on_watermark(MAX_TIME)
    operator.finish()
    return sum(len(batch) for _, batch, _ in batches) / (time.process_time() - began), out.results


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    """What each pair gives; also one that lacks a side."""
    return left, right


def row_operator(which: str, how: JoinKind) -> Operator:
    if which == "interval":
        return IntervalJoinOperator(pair, Interval(-NEAR_MS, NEAR_MS), how)
    if which == "window":
        return window_join(TumblingEventTimeWindows(WINDOW_MS, 0), pair, how)
    return TemporalJoinOperator(pair, how)


def column_operator(which: str, how: JoinKind) -> Operator:
    join = ColumnJoin(("user_id",), ("user_id",), ("_left", "_right"), how, (data.SCHEMA, data.SCHEMA))
    if which == "interval":
        return columnar.ColumnarIntervalJoinOperator(join, Interval(-NEAR_MS, NEAR_MS))
    if which == "window":
        return columnar.ColumnarWindowJoinOperator(join, Panes(WINDOW_MS, WINDOW_MS))
    return ColumnarTemporalJoinOperator(join)


def expected(which: str, how: JoinKind, both: tuple[pa.RecordBatch, pa.RecordBatch]) -> int:
    """How many results there must be, by sorting."""
    counts = [_partners(which, mine, other) for mine, other in (both, both[::-1])]
    if which == "temporal":
        return int(len(counts[0]) if how.keeps_left else np.count_nonzero(counts[0]))
    alone = [int(np.count_nonzero(count == 0)) for count in counts]
    return int(counts[0].sum()) + alone[0] * how.keeps_left + alone[1] * how.keeps_right


def _partners(which: str, mine: pa.RecordBatch, other: pa.RecordBatch) -> np.ndarray:
    span = np.int64(1 << 40)
    times = [each.column("ts_ms").to_numpy() - data.START_MS + data.JITTER_MS for each in (mine, other)]
    users = [each.column("user_id").to_numpy() * span for each in (mine, other)]
    if which == "window":
        times = [(each - data.JITTER_MS) // WINDOW_MS + data.JITTER_MS for each in times]
    near = {"interval": NEAR_MS, "window": 0}.get(which)
    known = np.sort(users[1] + times[1])
    first = users[0] if near is None else users[0] + times[0] - near
    last = users[0] + times[0] + (near or 0)
    return np.searchsorted(known, last, "right") - np.searchsorted(known, first, "left")


def measure(chosen: argparse.Namespace) -> None:
    both = sides(chosen.events, chosen.users)
    layouts: dict[str, tuple[Fed, Callable[[str, JoinKind], Operator]]] = {
        "rows": (fed(both, False), row_operator),
        "columns": (fed(both, True), column_operator),
    }
    load = f"{chosen.events:,} events a side, {chosen.users:,} users"
    print(f"joins: {load}; records a second of processor time")
    for which in chosen.what:
        kinds = [JoinKind.INNER, JoinKind.LEFT] if which == "temporal" else list(JoinKind)
        for how in kinds:
            for layout, (batches, make) in layouts.items():
                if chosen.only in (None, layout):
                    wanted, best = expected(which, how, both), 0.0
                    for _ in range(chosen.repeat):
                        speed, found = throughput(make(which, how), batches)
                        if found != wanted:
                            raise SystemExit(f"{which} {how.value} {layout}: {found}, not {wanted} results")
                        best = max(best, speed)
                    print(f"  {which:<9} {how.value:<6} {layout:<8} {best:>12,.0f}", flush=True)


def pairs_with_itself(events: int) -> int:
    """How many pairs the interval join of the first events with themselves has."""
    once = data.events(np.arange(events), 1000)
    return expected("interval", JoinKind.INNER, (once, once))


def with_itself(files: Path, layout: str, checkpoints: Path) -> tuple[float, int]:
    """The interval join of the events with themselves as a job: its seconds, and its pairs."""
    import workloads

    from penstock.datastream.connectors.file_system import FileSource

    env = workloads.environment(checkpoints)
    source = FileSource.parquet(str(files), columns=["user_id", "amount", "ts_ms"])
    keyed = env.from_source(source, workloads.STRATEGY, "events").key_by("user_id")
    joined = keyed.interval_join(keyed).between(-NEAR_MS, NEAR_MS)
    sink = workloads.TallySink()
    (joined.process(pair) if layout == "rows" else joined.columns()).sink_to(sink)
    return env.execute("bench-join").get_net_runtime() / 1000, sink.rows


def job(events: int, home: Path) -> None:
    """Records of both sides a second."""
    import workloads

    from penstock.datastream.job import Program, run_as

    files, wanted = data.dataset(home, events, 1000), pairs_with_itself(events)
    with run_as(Program(overrides={"penstock.spark.master": "local[2]"})):
        workloads.warm_up()
        for layout in ("rows", "columns"):
            with tempfile.TemporaryDirectory() as checkpoints:
                seconds, found = with_itself(files, layout, Path(checkpoints))
            if found != wanted:
                raise SystemExit(f"wrong result: {found} pairs, not {wanted}")
            print(f"  interval join, {layout:<8} {2 * events / seconds:>12,.0f} events/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["interval", "window", "temporal"])
    parser.add_argument("--events", type=int)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=["rows", "columns"])
    parser.add_argument("--job", action="store_true")
    parser.add_argument("--home", type=Path, default=Path(".bench"))
    chosen = parser.parse_args()
    if chosen.job:
        job(chosen.events or 1_000_000, chosen.home)
    else:
        gc.set_threshold(200_000, 20, 50)  # as a slot has it
        chosen.events = chosen.events or 200_000
        measure(chosen)


if __name__ == "__main__":
    main()
