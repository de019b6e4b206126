"""``make bench``: workloads, the cost of snapshots, and the peers beside them when asked.

    python benchmarks/run.py [W1 W2 ... snapshots] [--events N] [--repeat R] [--peers] [--json FILE]

Every figure is the median of ``--repeat`` runs.  Peers with scripts (``--peers-scripts``) and environments
(``--peers-home``) of their own run once; see there for how they are set up.  Results are checked in every
run.  Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import snapshots
import workloads
from catalogue import WORK, Run, Scale
from data import dataset
from figures import Figures, median, plain, ratio
from peers import Peer, Peers
from rich.console import Console
from rich.table import Table

from penstock.datastream.job import Program, run_as

Results = dict[str, dict[str, Figures]]
console = Console(width=130)


def main() -> None:
    with run_as(Program(overrides={"penstock.spark.master": "local[2]"})):
        measure(arguments())


def measure(args: argparse.Namespace) -> None:
    results: Results = {}
    scale = Scale(args.events, args.home)
    workloads.warm_up()
    peers = Peers(args.peers_home, args.peers_scripts, console)
    for name in (name for name in WORK if name in args.what):
        found = results[name] = {}
        for label, one in (WORK[name].own | (WORK[name].peers if args.peers else {})).items():
            found[label] = peers.run(one) if isinstance(one, Peer) else repeated(one, scale, args.repeat)
            console.print(f"{name} {label}: {found[label].text()}")
    costs = snapshot_costs(scale, args.repeat) if "snapshots" in args.what else {}
    show(results, costs)
    if args.json:
        figures = {name: {label: asdict(each) for label, each in of.items()} for name, of in results.items()}
        args.json.write_text(json.dumps(figures | ({"snapshots": costs} if costs else {}), indent=2))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=[*WORK, "snapshots"], metavar="what")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--home", type=Path, default=Path(".bench"))
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--peers-home", type=Path, default=Path(os.environ.get("PEERS_HOME", ".peers")))
    parser.add_argument("--peers-scripts", type=Path, default=Path("../shared/peers"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    unknown = set(args.what) - {*WORK, "snapshots"}
    if unknown:
        parser.error(
            f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(WORK)}, snapshots"
        )
    return args


def repeated(run: Run, scale: Scale, times: int) -> Figures:
    """The medians of some runs."""
    return median([run(scale) for _ in range(times)])


def snapshot_costs(scale: Scale, repeat: int) -> dict[str, Any]:
    """Synchronous part by size of state, and throughput with a checkpoint a second over without."""
    sizes = []
    for keys in (10_000, 1_000_000):
        with tempfile.TemporaryDirectory() as checkpoints:
            sizes.append(snapshots.synchronous_part(keys, Path(checkpoints)))
            console.print(sizes[-1])
    short, long = (dataset(scale.home, count, 1000) for count in (scale.events, 12 * scale.events))
    ratios: dict[str, list[float]] = {"W1": [], "W3": []}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as where:
            without, _ = workloads.windowed(long, "country", None)
            ratios["W1"].append(without / workloads.windowed(long, "country", Path(where))[0])
        with tempfile.TemporaryDirectory() as where:
            without, _ = workloads.running_count(short, None)
            ratios["W3"].append(without / workloads.running_count(short, Path(where))[0])
    return {"sizes": sizes, "with_over_without": {name: statistics.median(r) for name, r in ratios.items()}}


def show(results: Results, costs: dict[str, Any]) -> None:
    table = Table(title="Penstock beside its peers, one run, one machine")
    for column in ("workload", "figure", "Penstock / this", "CPU s / M events", "peak MB"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for name, of in results.items():
        mine = next(iter(of.values()))
        table.add_row(f"{name}: {WORK[name].title}", style="bold")
        for label, each in of.items():
            processor, memory = plain(each.processor_s_per_m, ".2f"), plain(each.peak_mb, ",.0f")
            table.add_row(f"  {label}", each.text(), ratio(mine, each), processor, memory)
    console.print(table)
    for size in costs.get("sizes", []):
        console.print(
            f"heap snapshot, {size['keys']:>9,} keys, {size['bytes'] / 1e6:6.1f} MB: synchronous part "
            f"{size['sync_ms_median']:.2f} ms (max {size['sync_ms_max']:.2f}), "
            f"writing {size['async_ms_median']:.0f} ms"
        )
    for name, share in costs.get("with_over_without", {}).items():
        console.print(f"{name}: throughput with a checkpoint every second over without: {share:.3f}")


if __name__ == "__main__":
    main()
