"""The coordinator's view of event time: alignment groups, and a watermark that stands still."""

import random

from coord_rig import Rig

from penstock.coordinator.events import AttemptEnded, Send, SlotLost, Stalled
from penstock.coordinator.watermark_alignment import WatermarkAligner
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime, Generation, OperatorId, SlotId
from penstock.core.messages import AlignWatermarks, WatermarkReport
from penstock.core.restart import FixedDelay


def report(name, watermark, subtask=0, group="g", counts=True, reading=True, holder="split 'p0'"):
    return WatermarkReport(
        OperatorId(name), name, subtask, EventTime(watermark), counts, reading, holder, group
    )


def said(desk, slot, *args, now=0, **kwargs):
    return desk.on_report(SlotId(slot), report(*args, **kwargs), now)


def test_the_answer_is_the_slowest_of_the_group():
    desk = WatermarkAligner(0)
    assert said(desk, 0, "fast", 500) == [Send(SlotId(0), AlignWatermarks("g", EventTime(500)))]
    assert said(desk, 1, "slow", 100) == [Send(SlotId(1), AlignWatermarks("g", EventTime(100)))]
    assert said(desk, 0, "fast", 600) == [Send(SlotId(0), AlignWatermarks("g", EventTime(100)))]
    assert said(desk, 1, "other", 5, group="h") == [Send(SlotId(1), AlignWatermarks("h", EventTime(5)))]
    assert said(desk, 1, "alone", 1, group=None) == []


def test_idle_finished_and_empty_subtasks_hold_nobody_back():
    desk = WatermarkAligner(0)
    said(desk, 0, "fast", 500)
    said(desk, 0, "idle", 100, counts=False)
    said(desk, 0, "empty", MIN_TIME, reading=False)
    assert said(desk, 0, "fast", 500)[0].message.slowest == 500
    said(desk, 0, "fast", MAX_TIME, counts=False)
    assert said(desk, 0, "fast", MAX_TIME, counts=False)[0].message.slowest == MAX_TIME


def test_there_is_no_answer_until_all_are_there():
    desk = WatermarkAligner(0)
    assert desk.on_report(SlotId(0), report("fast", 500), 0, is_complete=False) == []
    said(desk, 1, "slow", 100)
    assert said(desk, 0, "fast", 500)[0].message.slowest == 100


def test_a_restart_forgets():
    desk = WatermarkAligner(0)
    said(desk, 0, "gone", 1)
    desk.restart()
    assert said(desk, 0, "fast", 500)[0].message.slowest == 500


def stalls(instructions):
    return [each.why for each in instructions if isinstance(each, Stalled)]


def test_a_standing_watermark_is_told_once_with_its_holder():
    desk = WatermarkAligner(60_000)
    for now in range(0, 60_000, 1000):
        assert not stalls(said(desk, 0, "clicks", 1_000_000 + now, now=now))
        assert not stalls(said(desk, 1, "orders", 5_000, subtask=1, now=now, holder="split 'p3', silent"))
    (why,) = stalls(said(desk, 1, "orders", 5_000, subtask=1, now=60_000, holder="split 'p3', silent"))
    assert why == (
        "the watermark has stood at 1970-01-01 00:00:05+00:00 for 60 s; held back by 'orders', subtask 1: "
        "split 'p3', silent"
    )
    assert not stalls(said(desk, 0, "clicks", 2_000_000, now=61_000))
    assert stalls(said(desk, 1, "orders", 6_000, subtask=1, now=62_000)) == [None]


def test_no_watermark_at_all_is_told_too_and_idleness_is_no_stall():
    desk = WatermarkAligner(10_000)
    said(desk, 0, "clicks", MIN_TIME, now=0)
    (why,) = stalls(said(desk, 0, "clicks", MIN_TIME, now=10_000))
    assert why.startswith("for 10 s there has been no watermark; held back by 'clicks', subtask 0: ")
    assert stalls(said(desk, 0, "clicks", MIN_TIME, counts=False, now=11_000)) == [None]
    assert not stalls(said(desk, 0, "clicks", MIN_TIME, counts=False, now=99_000))


def test_zero_never_tells():
    desk = WatermarkAligner(0)
    said(desk, 0, "clicks", 5, now=0)
    assert not stalls(said(desk, 0, "clicks", 5, now=10**9))


def test_the_coordinator_answers_once_all_slots_run_and_forgets_at_a_restart():
    rig = Rig(restart=FixedDelay(3, 0))
    rig.run()
    assert rig.said(report("slow", 100)) == [Send(SlotId(0), AlignWatermarks("g", EventTime(100)))]
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    rig.give(AttemptEnded(Generation(1), None))
    rig.tick(1)
    rig.claimed()
    rig.splits("s0")
    rig.registered()
    assert rig.said(report("fast", 500)) == [], "other slots are not there yet"
    rig.deployed()
    assert rig.said(report("fast", 500)) == [Send(SlotId(0), AlignWatermarks("g", EventTime(500)))]


def test_the_slowest_is_found_whoever_reports_what():
    dice = random.Random(7)
    desk, known = WatermarkAligner(0), {}
    for _ in range(3_000):
        subtask, counts, reading = dice.randrange(30), dice.random() < 0.8, dice.random() < 0.9
        watermark = dice.randrange(40)
        known[subtask] = watermark if counts and reading else MAX_TIME
        (answer,) = said(desk, 0, "a", watermark, subtask, counts=counts, reading=reading)
        assert answer.message.slowest == min(known.values())
