"""Program: a job on two machines that goes on when one is lost, and takes the other back.

    elastic.py MASTER WORK [lost]

Prints ``running``, ``smaller`` and ``larger`` when snapshots are published at that parallelism, and what the
events say of it; then it lets the input end.  ``lost``: one of the machines is gone before it starts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cluster import SETTINGS
from flow_graphs import GRAPHS, SINKS, Pace
from progress import COUNT, RATE, environment, published, until

ADAPTIVE = {
    "jobmanager__scheduler": "adaptive",
    "jobmanager__adaptive_scheduler__submission__resource_stabilization_timeout": "500 ms",
    "jobmanager__adaptive_scheduler__executing__resource_stabilization_timeout": "500 ms",
}


def main(master: str, work: Path, whole: bool) -> None:
    """Run it."""
    env = environment(master, work / "chk", **SETTINGS, **ADAPTIVE).set_parallelism(2)
    GRAPHS["keyed"][0](env, lambda: SINKS["log"][0](work / "keyed"), COUNT, Pace(RATE, work / "gate"))
    client = env.execute_async("elastic")
    job = client._handle

    def at(parallelism: int) -> None:
        until(lambda: job.driver.parallelism == parallelism, f"it has {parallelism}")
        seen = published(job)
        until(lambda: published(job) > seen, f"a snapshot at {parallelism}")

    if whole:
        at(2)
        print("running", flush=True)
    at(1)
    print("smaller", flush=True)
    at(2)
    print("larger", flush=True)
    (work / "gate").touch()
    client.get_job_execution_result().result(600)
    for event in job.history.view().events:
        if event.kind == "rescale":
            print(f"event {event.text}", flush=True)
    print(f"done restarts={job.driver.restarts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] != ["lost"])
