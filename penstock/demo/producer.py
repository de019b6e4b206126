"""The producer, a process of its own: ``python -m penstock.demo.producer LOG EVENTS SEED SECONDS DAYS``."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pyarrow as pa

from penstock.connectors.log import Log, Producer
from penstock.core.clock import Clock, SystemClock
from penstock.demo.clicks import HOUR_MS, HOURS, PARTITIONS, TOPIC, Clicks, make_clicks

_BEAT_S = 0.05


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
