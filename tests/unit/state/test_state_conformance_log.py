"""A backend that knows nothing but the contract passes the suite for state backends."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from penstock.state.backend import StateBackend
from penstock.testing.conformance import StateConformance
from penstock.testing.operator_run import KEY_GROUPS
from tests import log_backend
from tests.log_backend import LogBackend


class TestLogState(StateConformance):
    histories = 25

    @pytest.fixture(autouse=True)
    def _disk(self, quick_disk: Path) -> None:
        self.disk = quick_disk

    def make(self, directory: Path) -> StateBackend:
        return LogBackend(self.disk, KEY_GROUPS)


class TestLogStateInBlocks(TestLogState):
    """Its checkpoints are written in the blocks that every backend reads."""

    def make(self, directory: Path) -> StateBackend:
        return LogBackend(self.disk, KEY_GROUPS, shares_files=False)


def test_it_reads_one_file_of_the_state_package() -> None:
    """What it imports from there: the contract, the queue and the schemas that the contract names."""
    tree = ast.parse(Path(log_backend.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in modules if name.startswith("penstock.") and ".core." not in name} == {
        "penstock.state.backend",
        "penstock.state.schema",
        "penstock.state.timers",
    }
