"""``make bench``: the four workloads, the cost of snapshots, and the peers beside them when asked.

    python benchmarks/run.py [W1 W2 W3 W4 snapshots] [--events N] [--repeat R] [--peers] [--json FILE]

Every figure is the median of ``--repeat`` runs.  Peers come from their own scripts (``--peers-scripts``)
and environments (``--peers-home``); see there for how they are set up.  Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import snapshots
import workloads
from data import dataset
from rich.console import Console
from rich.table import Table

from penstock.datastream.job import Program, run_as

PEERS = {
    "W1": {
        "Flink SQL": ("flink", "--api sql --workload W1 --source seq --n 30000000"),
        "Spark": ("spark", "--workload W1 --n 40000000 --files 8"),
        "Bytewax": ("bytewax", "--workload W1 --n 4000000 --procs 1 --batch 1000"),
    },
    "W2": {
        "Flink SQL": ("flink", "--api sql --workload W2 --source seq --n 10000000"),
        "Spark": ("spark", "--workload W2 --files 1"),
    },
    "W3": {
        "PyFlink tuned": (
            "flink",
            "--api ds --workload W3 --source seq --n 600000 --bundle_size 100000 --cache_size 100000",
        ),
        "PyFlink thread": ("flink", "--api ds --workload W3 --source seq --n 600000 --pymode thread"),
        "Bytewax 1 process": ("bytewax", "--workload W3 --n 10000000 --procs 1"),
        "Bytewax 2 processes": ("bytewax", "--workload W3 --n 10000000 --procs 2"),
    },
    "W4": {
        "PyFlink thread, 1 ms": ("flink", "--api ds --workload W4 --pymode thread --buffer_timeout 1ms"),
        "Bytewax": ("bytewax", "--workload W4 --procs 1"),
    },
}
TITLES = {
    "W1": "windowed count and sum, 50 keys (events/s)",
    "W2": "windowed count and sum, 1,000,000 keys (events/s)",
    "W3": "Python function with keyed state (events/s)",
    "W4": "latency at 1,000 events/s (p50 / p99 ms)",
}
console = Console()


def main() -> None:
    with run_as(Program(overrides={"penstock.spark.master": "local[2]"})):
        measure(arguments())


def measure(args: argparse.Namespace) -> None:
    results: dict[str, Any] = {}
    workloads.warm_up()
    for name in [name for name in TITLES if name in args.what]:
        results[name] = {"Penstock": own(name, args)}
        console.print(f"{name} Penstock: {results[name]['Penstock']}")
    if "snapshots" in args.what:
        results["snapshots"] = snapshot_costs(args)
    if args.peers:
        for name in [name for name in TITLES if name in args.what]:
            for label, which in PEERS[name].items():
                results[name][label] = peer(which, args)
                console.print(f"{name} {label}: {results[name][label]}")
    show(results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=[*TITLES, "snapshots"])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--home", type=Path, default=Path(".bench"))
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--peers-home", type=Path, default=Path(os.environ.get("PEERS_HOME", ".peers")))
    parser.add_argument("--peers-scripts", type=Path, default=Path("../shared/peers"))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def own(name: str, args: argparse.Namespace) -> dict[str, float]:
    """Penstock's figure, median of the repeats, results checked."""
    count = args.events
    run: Callable[[Path], dict[str, float]] = {
        "W1": lambda path: throughput(dataset(args.home, 4 * count, 1000), "country", 4 * count, path),
        "W2": lambda path: throughput(dataset(args.home, count, 1_000_000), "user_id", count, path),
        "W3": lambda path: function(dataset(args.home, count, 1000), count, path),
        "W4": latency,
    }[name]
    found = []
    for _ in range(args.repeat):
        with tempfile.TemporaryDirectory() as checkpoints:
            found.append(run(Path(checkpoints)))
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


def throughput(data: Path, key: str, events: int, checkpoints: Path | None) -> dict[str, float]:
    seconds, sink = workloads.windowed(data, key, checkpoints)
    if sink.total != events:
        raise SystemExit(f"wrong result: counted {sink.total} of {events} events")
    return {"events_s": events / seconds}


def function(data: Path, events: int, checkpoints: Path | None) -> dict[str, float]:
    seconds, sink = workloads.running_count(data, checkpoints)
    if sink.rows != events:
        raise SystemExit(f"wrong result: {sink.rows} results of {events} events")
    return {"events_s": events / seconds}


