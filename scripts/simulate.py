"""Play many seeds of the simulation graphs with all faults, and say what fails and how fast it went.

``python scripts/simulate.py --seeds 10000 --jobs 2`` plays 10000 seeds, dealt to the graphs in turn, and says
every ten seconds how far it is; ``--graph G --seed N`` plays one seed again and prints its story;
``--often slots_leave=0.2`` adds a kind of fault that is not among all, or makes one more frequent;
``--mutations`` plants bugs in the engine and says which seed of each first shows it.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sim")]

from pytest import MonkeyPatch  # noqa: E402
from sim_graphs import GRAPHS, faults_of, simulation_of  # noqa: E402
from sim_graphs_world import SELDOM  # noqa: E402
from sim_planted import first_failure  # noqa: E402

from penstock.core.clock import Clock, SystemClock  # noqa: E402
from penstock.testing.sim.run import SimulationFailed, tell_story  # noqa: E402
from penstock.testing.sim.simulation import Simulation  # noqa: E402

CHUNK = 25
EVERY_S = 10.0
KINDS = sorted(path.stem for path in (ROOT / "tests" / "sim").glob("test_sim_mutations*.py"))
"""Modules with planted bugs."""
Outcome = tuple[str, int, list[tuple[int, str]], Counter[str]]


@cache
def compiled(graph: str, slots: int) -> Simulation:
    """A graph, compiled once per process."""
    simulation: Simulation = simulation_of(graph, slots)
    assert simulation.expected
    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked at again and again
    return simulation


Rates = Mapping[str, float]


def play_chunk(task: tuple[str, int, int, int, Rates]) -> Outcome:
    """Seeds ``first`` up to ``last`` of a graph: how many, which failed and why, which faults."""
    graph, first, last, slots, often = task
    chances = replace(faults_of(graph), **often)
    simulation = compiled(graph, slots)
    failures: list[tuple[int, str]] = []
    faults: Counter[str] = Counter()
    for seed in range(first, last):
        try:
            faults += simulation.check(seed, chances).faults
        except SimulationFailed as failed:
            failures.append((failed.seed, failed.problem))
    return graph, last - first, failures, faults


def replay(graph: str, seed: int, slots: int, often: Rates) -> int:
    """Play one seed and tell its story."""
    simulation = simulation_of(graph, slots)
    try:
        print(tell_story(simulation.check(seed, replace(faults_of(graph), **often)).story))
    except SimulationFailed as failed:
        print(tell_story(failed.story))
        print(f"{graph}, seed {seed}: {failed.problem}")
        return 1
    print(f"{graph}, seed {seed}: as it should be")
    return 0


class Progress:
    """Counts outcomes, prints failures at once and a line now and then."""

    def __init__(self, total: int, clock: Clock) -> None:
        self._total = total
        self._clock = clock
        self._began = self._told_at = clock.monotonic()
        self.played = 0
        self.failed = 0
        self.faults: Counter[str] = Counter()

    def take(self, outcome: Outcome) -> None:
        """One chunk is done."""
        graph, count, failures, seen = outcome
        self.played += count
        self.failed += len(failures)
        self.faults += seen
        for seed, problem in failures:
            print(f"FAILED --graph {graph} --seed {seed}: {problem}", flush=True)

    def tell_if_due(self) -> None:
        """A line, if the last one is long ago."""
        now = self._clock.monotonic()
        if now - self._told_at >= EVERY_S:
            self._told_at = now
            print(self.line(), flush=True)

    def line(self) -> str:
        """How far it is."""
        rate = self.rate()
        left = f"{(self._total - self.played) / rate:.0f} s left" if rate else "no estimate yet"
        return f"{self.played}/{self._total} runs, {self.failed} failed, {rate:.1f} runs a second, {left}"

    def rate(self) -> float:
        """Runs a second so far."""
        seconds = self._clock.monotonic() - self._began
        return self.played / seconds if seconds else 0.0


def turns(graphs: list[str]) -> list[str]:
    """The graphs in the order in which they get seeds; some have one turn where others have four."""
    often = [graph for graph in graphs if graph not in SELDOM]
    seldom = [graph for graph in graphs if graph in SELDOM]
    return [graph for turn in range(4) for graph in (*often, *seldom[turn::4])]


def play_all(graphs: list[str], first: int, seeds: int, jobs: int, slots: int, often: Rates) -> int:
    """Play ``seeds`` seeds, some of them in each graph."""
    progress = Progress(seeds, SystemClock())
    starts = range(first, first + seeds, CHUNK)
    tasks = [
        (graph, start, min(start + CHUNK, first + seeds), slots, often)
        for graph, start in zip(cycle(turns(graphs)), starts, strict=False)
    ]
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(play_chunk, task) for task in tasks}
        while running:
            done, running = wait(running, EVERY_S, FIRST_COMPLETED)
            for future in done:
                progress.take(future.result())
            progress.tell_if_due()
    faults = progress.faults
    print(", ".join(f"{name} {count}" for name, count in faults.most_common()))
    print(
        f"{progress.played} runs, {progress.failed} failed, {faults.total()} faults, "
        f"{progress.rate():.1f} runs a second"
    )
    return 1 if progress.failed else 0


def find_mutations(names: str) -> int:
    """For each planted bug whose name contains ``names``, the first seed from 0 on that shows it."""
    missed = 0
    for kind in KINDS:
        for name, planted in import_module(kind).MUTATIONS.items():
            if names not in name:
                continue
            with MonkeyPatch.context() as patch:
                failed = first_failure(planted, 0, patch)
            missed += failed is None
            found = "NOT FOUND" if failed is None else f"seed {failed.seed}: {failed.problem[:100]}"
            print(f"| {name} | {planted.graph} | {found} |", flush=True)
    return 1 if missed else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds",
        type=int,
        default=1000,
        help="how many seeds to play, dealt to the graphs in turn",
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--graph", choices=sorted(GRAPHS), help="only this graph")
    parser.add_argument("--only", default="", help="only graphs with this in their names, such as two-phase")
    parser.add_argument("--seed", type=int, help="play this one seed and tell its story")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--mutations", nargs="?", const="", help="find each planted bug (or those with this in their name)"
    )
    parser.add_argument(
        "--often", action="append", default=[], metavar="KIND=CHANCE", help="the chance of a kind of fault"
    )
    parser.add_argument("--slots", type=int, default=2, help="parallelism of the first driver")
    options = parser.parse_args()
    often = {kind: float(chance) for kind, _, chance in (each.partition("=") for each in options.often)}
    if options.mutations is not None:
        return find_mutations(options.mutations)
    if options.seed is not None:
        return replay(options.graph or "chain", options.seed, options.slots, often)
    wanted = options.only.replace("-", "_")
    graphs = [options.graph] if options.graph else [name for name in GRAPHS if wanted in name]
    if not graphs:
        parser.error(f"no graph has {options.only!r} in its name; there are {', '.join(GRAPHS)}")
    return play_all(graphs, options.first, options.seeds, options.jobs, options.slots, often)


if __name__ == "__main__":
    sys.exit(main())
