"""The pictures in the guides are what the engine's own parts do now, and show what their pages say."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

from draw_pictures import IMAGES, PICTURES
from picture_barriers import barriers
from picture_times import arrivals, valve


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_engine_does(name: str) -> None:
    drawn = PICTURES[name]()
    assert (IMAGES / name).read_text("utf-8") == drawn, "run: python scripts/draw_pictures.py"
    assert ET.fromstring(drawn).tag.endswith("svg") and "prefers-color-scheme: dark" in drawn


def test_aligned_barriers_hold_and_count_once() -> None:
    run = barriers("aligned")
    assert {number for step in run.steps for number in step.held} == {0}
    assert (run.steps[-1].snapshot, run.steps[-1].recorded) == (("a1", "b1", "b2", "b3"), ())
    assert (run.again, run.twice, run.lost) == (("a2", "a3", "b4"), (), ())


def test_unaligned_barriers_keep_what_is_on_its_way() -> None:
    run = barriers("unaligned")
    assert not any(step.held for step in run.steps)
    assert (run.steps[-1].snapshot, run.steps[-1].recorded) == (("a1",), ("b1", "b2", "b3"))
    assert (run.twice, run.lost) == ((), ())


def test_at_least_once_counts_twice() -> None:
    run = barriers("at_least_once")
    assert not any(step.held for step in run.steps)
    assert (run.twice, run.lost) == (("a2", "a3"), ())


def test_the_windows_close_and_one_record_is_late() -> None:
    found = arrivals()
    assert [arrival.time for arrival in found if arrival.is_late] == [5]
    assert [(arrival.time, arrival.closed) for arrival in found if arrival.closed] == [
        (14, ((0, 6),)),
        (24, ((10, 5),)),
    ]


def test_who_is_idle_is_left_out_until_it_has_caught_up() -> None:
    assert [mark.output for mark in valve()] == ["none", "3", "3", "7", "9", "12", "12", "12", "14"]
