"""Program: runs graphs one after the other and kills a process of the gang in the middle of each.

    disturb.py MASTER WORK worker|executor GRAPH:SINK ...

Prints ``killed <pid>`` when it does, ``done <graph>:<sink> restarts=<n>`` at the end of each job.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from flow_graphs import GRAPHS, SINKS, Pace
from processes import executors, kill, python_workers
from progress import COUNT, RATE, environment, published, until


def kill_one(job: Any, kind: str, gate: Path) -> None:
    """Wait for two snapshots, kill, and let the job go on to its end."""
    until(lambda: published(job) >= 2 or job.result().done(), "two snapshots are published")
    found = python_workers(os.getpid()) if kind == "worker" else executors(os.getpid())
    kill(found[-1])
    print(f"killed {found[-1]}", flush=True)
    gate.touch()


def main(master: str, work: Path, kind: str, jobs: list[str]) -> None:
    """Run all jobs."""
    for name in jobs:
        graph, sink = name.split(":")
        env = environment(master, work / f"chk-{graph}-{sink}").set_parallelism(2)
        pace = Pace(RATE, work / f"gate-{graph}-{sink}")
        out = work / f"{graph}-{sink}"
        GRAPHS[graph][0](env, lambda sink=sink, out=out: SINKS[sink][0](out), COUNT, pace)
        client = env.execute_async(f"{graph} into {sink}")
        job = client._handle
        killer = threading.Thread(target=kill_one, args=(job, kind, pace.gate))
        killer.start()
        client.get_job_execution_result().result(120)
        killer.join()
        print(f"done {name} restarts={job.runner.restarts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
