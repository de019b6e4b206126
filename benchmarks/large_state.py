"""One slot with gigabytes of state in RocksDB: what checkpoints store, and how soon a killed one is back.

``python benchmarks/large_state.py`` takes some minutes for two gigabytes, and up to three times that room
below ``--place``; ``--gigabytes 10`` needs thirty.  Part names as arguments run only these:

* ``checkpoints`` loads the state alone, in this process, then changes 1 % of the keys again and again and
  takes an incremental checkpoint each time; the last one is restored and every value compared.
* ``recovery`` is a job on Spark.  Its worker is killed (``kill -9``) again and again; printed is the time to
  the first record of the restored state, from copies of the checkpoint on the worker's own disk and from the
  storage.  Every record's output is compared with what was sent.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from large_state_job import ROW, Recovery, value_of  # noqa: E402

from penstock.core.handles import Blob, NativeHandle  # noqa: E402
from penstock.snapshot.storage import SnapshotStore  # noqa: E402
from penstock.state.backend import FrozenFiles  # noqa: E402
from penstock.state.descriptors import ValueStateDescriptor  # noqa: E402
from penstock.state.keyed import KeyedState  # noqa: E402
from penstock.state.rocks.backend import RocksBackend  # noqa: E402
from penstock.state.rocks.database import RocksSettings  # noqa: E402

GROUPS = 128
BATCH = 4096
MB = 1e6


class Taken(NamedTuple):
    """A checkpoint."""

    handle: NativeHandle
    full: int
    stored: int
    sync_ms: float
    async_ms: float


class Large:
    """Keyed state with a value for each key, and what these values should be."""

    def __init__(self, place: Path, rows: int) -> None:
        self._place = place
        self._store = SnapshotStore(str(place / "job"))
        self.versions = [-1] * rows
        self._state = self._empty()
        self._handle = self._state.handle(ValueStateDescriptor("kept"))

    def _empty(self) -> KeyedState:
        return KeyedState(RocksBackend(RocksSettings(str(self._place)), GROUPS))

    def change(self, keys: Sequence[int]) -> None:
        """Read and write the value of each key, in batches as operators get them."""
        handle, scope, versions = self._handle, self._state.scope, self.versions
        for batch in batched(keys):
            self._state.expect(batch)
            for scope.key in batch:
                handle.value()
                versions[scope.key] += 1
                handle.update(value_of(scope.key, versions[scope.key]))

    def checkpoint(self) -> Taken:
        """Take one and store it."""
        began = time.monotonic()
        (frozen,) = self._state.checkpoint()
        synced = time.monotonic()
        assert isinstance(frozen, FrozenFiles)
        shared, written = frozen.upload(self._store)
        small = {name: Blob.of(data) for name, data in frozen.small_files().items()}
        frozen.release()
        files = tuple(sorted({**shared, **small}.items()))
        over = sum(blob.length for blob in small.values())
        full = sum(blob.length for blob in shared.values()) + over
        times = (synced - began) * 1000, (time.monotonic() - synced) * 1000
        return Taken(NativeHandle("rocksdb", files, (0, GROUPS - 1), False), full, written + over, *times)

    def keep_only(self, taken: Taken) -> None:
        """Remove files that this checkpoint does not need, as retention does."""
        needed = {blob.path for _, blob in taken.handle.files}
        for path in self._store.list():
            if path not in needed:
                self._store.delete(path)

    def inside(self) -> str:
        """How RocksDB's files lie: how many at each level, and what is still to be merged."""
        backend = self._state.backend
        assert isinstance(backend, RocksBackend) and backend._database is not None
        rdict = backend._database._rdict
        levels = [rdict.property_value(f"rocksdb.num-files-at-level{level}") for level in range(7)]
        debt = rdict.property_int_value("rocksdb.estimate-pending-compaction-bytes")
        return f"files {'/'.join(levels)}, {debt / MB:,.0f} MB to be merged"

    def wrong_after(self, taken: Taken) -> int:
        """Restore a checkpoint into another state; how many values differ."""
        self._state.close()
        state = self._empty()
        state.restore_files([taken.handle], self._store, 0, GROUPS - 1, own_files=True)
        handle, scope, wrong = state.handle(ValueStateDescriptor("kept")), state.scope, 0
        for batch in batched(range(len(self.versions))):
            state.expect(batch)
            for scope.key in batch:
                wrong += handle.value() != value_of(scope.key, self.versions[scope.key])
        state.close()
        return wrong


def batched(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))


def checkpoints(place: Path, rows: int, share: float, rounds: int, pause: float) -> None:
    rng = random.Random(3)
    keys = list(range(rows))
    rng.shuffle(keys)
    large = Large(place, rows)
    began, processor = time.monotonic(), time.process_time()
    large.change(keys)
    took, used = time.monotonic() - began, time.process_time() - processor
    print(
        f"checkpoints: {rows * ROW / MB:,.0f} MB of state loaded in {took:.0f} s ({used:.0f} processor "
        f"seconds); {share:.0%} of the keys changed between two, {pause:g} s apart"
    )
    print(f"  {'':>3} {'full MB':>8} {'stored MB':>9} {'share':>6} {'sync ms':>8} {'async ms':>8}  before it")
    shares = []
    for number in range(rounds + 1):
        before = large.inside()
        taken = large.checkpoint()
        large.keep_only(taken)
        stored = taken.stored / taken.full
        shown = f"{taken.full / MB:>8.0f} {taken.stored / MB:>9.0f} {stored:>6.1%}"
        print(f"  {number:>3} {shown} {taken.sync_ms:>8.0f} {taken.async_ms:>8.0f}  {before}", flush=True)
        if number:
            shares.append(stored)
        if number < rounds:
            large.change(rng.sample(range(rows), int(rows * share)))
            time.sleep(pause)
    used = time.process_time() - processor
    print(
        f"  after the first, of a full one: median {median(shares):.1%}, mean {mean(shares):.1%}, worst "
        f"{max(shares):.1%}; {used:.0f} processor seconds in all"
    )
    wrong = large.wrong_after(taken)
    print(f"  restored from the last one: {rows:,} values compared, wrong={wrong}", flush=True)
    if wrong:
        sys.exit("the results are wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], "checkpoints", "recovery"])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--place", help="a directory on the disk to be measured")
    parser.add_argument("--changed", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between checkpoints")
    parser.add_argument("--kills", type=int, default=2, help="of the worker, for each place to restore from")
    options = parser.parse_args()
    chosen = options.parts or ["checkpoints", "recovery"]
    rows = int(options.gigabytes * 1e9 / ROW)
    if "checkpoints" in chosen:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=options.place) as place:
            checkpoints(Path(place), rows, options.changed, options.rounds, options.pause)
    if "recovery" in chosen:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=options.place) as place:
            Recovery(Path(place), rows).run(options.kills)


if __name__ == "__main__":
    main()
