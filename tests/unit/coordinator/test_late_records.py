"""The driver's count of late records that were dropped, and what it says of them."""

from penstock.coordinator.reporting import LateRecords
from penstock.core.ids import Generation, Subtask, SubtaskIndex, VertexId
from penstock.core.metrics import LATE_COUNTER

MINUTE = 60_000


def place(index=0, vertex="v"):
    return Subtask(VertexId(vertex), SubtaskIndex(index))


def counted(count, step="hourly"):
    return {f"{step}.{LATE_COUNTER}": count, "numRecordsIn": 9}


def heard(desk, metrics, now, generation=1):
    return desk.heard(Generation(generation), metrics, now)


def test_a_line_a_minute_while_there_are_more_and_one_at_the_end():
    desk = LateRecords(MINUTE)
    assert heard(desk, {place(0): counted(3)}, 0) == []
    assert heard(desk, {place(1): counted(4)}, MINUTE - 1) == []
    (line,) = heard(desk, {place(0): counted(1_200)}, MINUTE)
    assert line.startswith("step 'hourly' has dropped 1,204 late records in the last 60 s, 1,204 in all: ")
    for way_out in ("for_bounded_out_of_orderness", "allowed_lateness", "side_output_late_data"):
        assert way_out in line
    assert heard(desk, {place(0): counted(1_200)}, 2 * MINUTE) == []
    (line,) = heard(desk, {place(0): counted(1_201)}, 4 * MINUTE)
    assert "1 late record in the last 120 s, 1,205 in all: " in line
    (line,) = desk.at_end()
    assert "step 'hourly' has dropped 1,205 late records in all: " in line


def test_each_step_has_its_own_line():
    desk = LateRecords(MINUTE)
    heard(desk, {place(): {**counted(1, "a.b"), **counted(2, "c"), **counted(0, "d")}}, 0)
    assert [line.split(":")[0] for line in desk.at_end()] == [
        "step 'a.b' has dropped 1 late record in all",
        "step 'c' has dropped 2 late records in all",
    ]


def test_what_earlier_attempts_dropped_is_added_once():
    desk = LateRecords(MINUTE)
    heard(desk, {place(0): counted(5), place(1): counted(6)}, 0)
    heard(desk, {place(0): counted(2)}, 1, generation=3)
    heard(desk, {place(1): counted(9)}, 2)  # a last word of the first attempt
    assert desk.dropped() == {"hourly": 13}


def test_nothing_is_said_where_nothing_was_dropped_or_nobody_wants_to_hear():
    desk = LateRecords(MINUTE)
    assert heard(desk, {place(): {"numRecordsIn": 5}}, 0) + desk.at_end() == []
    silent = LateRecords(0)
    assert heard(silent, {place(): counted(5)}, 0) + heard(silent, {place(): counted(6)}, 10 * MINUTE) == []
    assert silent.at_end() == [] and silent.dropped() == {"hourly": 6}
