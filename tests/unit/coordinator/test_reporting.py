"""What people hear of a job: each remark once a step and kind, from whichever subtask and attempt."""

import logging

import pytest

from penstock.coordinator.reporting import JobReporter
from penstock.core.ids import Generation, Subtask, SubtaskIndex, VertexId
from penstock.core.messages import Deployed, Heartbeat, Remark, TaskFinished
from penstock.core.metrics import LATE_COUNTER

HERE = Subtask(VertexId("v"), SubtaskIndex(0))


def now():
    return 0


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_remark_is_made_once_a_step_and_kind_and_then_counted(caplog: pytest.LogCaptureFixture):
    teller = JobReporter("job", 0)
    with caplog.at_level(logging.WARNING, "penstock"):
        for generation in (1, 2):
            for remark in (
                Remark("a", "odd", "one"),
                Remark("b", "odd", "two"),
                Remark("a", "rare", "three"),
            ):
                teller.hear(Generation(generation), remark, now)
    assert lines(caplog) == [
        "job 'job': step 'a': one",
        "job 'job': step 'b': two",
        "job 'job': step 'a': three",
    ]
    assert teller.remarks == {("a", "odd"): 2, ("b", "odd"): 2, ("a", "rare"): 2}


def test_late_records_are_heard_of_in_heartbeats_and_at_the_end_of_a_task(caplog: pytest.LogCaptureFixture):
    teller = JobReporter("job", 60_000)
    with caplog.at_level(logging.WARNING, "penstock"):
        teller.hear(Generation(1), Deployed(), now)
        teller.hear(Generation(1), Heartbeat(), now)
        teller.hear(Generation(1), Heartbeat({HERE: {f"a.{LATE_COUNTER}": 2}}), now)
        assert lines(caplog) == [] and teller.late_dropped == 2
        teller.hear(Generation(1), TaskFinished(HERE, {f"a.{LATE_COUNTER}": 3}), now)
        teller.at_end()
    (line,) = lines(caplog)
    assert line.startswith("job 'job': step 'a' has dropped 3 late records in all: ")
