"""Random pipelines over random bounded input: BATCH gives what STREAMING gives in the end.

The pipelines are those of ``batch_pipelines``; here they run without Spark, on the same vertex runtime that
Spark tasks run.  Vertices read very few rows at a time and sort very few records together, so that keys are
cut between any two records, and what waits to be merged goes through files.
"""

from __future__ import annotations

import pytest
from batch_pipelines import outcome

from penstock.batch.sizes import Sizes
from penstock.datastream import RuntimeExecutionMode
from penstock.testing.local import local_cluster

PROGRAMS = 520
EACH = 20


@pytest.mark.parametrize("first", range(0, PROGRAMS, EACH))
def test_batch_equals_streaming(first: int) -> None:
    for seed in range(first, first + EACH):
        with local_cluster(slots=3) as cluster:
            cluster.batch_rows = 1 + seed % 9
            cluster.batch_sizes = Sizes.few(1 + seed % 4)
            stream = outcome(seed, RuntimeExecutionMode.STREAMING)
            batch = outcome(seed, RuntimeExecutionMode.BATCH)
        assert batch == stream, f"seed {seed}"
