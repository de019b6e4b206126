"""Program: every graph run through, then stopped in the middle and resumed at another parallelism.

    resume.py MASTER WORK

Runs one job after the other in one session; prints ``done <graph>`` for each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flow_graphs import GRAPHS, SINKS, Pace, sink_of
from progress import COUNT, RATE, TIMEOUT_S, environment, published, until

AFTER = {"chain": 1, "keyed": 3, "two_inputs": 1, "sessions": 3, "columns": 1}


def start(master: str, work: Path, graph: str, how: str, parallelism: int, pace: Pace) -> Any:
    """Start a graph; jobs with the same ``how`` share checkpoints and output."""
    env = environment(master, work / how).set_parallelism(parallelism)
    make, _ = SINKS[sink_of(graph)]
    GRAPHS[graph][0](env, lambda: make(work / f"{how}-{graph}"), COUNT, pace)
    return env.execute_async(graph)


def main(master: str, work: Path) -> None:
    """Run everything."""
    for graph in GRAPHS:
        start(master, work, graph, "through", 2, Pace()).get_job_execution_result().result(TIMEOUT_S)
        client = start(master, work, graph, "resumed", 2, Pace(RATE, work / "gate"))
        job = client._handle
        until(lambda job=job: published(job) >= 3 or job.result().done(), "three snapshots are published")
        client.cancel().result(TIMEOUT_S)
        last = start(master, work, graph, "resumed", AFTER[graph], Pace())
        last.get_job_execution_result().result(TIMEOUT_S)
        print(f"done {graph} from={job.coordinator.checkpoints.last_published}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
