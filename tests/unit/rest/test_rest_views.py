"""Answers of REST as functions of a look: right by hand-made histories, and of the shapes of the contract."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from coord_rig import CALENDAR, restored
from rest_rig import JOB, Told

from penstock.coordinator.attempt_history import TaskState
from penstock.coordinator.events import CancelRequested, SlotLost
from penstock.core.errors import UserCodeError
from penstock.core.handles import SubtaskSnapshot
from penstock.core.ids import MIN_TIME, Epoch, Generation, SlotId, Subtask, SubtaskIndex
from penstock.core.job import JobStatus
from penstock.core.messages import Heartbeat, Opening, SnapshotAck, TaskFailed, WatermarkReport
from penstock.rest import (
    checkpoints,
    job,
    metric_views,
    openapi,
    outputs,
    overview,
    processes,
    state,
    tail,
    vertices,
)
from penstock.rest.look import Look, Refused, rest_id, vertex_name
from penstock.rest.routes import VIEWS, Asked, answer
from penstock.rest.steering import ACTIONS, OUTCOMES


def running(**settings: Any) -> Told:
    told = Told(interval_ms=1000, **settings)
    told.run()
    return told


def beat(told: Told, busy: float, records: float, after: int = 1000) -> None:
    """Every subtask sends numbers, the second twice those of the first."""
    for slot in range(told.plan.slots):
        metrics = {}
        for vertex in told.plan.vertices:
            share = records * (slot + 1)
            metrics[Subtask(vertex.id, SubtaskIndex(slot))] = {
                "numRecordsIn": share,
                "numRecordsOut": 2 * share,
                "numBytesIn": 10 * share,
                "numBytesOut": 20 * share,
                "busyTimeMs": busy,
                "idleTimeMs": told.now + after - busy,
                "backPressuredTimeMs": 0.0,
                "currentInputWatermark": CALENDAR - 5000,
                "currentOutputWatermark": CALENDAR - 6000,
                "sink.numRecordsIn": share,
                "sink.my.counter": 3.0,
            }
        told.said(Heartbeat(metrics, 1000 + slot, {"pid": 40.0 + slot}), slot, after if slot == 0 else 0)


def views_of(look: Look) -> dict[str, Any]:
    """Every answer that has no parameters to be chosen."""
    vertex = rest_id(look.plan.vertices[-1])
    path = {"jobid": JOB, "applicationid": JOB, "vertexid": vertex, "subtaskindex": "0"}
    path |= {"taskmanagerid": "slot-0", "checkpointid": "1"}
    query = {"get": "busyTimeMsPerSecond,numRecordsIn"}
    return {name: answer(view, look, Asked(path, query)) for name, view in VIEWS.items()}


def test_every_call_of_the_contract_is_answered_and_there_is_no_other() -> None:
    asking = ("/config", "/jobmanager/thread-dump", *outputs.PATHS, *state.PATHS, *tail.PATHS)
    own = ("/metrics", "/openapi.json", "/jobs/{jobid}/facts")
    apart = {("GET", path) for path in (*asking, *own)}
    known = {("GET", path) for path in (*VIEWS, *OUTCOMES)} | set(ACTIONS) | apart
    assert {(call["method"], call["path"]) for call in openapi.calls()} == known
    assert len(openapi.calls()) >= 60


def test_answers_have_the_shapes_of_the_contract() -> None:
    told = running()
    beat(told, 100, 10)
    told.tick(1000)
    told.ack_all(1)
    told.published(1)
    found = views_of(told.look(root="file:///chk"))
    checked = [call for call in openapi.calls() if call["method"] == "GET" and call["path"] in found]
    assert len(checked) + len(outputs.PATHS) > 45
    for call in checked:
        jsonschema.validate(found[call["path"]], openapi.schema(call["answer"]))


def test_the_job_is_listed_with_its_tasks() -> None:
    told = running()
    told.tick(500)
    line = overview.job_line(told.look())
    assert line["state"] == "RUNNING" and line["tasks"]["running"] == 4 == line["tasks"]["total"]
    assert line["start-time"] == CALENDAR and line["duration"] == 500 and line["end-time"] == -1
    assert overview.overview(told.look())["taskmanagers"] == 2


def test_the_graph_names_what_it_reads() -> None:
    made = job.plan(running().look())
    source, sink = made["nodes"]
    assert source["inputs"] == [] and source["description"] == "Source: source"
    (read,) = sink["inputs"]
    assert read["id"] == source["id"] and read["ship_strategy"] == "REBALANCE"
    assert [vertex["id"] for vertex in job.job(running().look())["vertices"]] == [source["id"], sink["id"]]


def test_names_of_steps_are_escaped_in_the_graph() -> None:
    told = running()
    (vertex, *_) = told.plan.vertices
    assert (
        "<" not in job.plan(told.look())["nodes"][0]["description"]
        and vertex_name(vertex) == "Source: source"
    )


def test_numbers_are_those_that_the_tasks_counted() -> None:
    told = running()
    beat(told, 100, 10)
    beat(told, 600, 30)
    look = told.look()
    sink = look.plan.vertices[-1]
    found = vertices.vertex(look, sink)
    assert [one["metrics"]["read-records"] for one in found["subtasks"]] == [30, 60]
    assert found["aggregated"]["metrics"]["read-records"]["sum"] == 90
    assert job.job(look)["vertices"][-1]["metrics"]["write-bytes"] == 20 * 90
    one = metric_views.subtask_metrics(look, sink, sink.subtasks()[0])
    assert one["busyTimeMsPerSecond"] == 500 and one["idleTimeMsPerSecond"] == 500
    assert one["numRecordsInPerSecond"] == 20 and one["accumulateBusyTimeMs"] == 600
    assert one["Sink__sink.numRecordsIn"] == 30 and one["Sink__sink.my.counter"] == 3


def test_metrics_together_are_chosen_and_summed() -> None:
    told = running()
    beat(told, 0, 10)
    look = told.look()
    vertex = rest_id(look.plan.vertices[-1])
    view = VIEWS["/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics"]
    asked = Asked({"vertexid": vertex}, {"get": "numRecordsIn,nothing", "agg": "sum,max,skew"})
    (found,) = view(look, asked)
    assert found == {"id": "numRecordsIn", "sum": 30, "max": 20, "skew": pytest.approx(100 / 3)}
    (one,) = view(look, Asked({"vertexid": vertex}, {"get": "numRecordsIn", "subtasks": "1"}))
    assert one["sum"] == 20
    with pytest.raises(Refused, match="no aggregate"):
        view(look, Asked({"vertexid": vertex}, {"get": "numRecordsIn", "agg": "mode"}))
    with pytest.raises(Refused, match="names no subtasks"):
        view(look, Asked({"vertexid": vertex}, {"get": "numRecordsIn", "subtasks": "x"}))


def test_before_any_number_there_are_zeros_and_no_watermark() -> None:
    look = running().look()
    vertex = look.plan.vertices[-1]
    view = VIEWS["/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics"]
    (found,) = view(look, Asked({"vertexid": rest_id(vertex)}, {"get": "busyTimeMsPerSecond"}))
    assert found["max"] == 0
    assert vertices.watermarks(look, vertex)[0] == {"id": "0.currentInputWatermark", "value": str(MIN_TIME)}
    assert job.job(look)["vertices"][0]["metrics"]["read-records-complete"] is False


def test_backpressure_has_both_spellings() -> None:
    told = running()
    here = told.plan.subtasks()[0]
    told.said(Heartbeat({here: {"busyTimeMs": 0.0, "backPressuredTimeMs": 0.0, "idleTimeMs": 0.0}}))
    told.said(Heartbeat({here: {"busyTimeMs": 100.0, "backPressuredTimeMs": 600.0, "idleTimeMs": 300.0}}))
    found = vertices.backpressure(told.look(), told.plan.vertices[0])
    first = found["subtasks"][0]
    assert (first["ratio"], first["busyRatio"], first["idleRatio"]) == (0.6, 0.1, 0.3)
    assert found["backpressure-level"] == found["backpressureLevel"] == "high"
    assert found["subtasks"][1]["backpressure-level"] == "ok"


def test_a_checkpoint_is_told_by_subtask() -> None:
    told = running()
    told.tick(1000)
    part = SubtaskSnapshot(told.plan.subtasks()[0], (), False, written=7)
    told.said(SnapshotAck(Epoch(1), part, (), 1.0, 2.0, 3.0, 50, 4.0), after=20)
    look = told.look(root="file:///chk")
    under_way = checkpoints.checkpoints(look)
    assert under_way["counts"] == {"total": 1, "in_progress": 1, "completed": 0, "failed": 0, "restored": 0}
    assert under_way["history"][0]["end_to_end_duration"] == -1
    for subtask in told.plan.subtasks()[1:]:
        told.ack(1, subtask)
    told.published(1)
    look = told.look(root="file:///chk")
    done = checkpoints.checkpoints(look)
    newest = done["history"][0]
    assert newest["status"] == "COMPLETED" and newest["external_path"] == "file:///chk/chk-1"
    assert newest["state_size"] == 80 and newest["end_to_end_duration"] == 20
    assert done["latest"]["completed"]["id"] == 1 and done["summary"]["state_size"]["max"] == 80
    parts = checkpoints.subtasks(look, checkpoints.found(look, "1"), told.plan.vertices[0])
    first = parts["subtasks"][0]
    assert first["checkpoint"] == {"sync": 1, "async": 2} and first["start_delay"] == 4
    assert first["alignment"]["duration"] == 3 and first["checkpointed_size"] == 7
    with pytest.raises(Refused, match="no checkpoint 9"):
        checkpoints.found(look, "9")


def test_word_of_an_opening_that_comes_late_changes_nothing() -> None:
    told = running()
    told.said(Opening(told.plan.subtasks()[0], "source"))
    assert {one.state for one in told.history.view().tasks.values()} == {TaskState.RUNNING}


def test_a_failed_checkpoint_says_why() -> None:
    told = running(tolerable_failures=3)
    told.tick(1000)
    told.decline(1)
    found = checkpoints.checkpoints(told.look())["latest"]["failed"]
    assert "disk full" in found["failure_message"] and found["className"] == "failed"
    told.tick(1000)
    told.tick(told.settings.timeout_ms)
    late = checkpoints.checkpoints(told.look())["latest"]["failed"]
    assert "longer than the checkpoint timeout" in late["failure_message"]


def test_a_failure_shows_the_users_own_stack_and_task() -> None:
    told = Told(interval_ms=1000)
    told.run()
    subtask = told.plan.subtasks()[1]
    trace = 'Traceback (most recent call last):\n  File "job.py", line 3, in f\nValueError: no such country'
    error = UserCodeError("map", "1/2", "{'country': '<b>'}", trace)
    told.said(TaskFailed(subtask, error), slot=1)
    told.history.failed(error, CALENDAR + 5)
    (entry,) = job.exceptions(told.look(), 10)["exceptionHistory"]["entries"]
    assert entry["exceptionName"] == "ValueError" and "line 3, in f" in entry["stacktrace"]
    assert entry["taskName"] == "Source: source (2/2)" and entry["taskManagerId"] == "slot-1"
    assert entry["endpoint"] == "host" and entry["concurrentExceptions"] == []
    assert entry["failureLabels"] == {"step": "map", "record": "{'country': '<b>'}"}


def test_a_lost_slot_is_named_and_its_tasks_have_failed() -> None:
    told = running()
    told.give(SlotLost(Generation(told.generation), SlotId(0), "it was killed"))
    look = told.look()
    assert look.history.tasks[told.plan.subtasks()[0]].state.name == "FAILED"
    assert [one["id"] for one in processes.task_managers(look)["taskmanagers"]] == ["slot-1"]


def test_of_many_failures_the_newest_are_shown() -> None:
    told = running()
    for number in range(60):
        told.history.failed(ValueError(f"number {number}"), CALENDAR + number)
    found = job.exceptions(told.look(), 2)["exceptionHistory"]
    assert found["truncated"] and [entry["timestamp"] - CALENDAR for entry in found["entries"]] == [59, 58]


def test_a_restored_job_says_from_where() -> None:
    told = Told(interval_ms=1000)
    told.run(restored(told, 5), last_epoch=5)
    latest = checkpoints.checkpoints(told.look())["latest"]["restored"]
    assert latest == {
        "id": 5,
        "restore_timestamp": CALENDAR,
        "is_savepoint": False,
        "external_path": "root",
    }


def test_secrets_are_not_shown() -> None:
    told = running()
    look = told.look({"spark.ssl.keyPassword": "hunter2", "rest.port": "1", "fs.url": "s3://me:hunter2@b/x"})
    found = {one["key"]: one["value"] for one in job.configuration(look)}
    assert found == {"spark.ssl.keyPassword": "***", "rest.port": "1", "fs.url": "s3://me:***@b/x"}


def test_what_is_not_there_is_404() -> None:
    look = running().look()
    with pytest.raises(Refused, match="no job"):
        look.check_job("f" * 32)
    with pytest.raises(Refused, match="no vertex"):
        look.vertex("f" * 32)
    with pytest.raises(Refused, match="no subtask 2"):
        look.subtask(rest_id(look.plan.vertices[0]), "2")
    with pytest.raises(Refused, match="no task manager") as found:
        processes.found(look, "slot-9")
    assert found.value.status == 404


def test_a_cancelled_job_has_ended() -> None:
    told = running()
    told.give(CancelRequested())
    told.gang_gone()
    line = overview.job_line(told.look())
    assert line["state"] == "CANCELED" and line["end-time"] == CALENDAR and line["tasks"]["canceled"] == 4
    assert overview.application_status(JobStatus.RESTARTING) == "RUNNING"


def test_job_metrics_count_restarts_and_time() -> None:
    told = running()
    told.tick(700)
    found = metric_views.job_metrics(told.look(numbers={"restarts": 2}))
    assert found["numRestarts"] == 2 and found["uptime"] == 700 == found["runningTime"]
    assert found["runningState"] == 1 and found["lastCompletedCheckpointId"] == -1


def test_who_holds_the_watermark_is_told() -> None:
    told = running()
    operator = told.operators["source"]
    told.said(WatermarkReport(operator, "source", 0, CALENDAR - 9000, True, True, "split 'p0'", None))
    look = told.look()
    (one,) = VIEWS["/jobs/{jobid}/watermark-holders"](look, Asked())["sources"]
    assert one["holder"] == "split 'p0'" and one["watermark"] == str(CALENDAR - 9000)


def test_the_history_is_bounded() -> None:
    told = running()
    for _ in range(120):
        (epoch,) = [one.message.epoch for one in told.tick(1000) if hasattr(one, "message")]
        told.ack_all(epoch)
        told.published(epoch)
    view = told.history.view()
    assert len(view.checkpoints) == 40 and view.checkpoint_counts["completed"] == 120
    assert len(view.events) <= 1000
