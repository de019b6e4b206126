"""``DataStream.take``: a few records of a stream, by a job that always ends."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from penstock.common.job_client import JobClient
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.durations import Duration, Time, to_millis
from penstock.core.errors import ConfigError

_log = log_of(__name__)
T = TypeVar("T")
Seconds = float | str | dt.timedelta | Duration | Time
_MOST = 10_000_000
"""Records that are held in the memory of the driver at most."""
_LONGEST_S = 86_400.0
_POLL_S = 0.05
_LEAVE_S = 60.0
"""How long the end of the job is waited for."""


def checked_count(n: object) -> int:
    """How many records are wanted."""
    if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= _MOST:
        raise ConfigError(
            f"take() wants a number of records from 0 to {_MOST:,}, not {n!r:.80}; for all of a stream that "
            "ends there is execute_and_collect(), for more than memory holds sink_to()"
        )
    return n


def checked_timeout(timeout: object) -> float:
    """How long to wait for them, in seconds."""
    bare = isinstance(timeout, str) and timeout.strip().isdecimal()  # elsewhere these are milliseconds
    if isinstance(timeout, str | dt.timedelta | Duration | Time) and not bare:
        seconds = to_millis(timeout) / 1000
    elif isinstance(timeout, int | float) and not isinstance(timeout, bool):
        seconds = float(timeout)
    else:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise ConfigError(
            f"the timeout of take() is in seconds, more than 0 and at most a day, not {timeout!r:.80}; write "
            "10, '10 s' or a timedelta. It always ends, so there is no waiting for ever"
        )
    return seconds


def taken(
    records: SimpleQueue[T], client: JobClient, n: int, seconds: float, clock: Clock | None = None
) -> list[T]:
    """The first ``n``, or those that have come when the time is up or the job has ended; it is over then."""
    try:
        found = _first(records, client, n, seconds, clock or SystemClock())
    except Exception:
        raise  # the job has failed: it has ended by itself
    except BaseException:
        _leave(client, client.handle.interrupt)
        raise
    _leave(client, client.handle.cancel)
    return found


def _first(records: SimpleQueue[T], client: JobClient, n: int, seconds: float, clock: Clock) -> list[T]:
    until = clock.monotonic() + seconds
    result = client.get_job_execution_result()
    found: list[T] = []
    while len(found) < n:
        over = result.done()  # asked first: what came before the end is in the queue
        left = until - clock.monotonic()
        if left <= 0:
            found += [records.get_nowait() for _ in range(min(records.qsize(), n - len(found)))]
            return found
        try:
            found.append(records.get(timeout=0 if over else min(_POLL_S, left)))
        except Empty:
            if over:
                result.result()
                return found
    return found


def _leave(client: JobClient, end: Callable[[], Future[None]]) -> None:
    """Have the job ended, and wait for that: but not for ever."""
    if client.get_job_execution_result().done():
        return
    try:
        end().result(_LEAVE_S)
    except TimeoutError:
        _log.warning("take() has asked its job to end; after %g s it has not, and is left to it", _LEAVE_S)
