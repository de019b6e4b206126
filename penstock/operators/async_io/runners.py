"""Where the user's coroutines run.

On a cluster each operator has an event loop in a thread of its own: sockets are served while the task's
thread sleeps or works.  Where time is virtual (tests, the simulator) the same loop is stepped on the
task's thread, and its clock is the engine's: runs are repeatable, and a delay of a minute takes no time.
There, coroutines may wait for timers and for each other, but not for real sockets or threads.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from penstock.core.clock import Clock

Call = Coroutine[Any, Any, None]
_INSTANT_S = 1e-4
_GOODBYE_S = 1.0
"""How long cancelled requests may take to clean up before their thread is left behind."""


class Runner(Protocol):
    """Runs coroutines until they end."""

    def start(self, calls: Sequence[Call]) -> None:
        """Begin with these as well."""
        ...

    def turn(self) -> None:
        """Let coroutines run that can, if nobody else does."""
        ...

    def next_due_ms(self) -> int | None:
        """Processing time at which a turn is wanted, if at all."""
        ...

    def close(self) -> None:
        """Cancel what is under way."""
        ...


class ThreadRunner:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=f"penstock-async {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        _wind_up(self._loop)

    def start(self, calls: Sequence[Call]) -> None:
        self._loop.call_soon_threadsafe(_spawn, self._loop, self._tasks, calls)

    def turn(self) -> None:
        """The thread does that."""

    def next_due_ms(self) -> int | None:
        return None

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_GOODBYE_S)


class SteppedRunner:
    """An event loop that runs only when it is given a turn, in the time of ``clock``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = _VirtualLoop(clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, calls: Sequence[Call]) -> None:
        _spawn(self._loop, self._tasks, calls)
        self.turn()

    def turn(self) -> None:
        self._loop.run_until_stuck()

    def next_due_ms(self) -> int | None:
        due = self._loop.due
        if due is None:
            return None
        return self._clock.now_ms() + max(0, math.ceil((due - self._clock.monotonic() - _INSTANT_S) * 1000))

    def close(self) -> None:
        if not self._loop.is_closed():
            _wind_up(self._loop)


class _NoWait(selectors.DefaultSelector):
    """Never sleeps: instead of waiting for a timer it stops the loop and says how long that would be."""

    loop: _VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > _INSTANT_S:
            self.loop.stuck(timeout)
        elif timeout > 0:
            self.loop.hurry(timeout)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on somebody else's clock."""

    def __init__(self, clock: Clock) -> None:
        selector = _NoWait()
        selector.loop = self
        self._virtual = clock
        self._hurried = 0.0
        self.due: float | None = None
        """When the earliest timer is due."""
        super().__init__(selector)
        self.set_exception_handler(_unless_vanished)

    def time(self) -> float:
        return max(self._virtual.monotonic(), self._hurried)

    def hurry(self, timeout: float) -> None:
        """A timer is due but for the rounding of floating point: it is due."""
        self._hurried = self.time() + 2 * timeout

    def stuck(self, timeout: float | None) -> None:
        """Nothing can run before ``timeout`` seconds have passed."""
        self.due = None if timeout is None else self.time() + timeout
        self.stop()

    def run_until_stuck(self) -> None:
        """Run until all coroutines wait for something."""
        self.run_forever()


def _unless_vanished(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A simulated process vanishes with its requests under way: nothing to complain about."""
    if "was destroyed" not in context["message"]:
        loop.default_exception_handler(context)


def _spawn(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[None]], calls: Sequence[Call]) -> None:
    for call in calls:
        task = loop.create_task(call)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left, also what user code has begun, let it clean up, close the loop."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
