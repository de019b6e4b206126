"""Program: runs graphs one after the other and kills a process of the gang in the middle of each.

    disturb.py MASTER WORK worker|executor GRAPH ...

A graph is one of the five (into files), or ``both``: keyed results into files and a log.  Prints ``killed
<pid>`` when it does, ``done <graph> restarts=<n>`` at the end of each job.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from flow_graphs import GRAPHS, SINKS, Pace, keyed_into_both, sink_of
from processes import executors, kill, python_workers
from progress import COUNT, RATE, TIMEOUT_S, environment, published, until

NOTICE_S = 30.0


def kill_one(job: Any, kind: str, gate: Path) -> None:
    """Wait for two snapshots, kill, and let the job go on to its end once it has noticed.

    Spark keeps workers that have nothing to do, which nobody misses; then it is the next one's turn.
    """
    until(lambda: published(job) >= 2 or job.result().done(), "two snapshots are published")
    found = python_workers(os.getpid()) if kind == "worker" else executors(os.getpid())
    for pid in reversed(found):
        kill(pid)
        if noticed(job):
            break
    print(f"killed {pid}", flush=True)
    gate.touch()


def noticed(job: Any) -> bool:
    """Whether the job restarts within a while."""
    deadline = time.monotonic() + NOTICE_S
    while job.driver.restarts == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    return int(job.driver.restarts) > 0


def main(master: str, work: Path, kind: str, graphs: list[str]) -> None:
    """Run all jobs."""
    for graph in graphs:
        env = environment(master, work / "chk").set_parallelism(2)
        pace = Pace(RATE, work / f"gate-{graph}")
        if graph == "both":
            keyed_into_both(env, work / graph, COUNT, pace)
        else:
            make, _ = SINKS[sink_of(graph)]
            GRAPHS[graph][0](env, lambda make=make, graph=graph: make(work / graph), COUNT, pace)
        client = env.execute_async(graph)
        job = client._handle
        killer = threading.Thread(target=kill_one, args=(job, kind, work / f"gate-{graph}"))
        killer.start()
        client.get_job_execution_result().result(TIMEOUT_S)
        killer.join()
        print(f"done {graph} restarts={job.driver.restarts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
