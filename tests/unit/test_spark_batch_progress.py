"""Stages and tasks of a job group, as Spark's status tracker told them of a real run; no Spark is started."""

from __future__ import annotations

from typing import Any

from pyspark.core.status import SparkJobInfo, SparkStageInfo

from penstock.batch.runner import Progress
from penstock.spark.batch.stages import StageTracker


class Told:
    """A status tracker: job to status and stages; stage to its tasks, how many are active, how many done."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[str, list[int]]] = {}
        self.stages: dict[int, tuple[int, int, int]] = {}
        self.asked: list[int] = []

    def getJobIdsForGroup(self, group: str) -> list[int]:
        assert group == "mine"
        return list(self.jobs)

    def getJobInfo(self, job: int) -> SparkJobInfo:
        status, stages = self.jobs[job]
        return SparkJobInfo(job, stages, status)

    def getStageInfo(self, stage: int) -> SparkStageInfo | None:
        self.asked.append(stage)
        if stage not in self.stages:
            return None
        tasks, active, done = self.stages[stage]
        return SparkStageInfo(stage, 0, "collect", tasks, active, done, 0)


def test_a_job_that_spark_plans_as_it_goes() -> None:
    told: Any = Told()
    tracker = StageTracker(told, "mine")
    assert tracker.progress(3) == Progress(0, 3, 0, 0), "nothing is there yet"
    told.jobs[0] = ("RUNNING", [0])
    assert tracker.progress(3) == Progress(0, 3, 0, 0), "a job without its stage"
    told.stages[0] = (4, 2, 1)
    assert tracker.progress(3) == Progress(0, 3, 1, 4)
    told.stages[0], told.jobs[0] = (4, 0, 4), ("SUCCEEDED", [0])
    assert tracker.progress(3) == Progress(1, 3, 0, 0)
    # The next job lists the first stage again, under another number, and skips it.
    told.jobs[1] = ("RUNNING", [1, 2])
    told.stages |= {1: (4, 0, 0), 2: (4, 3, 1)}
    assert tracker.progress(3) == Progress(1, 3, 1, 4)
    told.stages[2], told.jobs[1] = (4, 0, 4), ("SUCCEEDED", [1, 2])
    told.jobs[2], told.jobs[3] = ("RUNNING", [5]), ("RUNNING", [6])
    told.stages |= {5: (3, 1, 1), 6: (2, 1, 0)}
    assert tracker.progress(3) == Progress(2, 4, 1, 5), "two run side by side; one more than was planned"
    told.asked.clear()
    tracker.progress(3)
    assert sorted(told.asked) == [5, 6], "what is over is not looked at again"
