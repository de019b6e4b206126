"""How far the Spark jobs of a BATCH job are, from Spark's status tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark import StatusTracker

from penstock.batch.runner import Progress, Stage
from penstock.core.ids import VertexId

_OF_KEPT = 3
"""Spark stages of a vertex that is computed early: its rows, and two that count them."""


def planned_stages(stages: Sequence[Stage], readers: Mapping[VertexId, int]) -> int:
    """How many stages Spark will make of a job: one behind each shuffle, and what is computed early."""
    kept = sum(count > 1 for count in readers.values())
    return 1 + sum(bool(stage.feeds) for stage in stages) + _OF_KEPT * kept


class StageTracker:
    """Counts the stages and tasks of a job group.

    Spark plans as it goes: a job lists stages that it will skip, and stages may turn up that nobody planned.
    So stages count once they are done or have tasks, and the total is at least that.
    """

    def __init__(self, tracker: StatusTracker, group: str) -> None:
        self._tracker = tracker
        self._group = group
        self._done: set[int] = set()
        self._over: set[int] = set()
        """Spark jobs that ended; there is nothing new to learn about them."""

    def progress(self, planned: int) -> Progress:
        """Where the job is now; from any thread."""
        running: dict[int, tuple[int, int]] = {}
        for job in set(self._tracker.getJobIdsForGroup(self._group)) - self._over:
            info = self._tracker.getJobInfo(job)
            if info is None:
                continue
            for stage in set(info.stageIds) - self._done:
                self._look_at(stage, running)
            if info.status != "RUNNING":
                self._over.add(job)
        done = len(self._done)
        tasks_done = sum(count for count, _ in running.values())
        tasks = sum(count for _, count in running.values())
        return Progress(done, max(planned, done + len(running)), tasks_done, tasks)

    def _look_at(self, stage: int, running: dict[int, tuple[int, int]]) -> None:
        info = self._tracker.getStageInfo(stage)
        if info is None or not info.numActiveTasks + info.numCompletedTasks:
            return
        if info.numCompletedTasks == info.numTasks:
            self._done.add(stage)
        else:
            running[stage] = info.numCompletedTasks, info.numTasks
