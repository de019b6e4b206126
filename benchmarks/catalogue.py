"""What ``run.py`` measures: workloads, the ways in which Penstock does each, and peers that do the same."""

from __future__ import annotations

import atexit
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import batch_rows
import corners
import joins
import kafka_json
import workloads
from data import dataset
from figures import Figures
from peers import Peer
from usage import Usage

WARM_S = 5.0
FLINK_SQL = "--api sql --source seq"
FLINK_PYTHON = "--api ds --workload W3 --source seq --n 600000"


@dataclass(frozen=True)
class Scale:
    """How much is fed in, and where the input is kept."""

    events: int
    home: Path


Run = Callable[[Scale], Figures]


@dataclass(frozen=True)
class Work:
    """A workload; the first of ``own`` is what ratios are of."""

    title: str
    own: dict[str, Run]
    peers: dict[str, Peer] | dict[str, Run] = field(default_factory=dict)


class WrongResult(Exception):
    """A run did not give what its input must give: its figures mean nothing."""


def _watched(events: int, run: Callable[[Path], tuple[float, int]], wanted: int) -> Figures:
    """Figures of a job with a checkpoint a second; ``run`` gives its seconds and the sum of its results."""
    with tempfile.TemporaryDirectory() as checkpoints, Usage() as used:
        seconds, found = run(Path(checkpoints))
    if found != wanted:
        raise WrongResult(f"results add up to {found:,}, not to {wanted:,}")
    return Figures(
        events_s=events / seconds, processor_s_per_m=used.processor_s / events * 1e6, peak_mb=used.peak_mb
    )


def _windowed(key: str, users: int, times: int, scale: Scale, **settings: str) -> Figures:
    events = times * scale.events
    data = dataset(scale.home, events, users)

    def run(checkpoints: Path) -> tuple[float, int]:
        seconds, sink = workloads.windowed(data, key, checkpoints, **settings)
        return seconds, sink.total

    return _watched(events, run, events)


def _function(users: int, scale: Scale, **settings: str) -> Figures:
    data = dataset(scale.home, scale.events, users)

    def run(checkpoints: Path) -> tuple[float, int]:
        seconds, sink = workloads.running_count(data, checkpoints, **settings)
        return seconds, sink.rows

    return _watched(scale.events, run, scale.events)


def _corner(name: str, share: int, scale: Scale) -> Figures:
    """Windows of ``corners.py`` over a share of the events."""
    events = scale.events // share
    data = dataset(scale.home, events, 1000)

    def run(checkpoints: Path) -> tuple[float, int]:
        seconds, _, found = corners.job(name, data, checkpoints, rocksdb=False)
        return seconds, found

    return _watched(events, run, corners.IN_WINDOWS.get(name, 1) * events)


def _interval_join(layout: str, share: int, scale: Scale) -> Figures:
    """The events joined with themselves: those of both sides count."""
    events = scale.events // share
    data = dataset(scale.home, events, 1000)
    return _watched(2 * events, partial(joins.with_itself, data, layout), joins.pairs_with_itself(events))


def _batch_rows(way: str, share: int, scale: Scale) -> Figures:
    """A Python function over the records of a key, by one of the ways of ``batch_rows.py``."""
    events, keys = scale.events // share, 10_000
    files, truth = batch_rows.make_files(scale.home, events, keys), batch_rows.truth(events, keys)

    def run(_: Path) -> tuple[float, int]:
        began = time.monotonic()
        found = batch_rows.WAYS[way](files)
        return time.monotonic() - began, int(found == truth)

    return _watched(events, run, 1)


@cache
def _kafka(records: int) -> tuple[str, str]:
    """A broker until this process ends, and a topic with so many records."""
    running = ExitStack()
    bootstrap = running.enter_context(kafka_json.broker(None))
    atexit.register(running.close)
    return bootstrap, kafka_json.fill(bootstrap, records)


def _kafka_json(way: str, times: str, share: int, scale: Scale) -> Figures:
    """JSON from a topic to another one; the broker is not counted."""
    records = scale.events // share
    bootstrap, source = _kafka(records)
    took, seconds = kafka_json.timed(way, times, bootstrap, source, records)
    return Figures(events_s=records / seconds, processor_s_per_m=took / records * 1e6)


def _delays(rate: int, scale: Scale) -> Figures:
    with tempfile.TemporaryDirectory() as checkpoints:
        late = workloads.delays(20, rate, Path(checkpoints), WARM_S)
    p50, p99, p999 = (late[min(len(late) - 1, int(len(late) * share))] for share in (0.5, 0.99, 0.999))
    return Figures(p50_ms=p50, p99_ms=p99, p999_ms=p999)


def _flink_delays(rate: int) -> dict[str, Peer]:
    timeouts = {"0 ms": " --buffer_timeout 0ms", "1 ms": " --buffer_timeout 1ms", "100 ms": ""}
    return {
        f"Flink SQL, buffer timeout {name}": Peer("flink", f"--api sql --workload W4 --rate {rate}{option}")
        for name, option in timeouts.items()
    }


ROCKSDB = {"state_backend_type": "rocksdb"}

