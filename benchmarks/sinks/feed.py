"""What is written, and when each record came into being.

``BIRTHS`` is filled while a job of the in-process cluster runs: the functions here are called in this very
process, and the probes compare with the same monotonic clock from theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.clock import SystemClock

KEYS = 200
SMALL_RATE = 2_000
"""Updates a second: each of the keys ten times."""
BIRTHS: list[tuple[int, int, float]] = []
"""First record, how many, when."""

_clock = SystemClock()
_COUNTRIES = np.array(["de", "fr", "it", "es", "pl"])
_DAY_US = 1_700_000_000_000_000

Numbers = npt.NDArray[np.int64]


def small(indices: Numbers) -> pa.RecordBatch:
    """Running totals of 200 keys; ``v`` is the number of the update."""
    BIRTHS.append((int(indices[0]), len(indices), _clock.monotonic()))
    return pa.record_batch({"k": indices % KEYS, "v": indices, "total": indices * 0.25})


def large(indices: Numbers) -> pa.RecordBatch:
    """Raw events; ``id`` is their number."""
    BIRTHS.append((int(indices[0]), len(indices), _clock.monotonic()))
    return pa.record_batch(
        {
            "id": indices,
            "user_id": indices * 7919 % 100_003,
            "country": pa.array(_COUNTRIES[indices % len(_COUNTRIES)]),
            "amount": indices % 10_000 / 100,
            "at": pa.array(_DAY_US + indices * 1000, pa.timestamp("us")),
        }
    )
