"""The contract of state backends is small, and the suite calls all of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.state.backend import FileBackend, FrozenTable, StateBackend, Table, TimerQueue
from penstock.state.timers import IndexedTimerQueue
from penstock.testing.conformance import StateConformance
from penstock.testing.operator_run import KEY_GROUPS
from tests.log_backend import LogBackend, LogTable, LogView

CONTRACT: dict[type, type] = {
    Table: LogTable,
    FrozenTable: LogView,
    TimerQueue: IndexedTimerQueue,
    StateBackend: LogBackend,
    FileBackend: LogBackend,
}
"""Each part of the contract, and what stands for it here."""
MOST_METHODS = 7


def methods(part: type) -> set[str]:
    """What a part of the contract declares itself, with a body or without."""
    found = {name for name, member in vars(part).items() if inspect.isfunction(member)}
    return {name for name in found if not name.startswith("_") or name in ("__contains__", "__len__")}


class Calls:
    """Which methods were called from outside of all others: what a backend calls itself does not count."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._depth = 0

    def noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def noted(*arguments: Any, **named: Any) -> Any:
            if self._depth == 0:
                self.names.add(name)
            self._depth += 1
            try:
                return method(*arguments, **named)
            finally:
                self._depth -= 1

        return noted


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    made = Calls()
    for part, kind in CONTRACT.items():
        for name in methods(part):
            noted = made.noting(f"{part.__name__}.{name}", getattr(kind, name))
            monkeypatch.setattr(kind, name, noted)
    yield made


class Suite(StateConformance):
    histories = 5

    def __init__(self, disk: Path) -> None:
        self._disk = disk

    def make(self, directory: Path) -> StateBackend:
        return LogBackend(self._disk, KEY_GROUPS)


def test_the_suite_calls_every_method(calls: Calls, tmp_path: Path, quick_disk: Path) -> None:
    for name in dir(Suite):
        if name.startswith("test_"):
            getattr(Suite(quick_disk), name)(tmp_path / name)
    wanted = {f"{part.__name__}.{name}" for part in CONTRACT for name in methods(part)}
    assert wanted >= {"Table.get", "Table.any_entry", "TimerQueue.fire_each_once", "FileBackend.checkpoint"}
    assert calls.names == wanted, f"never called: {sorted(wanted - calls.names)}"


@pytest.mark.parametrize("part", CONTRACT)
def test_a_backend_has_few_methods_to_write(part: Any) -> None:
    assert 0 < len(part.__abstractmethods__) <= MOST_METHODS
    for name in methods(part):
        assert inspect.getdoc(getattr(part, name)) or name == "__len__", f"{part.__name__}.{name}"


def test_a_backend_that_lacks_a_method_cannot_be_made() -> None:
    class Forgetful(StateBackend):
        def new_table(self, name: str, shape: Any) -> Any: ...

    with pytest.raises(TypeError, match=r"abstract.*close"):
        Forgetful()  # type: ignore[abstract]
