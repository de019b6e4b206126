"""Timers: identity, order, and what happens when they are changed while they fire."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.backend import EntryShape
from penstock.state.heap.backend import HeapTable, heap_state
from penstock.state.timers import IndexedTimerQueue

Timer = tuple[int, Any, Any]


def new_queue() -> tuple[IndexedTimerQueue, HeapTable]:
    table = HeapTable("t", EntryShape.TIMER)
    return IndexedTimerQueue(table), table


def fire(queue: IndexedTimerQueue, until: int) -> list[Timer]:
    fired: list[Timer] = []
    queue.fire_until(until, lambda *timer: fired.append(timer))
    return fired


def test_registering_twice_fires_once() -> None:
    queue, _ = new_queue()
    for _ in range(2):
        queue.register(5, "k", None)
    queue.register(5, "k", "w")
    queue.register(5, "l", None)
    assert sorted(fire(queue, 5), key=str) == [(5, "k", "w"), (5, "k", None), (5, "l", None)]
    assert fire(queue, 100) == []


def test_deleting() -> None:
    queue, table = new_queue()
    queue.delete(1, "k", None)
    queue.register(1, "k", None)
    queue.delete(1, "k", None)
    queue.register(2, "k", None)
    queue.register(2, "l", None)
    queue.delete(2, "k", None)
    queue.register(2, "k", None)
    assert sorted(fire(queue, 2)) == [(2, "k", None), (2, "l", None)]
    assert len(table) == 0


def test_those_registered_while_firing_fire_in_the_same_round_if_due() -> None:
    queue, _ = new_queue()
    fired = []

    def on_timer(time: int, key: Any, namespace: Any) -> None:
        fired.append(time)
        if time in (2, 5):
            queue.register(time + 1, key, namespace)
            queue.register(time + 100, key, namespace)
            queue.register(1, key, namespace)
            queue.delete(4, "other", None)

    queue.register(2, "k", None)
    queue.register(4, "other", None)
    queue.register(5, "k", None)
    queue.fire_until(50, on_timer)
    assert fired == [2, 1, 3, 5, 1, 6]
    assert queue.next_time() == 102


def test_a_timer_may_register_itself_again_for_later() -> None:
    queue, _ = new_queue()
    fired = []

    def on_timer(time: int, key: Any, namespace: Any) -> None:
        fired.append(time)
        queue.register(time + 10, key, namespace)

    queue.register(0, "k", None)
    queue.fire_until(35, on_timer)
    assert fired == [0, 10, 20, 30]
    assert queue.next_time() == 40


def test_many_deletions_keep_the_index_small_also_during_a_snapshot() -> None:
    queue, table = new_queue()
    frozen = table.freeze()
    for time in range(5000):
        queue.register(time, "k", None)
        queue.delete(time - 1, "k", None)
    assert len(queue._heap) < 2 * 1024 + 2
    assert fire(queue, 10_000) == [(4999, "k", None)]
    frozen.release()
    assert len(table) == 0


def test_a_restored_table_is_indexed() -> None:
    _, table = new_queue()
    for time in (7, 3, 5):
        table.put((time, "k", None), True)
    queue = IndexedTimerQueue(table)
    assert queue.next_time() == 3
    queue.register(4, "k", None)
    assert [time for time, _, _ in fire(queue, 6)] == [3, 4, 5]


def test_timers_of_a_backend_are_there_after_a_restore_and_only_then() -> None:
    keyed = heap_state()
    assert not keyed.has_timers
    keyed.table("_timers/event", EntryShape.TIMER).put((4, "k", None), True)
    assert keyed.has_timers
    assert keyed.timers.event.next_time() == 4 and keyed.timers.processing.next_time() is None


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete", "fire", "freeze", "release"]),
        st.integers(0, 9),
        st.sampled_from("ab"),
    ),
    max_size=60,
)


@settings(max_examples=80, deadline=None)
@given(OPERATIONS)
def test_against_a_set(operations: list[tuple[str, int, str]]) -> None:
    queue, table = new_queue()
    model: set[Timer] = set()
    frozen: list[tuple[Any, set[Timer]]] = []
    for what, time, key in operations:
        timer = (time, key, None)
        if what == "register":
            queue.register(*timer)
            model.add(timer)
        elif what == "delete":
            queue.delete(*timer)
            model.discard(timer)
        elif what == "freeze":
            frozen.append((table.freeze(), set(model)))
        elif what == "release" and frozen:
            frozen.pop(time % len(frozen))[0].release()
        elif what == "fire":
            fired = fire(queue, time)
            due = {timer for timer in model if timer[0] <= time}
            assert len(fired) == len(set(fired)) and set(fired) == due
            assert [at for at, _, _ in fired] == sorted(at for at, _, _ in fired)
            model -= due
        for view, expected in frozen:
            assert {entry for entry, _ in view.items()} == expected
        assert set(table.entries()) == model
    bound = queue.next_time()
    assert not model or (bound is not None and bound <= min(model)[0])
