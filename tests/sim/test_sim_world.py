"""What the simulator watches beside the output: other jobs, memory, age, what is left open."""

from __future__ import annotations

import decimal
import sys
from typing import Any

import pytest
import sim_script_keys as keys
from sim_graphs import GRAPHS, faults_of, simulation_of
from sim_graphs_world import named, numbers

from penstock.operators.source_operator import SourceOperator
from penstock.testing import Faults, Limits, SimScript, SimulationFailed, simulate
from penstock.testing.sim.limits import weight


def test_jobs_that_share_a_directory_are_told() -> None:
    """Two jobs of one name: whatever directories are called, that is one job too many."""
    with pytest.raises(SimulationFailed, match="job 'orders' changes .*, which is job 'orders''s"):
        simulate(named("orders"), range(1), Faults(most=0), beside=[named("orders")])


def test_jobs_side_by_side_come_to_their_own_results() -> None:
    report = simulate(named("one"), range(3), beside=[named("two", 30), named("three", 10)])
    assert report.seeds == 3


@pytest.mark.parametrize("graph", ["names_brackets", "keys", "changing_rows"])
def test_same_seed_same_story(graph: str) -> None:
    simulation = simulation_of(graph)
    first, second = simulation.play(7, faults_of(graph)), simulation.play(7, faults_of(graph))
    assert first.story == second.story


def test_a_script_runs_again_for_every_process() -> None:
    script = SimScript(keys.__file__)
    first, second = script.run(), script.run()
    assert first.main.Colour is not second.main.Colour
    assert first.main.Colour.RED != second.main.Colour.RED
    assert first.main.Colour.__module__ == "__main__"
    here, precision = sys.modules["__main__"], decimal.getcontext().prec
    with first.inside():
        assert sys.modules["__main__"] is first.main
        decimal.getcontext().prec = 3
        with second.inside():
            assert decimal.getcontext().prec == precision
        assert decimal.getcontext().prec == 3
    assert (sys.modules["__main__"], decimal.getcontext().prec) == (here, precision)


def test_rows_are_weighed_to_the_bottom() -> None:
    text = "x" * 50_000
    for row in (text, (1, text), {"a": [text]}, [[(text,)]], keys.Sensor("a", text)):
        assert 50_000 < weight(row) < 51_000
    assert weight([text, text]) > 100_000
    assert weight((1, 2.0, None)) < 200


def test_expected_output_that_is_known_better() -> None:
    rows: list[Any] = [i * 3 for part in numbers(3, 90) for i in part if i * 3 % 2 == 0]
    simulate(GRAPHS["chain"], range(1), Faults(most=0), expected={"out": rows})
    with pytest.raises(SimulationFailed, match="has too many 1: 0"):
        simulate(GRAPHS["chain"], range(1), Faults(most=0), expected={"out": rows[1:]})


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(state_bytes=10), "holds [0-9]+ bytes of state"),
        (Limits(journal=-1), "the journal has [0-9]+ entries"),
        (Limits(epochs_waiting=-1), "while 1 epochs wait to be committed"),
        (Limits(remembered=5), "remembers [0-9]+ things"),
    ],
)
def test_limits_are_checked(limits: Limits, told: str) -> None:
    with pytest.raises(SimulationFailed, match=told):
        simulate(GRAPHS["repartition"], range(1), Faults(most=0), limits=limits)


def test_what_waits_is_bounded() -> None:
    with pytest.raises(SimulationFailed, match="bytes wait in .* where 65,536 are allowed"):
        simulate(GRAPHS["heavy_rows"], range(3), Faults(most=0), limits=Limits(rows=0))


def test_what_a_slot_opened_is_closed_when_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceOperator, "close", lambda self: None)
    with pytest.raises(SimulationFailed, match="has left and not closed {'readers': "):
        simulate(GRAPHS["chain"], range(20))
