"""Spans: every checkpoint and restart once, with what it took."""

from __future__ import annotations

from rest_rig import Told

from penstock.coordinator.events import StatusChanged
from penstock.core.clock import Now
from penstock.core.ids import MonoMs, WallMs
from penstock.core.job import JobStatus
from penstock.rest.spans import SpanFinder


def moved(told: Told, *statuses: tuple[JobStatus, int]) -> None:
    for status, at in statuses:
        told.history.did(StatusChanged(status), Now(MonoMs(at), WallMs(at)))


def test_a_restart_is_told_once_it_is_over() -> None:
    told, finder = Told(), SpanFinder()
    start = told.history.view().started_ms
    moved(told, (JobStatus.RUNNING, start + 10), (JobStatus.RESTARTING, start + 20))
    assert list(finder.new(told.history.view())) == []
    moved(told, (JobStatus.RUNNING, start + 50))
    (span,) = finder.new(told.history.view())
    assert (span.name, span.begun_ms, span.ended_ms, span.failure) == (
        "Restart",
        start + 20,
        start + 50,
        None,
    )
    assert list(finder.new(told.history.view())) == []
    moved(told, (JobStatus.RESTARTING, start + 60), (JobStatus.FAILED, start + 70))
    (last,) = finder.new(told.history.view())
    assert last.failure == "the job is FAILED" and last.begun_ms == start + 60


def test_a_checkpoint_is_told_with_its_sizes() -> None:
    told, finder = Told(interval_ms=1000), SpanFinder()
    told.run()
    told.tick(1000)
    (begun,) = told.history.view().checkpoints
    assert list(finder.new(told.history.view())) == []
    told.ack_all(int(begun.epoch))
    told.published(int(begun.epoch))
    (span,) = finder.new(told.history.view())
    record = told.history.view().latest["completed"]
    assert span.name == "Checkpoint" and span.attributes["checkpointId"] == int(record.epoch)
    assert span.attributes["checkpointStatus"] == "COMPLETED" and span.failure is None
    assert span.attributes["fullSize"] == sum(part.state_bytes for part in record.parts.values())
    assert list(finder.new(told.history.view())) == []
