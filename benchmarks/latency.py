"""Latency under load: from a source on a timetable through a keyed function to the sink, rate by rate.

    python benchmarks/latency.py [--rates 1000,20000,50000,100000] [--seconds 15] [--repeat 1]

The job is W4 at other rates, with a checkpoint every second.  An event's delay counts from when it was due,
so a source that falls behind shows.  Results are checked: every event arrives once.  Where the machine
cannot keep up, delays grow with the length of the run: the curve ends there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import workloads

from penstock.datastream.job import Program, run_as

WARM_S = 5.0
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", default="1000,20000,50000,100000")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--repeat", type=int, default=1)
    chosen = parser.parse_args()
    rates = [int(rate) for rate in chosen.rates.split(",")]
    with run_as(Program(overrides={"penstock.spark.master": "local[2]"})):
        workloads.warm_up()
        print("events/s  " + "".join(f"{name + ' ms':>10}" for name in SHARES), flush=True)
        for rate in [rate for rate in rates for _ in range(chosen.repeat)]:
            measure(rate, chosen.seconds)


def measure(rate: int, seconds: int) -> None:
    """One run at one rate."""
    with tempfile.TemporaryDirectory() as checkpoints:
        found = workloads.delays(seconds, rate, Path(checkpoints), WARM_S)
    wanted = int((seconds - WARM_S) * rate)
    if abs(len(found) - wanted) > 1:
        raise SystemExit(f"wrong result: {len(found)} of {wanted} events behind the warm-up")
    cells = [found[min(len(found) - 1, int(len(found) * share))] for share in SHARES.values()]
    print(f"{rate:>8,}  " + "".join(f"{cell:>10.2f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
