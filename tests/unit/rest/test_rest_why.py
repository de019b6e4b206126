"""Why a job is slow or late: who holds event time and since when, the bottleneck, slow subtasks, hot keys."""

from __future__ import annotations

from typing import Any

import pytest
from coord_rig import CALENDAR
from rest_rig import Told

from penstock.coordinator.events import StartAttempt
from penstock.coordinator.sightings import Sightings
from penstock.core.clock import Now
from penstock.core.ids import MIN_TIME, EventTime, Generation, MonoMs, SlotId, Subtask, SubtaskIndex, WallMs
from penstock.core.job import JobStatus
from penstock.core.messages import Heartbeat, HotGroups, Output, WatermarkReport
from penstock.rest.bottleneck import Bottleneck, Load, bottleneck
from penstock.rest.look import Refused
from penstock.rest.routes import VIEWS, Asked
from penstock.rest.why import because, why

BUSY, WAITING, IDLE = Load(0.95, 0.0, 0.05), Load(0.2, 0.7, 0.1), Load(0.05, 0.0, 0.95)
LINE = {"b": ["a"], "c": ["b"], "d": ["c"]}


@pytest.mark.parametrize(
    ("loads", "inputs", "expected"),
    [
        # The waiting leads to the first that works and does not wait.
        ([WAITING, WAITING, BUSY, IDLE], LINE, Bottleneck("c", ("b",))),
        ([WAITING, BUSY, BUSY, IDLE], LINE, Bottleneck("b", ("a",))),
        # Busy behind a step that does not wait is nobody's bottleneck while another is.
        ([WAITING, BUSY, IDLE, BUSY], LINE, Bottleneck("b", ("a",))),
        # It waits for a disk in its own time: still it is the one that others wait for.
        ([WAITING, IDLE, IDLE, IDLE], LINE, Bottleneck("b", ("a",))),
        # Two that are waited for, of which one works.
        ([WAITING, IDLE, BUSY, IDLE], {"b": ["a"], "c": ["a"], "d": ["b", "c"]}, Bottleneck("c", ("a",))),
        # Numbers of different moments: everybody seems to wait.
        ([WAITING] * 4, LINE, Bottleneck("d", ("c",))),
        # Nobody waits: the busiest, if anybody works at all.
        ([IDLE, BUSY, IDLE, IDLE], LINE, Bottleneck("b", ())),
        ([BUSY, IDLE, IDLE, IDLE], LINE, Bottleneck("a", ())),
        ([IDLE] * 4, LINE, None),
        # A share of a tenth is the noise of full buffers now and then.
        ([Load(0.3, 0.1, 0.6), BUSY, IDLE, IDLE], LINE, Bottleneck("b", ())),
    ],
)
def test_the_bottleneck(loads: list[Load], inputs: dict[str, list[str]], expected: Bottleneck | None) -> None:
    assert bottleneck(dict(zip("abcd", loads, strict=True)), inputs) == expected


def test_steps_that_nobody_measured_hold_nothing() -> None:
    assert bottleneck({}, LINE) is None
    assert bottleneck({"b": BUSY}, LINE) == Bottleneck("b", ())


def running() -> Told:
    told = Told(interval_ms=1000)
    told.run()
    return told


def report(told: Told, subtask: int, mark: int, after: int = 0, **more: Any) -> None:
    said = {"counts": True, "reading": True, "holder": "split 'p', from which no record came since"}
    operator = told.operators["source"]
    message = WatermarkReport(operator, "source", subtask, EventTime(mark), **{**said, **more})
    told.said(message, subtask, after)


def test_the_holder_of_event_time_is_named_with_since_when() -> None:
    told = running()
    report(told, 0, CALENDAR - 5000, split="orders-3", given=0)
    report(told, 1, CALENDAR - 9000, split="orders-4", given=2)
    report(told, 1, CALENDAR, 2000, split="orders-4", given=0)
    for _ in range(12):
        report(told, 0, CALENDAR - 5000, 1000, split="orders-3", given=0)
    found = why(told.look(), 5)["watermark"]
    assert found["holder"] == "split orders-3 of source" and found["subtask"] == 0
    assert found["because"] == "split orders-3 of source has given nothing"
    assert found["since"] == CALENDAR and found["still"] is True
    assert found["watermark"] == str(CALENDAR - 5000) and found["lag_ms"] == 5000 + 14_000


def test_event_time_that_moves_does_not_stand_still() -> None:
    told = running()
    report(told, 0, CALENDAR, split="a", given=0)
    report(told, 0, CALENDAR + 900, 1000, split="a", given=4)
    found = why(told.look(), 5)["watermark"]
    assert found["still"] is False and found["since"] == CALENDAR + 1000


def test_who_is_idle_or_at_its_end_holds_nothing() -> None:
    told = running()
    report(told, 0, MIN_TIME, counts=False)
    assert why(told.look(), 5)["watermark"] is None
    report(told, 1, MIN_TIME, split="b", given=0)
    found = why(told.look(), 5)["watermark"]
    assert found["watermark"] is None and found["lag_ms"] is None and found["split"] == "b"
    told.status = JobStatus.FINISHED
    assert why(told.look(), 5)["watermark"] is None


