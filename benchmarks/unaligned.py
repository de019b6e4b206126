"""Checkpoints under backpressure: aligned, unaligned, and aligned until a time is up, in one run.

``python benchmarks/unaligned.py`` takes about twenty seconds.  The sink takes a tenth of what the source can
give, so the queue between them is always full.  All tasks share one thread of this process; the ratio is what
matters, not the milliseconds.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster

ROW_S = 0.0002
SOURCE_RATE = 10 / ROW_S / 2
"""Rows a second and subtask that the source gives; the two sinks share a thread."""
WANTED = 4
SWITCH_MS = 100
MODES = {
    "aligned": {},
    "unaligned": {"unaligned.enabled": "true"},
    f"aligned for {SWITCH_MS} ms, then unaligned": {
        "unaligned.enabled": "true",
        "aligned-checkpoint-timeout": f"{SWITCH_MS} ms",
    },
}


def slow(value: int) -> int:
    """What the sink does with a row."""
    time.sleep(ROW_S)
    return value


def measure(settings: dict[str, str], checkpoints: Path) -> dict[str, float]:
    """Medians over a few checkpoints of a job with these settings."""
    config = Configuration()
    known = {"interval": "50 ms", "min-pause": "50 ms", "dir": str(checkpoints), **settings}
    for key, value in known.items():
        config.set_string(f"execution.checkpointing.{key}", value)
    config.set_string("penstock.channel.bytes", "128 kb")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    source = DataGeneratorSource(lambda i: i, 10_000_000, SOURCE_RATE)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda i: i % 1000).map(slow).uid("slow").filter(lambda i: False).print()
    with local_cluster() as launcher:
        client = env.execute_async("backpressured")
        history = launcher.jobs[-1].coordinator.checkpoints.history
        deadline = time.monotonic() + 30
        while len(history) < WANTED + 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        client.cancel().result()
    full = history[1:]
    names = ("duration_ms", "alignment_ms", "persisted_bytes")
    return {name: median(one[name] for one in full) for name in names}


def main() -> None:
    """Run all modes and print them beside each other."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for number, (mode, settings) in enumerate(MODES.items()):
            found[mode] = measure(settings, Path(directory) / str(number))
    aligned = found["aligned"]["duration_ms"]
    for mode, one in found.items():
        print(
            f"{mode:36} {one['duration_ms']:6.0f} ms a checkpoint, {aligned / one['duration_ms']:5.1f} times "
            f"as fast as aligned, {one['persisted_bytes'] / 1000:7.1f} kB persisted"
        )


if __name__ == "__main__":
    main()
