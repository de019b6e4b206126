"""What guarding the lines between slots costs: W1, W3 and W4 with TLS, with seals, and with neither.

    python benchmarks/tls.py [W1 W3 W4] [--events N] [--rounds R] [--seconds S]

``sealed`` is how slots on one host talk; ``tls`` is how they do between hosts (here on one, by setting);
``bare`` is neither, by a patch, and only for this comparison.  Contestants take turns, each round in a
session of its own; ratios are of medians.  Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
CONTESTANTS: dict[str, dict[str, str]] = {
    "bare": {"spark.python.daemon.module": "bare_daemon"},
    "sealed": {},
    "tls": {"security.ssl.internal.enabled": "true"},
}
RESULT = "RESULT "


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["W1", "W3", "W4"])
    parser.add_argument("--events", type=int, default=10_000_000, help="of W3; W1 has four times as many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=20, help="of W4")
    parser.add_argument("--home", type=Path, default=Path(".bench"))
    parser.add_argument("--as", dest="contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant is None:
        compare(args)
    else:
        from penstock.datastream.job import Program, run_as

        settings = {"penstock.spark.master": "local[2]", "penstock.slots.timeout": "300 s"}
        settings |= CONTESTANTS[args.contestant]
        with run_as(Program(overrides=settings)):
            print(RESULT + json.dumps(one_round(args)), flush=True)


def one_round(args: argparse.Namespace) -> dict[str, float]:
    """All workloads as one contestant: events a second, and for W4 the median latency in ms."""
    import workloads
    from data import dataset

    workloads.warm_up()
    found: dict[str, float] = {}
    many = 4 * args.events
    with tempfile.TemporaryDirectory() as directory:
        if "W1" in args.what:
            seconds, sink = workloads.windowed(
                dataset(args.home, many, 1000), "country", Path(directory) / "1"
            )
            check(sink.total, many)
            found["W1"] = many / seconds
        if "W3" in args.what:
            data = dataset(args.home, args.events, 1000)
            seconds, sink = workloads.running_count(data, Path(directory) / "3")
            check(sink.rows, args.events)
            found["W3"] = args.events / seconds
        if "W4" in args.what:
            found["W4"], tail, _ = workloads.latency(args.seconds, 1000, Path(directory) / "4")
            found["W4 p99"] = tail
    return found


def check(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"wrong result: {found} instead of {expected}")


def compare(args: argparse.Namespace) -> None:
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTANTS}
    for number in range(args.rounds):
        for name, found in rounds.items():
            found.append(in_a_process(name, args))
            print(f"round {number + 1} {name}: {found[-1]}", flush=True)
    figures = list(rounds["tls"][0])
    print(f"medians of {args.rounds} rounds; W1, W3 in events/s, W4 in ms")
    print("          " + "".join(f"{figure:>14}" for figure in figures))
    middle = {
        name: {figure: statistics.median(one[figure] for one in found) for figure in figures}
        for name, found in rounds.items()
    }
    for name, values in middle.items():
        print(f"{name:<10}" + "".join(f"{values[figure]:>14,.1f}" for figure in figures))
    for name, other in (("tls", "sealed"), ("tls", "bare"), ("sealed", "bare")):
        ratios = "  ".join(
            f"{figure} {middle[name][figure] / middle[other][figure]:.3f}" for figure in figures
        )
        print(f"{name} / {other}: {ratios}")


def in_a_process(name: str, args: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, *args.what, "--as", name, "--events", str(args.events)]
    command += ["--seconds", str(args.seconds), "--home", str(args.home)]
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return dict(json.loads(line.removeprefix(RESULT)))
    raise SystemExit(f"{name} failed:\n{(done.stderr or done.stdout)[-2000:]}")


if __name__ == "__main__":
    main()
