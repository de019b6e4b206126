"""RocksDB passes the suite for state backends, with caches of every size."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.state.backend import StateBackend
from penstock.state.rocks import large_collections
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings
from penstock.state.rocks.forecast import Forecast
from penstock.testing.conformance import StateConformance
from penstock.testing.operator_run import KEY_GROUPS


class TestRocksState(StateConformance):
    histories = 25
    entries = 20_000

    @pytest.fixture(autouse=True)
    def _disk(self, quick_disk: Path) -> None:
        self.disk = str(quick_disk)

    def make(self, directory: Path) -> StateBackend:
        settings = RocksSettings(self.disk, memory_bytes=8 << 20, cache_entries=self.entries)
        return RocksBackend(settings, KEY_GROUPS)


class TestRocksStateWithHardlyAnyCache(TestRocksState):
    """Everything that is expected is read ahead, as far as there is room."""

    entries = 4

    @pytest.fixture(autouse=True)
    def _read_ahead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Forecast, "says", lambda *_: True)


class TestRocksStateInRowsOfItsOwn(TestRocksState):
    """Every map and list with two elements has rows of its own."""

    entries = 4

    @pytest.fixture(autouse=True)
    def _large_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(large_collections, "LARGE_ABOVE", 1)
