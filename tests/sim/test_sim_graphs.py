"""The graphs under all faults: a fixed set of seeds.  ``make simulate`` plays many more."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest
from sim_graphs import GRAPHS, KEYS, RULE_COUNT, Env, faults_of, numbers, played, simulation_of, untimed
from sim_graphs_frames import FRAME_GRAPHS
from sim_graphs_world import SELDOM

from penstock.datastream import CheckpointingMode
from penstock.testing import Faults, Report, SimSink, SimSource, simulate
from penstock.testing.sim.simulation import Simulation

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(15)
FEWER_SEEDS = range(4)
"""For graphs whose state is on disk, and others of which a run takes long."""
LONG = {"columns_interval_join", "pressed_windows", "changing_semi", *FRAME_GRAPHS}
"""Their parts are played by others: ``columns_window_join`` and ``interval_join``, ``pressed_timers``,
``changing_join`` and ``changing_latest``."""


def seeds_of(graph: str) -> range:
    return FEWER_SEEDS if graph.endswith("_rocks") or graph in SELDOM | LONG else SEEDS


@cache
def report_of(graph: str) -> Report:
    """Played once, for the graph's own test and for that of all faults, in whatever order they run."""
    return played(graph, seeds_of(graph))


@cache
def report_of_damage() -> Report:
    """Of drivers that vanish all the time and leave damage."""
    faults = Faults(
        driver_crash=0.01,
        driver_crash_in_storage=0.02,
        driver_hang_in_storage=0.01,
        torn_file=0.1,
        rotten_file=1.0,
        slow_storage=0.1,
        commit_error=0.1,
        rescale=0.3,
    )
    return simulate(GRAPHS["chain"], range(60), faults, name="chain")


@pytest.mark.parametrize("graph", GRAPHS)
def test_output_is_exact_whatever_happens(graph: str) -> None:
    report, runs = report_of(graph), len(seeds_of(graph))
    assert report.seeds == runs
    assert report.snapshots > 4 * runs, "a run is to have many snapshots"


def test_torn_and_rotten_files_are_survived() -> None:
    """The job goes back a snapshot, and the output is exact."""
    faults = report_of_damage().faults
    assert faults["torn_file"] > 10 and faults["rotten_file"] > 0


def test_other_numbers_of_slots() -> None:
    for slots in (1, 3):
        simulate(GRAPHS["union"], range(500, 510), slots=slots, name="union")


def at_least_once(env: Env) -> None:
    env.enable_checkpointing(60, CheckpointingMode.AT_LEAST_ONCE)
    stream = env.from_source(SimSource(numbers(3, 80)), untimed(), "numbers").uid("numbers")
    spread = stream.rebalance().map(lambda i: i).rebalance().map(lambda i: -i)
    spread.sink_to(SimSink("out", view=lambda rows: sorted(set(rows)))).uid("out")


def test_at_least_once_loses_nothing() -> None:
    simulate(at_least_once, range(30))


@pytest.mark.parametrize("graph", ["chain", "keys", "union"])
def test_jobs_go_on_with_fewer_slots(graph: str) -> None:
    """Slots are gone for a while and come back, beside everything else that may happen."""
    simulation = simulation_of(graph)
    faults = replace(faults_of(graph), slots_leave=0.3)
    left = sum(simulation.check(seed, faults).faults["slots_leave"] for seed in range(8))
    assert left > 0


APART = ("stuck_open", "slots_leave", "bad_copy")


def test_every_fault_happens() -> None:
    """Over the fixed seeds, each kind at least once; a kind that never happens protects nobody.

    Those that are not among all are played where they are asked for: slots that leave, above, and slots that
    never open and copies that go bad, in ``test_sim_mutations.py`` and ``test_sim_mutations_copies.py``.
    """
    seen: Counter[str] = Counter()
    for report in (report_of_damage(), *map(report_of, GRAPHS)):
        seen += report.faults
    assert {field.name for field in fields(Faults)} - {"most", *APART} <= set(seen)


def test_no_faults_by_default() -> None:
    report = simulate(GRAPHS["chain"], range(3), Faults())
    assert not report.faults


def sums(parts: list[list[int]]) -> list[object]:
    """What the running sums of these numbers are."""
    rows: list[object] = []
    for key in range(KEYS):
        mine = [i for part in parts for i in part if i % KEYS == key]
        rows += [(key, n + 1) for n in range(len(mine))] + [(key, "sum", sum(mine))]
    return rows


def test_the_expected_outputs_are_right() -> None:
    """The run without faults is what all others are measured by: so it is measured by hand."""
    wanted = {
        "chain": {"out": [i * 3 for part in numbers(3, 90) for i in part if i * 3 % 2 == 0]},
        "repartition": {"out": sums(numbers(2, 120))},
        "two_inputs": {
            "out": [f"{i} paid" if i % 3 else f"{i} unpaid since {i * 10 + 600}" for i in range(120)]
        },
        "broadcast": {"out": [(i, i * sum(range(RULE_COUNT))) for part in numbers(2, 100) for i in part]},
        "union": {"out": sums([list(range(500, 520)), *numbers(2, 110)])},
        "two_sinks": {
            "raw": [("raw", i) for part in numbers(2, 110) for i in part],
            "sums": sums(numbers(2, 110)),
        },
        "discovery": {"out": sums(numbers(6, 40))},
    }
    for graph, outputs in wanted.items():
        found = Simulation(GRAPHS[graph]).expected
        assert found == {sink: sorted(map(repr, rows)) for sink, rows in outputs.items()}, graph


@pytest.mark.parametrize("graph", ["repartition", "session"])
def test_same_seed_same_story(graph: str) -> None:
    simulation = Simulation(GRAPHS[graph])
    first, second = simulation.play(11, Faults.all()), simulation.play(11, Faults.all())
    assert first.story == second.story
    assert first.story != simulation.play(12, Faults.all()).story


def test_a_seed_can_be_replayed_elsewhere() -> None:
    """Another process, with other hash values of strings, tells the same story."""

    def replayed(hash_seed: str) -> str:
        command = [sys.executable, "scripts/simulate.py", "--graph", "two_sinks", "--seed", "5"]
        done = subprocess.run(
            command, cwd=ROOT, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        )
        return done.stdout

    told = replayed("1")
    assert "triggered by driver" in told and told.endswith("as it should be\n")
    assert told == replayed("2")
