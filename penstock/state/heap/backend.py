"""The heap backend: the smallest one that the contract allows."""

from __future__ import annotations

from penstock.state.backend import EntryShape, StateBackend, Table, TimerQueue
from penstock.state.heap.table import HeapTable
from penstock.state.keyed import KeyedState
from penstock.state.timers import IndexedTimerQueue


class HeapBackend(StateBackend):
    """Tables in memory, gone with the process."""

    def new_table(self, name: str, shape: EntryShape) -> Table:
        return HeapTable(name, shape)

    def timer_queue(self, table: Table) -> TimerQueue:
        return IndexedTimerQueue(table)

    def close(self) -> None:
        pass


def heap_state() -> KeyedState:
    """Empty keyed state in memory."""
    return KeyedState(HeapBackend())
