"""The producer, a process of its own: ``python -m penstock.demo.producer LOG EVENTS SEED SECONDS``."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pyarrow as pa

from penstock.connectors.log import Log, Producer
from penstock.core.clock import Clock, SystemClock
from penstock.demo.clicks import PARTITIONS, TOPIC, make_clicks

_BEAT_S = 0.05


def produce(log: str, events: int, seed: int, seconds: float, clock: Clock) -> None:
    """Append all clicks, evenly over ``seconds``. Stops early if whoever started it is gone."""
    clicks = make_clicks(events, seed)
    parent = os.getppid()
    started = clock.monotonic()
    sent = 0
    with Producer(Log(log).topic(TOPIC)) as producer:
        while sent < events and os.getppid() == parent:
            due = int(min(1.0, (clock.monotonic() - started) / seconds) * events)
            for partition in range(PARTITIONS):
                mine = np.arange(sent + (partition - sent) % PARTITIONS, due, PARTITIONS)
                if len(mine):
                    producer.send_many(
                        clicks.values.take(pa.array(mine)), None, clicks.times[mine], partition
                    )
            sent = due
            threading.Event().wait(_BEAT_S)
        producer.sync()


if __name__ == "__main__":
    produce(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), SystemClock())
