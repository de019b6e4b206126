"""Program: the same records into files and into a log, as two jobs at once.

    pair.py MASTER WORK

Prints ``published <n>`` when both jobs have published one more snapshot, ``done`` at the end.  Started
again with the same arguments, it goes on where it was killed.  It ends after a file ``WORK/gate`` appears.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flow_graphs import GRAPHS, SINKS, Pace
from progress import COUNT, RATE, environment, published, until


def main(master: str, work: Path) -> None:
    """Run both jobs."""
    clients = []
    for sink in ("file", "log"):
        env = environment(master, work / "chk").set_parallelism(2)
        out = work / f"keyed-{sink}"
        pace = Pace(RATE, work / "gate")
        GRAPHS["keyed"][0](env, lambda sink=sink, out=out: SINKS[sink][0](out), COUNT, pace)
        clients.append(env.execute_async(f"keyed into {sink}"))
    jobs = [client._handle for client in clients]
    seen = 0
    while not all(job.result().done() for job in jobs):
        until(
            lambda: min(map(published, jobs)) > seen or all(job.result().done() for job in jobs),
            "another snapshot",
        )
        seen = min(map(published, jobs))
        print(f"published {seen}", flush=True)
    for client in clients:
        client.get_job_execution_result().result(1)
    attempts = [job.coordinator.generation for job in jobs]
    print(f"done generations={attempts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
