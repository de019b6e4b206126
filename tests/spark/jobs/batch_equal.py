"""Program: random pipelines as streams in this process and in BATCH mode on Spark, in one session.

batch_equal.py MASTER SEED...
"""

from __future__ import annotations

import sys

from batch_pipelines import outcome

from penstock.core.config import Configuration
from penstock.datastream import RuntimeExecutionMode
from penstock.spark.session import start_session
from penstock.testing.local import local_cluster


def main(master: str, seeds: list[int]) -> None:
    """Run them; a line each."""
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", master)
    start_session(configuration)
    for seed in seeds:
        with local_cluster(3):
            stream = outcome(seed, RuntimeExecutionMode.STREAMING)
        batch = outcome(seed, RuntimeExecutionMode.BATCH)
        said = "equal" if stream == batch else f"different: {stream - batch} {batch - stream}"
        print(f"seed {seed}: {said}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]])