WORK = {
    "W1": Work(
        "windowed count and sum, 50 keys (events/s)",
        {"Penstock": partial(_windowed, "country", 1000, 4)},
        {
            "Flink SQL": Peer("flink", f"{FLINK_SQL} --workload W1 --n 30000000"),
            "Spark": Peer("spark", "--workload W1 --n 40000000 --files 8"),
            "Bytewax": Peer("bytewax", "--workload W1 --n 4000000 --procs 1 --batch 1000"),
        },
    ),
    "W2": Work(
        "windowed count and sum, 1,000,000 keys (events/s)",
        {
            "Penstock": partial(_windowed, "user_id", 1_000_000, 1),
            "Penstock, RocksDB": partial(_windowed, "user_id", 1_000_000, 1, **ROCKSDB),
        },
        {
            "Flink SQL": Peer("flink", f"{FLINK_SQL} --workload W2 --n 10000000"),
            "Flink SQL, RocksDB": Peer("flink", f"{FLINK_SQL} --workload W2 --n 3000000 --backend rocksdb"),
            "Spark": Peer("spark", "--workload W2 --files 1"),
        },
    ),
    "W3": Work(
        "Python function with keyed state, 1,000 keys (events/s)",
        {"Penstock": partial(_function, 1000)},
        {
            "PyFlink tuned": Peer("flink", f"{FLINK_PYTHON} --bundle_size 100000 --cache_size 100000"),
            "PyFlink thread": Peer("flink", f"{FLINK_PYTHON} --pymode thread"),
            "Bytewax 1 process": Peer("bytewax", "--workload W3 --n 10000000 --procs 1"),
            "Bytewax 2 processes": Peer("bytewax", "--workload W3 --n 10000000 --procs 2"),
        },
    ),
    "W3-million": Work(
        "the same, 1,000,000 keys (events/s)",
        {
            "Penstock": partial(_function, 1_000_000),
            "Penstock, RocksDB": partial(_function, 1_000_000, **ROCKSDB),
        },
    ),
    "W4": Work(
        "latency at 1,000 events/s (p50 / p99 / p99.9 ms)",
        {"Penstock": partial(_delays, 1000)},
        {
            "PyFlink thread, 1 ms": Peer(
                "flink", "--api ds --workload W4 --pymode thread --buffer_timeout 1ms"
            ),
            "Bytewax": Peer("bytewax", "--workload W4 --procs 1"),
            **_flink_delays(1000),
        },
    ),
    "W4-20000": Work(
        "latency at 20,000 events/s (p50 / p99 / p99.9 ms)",
        {"Penstock": partial(_delays, 20_000)},
        _flink_delays(20_000),
    ),
    "W4-100000": Work(
        "latency at 100,000 events/s (p50 / p99 / p99.9 ms)",
        {"Penstock": partial(_delays, 100_000)},
        _flink_delays(100_000),
    ),
    "W5": Work(
        "session windows, gap 5 s (events/s)",
        {
            "Penstock": partial(_corner, "session columns", 2),
            "Penstock, rows, aggregate()": partial(_corner, "session aggregate", 10),
            "Penstock, rows, process()": partial(_corner, "session process", 10),
        },
        {"Flink SQL": Peer("flink", f"{FLINK_SQL} --workload W5 --n 3000000")},
    ),
    "W6": Work(
        "interval join, +-200 ms (events of both sides/s)",
        {
            "Penstock": partial(_interval_join, "columns", 5),
            "Penstock, rows": partial(_interval_join, "rows", 10),
        },
        {"Flink SQL": Peer("flink", f"{FLINK_SQL} --workload W6 --n 2000000")},
    ),
    "W7": Work(
        "sliding windows, 1 min by 5 s (events/s)",
        {"Penstock": partial(_corner, "sliding columns", 1)},
        {"Flink SQL": Peer("flink", f"{FLINK_SQL} --workload W7 --n 4000000")},
    ),
    "rows": Work(
        "tumbling windows of rows (events/s)",
        {
            "Penstock, aggregate()": partial(_corner, "tumbling aggregate", 5),
            "Penstock, process()": partial(_corner, "tumbling process", 5),
            "Penstock, process(), evictor": partial(_corner, "tumbling process evictor", 5),
            "Penstock, process(), early trigger": partial(_corner, "tumbling process trigger", 5),
        },
    ),
    "batch-rows": Work(
        "BATCH: a Python function over each key's records in order of time (events/s)",
        {
            "Penstock": partial(_batch_rows, "penstock", 10),
            "Penstock, global window": partial(_batch_rows, "penstock window", 10),
        },
        {
            "Spark mapInArrow": partial(_batch_rows, "mapInArrow", 10),
            "Spark RDD": partial(_batch_rows, "RDD", 10),
            "Spark applyInPandas": partial(_batch_rows, "applyInPandas", 20),
        },
    ),
    "kafka": Work(
        "Kafka, JSON in and out, exactly once, one slot (records/s)",
        {
            "Penstock, columns": partial(_kafka_json, "columns", "eos", 20),
            "Penstock, dicts": partial(_kafka_json, "dicts", "eos", 20),
            "Penstock, dicts, at least once": partial(_kafka_json, "dicts", "alo", 20),
            "Penstock, dicts, in only": partial(_kafka_json, "dicts", "in", 20),
        },
        {
            "bare clients": partial(_kafka_json, "bare", "eos", 20),
            "bare clients, at least once": partial(_kafka_json, "bare", "alo", 20),
            "bare clients, in only": partial(_kafka_json, "bare", "in", 20),
        },
    ),
}
