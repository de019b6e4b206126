"""Planted bugs of windows that take batches as a whole: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

from penstock.operators.window.asked_once import Asking
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ListContents
from penstock.state.backend import Table


def ask_once_a_key(patch: Patch) -> None:
    """The trigger is asked for the first window of a key only."""

    class OneSet(dict[Any, Any]):
        def get(self, window: Any, default: Any = None) -> Any:
            return next(iter(self.values()), None)

    original = Asking.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        self._asked = OneSet()

    patch.setattr(Asking, "__init__", init)


def add_to_what_is_written(patch: Patch) -> None:
    """A list that a snapshot is reading is appended to."""

    class Peeking:
        def __init__(self, table: Table) -> None:
            self.own, self.put = table.peek, table.put

    original = ListContents.add_many

    def add_many(self: Any, *args: Any) -> None:
        table, self._table = self._table, Peeking(self._table)
        original(self, *args)
        self._table = table

    patch.setattr(ListContents, "add_many", add_many)


def give_away_what_stays(patch: Patch) -> None:
    """Each firing is taken for the window's last."""
    original = WindowOperator._evaluate
    patch.setattr(WindowOperator, "_evaluate", lambda self, *args: original(self, *args[:-1], True))


MUTATIONS: dict[str, Planted] = {
    "ask a trigger once a key": Planted(ask_once_a_key, "firings"),
    "ask a trigger once a key, with an evictor": Planted(ask_once_a_key, "evictor"),
    "add to what is written": Planted(add_to_what_is_written, "firings"),
    "add to what is written, with an evictor": Planted(add_to_what_is_written, "evictor"),
    "give away what stays": Planted(give_away_what_stays, "early_results"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
