"""What a process says of itself."""

from __future__ import annotations

import gc
import os

from penstock.core.clock import ManualClock
from penstock.core.process_facts import ProcessFacts


def test_a_process_is_measured_and_then_left_alone() -> None:
    clock, before = ManualClock(), len(gc.callbacks)
    with ProcessFacts(clock) as facts:
        assert len(gc.callbacks) == before + 1
        first = facts.now()
        assert first["pid"] == os.getpid() and first["threads"] >= 1 and first["cpu_load"] == 0
        facts._note("start", {"generation": 0})
        clock.advance(500)
        facts._note("stop", {"generation": 0})
        assert facts.now()["gc_ms"] == 500 and facts.now()["gc_ms_per_s"] == 0, "too soon for a share"
        clock.advance(500)
        assert facts.now()["gc_ms_per_s"] == 500
    assert len(gc.callbacks) == before


def test_pauses_are_counted_by_generation_and_the_longest_is_kept() -> None:
    clock = ManualClock()
    facts = ProcessFacts(clock)
    for generation, took in ((0, 5), (2, 30), (0, 10)):
        facts._note("start", {"generation": generation})
        clock.advance(took)
        facts._note("stop", {"generation": generation})
    said = facts.now()
    assert [said[f"gc_count_{number}"] for number in range(3)] == [2, 0, 1]
    assert round(said["gc_longest_ms"]) == 30 and round(said["gc_ms"]) == 45
