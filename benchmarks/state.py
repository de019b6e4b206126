"""State backends beside each other: speed and memory.

``python benchmarks/state.py`` takes about a minute; ``--times 8`` makes the state of the memory part eight
times its memory.  Part names as arguments (speed, memory) run only these.  What checkpoints store is in
``large_state.py``.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from penstock.state.descriptors import ValueStateDescriptor  # noqa: E402
from penstock.state.heap.backend import heap_state  # noqa: E402
from penstock.state.keyed import KeyedState  # noqa: E402
from penstock.state.rocks.backend import RocksBackend  # noqa: E402
from penstock.state.rocks.database import RocksSettings  # noqa: E402

GROUPS = 128
BATCH = 4096


def rocks(place: str, **changes: int) -> KeyedState:
    return KeyedState(RocksBackend(RocksSettings(place, **changes), GROUPS))


# --- speed ----------------------------------------------------------------------------------------


def count_per_key(state: KeyedState, batches: list[list[int]], value_of: Callable[[int], object]) -> float:
    """Processor seconds for these records, in batches as operators get them: read the value, put another."""
    handle, scope = state.handle(ValueStateDescriptor("value")), state.scope
    began = time.process_time()
    for keys in batches:
        state.expect(keys)
        for scope.key in keys:
            handle.value()
            handle.update(value_of(scope.key))
    for part in state.freeze():
        part.release()
    return time.process_time() - began


def batched(keys: Sequence[int]) -> list[list[int]]:
    return [list(keys[start : start + BATCH]) for start in range(0, len(keys), BATCH)]


def speed(place: str, records: int, sizes: Sequence[int]) -> None:
    rng = random.Random(7)
    gc.set_threshold(200_000, 20, 50)  # as a slot has it
    print(
        "speed: read and write one value per record, all keys known, random order, the last changes written;"
    )
    print(f"processor microseconds per record ({records:,} records in batches of {BATCH:,})")
    print(f"  {'keys':>9}  {'value':<6} {'heap':>7} {'rocksdb':>8} {'ratio':>6}")
    for keys in sizes:
        everything, chosen = list(range(keys)), [rng.randrange(keys) for _ in range(records)]
        rng.shuffle(everything)
        kinds: list[tuple[str, Callable[[int], object]]] = [
            ("int", lambda key: key),
            ("tuple", lambda key: (key, 1.0)),
        ]
        for name, value_of in kinds:
            found = []
            for state in (heap_state(), rocks(place)):
                count_per_key(state, batched(everything), value_of)
                found.append(count_per_key(state, batched(chosen), value_of) / records * 1e6)
                state.close()
            fast, slow = found
            print(f"  {keys:>9,}  {name:<6} {fast:>7.2f} {slow:>8.2f} {slow / fast:>6.1f}", flush=True)


# --- memory ---------------------------------------------------------------------------------------


def memory_child(place: str, limit_mb: int, times: float) -> None:
    """In a process of its own: its memory may grow by ``limit_mb`` and no more, whatever the state does."""
    state = rocks(place, memory_bytes=limit_mb << 18, cache_entries=5_000, cache_bytes=2 << 20)
    handle, scope = state.handle(ValueStateDescriptor("value")), state.scope
    scope.key = "warm"
    handle.update("x")
    state.checkpoint()
    before = resident()
    data_before = int(Path("/proc/self/statm").read_text().split()[5]) * 4096
    resource.setrlimit(resource.RLIMIT_DATA, (data_before + (limit_mb << 20),) * 2)
    rng = random.Random(1)
    row = 1000
    rows = int(times * (limit_mb << 20) / row)
    for key in range(rows):
        scope.key = key
        handle.update(rng.randbytes(row))
    wrong = 0
    for _ in range(20_000):
        scope.key = rng.randrange(rows)
        wrong += len(handle.value()) != row
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"  state {rows * row / 1e6:,.0f} MB, limit {limit_mb * 1.048576:,.0f} MB above the "
        f"{before / 1e6:,.0f} MB of an empty state, most that was used {(peak - before) / 1e6:,.0f} MB; "
        f"wrong reads: {wrong}"
    )
    state.close()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory(place: str, limit_mb: int, times: float) -> None:
    print("memory: state that is several times what the process may use")
    command = [sys.executable, __file__, "--child", place, str(limit_mb), str(times)]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout.rstrip() if done.returncode == 0 else f"  FAILED: {done.stderr.strip()[-400:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], "speed", "memory"])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 200_000, 1_000_000])
    parser.add_argument("--limit-mb", type=int, default=64)
    parser.add_argument("--times", type=float, default=4.0)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        memory_child(options.child[0], int(options.child[1]), float(options.child[2]))
        return
    chosen = options.parts or ["speed", "memory"]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as place:
        if "speed" in chosen:
            speed(place, options.records, options.keys)
        if "memory" in chosen:
            memory(place, options.limit_mb, options.times)


if __name__ == "__main__":
    main()
