"""The heap backend passes the suite for state backends."""

from __future__ import annotations

from pathlib import Path

from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.testing.conformance import StateConformance


class TestHeapState(StateConformance):
    def make(self, directory: Path) -> KeyedState:
        return heap_state()
