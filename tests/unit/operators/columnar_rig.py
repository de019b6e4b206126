"""A columnar window job in one process, split over subtasks, and a plain-Python model of it."""

from __future__ import annotations

import functools
from collections import Counter as Multiset
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import MIN_TIME, OperatorId
from penstock.core.keygroups import combine_columns, hash_array, key_groups
from penstock.core.metrics import MetricGroup
from penstock.operators.columnar.aggregates import Avg, Count, Max, Min, Sum
from penstock.operators.columnar.distinct import Distinct
from penstock.operators.columnar.fold import PreAggregateOperator
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator
from penstock.operators.operator import OperatorContext, RuntimeInfo
from penstock.state.chunks import FrozenChunks
from penstock.state.heap.backend import heap_state
from penstock.state.operator_state import OperatorStateStore

MAX_PARALLELISM = 128
AGGREGATES = (
    Count("c"),
    Sum("i", "si"),
    Sum("f", "sf"),
    Min("i", "mi"),
    Max("f", "mf"),
    Avg("i", "ai"),
    Distinct("count", "i", "di"),
    Distinct("sum", "i", "ds"),
    Distinct("avg", "f", "df"),
)
LATE = "late"


class Gathered:
    """An output that keeps everything."""

    def __init__(self):
        self.batches, self.late, self.watermarks = [], [], []

    def emit(self, batch):
        self.batches.append(batch)

    def side(self, tag, batch):
        assert tag == LATE
        self.late.append(batch)

    def watermark(self, time):
        self.watermarks.append(time)

    def idle(self, is_idle):
        raise AssertionError("nobody is idle here")

    def take(self):
        taken, self.batches = self.batches, []
        return taken


def context(out, keyed=None, subtask=0, parallelism=1):
    info = RuntimeInfo("job", "task", "agg", subtask, parallelism, MAX_PARALLELISM, 0)
    return OperatorContext(
        OperatorId("agg"),
        info,
        out,
        ManualClock(),
        keyed or heap_state(),
        OperatorStateStore(),
        MetricGroup(),
    )


def opened(operator, **kwargs):
    operator.open(context(Gathered(), **kwargs))
    return operator


def columns(records, keys):
    """Records are (key tuple, time, int, float)."""
    arrays = {name: pa.array([r[0][n] for r in records], t) for n, (name, t) in enumerate(keys)}
    arrays["i"] = pa.array([r[2] for r in records], pa.int32())
    arrays["f"] = pa.array([r[3] for r in records], pa.float64())
    times = np.array([r[1] for r in records], np.int64)
    return Batch.of_columns(pa.RecordBatch.from_pydict(arrays), times, tuple(name for name, _ in keys))


def groups_of(batch, key_names):
    arrays = [batch.columns.column(name) for name in key_names]
    hashes = hash_array(arrays[0]) if len(arrays) == 1 else combine_columns(arrays)
    return key_groups(hashes, MAX_PARALLELISM)


def owner(group, parallelism):
    return group * parallelism // MAX_PARALLELISM


def results(batches, key_count):
    found = []
    for batch in batches:
        assert 0 < len(batch) <= 65536
        rows = list(zip(*(c.to_pylist() for c in batch.columns.columns), batch.times.tolist(), strict=True))
        found += [(row[:key_count], *row[key_count:]) for row in rows]
    return found


@dataclass
class Job:
    """The operators of a small job: optional pre-aggregation, then window subtasks by key group."""

    keys: list
    panes: Panes
    lateness: int
    preaggregate: bool
    side: bool
    parallelism: int = 2
    windows: list = field(default_factory=list)
    dropped: int = 0
    late: Multiset = field(default_factory=Multiset)

    def __post_init__(self):
        self.names = [name for name, _ in self.keys]
        self.pre = opened(PreAggregateOperator(self.names, self.panes, AGGREGATES))
        self.start(self.parallelism, [])

    def start(self, parallelism, frozen):
        self.parallelism = parallelism
        self.windows = []
        for subtask in range(parallelism):
            keyed = heap_state()
            for part in frozen:
                for batch in part.record_batches():
                    assert batch.schema.names[0] == "__key_group" and batch.schema.types[0] == pa.int32()
                    group = batch.column(0).to_numpy()
                    keyed.restore_chunks(
                        part.name, [batch.filter(pa.array(owner(group, parallelism) == subtask))]
                    )
            operator = ColumnarWindowOperator(
                self.names,
                self.panes,
                AGGREGATES,
                accepts=ColumnarInput.PARTIALS if self.preaggregate else ColumnarInput.RECORDS,
                allowed_lateness=self.lateness,
                late_tag=LATE if self.side else None,
            )
            self.windows.append(opened(operator, keyed=keyed, subtask=subtask, parallelism=parallelism))

    def batch(self, records):
        batch = columns(records, self.keys)
        if self.preaggregate:
            self.pre.process(batch)
            (batch,) = self.pre.ctx.out.take()
            assert batch.key_columns == tuple(self.names)
        owners = owner(groups_of(batch, self.names), self.parallelism)
        for subtask, window in enumerate(self.windows):
            window.process(batch.take(np.flatnonzero(owners == subtask)))

    def watermark(self, time, subtasks):
        for subtask in subtasks:
            self.windows[subtask].on_watermark(time)
            assert self.windows[subtask].ctx.out.watermarks[-1] == time

    def rescale(self, parallelism):
        self.gather_late()
        frozen = [part for window in self.windows for part in window.ctx.keyed.freeze()]
        assert all(isinstance(part, FrozenChunks) for part in frozen)
        self.start(parallelism, frozen)

    def gather_late(self):
        for window in self.windows:
            self.dropped += window.ctx.metrics.counter("numLateRecordsDropped").count
            for batch in window.ctx.out.late:
                rows = [tuple(row.values()) for row in batch.columns.to_pylist()]
                self.late.update(zip(rows, batch.times.tolist(), strict=True))

    def output(self):
        found = []
        for window in self.windows:
            part = results(window.ctx.out.take(), len(self.keys))
            ends = [row[2] for row in part]
            assert ends == sorted(ends)
            found += part
        return Multiset(found)


