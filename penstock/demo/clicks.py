"""The clicks of the demo: the same for the same seed, out of order as clicks are.

The producer is a process of its own: ``python -m penstock.demo.clicks LOG EVENTS SEED SECONDS``.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.log import Log, LogOffsets, Producer
from penstock.core.clock import Clock, SystemClock

TOPIC = "clicks"
PARTITIONS = 4
HOURS = 24
HOUR_MS = 3_600_000
FIRST_MS = 1_767_225_600_000
"""The first of January 2026."""
JITTER_MS = 240_000
"""How late a click may be; less than the program waits for."""
COUNTRIES = ("br", "de", "es", "fr", "gb", "in", "it", "jp", "mx", "ng", "pl", "us")
_BEAT_S = 0.05


@dataclass(frozen=True, slots=True)
class Clicks:
    """Clicks in the order in which they arrive."""

    times: npt.NDArray[np.int64]
    values: pa.Array
    """JSON texts."""


def make_clicks(events: int, seed: int) -> Clicks:
    """A day of clicks: arrivals are spread evenly, and each click happened some minutes before."""
    rng = np.random.default_rng(seed)
    arrivals = FIRST_MS + JITTER_MS + np.arange(events) * (HOURS * HOUR_MS - JITTER_MS) // events
    times = arrivals - rng.integers(0, JITTER_MS, events)
    shares = np.cumsum(_shares(rng), axis=1)[(times - FIRST_MS) // HOUR_MS]
    country = (rng.random((events, 1)) * shares[:, -1:] > shares).sum(axis=1)
    values = pc.binary_join_element_wise(
        '{"country":"',
        pa.array(COUNTRIES).take(pa.array(country)),
        '","user":',
        pa.array(rng.integers(0, 100_000, events)).cast(pa.string()),
        ',"ts":',
        pa.array(times).cast(pa.string()),
        "}",
        "",
    )
    return Clicks(times, values)


def _shares(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """How likely a click of an hour (row) is from a country (column): each has its busy time of day."""
    size = rng.uniform(0.3, 1.0, len(COUNTRIES))
    peak = rng.uniform(0, 24, len(COUNTRIES))
    hours = np.arange(HOURS)[:, None]
    return size * (1.2 + np.cos(2 * np.pi * (hours - peak) / 24))


def last_offsets(events: int) -> LogOffsets:
    """Where the topic will end: click ``i`` goes to partition ``i`` modulo ``PARTITIONS``."""
    return LogOffsets.offsets({p: (events - p + PARTITIONS - 1) // PARTITIONS for p in range(PARTITIONS)})


def threshold(events: int) -> int:
    """Clicks that make an hour busy for a country: some hours are, most are not."""
    return max(2, events * 3 // (2 * HOURS * len(COUNTRIES)))


def produce(log: str, events: int, seed: int, seconds: float, clock: Clock, days: int = 1) -> None:
    """Append the clicks of each day, evenly over ``seconds``. Stops early if whoever started it is gone."""
    for day in range(days):
        _day(log, make_clicks(events, seed + day), day * HOURS * HOUR_MS, seconds, clock)


def _day(log: str, clicks: Clicks, later_ms: int, seconds: float, clock: Clock) -> None:
    parent = os.getppid()
    started = clock.monotonic()
    sent, events, times = 0, len(clicks.times), clicks.times + later_ms
    with Producer(Log(log).topic(TOPIC)) as producer:
        while sent < events and os.getppid() == parent:
            due = int(min(1.0, (clock.monotonic() - started) / seconds) * events)
            for partition in range(PARTITIONS):
                mine = np.arange(sent + (partition - sent) % PARTITIONS, due, PARTITIONS)
                if len(mine):
                    producer.send_many(clicks.values.take(pa.array(mine)), None, times[mine], partition)
            sent = due
            threading.Event().wait(_BEAT_S)
        producer.sync()


if __name__ == "__main__":
    log, events, seed, seconds, days = sys.argv[1:]
    produce(log, int(events), int(seed), float(seconds), SystemClock(), int(days))
