"""Of a failure people hear the cause and not its echo; the same again is counted."""

from __future__ import annotations

import logging

import pytest
from coord_rig import Rig

from penstock.coordinator.events import AttemptEnded, ReportFailure, SlotLost, SlotSaid, Start
from penstock.coordinator.failure_reporting import ADVISE_AT, FailureReporter
from penstock.core.errors import (
    ClusterError,
    ConnectorError,
    ProcessLostError,
    SnapshotError,
    TransportError,
    UserCodeError,
)
from penstock.core.ids import Generation, SlotId, Subtask, SubtaskIndex, VertexId
from penstock.core.messages import TaskFailed
from penstock.core.restart import FixedDelay

ECHO = TransportError("the peer closed the connection")
CAUSE = ProcessLostError("slot 1 was lost: its Python process (7) was killed by signal 9")
WRONG = UserCodeError("parse", "parse (1/2)", "'x=\\x00'", "Traceback\nValueError: bad row")


def said(error: Exception, generation: int = 1) -> SlotSaid:
    subtask = Subtask(VertexId("v"), SubtaskIndex(0))
    return SlotSaid(Generation(generation), SlotId(0), TaskFailed(subtask, error))


def ended(error: Exception | None, generation: int = 1) -> AttemptEnded:
    return AttemptEnded(Generation(generation), error)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")


def test_the_cause_is_told_instead_of_its_echo(caplog: pytest.LogCaptureFixture) -> None:
    teller = FailureReporter("job")
    assert teller.heard(said(ECHO), 0) is None
    teller.failed(ECHO, 1000, 0)
    assert not warnings(caplog) and "The cause follows" in caplog.text
    assert teller.heard(ended(CAUSE), 400) is CAUSE
    (line,) = warnings(caplog)
    assert "signal 9" in line and "restarts in 0.6 s" in line and "closed the connection" not in line
    assert teller.cause_of(ECHO) is CAUSE


def test_an_echo_that_nobody_explains_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    teller = FailureReporter("job")
    teller.heard(said(ECHO), 0)
    teller.failed(ECHO, 0, 0)
    assert teller.heard(ended(ClusterError("the job's Spark job was cancelled")), 10) is ECHO
    assert "the peer closed the connection" in warnings(caplog)[0]
    assert teller.heard(ended(None), 20) is None


def test_user_code_that_a_peer_heard_of_first_is_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    teller = FailureReporter("job")
    teller.heard(said(ECHO), 0)
    teller.failed(ECHO, 0, 0)
    teller.heard(said(WRONG), 1)
    assert teller.heard(ended(CAUSE), 2) is WRONG
    assert "ValueError: bad row" in warnings(caplog)[0]


def test_a_cause_belongs_to_its_own_attempt() -> None:
    teller = FailureReporter("job")
    teller.heard(said(WRONG), 0)
    assert teller.cause_of(ECHO) is WRONG
    teller.heard(said(ECHO, 2), 1)
    assert teller.cause_of(ECHO) is ECHO
    other = SnapshotError("no")
    teller.heard(ended(CAUSE, 2), 2)
    assert teller.cause_of(other) is other and teller.cause_of(None) is None


def test_the_same_again_is_counted_and_then_there_is_advice(caplog: pytest.LogCaptureFixture) -> None:
    teller = FailureReporter("job")
    for generation in range(1, ADVISE_AT + 2):
        teller.heard(said(WRONG, generation), 0)
        teller.failed(WRONG, 0, generation)
    first, *more = warnings(caplog)
    assert "Traceback" in first and "'x=" in first
    counted = [line for line in more if "failed again in the same way" in line]
    assert len(counted) == ADVISE_AT and f"{ADVISE_AT + 1} times by now" in counted[-1]
    assert all("\n" not in line and "ValueError: bad row" in line for line in counted)
    (advice,) = [line for line in more if line not in counted]
    for word in ("'parse'", "'x=", "OnError", "restart-strategy.type"):
        assert word in advice


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (CAUSE, ProcessLostError(str(CAUSE).replace("(7)", "(12)")), True),
        (ProcessLostError("it used 7 MB"), ProcessLostError("it used 80 MB"), True),
        (ConnectorError("<X object at 0x7f01>"), ConnectorError("<X object at 0x7f02>"), True),
        (WRONG, UserCodeError("parse", "parse (1/2)", "'y'", WRONG.trace), False),
        (ConnectorError("offset 1"), ConnectorError("offset 2"), False),
        (ConnectorError("x"), SnapshotError("x"), False),
    ],
)
def test_what_counts_as_the_same(
    one: Exception, two: Exception, same: bool, caplog: pytest.LogCaptureFixture
) -> None:
    teller = FailureReporter("job")
    for generation, error in ((1, one), (2, two)):
        teller.heard(SlotLost(Generation(generation), SlotId(0), "gone"), generation)
        teller.failed(error, 0, generation)
        teller.heard(ended(None, generation), generation)
    assert ("failed again in the same way" in warnings(caplog)[1]) is same


def test_a_failure_of_long_ago_is_told_in_full(caplog: pytest.LogCaptureFixture) -> None:
    teller = FailureReporter("job")
    for now in (0, 3_600_000):
        teller.failed(WRONG, 0, now)
    assert all("Traceback" in line for line in warnings(caplog)) and len(warnings(caplog)) == 2


def test_the_coordinator_takes_a_lost_slot_for_a_lost_process() -> None:
    rig = Rig(restart=FixedDelay(1, 10)).run()
    out = rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    (report,) = [item for item in out if isinstance(item, ReportFailure)]
    assert isinstance(report.error, ProcessLostError)


def test_slots_that_come_too_late_name_the_setting() -> None:
    rig = Rig()
    rig.give(Start())
    rig.claimed()
    rig.splits("a")
    rig.tick(30_000)
    rig.gang_gone()
    assert rig.end is not None
    told = str(rig.end.error)
    assert "2 of 2 slots did not start within 30 s (penstock.slots.timeout)" in told
    assert "busy" in told and told.count("penstock.slots.timeout") == 2


@pytest.mark.parametrize("how", ["declined", "expired"])
def test_a_failed_checkpoint_names_steps_and_not_their_hashes(how: str) -> None:
    rig = Rig(interval_ms=100, timeout_ms=500, tolerable_failures=0).run()
    rig.tick(100)
    if how == "declined":
        rig.decline(1)
    else:
        rig.tick(500)
    rig.gang_gone()
    assert rig.end is not None
    told = str(rig.end.error)
    assert "step 'source', subtask 0" in told and "#0" not in told
    assert all(vertex.id not in told for vertex in rig.plan.vertices)
