"""The threads of a driver: the event loop, and the lanes for what blocks.

One thread takes events from a queue, lets the driver decide and carries the instructions out.  Storage,
commits and split discovery each have a thread of their own.  Nothing is decided here.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.coordinator.driver import JobDriver
from penstock.coordinator.events import Event, Start, Tick
from penstock.coordinator.ports import EventQueue, Failed, Lane, Lanes, Work, Worker
from penstock.core.clock import Clock, mono_ms
from penstock.core.errors import as_error
from penstock.core.log_place import LogPlace, at_job, placed

T = TypeVar("T")
Post = Callable[[Event], None]


class ThreadQueue(EventQueue):
    """Events between threads."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def post(self, event: Event) -> None:
        self._events.put(event)

    def next(self, timeout_s: float | None) -> Event:
        """The next event; a tick if there is none for so long."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return Tick()

    def drain(self) -> Iterator[Event]:
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return


class ThreadLane(Lane):
    """One thread."""

    def __init__(self, name: str, post: Post, job: str) -> None:
        self._pool = ThreadPoolExecutor(1, name, initializer=at_job, initargs=(job,))
        self._post = post

    def submit(self, work: Work, failed: Failed) -> None:
        self._pool.submit(_do, work, failed, self._post)

    def wait_for(self, work: Callable[[], T]) -> T:
        return self._pool.submit(work).result()

    def close(self, wait: bool) -> None:
        self._pool.shutdown(wait=wait)


class ThreadEach(Worker):
    """A thread for each piece of work."""

    def __init__(self, name: str, post: Post) -> None:
        self._name = name
        self._post = post

    def submit(self, work: Work, failed: Failed) -> None:
        target = (work, failed, self._post)
        threading.Thread(target=_do, args=target, daemon=True, name=self._name).start()


def _do(work: Work, failed: Failed, post: Post) -> None:
    try:
        post(work())
    except BaseException as error:
        post(failed(as_error(error)))


def thread_lanes(post: Post, job: str) -> Lanes:
    """Lanes with threads for a job, which post to ``post``."""
    return Lanes(
        ThreadLane("penstock-storage", post, job),
        ThreadLane("penstock-commit", post, job),
        ThreadLane("penstock-discovery", post, job),
        ThreadEach("penstock-request", post),
    )


class EventLoop:
    """Drives one driver on a thread of its own, until its job has ended."""

    def __init__(self, driver: JobDriver, events: ThreadQueue, clock: Clock) -> None:
        self._driver = driver
        self._events = events
        self._clock = clock

    def start(self) -> None:
        """Begin; everything happens on other threads."""
        self._events.post(Start())
        threading.Thread(target=self.run, daemon=True, name="penstock-event-loop").start()

    def run(self) -> None:
        """Whatever is raised here ends the job, and clients that wait for it hear why."""
        driver = self._driver
        with placed(LogPlace(driver.job_name, 0)):
            while not driver.has_ended:
                try:
                    for instruction in driver.decide(self._next_event()):
                        driver.carry_out(instruction)
                except BaseException as error:
                    driver.fail(error)

    def _next_event(self) -> Event:
        wake = self._driver.next_wake()
        if wake is None:
            return self._events.next(None)
        return self._events.next(max(0.0, (wake - mono_ms(self._clock)) / 1000))
