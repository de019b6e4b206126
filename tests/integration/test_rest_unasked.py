"""A job that nobody asks about does not pay for its page."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.rest.serving import serve
from penstock.testing.local import local_cluster

with local_cluster(1) as launcher:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"rest.port": "0"}))
    env.from_collection([1]).print()
    env.execute_async("unasked")
    (job,) = launcher.jobs
    serving = serve(job)
    assert serving.url
    job.result().result(300)
    serving.close()
    print("loaded:", sorted({"uvicorn", "starlette"} & set(sys.modules)))
"""


def test_a_job_nobody_asks_about_loads_no_server() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["loaded: []"], done.stderr
