"""Program for ``penstock run``: a keyed job on the cluster that it is submitted to.

    lost_cluster.py MASTER WORK

Makes the file WORK/running once a snapshot is published; records from a good half on wait for WORK/gate.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flow_graphs import GRAPHS, SINKS, Pace
from progress import COUNT, RATE, environment, published, until

if __name__ == "__main__":
    work = Path(sys.argv[2])
    env = environment(sys.argv[1], work / "chk").set_parallelism(2)
    GRAPHS["keyed"][0](env, lambda: SINKS["log"][0](work / "keyed"), COUNT, Pace(RATE, work / "gate"))
    client = env.execute_async("keyed")
    until(lambda: published(client._handle) >= 1, "the job runs")
    (work / "running").touch()
    client.get_job_execution_result().result()
