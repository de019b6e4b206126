"""Program: keyed results into files and into a log, by one job.

    both.py MASTER WORK

Prints ``published <n> generation=<g>`` for each snapshot, ``done generation=<g>`` at the end.  Started again
with the same arguments, it goes on where it was killed.  It ends after a file ``WORK/gate`` appears.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flow_graphs import Pace, keyed_into_both
from progress import COUNT, RATE, environment, published, until


def main(master: str, work: Path) -> None:
    """Run it."""
    env = environment(master, work / "chk").set_parallelism(2)
    keyed_into_both(env, work / "both", COUNT, Pace(RATE, work / "gate"))
    client = env.execute_async("both")
    job = client._handle
    seen = 0
    while not job.result().done():
        until(lambda: published(job) > seen or job.result().done(), "another snapshot")
        seen = published(job)
        print(f"published {seen} generation={job.coordinator.generation}", flush=True)
    client.get_job_execution_result().result(1)
    print(f"done generation={job.coordinator.generation}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
