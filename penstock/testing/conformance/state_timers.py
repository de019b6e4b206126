"""What timers promise, whatever keeps them: part of the state suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.state.backend import TimerQueue
from penstock.state.keyed import KeyedState
from penstock.testing.conformance.state_base import StateBase, copied
from penstock.testing.operator_run import restore_keyed, write_frozen

FOREVER = 10**15


def fired(queue: TimerQueue, until: int = FOREVER) -> list[tuple[int, Any, Any]]:
    """The timers that fire, in order."""
    found: list[tuple[int, Any, Any]] = []
    queue.fire_until(until, lambda time, key, namespace: found.append((time, key, namespace)))
    return found


class TimerTests(StateBase):
    """Timers are state with an order: registered, deleted, fired once, frozen and restored."""

    def test_timers_fire_in_order_and_once(self, tmp_path: Path) -> None:
        """By time, across keys and namespaces, up to and including the time asked for."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            for time in (30, -5, 10, 20, 0):
                queue.register(time, f"k{time % 3}", None)
            assert queue.next_time() == -5
            assert [time for time, _, _ in fired(queue, 10)] == [-5, 0, 10]
            assert [time for time, _, _ in fired(queue, 25)] == [20]
            assert [time for time, _, _ in fired(queue)] == [30]
            assert fired(queue) == [] and queue.next_time() is None

    def test_a_timer_is_its_time_key_and_namespace(self, tmp_path: Path) -> None:
        """Registering the same again changes nothing; another key or namespace is another timer."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            wanted = [(5, "a", None), (5, "b", None), (5, "a", "w"), (5, ("a",), (0, 5)), (6, "a", None)]
            for timer in wanted * 3:
                queue.register(*timer)
            assert sorted(fired(queue), key=repr) == sorted(wanted, key=repr)
            queue.register(*wanted[0])
            assert fired(queue) == [wanted[0]], "one that has fired may be registered again"

    def test_deleted_timers_do_not_fire(self, tmp_path: Path) -> None:
        """Nor disturb others; deleting what is not there is fine; one may come back."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            for time in (1, 2, 3):
                queue.register(time, "k", None)
            queue.delete(2, "k", None)
            queue.delete(2, "k", None)
            queue.delete(1, "other", None)
            queue.delete(3, "k", "w")
            queue.register(2, "k", None)
            queue.delete(1, "k", None)
            assert fired(queue) == [(2, "k", None), (3, "k", None)]

    def test_many_deleted_timers(self, tmp_path: Path) -> None:
        """Sessions move their timer with every record: thousands of deletions, one timer left."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            for time in range(5000):
                queue.register(time, "k", None)
                queue.delete(time - 1, "k", None)
            assert fired(queue) == [(4999, "k", None)]

    def test_timers_registered_and_deleted_while_firing(self, tmp_path: Path) -> None:
        """Those that are due fire in the same round; those deleted do not."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            queue.register(1, "k", None)
            queue.register(7, "gone", None)
            seen = []

            def fire(time: int, key: Any, namespace: Any) -> None:
                seen.append(time)
                if time < 4:
                    queue.register(time + 1, key, namespace)
                    queue.register(100 + time, key, namespace)
                queue.delete(7, "gone", None)

            queue.fire_until(10, fire)
            assert seen == [1, 2, 3, 4]
            assert [time for time, _, _ in fired(queue)] == [101, 102, 103]

    def test_due_timers_are_given_one_by_one(self, tmp_path: Path) -> None:
        """Each is gone when it is given, and says its time until the next; the rest waits."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            for time in (3, 1, 2, 9):
                queue.register(time, "k", None)
            seen = []
            for time, key, namespace in queue.due(5):
                seen.append((time, queue.firing))
                assert (time, key, namespace) not in queue.table
            assert seen == [(1, 1), (2, 2), (3, 3)] and queue.firing is None
            given = queue.due(10)
            assert next(given) == (9, "k", None) and len(queue.table) == 0
            assert list(given) == []

    def test_each_fires_once(self, tmp_path: Path) -> None:
        """At the end of BATCH input: those that are there, in order, but none that firing registers."""
        with self.backends(tmp_path) as new:
            queue = new().timers.processing
            for time in (20, 10, 30, 40):
                queue.register(time, "k", None)
            seen: list[tuple[int, int | None]] = []

            def fire(time: int, key: Any, namespace: Any) -> None:
                seen.append((time, queue.firing))
                queue.register(time + 100, key, namespace)
                queue.delete(30, "k", None)

            queue.fire_each_once(fire)
            assert seen == [(10, 10), (20, 20), (40, 40)] and queue.firing is None
            assert [time for time, _, _ in fired(queue)] == [110, 120, 140]

    def test_the_order_is_taken_from_the_table(self, tmp_path: Path) -> None:
        """After a restore, and when the table was cleared."""
        with self.backends(tmp_path) as new:
            queue = new().timers.event
            for time in (2, 1):
                queue.register(time, "k", None)
            queue.table.clear()
            queue.rebuild()
            assert queue.next_time() is None and fired(queue) == []
            queue.register(7, "k", None)
            queue.table.put((6, "k", None), True)
            queue.rebuild()
            assert queue.next_time() == 6
            assert fired(queue) == [(6, "k", None), (7, "k", None)]

    def test_the_two_times_are_apart(self, tmp_path: Path) -> None:
        """Event time and processing time have timers of their own."""
        with self.backends(tmp_path) as new:
            timers = new().timers
            timers.event.register(1, "k", None)
            timers.processing.register(2, "k", None)
            assert fired(timers.event) == [(1, "k", None)]
            assert fired(timers.processing) == [(2, "k", None)]

    def test_timers_are_restored(self, tmp_path: Path) -> None:
        """With their order; those fired or deleted before stay away."""
        with self.backends(tmp_path) as new:
            state = new()
            _register(state)
            first = copied(state, new)
            assert first.has_timers
            assert fired(first.timers.processing) == [(7, "p", ("w", 1))]
            again = copied(first, new)
            assert fired(again.timers.event) == [(3, "c", None), (5, "a", None)]
            assert fired(again.timers.processing) == []

    def test_frozen_timers_stay_as_they_were(self, tmp_path: Path) -> None:
        """Firing, deleting and registering after a freeze is not in that snapshot."""
        with self.backends(tmp_path) as new:
            state = new()
            _register(state)
            frozen = state.freeze()
            queue = state.timers.event
            assert fired(queue, 4) == [(3, "c", None)]
            queue.delete(5, "a", None)
            queue.register(9, "later", None)
            data = write_frozen(frozen)
            for part in frozen:
                part.release()
            other = new()
            restore_keyed(other, data)
            assert fired(other.timers.event) == [(3, "c", None), (5, "a", None)]
            assert fired(queue) == [(9, "later", None)]


def _register(state: KeyedState) -> None:
    for time, key in ((5, "a"), (3, "c"), (4, "gone"), (1, "fired")):
        state.timers.event.register(time, key, None)
    state.timers.event.delete(4, "gone", None)
    assert fired(state.timers.event, 1) == [(1, "fired", None)]
    state.timers.processing.register(7, "p", ("w", 1))
