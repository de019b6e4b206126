"""Deterministic input for the benchmarks: event i is a function of i alone, so results can be checked.

Event i: ``user_id`` = mix(i) mod K, ``country`` one of 50, ``amount`` a float, ``ts_ms`` = start + i minus a
jitter of up to two seconds.  Two Parquet files hold alternating blocks of a thousand events, so that two
readers advance together in event time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_MS = 1_700_000_040_000
COUNTRIES = [f"C{number:02d}" for number in range(50)]
JITTER_MS = 2000
BLOCK = 1000
SCHEMA = pa.schema(
    [("user_id", pa.int64()), ("country", pa.string()), ("amount", pa.float64()), ("ts_ms", pa.int64())]
)


def mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64 of unsigned integers."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def events(indices: np.ndarray, users: int) -> pa.RecordBatch:
    """The events with these numbers."""
    i = indices.astype(np.uint64)
    country = (mix(i ^ np.uint64(0xC0FFEE)) % np.uint64(50)).astype(np.int32)
    names = pa.DictionaryArray.from_arrays(pa.array(country), pa.array(COUNTRIES)).cast(pa.string())
    jitter = (mix(i ^ np.uint64(0x717)) % np.uint64(JITTER_MS + 1)).astype(np.int64)
    return pa.RecordBatch.from_arrays(
        [
            pa.array((mix(i) % np.uint64(users)).astype(np.int64)),
            names,
            pa.array((mix(i ^ np.uint64(0xA11CE)) % np.uint64(1_000_000)).astype(np.float64) / 100.0),
            pa.array(START_MS + indices.astype(np.int64) - jitter),
        ],
        schema=SCHEMA,
    )


def dataset(root: Path, count: int, users: int, files: int = 2) -> Path:
    """The directory with ``count`` events, written on first use."""
    target = root / f"events-{count}-users-{users}"
    done = target / "_done"
    if done.exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    writers = [pq.ParquetWriter(target / f"part-{number}.parquet", SCHEMA) for number in range(files)]
    for start in range(0, count, 500_000):
        indices = np.arange(start, min(count, start + 500_000))
        owner = (indices // BLOCK) % files
        for number, writer in enumerate(writers):
            writer.write_batch(events(indices[owner == number], users))
    for writer in writers:
        writer.close()
    done.touch()
    return target
