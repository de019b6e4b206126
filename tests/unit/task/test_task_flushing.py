"""The flush rule: what leaves a task at once, what waits for more, and how long at most."""

from __future__ import annotations

from typing import Any

import pytest
from task_rig import FEED, Rig

from penstock.core.clock import ManualClock
from penstock.task.flushing import Flushes, is_short

TIMEOUT_MS = 100


class SlowOutputs:
    """Outputs that note how they were flushed; sending takes time on the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.takes_ms = 0
        self.has_data = True
        self.calls: list[str] = []

    def flush(self) -> bool:
        self.calls.append("all")
        return self.has_data

    def flush_waiting(self) -> bool:
        self.calls.append("waiting")
        self.clock.advance(self.takes_ms)
        return self.has_data


@pytest.fixture
def rule() -> tuple[Flushes, SlowOutputs]:
    clock = ManualClock()
    outputs = SlowOutputs(clock)
    return Flushes(outputs, clock, TIMEOUT_MS), outputs  # type: ignore[arg-type]


def test_while_there_is_more_input_output_is_gathered_until_the_timeout(rule: Any) -> None:
    flushes, outputs = rule
    for _ in range(TIMEOUT_MS):
        flushes.after_work(False)
        outputs.clock.advance(1)
    assert outputs.calls == []
    flushes.after_work(False)
    assert outputs.calls == ["all"]


def test_without_more_input_receivers_that_wait_are_served_at_once(rule: Any) -> None:
    flushes, outputs = rule
    flushes.after_work(True)
    flushes.after_work(True)
    assert outputs.calls == ["waiting", "waiting"]


def test_busy_receivers_do_not_keep_output_longer_than_the_timeout(rule: Any) -> None:
    flushes, outputs = rule
    outputs.has_data = False
    for _ in range(TIMEOUT_MS + 1):
        flushes.after_work(True)
        outputs.clock.advance(1)
    assert outputs.calls == ["waiting"] * TIMEOUT_MS + ["all"]


def test_sending_takes_a_small_share_of_the_time(rule: Any) -> None:
    flushes, outputs = rule
    outputs.takes_ms = 1
    for _ in range(20):
        flushes.after_work(True)
    assert outputs.calls == ["waiting"], "the next one waits"
    outputs.clock.advance(2)
    flushes.after_work(True)
    assert outputs.calls == ["waiting"] * 2, "but not long, whatever the last one took"


def test_a_source_ran_out_if_it_gave_far_less_than_was_asked_for() -> None:
    assert is_short(1, 8192) and is_short(0, 1)
    assert not is_short(8192, 8192) and not is_short(5000, 8192) and not is_short(1, 1)


def test_a_record_leaves_its_task_in_the_step_that_made_it() -> None:
    rig = Rig().deploy()
    source, second = rig.slot.tasks[:2]
    rig.feed("first")
    FEED["s"] += ["a", "b"]
    rig.clock.advance(20)
    source.step()
    assert second._gate is not None
    assert second._gate.queued_bytes() > 0, "in the same step, although the source may have more"
    rig.settle()
    assert rig.counts() == {"f": 1, "a": 1, "b": 1}
