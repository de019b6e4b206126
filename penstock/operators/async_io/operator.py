"""The step that asks another system about each record.

Course of a record: it becomes a request in the queue; while fewer than ``capacity`` requests are under way
it is issued; its answer comes back from the runner; when the queue lets it, its results are emitted with
the record's time.  The task reads no more records than may be issued; a step before this one in the chain
can still make more of them, and those wait.

A snapshot holds the records whose results were not emitted, in order; on restore they are asked about
again, before anything new.  So each record's results come out exactly once, but the other system may be
asked about it more than once.

The function runs on another thread and may change what it gets: each attempt gets a copy, and the record
stays as it came in, for snapshots and for the next attempt.  Results are copied, too, as the function may
go on with them.  Object reuse does not change that: these are threads, not steps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from inspect import isasyncgen, isawaitable, iscoroutine
from itertools import repeat
from types import CoroutineType
from typing import Any

from penstock.core.batch import Batch
from penstock.core.copying import copied
from penstock.core.errors import ConfigError, as_error
from penstock.core.ids import MIN_TIME, Epoch, EventTime
from penstock.operators.async_io.functions import AsyncFunctionDescriptor
from penstock.operators.async_io.queues import Mark, OrderedQueue, Request, RequestQueue, UnorderedQueue
from penstock.operators.async_io.runners import Runner, SteppedRunner, ThreadRunner
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import MOST_ROWS, pieces
from penstock.operators.user_function import FunctionOperator

STATE_NAME = "async-requests"


class AsyncWaitOperator(FunctionOperator):
    """Runs an :class:`~penstock.operators.async_io.functions.AsyncFunction`."""

    _runner: Runner

    def __init__(self, descriptor: AsyncFunctionDescriptor) -> None:
        super().__init__(descriptor.async_function, keyed=False)
        self._capacity = descriptor.capacity
        self._timeout_s = descriptor.timeout / 1000 if descriptor.timeout else None
        self._retry = descriptor.async_retry_strategy
        ordered = descriptor.output_mode is AsyncFunctionDescriptor.OutputMode.ORDERED
        self._queue: RequestQueue = OrderedQueue() if ordered else UnorderedQueue()
        self._waiting: deque[Request] = deque()
        self._issued = 0
        """Requests that were issued and not emitted: what ``capacity`` bounds."""
        self._answers: deque[Request] = deque()
        """Filled by the runner's thread, emptied by the task's."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        predicate = self._retry.get_retry_predicate()
        self._again_for_result = predicate.result_predicate()
        self._again_for_error = predicate.exception_predicate()
        virtual = ctx.wake is None
        self._runner = SteppedRunner(ctx.clock) if virtual else ThreadRunner(ctx.info.operator_name)
        if ctx.runtime.in_order:
            self._queue = OrderedQueue()
        self._pending = ctx.operator_state.list_state(STATE_NAME)
        self._take(Request(value, time) for value, time in self._pending.get())

    def close(self) -> None:
        if hasattr(self, "_runner"):
            self._runner.close()
        super().close()

    # --- in ---------------------------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        times: Iterable[int] = repeat(MIN_TIME) if batch.times is None else batch.times.tolist()
        self._take(map(Request, batch.to_rows(), times))

    def _take(self, requests: Iterable[Request]) -> None:
        add, wait = self._queue.add, self._waiting.append
        for request in requests:
            add(request)
            wait(request)
        self._issue()

    def on_watermark(self, time: EventTime) -> None:
        self._queue.add(Mark(watermark=time))
        self._emit()

    def on_idle(self, is_idle: bool) -> None:
        self._queue.add(Mark(idle=is_idle))
        self._emit()

    def room(self) -> int | None:
        return self._capacity - self._issued - len(self._waiting)

    def is_drained(self) -> bool:
        return self._queue.is_empty()

    def _issue(self) -> None:
        """Ask about as many waiting records as capacity allows."""
        calls = []
        while self._waiting and self._issued < self._capacity:
            request = self._waiting.popleft()
            self._issued += 1
            calls.append(self._answer(request))
        if calls:
            self._runner.start(calls)

    # --- on the runner ----------------------------------------------------------------------

    async def _answer(self, request: Request) -> None:
        """One request from the first attempt to the last; runs on the event loop."""
        try:
            request.result = copied(_checked(await self._ask_in_time(request.value)))
        except asyncio.CancelledError as cancelled:
            if _is_cancelled():
                raise
            request.error = cancelled
        except (Exception, SystemExit) as error:
            request.error = as_error(error)
        self._answers.append(request)
        # After the append: if there was one before, its wake-up will find this one as well.
        if self.ctx.wake is not None and len(self._answers) == 1:
            self.ctx.wake()

    async def _ask_in_time(self, value: Any) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._ask(value)
        except TimeoutError:
            if not limit.expired():
                raise
        return self._user.timeout(copied(value))

    async def _ask(self, value: Any) -> Any:
        attempt = 1
        while True:
            try:
                result = await self._begun(self._user.async_invoke(copied(value)))
                again = self._again_for_result
                if again is None or not self._retry.can_retry(attempt) or not again(_checked(result)):
                    return result
            except Exception as error:
                retry = self._again_for_error
                if retry is None or not self._retry.can_retry(attempt) or not retry(error):
                    raise
            await asyncio.sleep(self._retry.get_backoff_time_millis(attempt) / 1000)
            attempt += 1

    def _begun(self, asked: Any) -> Any:
        if type(asked) is CoroutineType or isawaitable(asked):
            return asked
        yields = isasyncgen(asked)
        raise ConfigError(
            f"async_invoke of {type(self._user).__name__} {'yields' if yields else 'is no coroutine'}: write "
            "it with 'async def', and let it return a list of its results"
        )

    # --- out --------------------------------------------------------------------------------

    def next_processing_time(self) -> int | None:
        return self.ctx.clock.now_ms() if self._answers else self._runner.next_due_ms()

    def on_processing_time(self, now_ms: int) -> None:
        self._runner.turn()
        self._emit()

    def _emit(self) -> None:
        self.work(self._emissions())

    def _emissions(self) -> Iterator[None]:
        """Send on what may go out, and issue what may be issued now."""
        answers = self._answers
        while answers:
            request = answers.popleft()
            if request.error is not None:
                self.blame(request.value)
                raise request.error
            self._queue.answered(request)
        rows: list[Any] = []
        times: list[int] = []
        for item in self._queue.take():
            if isinstance(item, Request):
                self._issued -= 1
                rows.extend(item.result)
                times.extend(repeat(item.time, len(item.result)))
                if len(rows) >= MOST_ROWS:
                    yield from self._send(rows, times)
                    rows, times = [], []
            else:
                yield from self._send(rows, times)
                rows, times = [], []
                self._pass_on(item)
        yield from self._send(rows, times)
        self._issue()

    def _send(self, rows: list[Any], times: list[int]) -> Iterator[None]:
        if rows:
            batch = Batch.of_rows(rows, None if max(times) == MIN_TIME else times)
            for piece in pieces(batch, self.ctx):
                self.ctx.out.emit(piece)
                yield

    def _pass_on(self, mark: Mark) -> None:
        if mark.watermark is not None:
            self.ctx.out.watermark(mark.watermark)
        if mark.idle is not None:
            self.ctx.out.idle(mark.idle)

    def prepare_barrier(self, epoch: Epoch) -> None:
        self._emit()
        self._pending.update((request.value, request.time) for request in self._queue.requests())

    def finish(self) -> None:
        self._emit()


def _checked(result: Any) -> list[Any]:
    if isinstance(result, list):
        return result
    if result is None:
        raise ConfigError(
            "The result of AsyncFunction cannot be none: return a list from async_invoke and timeout, an "
            "empty one if there is nothing to emit"
        )
    if iscoroutine(result):
        result.close()
        raise ConfigError(
            "The result of AsyncFunction is a coroutine: write timeout with 'def', since nothing waits for "
            "it, and await what async_invoke returns"
        )
    raise ConfigError(
        f"The result of AsyncFunction should be of list type, but is {type(result).__name__}: return a list "
        "from async_invoke and timeout, also for a single result"
    )


def _is_cancelled() -> bool:
    """Whether this task is being cancelled from outside, as opposed to user code raising on its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