@functools.cache
def group_of(key, types):
    arrays = [pa.array([value], t) for value, t in zip(key, types, strict=True)]
    hashes = hash_array(arrays[0]) if len(arrays) == 1 else combine_columns(arrays)
    return int(key_groups(hashes, MAX_PARALLELISM)[0])


@dataclass
class Model:
    """Flink's window operator in slow motion: contents and end-of-window timers per key and window."""

    keys: list
    panes: Panes
    lateness: int
    parallelism: int = 2
    contents: dict = field(default_factory=dict)
    timers: set = field(default_factory=set)
    emitted: Multiset = field(default_factory=Multiset)
    late: Multiset = field(default_factory=Multiset)

    def __post_init__(self):
        self.times = [MIN_TIME] * self.parallelism

    def now(self, key):
        return owner(group_of(key, tuple(t for _, t in self.keys)), self.parallelism)

    def cleanup(self, start):
        return start + self.panes.size - 1 + self.lateness

    def batch(self, records):
        fired = set()
        for key, time, i, f in records:
            size, slide, offset = self.panes.size, self.panes.slide, self.panes.offset
            now = self.times[self.now(key)]
            starts = [
                s for s in range(time - size + 1, time + 1) if (s - offset) % slide == 0 and s + size > time
            ]
            open_ = [s for s in starts if self.cleanup(s) > now]
            if not open_ and time + self.lateness <= now:
                self.late[((*key, i, f), time)] += 1
            for start in open_:
                self.contents.setdefault((key, start), []).append((i, f))
                if start + size - 1 <= now:
                    fired.add((key, start))
                else:
                    self.timers.add((key, start))
        for entry in fired:
            self.emit(*entry)

    def watermark(self, time, subtasks):
        for subtask in subtasks:
            self.times[subtask] = time
        mine = [entry for entry in self.contents if self.now(entry[0]) in subtasks]
        for entry in mine:
            if entry in self.timers and entry[1] + self.panes.size - 1 <= time:
                self.timers.discard(entry)
                self.emit(*entry)
            if self.cleanup(entry[1]) <= time:
                del self.contents[entry]

    def rescale(self, parallelism):
        self.parallelism = parallelism
        self.times = [MIN_TIME] * parallelism

    def emit(self, key, start):
        rows = self.contents[key, start]
        ints = [i for i, _ in rows if i is not None]
        floats = [f for _, f in rows if f is not None]
        end = start + self.panes.size
        row = (
            key,
            start,
            end,
            len(rows),
            sum(ints) if ints else None,
            sum(floats) if floats else None,
            min(ints, default=None),
            max(floats, default=None),
            sum(ints) / len(ints) if ints else None,
            len(set(ints)),
            sum(set(ints)) if ints else None,
            sum(set(floats)) / len(set(floats)) if floats else None,
            end - 1,
        )
        self.emitted[row] += 1

    def output(self):
        taken, self.emitted = self.emitted, Multiset()
        return taken


def random_records(rng, count, around, two_keys):
    records = []
    for _ in range(count):
        key = (f"k{rng.randrange(6)}",)
        if two_keys:
            key += (rng.choice([None, 1, 2]),)
        time = around + rng.randint(-25, 10)
        i = rng.choice([None, *range(-9, 10)])
        f = rng.choice([None, *(n / 4 for n in range(-9, 10))])
        records.append((key, time, i, f))
    return records