def latency(checkpoints: Path) -> dict[str, float]:
    middle, tail, _ = workloads.latency(20, 1000, checkpoints)
    return {"p50_ms": middle, "p99_ms": tail}


def snapshot_costs(args: argparse.Namespace) -> dict[str, Any]:
    """Synchronous part by size of state, and throughput with a checkpoint a second over without."""
    sizes = []
    for keys in (10_000, 1_000_000):
        with tempfile.TemporaryDirectory() as checkpoints:
            sizes.append(snapshots.synchronous_part(keys, Path(checkpoints)))
            console.print(sizes[-1])
    count, long = args.events, 12 * args.events
    ratios: dict[str, list[float]] = {"W1": [], "W3": []}
    for _ in range(args.repeat):
        for name, run in {
            "W1": lambda where: throughput(dataset(args.home, long, 1000), "country", long, where),
            "W3": lambda where: function(dataset(args.home, count, 1000), count, where),
        }.items():
            with tempfile.TemporaryDirectory() as checkpoints:
                ratios[name].append(run(Path(checkpoints))["events_s"] / run(None)["events_s"])
    return {"sizes": sizes, "with_over_without": {name: statistics.median(r) for name, r in ratios.items()}}


def peer(which: tuple[str, str], args: argparse.Namespace) -> dict[str, float]:
    """A peer's figure from its own script; empty if it failed."""
    name, options = which
    home, scripts = args.peers_home.resolve(), args.peers_scripts.resolve()
    settings = {**os.environ, "PEERS_HOME": str(home)}
    if not (home / f"venv_{name}").exists():
        console.print(f"setting the peers up in {home} (once, several minutes) ...")
        subprocess.run(["bash", str(scripts / "setup.sh")], env=settings, check=True)
    for script in scripts.glob("*.py"):
        shutil.copy(script, home)
    settings["PATH"] = f"{home}/venv_{name}/bin{os.pathsep}{settings['PATH']}"
    if "thread" in options:
        settings["PYTHONPATH"] = str(next((home / f"venv_{name}" / "lib").glob("python3*/site-packages")))
    command = [f"{home}/venv_{name}/bin/python", f"{home}/bench_{name}.py", *options.split()]
    done = subprocess.run(command, env=settings, cwd=home, capture_output=True, text=True, timeout=600)
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not found:
        console.print(f"{name} {options} failed: {(done.stderr or done.stdout)[-500:]}")
        return {}
    result = json.loads(found[-1].removeprefix("RESULT "))
    if "ev_s" in result:
        return {"events_s": result["ev_s"]}
    return {"p50_ms": result["p50_ms"], "p99_ms": result["p99_ms"]}


def show(results: dict[str, Any]) -> None:
    table = Table(title="Penstock beside its peers, one run, one machine")
    for column in ("workload", "who", "figure", "Penstock / this"):
        table.add_column(column, justify="left" if column in ("workload", "who") else "right")
    for name in [name for name in TITLES if name in results]:
        mine = results[name]["Penstock"]
        for label, figure in results[name].items():
            table.add_row(
                TITLES[name] if label == "Penstock" else "", label, text(figure), ratio(mine, figure)
            )
    console.print(table)
    for size in results.get("snapshots", {}).get("sizes", []):
        console.print(
            f"heap snapshot, {size['keys']:>9,} keys, {size['bytes'] / 1e6:6.1f} MB: synchronous part "
            f"{size['sync_ms_median']:.2f} ms (max {size['sync_ms_max']:.2f}), "
            f"writing {size['async_ms_median']:.0f} ms"
        )
    for name, share in results.get("snapshots", {}).get("with_over_without", {}).items():
        console.print(f"{name}: throughput with a checkpoint every second over without: {share:.3f}")


def text(figure: dict[str, float]) -> str:
    if not figure:
        return "failed"
    if "events_s" in figure:
        return f"{figure['events_s']:,.0f}"
    return f"{figure['p50_ms']:.2f} / {figure['p99_ms']:.2f}"


def ratio(mine: dict[str, float], other: dict[str, float]) -> str:
    if not other:
        return ""
    if "events_s" in mine:
        return f"{mine['events_s'] / other['events_s']:.2f}x"
    return f"{mine['p99_ms'] / max(other['p99_ms'], 1e-9):.2f} (p99)"


if __name__ == "__main__":
    main()
