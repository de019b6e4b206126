"""Planted bugs of windows that take batches as a whole: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sim_planted import Patch, Planted, must_be_found

from penstock.operators.window.asked_once import AskedOnce, Asking
from penstock.operators.window.column_windows import ColumnWindows, RecordsAsRows
from penstock.operators.window.counted import CountedWindows
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.pane_sharing import SharedPanes
from penstock.operators.window.record_columns import RecordColumns
from penstock.operators.window.window_state import ListContents
from penstock.state.backend import Table
from penstock.state.chunks import FrozenChunks


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


def forget_columns_that_are_stored(patch: Patch) -> None:
    """A restore leaves out the records that were columns."""
    patch.setattr(RecordColumns, "restore", lambda self, batches: list(batches) and None)


def leave_columns_where_they_are(patch: Patch) -> None:
    """What becomes rows stays columns, too."""
    original = RecordsAsRows.move

    def move(self: Any, window: Any) -> None:
        held = list(self.store.of(window))
        original(self, window)
        if held:
            self.store._windows[window] = held

    patch.setattr(RecordsAsRows, "move", move)


def keep_a_window_in_both(patch: Patch) -> None:
    """Rows of a window that a snapshot brings are forgotten, and columns lie beside them."""
    original = ColumnWindows.__init__
    patch.setattr(ColumnWindows, "__init__", lambda self, *args: original(self, *args[:-1], set()))


def write_what_comes_later(patch: Patch) -> None:
    """A snapshot has records that came while it was written, and will come again."""
    original = RecordColumns.freeze

    class Later(FrozenChunks):
        def __init__(self, store: Any, frozen: Any) -> None:
            super().__init__(store.name, (), 0, [])
            self._store = store

        def record_batches(self) -> Any:
            return original(self._store).record_batches()

    patch.setattr(RecordColumns, "freeze", lambda self: Later(self, original(self)))


def forget_what_has_fired(patch: Patch) -> None:
    """A window that has fired and waits for late records fires again behind a restore."""
    original = RecordColumns.add
    patch.setattr(RecordColumns, "add", lambda self, *args: original(self, *args[:3]))


def drop_what_comes_after_the_end(patch: Patch) -> None:
    """Elements of windows that have ended are dropped, whatever lateness is allowed."""
    patch.setattr(AskedOnce, "_first_ends", lambda self, batch: None)


def put_late_ones_behind(patch: Patch) -> None:
    """Elements that come after the end of a window are put behind the rest of their batch in all others."""
    original = AskedOnce.process

    def process(self: Any, batch: Any, keys: Any) -> None:
        ends, watermark = self._first_ends(batch), self._timers.watermark
        order = np.argsort(ends <= watermark, kind="stable")
        every = [key for key, _ in zip(keys, range(len(batch)), strict=False)]
        original(self, batch.take(order), [every[place] for place in order.tolist()])

    patch.setattr(AskedOnce, "process", process)


def forget_what_panes_have_shown(patch: Patch) -> None:
    """Behind a restore, windows of shared panes that had fired do not fire for records that come again."""
    patch.setattr(SharedPanes, "_look_back", lambda self: None)


def show_the_last_batch_only(patch: Patch) -> None:
    """A count window is evaluated without what earlier batches brought."""
    patch.setattr(CountedWindows, "_taken", lambda self, entry, some: some)


def count_each_batch_anew(patch: Patch) -> None:
    """How many elements a count window has is forgotten behind a batch."""
    original = CountedWindows._add

    def add(self: Any, key: Any, *args: Any) -> None:
        original(self, key, *args)
        for entry in self._counts.entries():
            if entry[0] == key:
                self._counts.remove(entry)

    patch.setattr(CountedWindows, "_add", add)


MUTATIONS: dict[str, Planted] = {
    "ask a trigger once a key": Planted(ask_once_a_key, "firings"),
    "ask a trigger once a key, with an evictor": Planted(ask_once_a_key, "evictor"),
    "add to what is written": Planted(add_to_what_is_written, "firings"),
    "add to what is written, with an evictor": Planted(add_to_what_is_written, "evictor"),
    "give away what stays": Planted(give_away_what_stays, "early_results"),
    "forget what has fired": Planted(forget_what_has_fired, "waiting_columns"),
    "drop what comes after the end": Planted(drop_what_comes_after_the_end, "late_firings"),
    "put late ones behind": Planted(put_late_ones_behind, "late_in_order"),
    "forget what panes have shown": Planted(forget_what_panes_have_shown, "late_shared_panes"),
    "show the last batch only": Planted(show_the_last_batch_only, "full_windows"),
    "count each batch anew": Planted(count_each_batch_anew, "full_windows"),
    "forget columns that are stored": Planted(forget_columns_that_are_stored, "kept_columns"),
    "leave columns where they are": Planted(leave_columns_where_they_are, "kept_columns"),
    "keep a window in both": Planted(keep_a_window_in_both, "kept_columns"),
    "write what comes later": Planted(write_what_comes_later, "kept_columns"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