def test_a_new_attempt_counts_since_anew() -> None:
    told = running()
    report(told, 0, CALENDAR, split="a", given=0)
    assert told.history.view().seen.since
    told.said(Heartbeat(hot_groups={told.plan.vertices[1].id: HotGroups(1000, {1: 500})}))
    now = Now(MonoMs(told.now), WallMs(CALENDAR + told.now))
    told.history.did(StartAttempt(Generation(99), 2), now)
    seen = told.history.view().seen
    assert not seen.since and not seen.hot_groups


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"split": "p3", "given": 0}, "split p3 of source has given nothing"),
        ({"split": "p3", "given": 1204}, "split p3 of source has given 1,204 records that do not advance it"),
        ({"split": None, "given": 0}, "subtask 0 of source has given nothing"),
        (
            {"split": "p3", "given": 0, "blocked": True},
            "subtask 0 of source is backpressured: a step behind it takes records more slowly than they come",
        ),
        ({"holder": "it has no split to read"}, "of subtask 0 of source: it has no split to read"),
        ({"split": "a\x1b[31m\nb", "given": 0}, r"split a\x1b[31m\nb of source has given nothing"),
    ],
)
def test_reasons_in_words(more: dict[str, Any], said: str) -> None:
    told = running()
    report(told, 0, CALENDAR, **more)
    (found,) = told.history.view().watermarks.values()
    assert because(found) == said


def load(told: Told, shares: dict[tuple[int, int], tuple[float, float, float]], rate: float = 100) -> None:
    """Two heartbeats a second apart, by which (vertex, subtask) had these shares."""
    for second in (0, 1):
        for slot in range(told.plan.slots):
            metrics = {}
            for at, vertex in enumerate(told.plan.vertices):
                busy, blocked, idle = shares[at, slot]
                metrics[Subtask(vertex.id, SubtaskIndex(slot))] = {
                    "busyTimeMs": second * 1000 * busy,
                    "backPressuredTimeMs": second * 1000 * blocked,
                    "idleTimeMs": second * 1000 * idle,
                    "numRecordsIn": second * rate,
                    "sink.numLateRecordsDropped": 3.0 if at else 0.0,
                    "source.numRecordsInErrors": 0.0 if at else 2.0,
                    "currentInputWatermark": CALENDAR - 1000.0,
                }
            told.said(Heartbeat(metrics), slot, 1000 if slot == 0 else 0)


def test_bottleneck_slow_subtasks_and_freshness_of_a_job() -> None:
    told = running()
    shares = {(0, 0): (0.1, 0.8, 0.1), (0, 1): (0.2, 0.7, 0.1), (1, 0): (0.3, 0, 0.7), (1, 1): (0.9, 0, 0.1)}
    load(told, shares)
    report(told, 0, CALENDAR - 4000, split="a", given=1)
    report(told, 1, MIN_TIME, counts=False)
    look = told.look(numbers={"late_dropped": 7})
    found = why(look, 2)
    said = "Sink: sink is busy 90% of the time, and Source: source waits for it."
    assert found["bottleneck"]["text"] == said
    slow = [(one["step"], one["subtask"]) for one in found["slowest"]]
    assert slow == [("Sink: sink", 1), ("Sink: sink", 0)]
    assert found["slowest"][0]["us_per_record"] == pytest.approx(9000)
    fresh = found["freshness"]
    (source,) = fresh["sources"]
    assert source["lag_ms"] == 4000 + told.now and source["idle_subtasks"] == 1
    (sink,) = fresh["sinks"]
    assert sink["lag_ms"] == 1000 + told.now
    assert fresh["late_dropped"] == 7 and fresh["late_dropped_by"] == {"sink": 6}
    assert fresh["dead_letters"] == 4 and fresh["dead_letters_by"] == {"source": 4}


def test_hot_key_groups_are_those_above_their_share() -> None:
    told = running()
    target = told.plan.vertices[1]
    told.said(Heartbeat(hot_groups={target.id: HotGroups(600, {0: 300, 5: 4})}), 0)
    told.said(Heartbeat(hot_groups={target.id: HotGroups(400, {0: 100, target.max_parallelism - 1: 90})}), 1)
    groups = why(told.look(), 5)["hot_key_groups"]
    assert [(one["key_group"], one["share"]) for one in groups] == [
        (0, 0.4),
        (target.max_parallelism - 1, 0.09),
    ]
    assert [one["subtask"] for one in groups] == [0, target.parallelism - 1]


def test_a_small_sample_says_nothing() -> None:
    told = running()
    told.said(Heartbeat(hot_groups={told.plan.vertices[1].id: HotGroups(20, {0: 20})}), 0)
    assert why(told.look(), 5)["hot_key_groups"] == []


def test_nobody_gets_more_rows_than_there_may_be() -> None:
    told = running()
    view = VIEWS["/jobs/{jobid}/penstock/why"]
    assert view(told.look(), Asked({}, {"most": "100000"}))["slowest"] == []
    with pytest.raises(Refused, match="whole number"):
        view(told.look(), Asked({}, {"most": "-1"}))


def test_the_outputs_of_a_few_slots_are_kept() -> None:
    seen = Sightings()
    for slot in range(40):
        seen.heard(SlotId(slot), Output(f"log {slot}", ""), WallMs(slot))
    assert list(seen.view().outputs) == list(range(24, 40))
    assert seen.output(SlotId(39)) == (39, Output("log 39", "")) and seen.output(SlotId(0)) is None
