"""Planted bugs: what they change, the graph that shows them, and the search for the first seed that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from sim_graphs import faults_of, simulation_of

from penstock.testing import SimulationFailed
from penstock.testing.sim.simulation import Simulation

MOST_SEEDS = 500
"""A bug that this many seeds do not show is not found."""
Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Planted:
    """One bug. ``near`` is a seed that shows it, or from which a quick search finds it soon."""

    mutate: Callable[[Patch], None]
    graph: str
    near: int = 0
    early: bool = False
    """Whether it shows only in jobs that are compiled with it."""
    oftener: Mapping[str, float] = field(default_factory=dict)
    """Faults that it takes to show it, and which are rare together."""


@cache
def _sound(graph: str) -> Simulation:
    """A graph of the engine as it is, and its output: many bugs show in the same one."""
    simulation = simulation_of(graph)
    assert simulation.expected
    return simulation


def first_failure(planted: Planted, first: int, patch: Patch) -> SimulationFailed | None:
    """The first failing seed from ``first`` on, then below; the expected output is of the engine as it is."""
    simulation = None if planted.early else _sound(planted.graph)
    planted.mutate(patch)
    simulation = simulation or simulation_of(planted.graph)
    assert simulation.expected
    faults = replace(faults_of(planted.graph), **planted.oftener)
    for seed in (*range(first, MOST_SEEDS), *range(first)):
        try:
            simulation.check(seed, faults)
        except SimulationFailed as failed:
            misfit = next((text for _, text in failed.story if "positional argument" in text), None)
            assert misfit is None, f"the bug does not fit the engine: {misfit}"
            return failed
    return None


def by_name(*bugs: Planted) -> dict[str, Planted]:
    """Bugs whose function says what they are; one may be planted into several graphs."""
    return {f"{bug.mutate.__name__} in {bug.graph}": bug for bug in bugs}


def must_be_found(planted: Planted, patch: Patch) -> None:
    """For the tests, which begin near a seed that is known."""
    failed = first_failure(planted, planted.near, patch)
    assert failed is not None, f"not found by {MOST_SEEDS} seeds"
    print(f"seed {failed.seed}: {failed.problem[:160]}")
