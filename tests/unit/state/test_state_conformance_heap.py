"""The heap backend passes the suite for state backends."""

from __future__ import annotations

from pathlib import Path

from penstock.state.backend import StateBackend
from penstock.state.heap.backend import HeapBackend
from penstock.testing.conformance import StateConformance


class TestHeapState(StateConformance):
    def make(self, directory: Path) -> StateBackend:
        return HeapBackend()
