"""Play many seeds of the simulation graphs with all faults, and say what fails and how fast it went.

``python scripts/simulate.py --seeds 1000 --jobs 2`` plays them all; ``--graph G --seed N`` plays one seed
again and prints its story.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sim")]

from sim_graphs import GRAPHS  # noqa: E402

from penstock.core.clock import SystemClock  # noqa: E402
from penstock.testing.sim.faults import Faults  # noqa: E402
from penstock.testing.sim.simulation import Simulation  # noqa: E402
from penstock.testing.sim.story import SimulationFailed, difference, tell_story  # noqa: E402

CHUNK = 100
Outcome = tuple[str, int, list[tuple[int, str]], Counter[str]]


def play_chunk(task: tuple[str, int, int, int]) -> Outcome:
    """Seeds ``first`` up to ``last`` of a graph: how many, which failed and why, which faults."""
    graph, first, last, slots = task
    simulation = Simulation(GRAPHS[graph], slots, graph)
    failures: list[tuple[int, str]] = []
    faults: Counter[str] = Counter()
    for seed in range(first, last):
        try:
            faults += simulation.check(seed, Faults.all()).faults
        except SimulationFailed as failed:
            failures.append((failed.seed, failed.problem))
    return graph, last - first, failures, faults


def replay(graph: str, seed: int, slots: int) -> int:
    """Play one seed and tell its story."""
    simulation = Simulation(GRAPHS[graph], slots, graph)
    expected = simulation.expected
    result = simulation.play(seed, Faults.all())
    problem = result.problem or difference(expected, result.outputs)
    print(tell_story(result.story))
    print(f"{graph}, seed {seed}: {problem or 'as it should be'}")
    return 1 if problem else 0


def play_all(graphs: list[str], first: int, seeds: int, jobs: int, slots: int) -> int:
    """Play all seeds of all graphs."""
    clock = SystemClock()
    began = clock.monotonic()
    tasks = [
        (graph, start, min(start + CHUNK, first + seeds), slots)
        for start in range(first, first + seeds, CHUNK)
        for graph in graphs
    ]
    played, failed = 0, 0
    faults: Counter[str] = Counter()
    with ProcessPoolExecutor(jobs) as pool:
        for graph, count, failures, seen in pool.map(play_chunk, tasks):
            played += count
            faults += seen
            for seed, problem in failures:
                failed += 1
                print(f"FAILED --graph {graph} --seed {seed}: {problem}", flush=True)
    seconds = clock.monotonic() - began
    print(", ".join(f"{name} {count}" for name, count in faults.most_common()))
    print(f"{played} runs, {failed} failed, {faults.total()} faults, {played / seconds:.1f} runs a second")
    return 1 if failed else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds per graph")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--graph", choices=sorted(GRAPHS), help="only this graph")
    parser.add_argument("--seed", type=int, help="play this one seed and tell its story")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--slots", type=int, default=2, help="parallelism of the first driver")
    options = parser.parse_args()
    if options.seed is not None:
        return replay(options.graph or "chain", options.seed, options.slots)
    graphs = [options.graph] if options.graph else list(GRAPHS)
    return play_all(graphs, options.first, options.seeds, options.jobs, options.slots)


if __name__ == "__main__":
    sys.exit(main())
