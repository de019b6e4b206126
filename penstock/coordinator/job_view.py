"""What people see of a running job, from its history and its facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common._job_view import Done, JobView, LastCheckpoint
from penstock.coordinator.history_view import HistoryView
from penstock.coordinator.progress_history import counted_steps, iso, watermark_of
from penstock.core.job import JobStatus
from penstock.core.metrics import RECORDS_COUNTER, SPLITS_COUNTER, SPLITS_DONE_COUNTER
from penstock.graph.plan import Plan

if TYPE_CHECKING:
    from penstock.coordinator.running_job import RunningJob


def view_of(running: RunningJob) -> JobView:
    """The job now."""
    history, status = running.history.view(), running.status()
    plan = history.plan
    now = running.now_ms()
    batch = plan.settings.batch
    in_rows, in_rate = (None, 0.0) if batch else _counted(plan, history, sources=True)
    out_rows, out_rate = (None, 0.0) if batch else _counted(plan, history, sources=False)
    over = status.is_terminal_state()
    return JobView(
        running.job_id.hex,
        running.run_id,
        plan.job_name,
        status,
        iso(history.started_ms),
        max(0, (history.ended_ms or now) - history.started_ms),
        max(0, history.attempt),
        batch,
        _ends(plan),
        now,
        in_rows,
        0.0 if over else in_rate,
        out_rows,
        0.0 if over else out_rate,
        _checkpoint(history),
        None if batch else watermark_of(history.watermarks.values()),
        history.stalled,
        _error(running, history, status),
        None if over else running.page_url,
        _stages(running) if batch else _splits(plan, history),
    )


def _ends(plan: Plan) -> bool:
    sources = [planned.node.source for _, planned in plan.operators()]
    return all(source.bounded for source in sources if source is not None)


def _counted(plan: Plan, history: HistoryView, sources: bool) -> tuple[int, float]:
    """Rows that sources have read in this attempt, or that sinks got; and how many in a second."""
    rows = rate = 0.0
    for vertex, node, key in counted_steps(plan):
        if (node.source if sources else node.sink) is not None:
            name = f"{key}.{RECORDS_COUNTER}"
            for subtask in vertex.subtasks():
                rows += history.metrics.get(subtask, {}).get(name, 0)
                rate += max(0.0, history.rates.get(subtask, {}).get(name, 0.0))
    return int(rows), rate


def _splits(plan: Plan, history: HistoryView) -> tuple[Done, ...]:
    """Of sources that end: the splits that are known."""
    known = done = 0.0
    for vertex, node, key in counted_steps(plan):
        source = node.source
        if source is None:
            continue
        if not source.bounded:
            return ()
        for subtask in vertex.subtasks():
            values = history.metrics.get(subtask, {})
            known += values.get(f"{key}.{SPLITS_COUNTER}", 0)
            done += values.get(f"{key}.{SPLITS_DONE_COUNTER}", 0)
    return (Done("splits", int(done), int(known)),) if known else ()


def _stages(running: RunningJob) -> tuple[Done, ...]:
    try:
        stages = running.facts()["stages"]
    except Exception:
        return ()  # they ask Spark, whose session may have ended
    if not stages or not stages["stages"]:
        return ()
    made = (Done("stages", stages["stages_done"], stages["stages"]),)
    return (*made, Done("tasks", stages["tasks_done"], stages["tasks"])) if stages["tasks"] else made


def _checkpoint(history: HistoryView) -> LastCheckpoint | None:
    last = history.latest.get("completed")
    if last is None:
        return None
    size = sum(part.state_bytes for part in last.parts.values())
    return LastCheckpoint(int(last.epoch), int(last.ended_ms or 0), last.duration_ms or 0, size)


def _error(running: RunningJob, history: HistoryView, status: JobStatus) -> str | None:
    """Why it failed, or why it is not running just now."""
    if status is JobStatus.FAILED and running.result().done():
        return str(running.result().exception())
    if not history.failures or status in (JobStatus.RUNNING, JobStatus.FINISHED, JobStatus.CANCELED):
        return None
    return history.failures[-1].root.stack
