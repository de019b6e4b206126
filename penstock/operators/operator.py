"""The operator contract.

An operator is one step of the program at run time, on one subtask.  Operators of a chain call each
other directly through :class:`Output`.  Everything happens on the task's thread; nothing may block.

Call order: ``open`` once, with state already restored; then any mix of ``process``,
``on_watermark``, ``on_processing_time``; around each snapshot ``prepare_barrier`` (may still emit)
and then the engine freezes the operator's state; at the end of input ``finish`` (flush everything:
nothing may stay buffered) and ``close``.  On failure or cancellation only ``close`` is called.

State lives in ``ctx.keyed`` (per key), ``ctx.timers`` and ``ctx.operator_state`` (per subtask), and
nowhere else.  The classic mistake is an instance attribute that a snapshot does not see.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.copying import OBJECT_REUSE, Copier, copied, itself
from penstock.core.ids import Epoch, EventTime, OperatorId
from penstock.core.metrics import MetricGroup
from penstock.state.backend import KeyedState
from penstock.state.operator_state import OperatorStateStore
from penstock.state.timers import Timers


class Output(Protocol):
    """Where an operator's results go: the next operator of the chain, or the task's exchanges."""

    def emit(self, batch: Batch) -> None:
        """Send records on."""
        ...

    def side(self, tag: str, batch: Batch) -> None:
        """Send records to the side output ``tag``; dropped if nobody reads it."""
        ...

    def watermark(self, time: EventTime) -> None:
        """Send a watermark on; the caller guarantees that it grew."""
        ...

    def idle(self, is_idle: bool) -> None:
        """Say that this stream has gone idle, or is active again."""
        ...


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """What a function may know about where it runs."""

    job_name: str
    task_name: str
    operator_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int
    job_parameters: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorContext:
    """Everything the engine gives an operator."""

    operator_id: OperatorId
    info: RuntimeInfo
    out: Output
    clock: Clock
    keyed: KeyedState
    operator_state: OperatorStateStore
    metrics: MetricGroup
    restored_epoch: Epoch | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    wake: Callable[[], None] | None = None
    """Called from another thread: has the task's thread look again at ``next_processing_time``.

    ``None`` where time is virtual: there, asynchronous work is done on the task's own thread.
    """
    blocked_ms: Callable[[], int] = lambda: 0
    """How long the task has been backpressured in all; set by the task."""

    def __post_init__(self) -> None:
        self.keyed.clock = self.clock
        self.keyed.own = self.own
        self.operator_state.own = self.own

    @property
    def own(self) -> Copier:
        """What makes a value one that nobody else holds: a copy, unless records are shared on purpose."""
        return itself if self.settings.get(OBJECT_REUSE) else copied

    @property
    def timers(self) -> Timers:
        """Timers of this operator."""
        return self.keyed.timers


class Operator(ABC):
    """Base of all operators: passes watermarks on and fires timers."""

    ctx: OperatorContext

    def open(self, ctx: OperatorContext) -> None:
        """Get ready. Overriders call ``super().open(ctx)`` first."""
        self.ctx = ctx

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Take records from input ``input_index`` and emit results to ``ctx.out``."""
        raise NotImplementedError

    def on_watermark(self, time: EventTime) -> None:
        """Event time has advanced: fire due timers, then pass the watermark on."""
        keyed = self.ctx.keyed
        if keyed.has_timers:
            timers = keyed.timers
            timers.watermark = time
            timers.event.fire_until(time, self.on_event_timer)
            self.flush_timers()
        self.ctx.out.watermark(time)

    def on_idle(self, is_idle: bool) -> None:
        """The input has gone idle, or is active again."""
        self.ctx.out.idle(is_idle)

    def on_processing_time(self, now_ms: int) -> None:
        """The clock reached ``next_processing_time``: fire due timers."""
        keyed = self.ctx.keyed
        if keyed.has_timers:
            keyed.timers.processing.fire_until(now_ms - 1, self.on_processing_timer)
            self.flush_timers()

    def next_processing_time(self) -> int | None:
        """When ``on_processing_time`` must be called next, if at all."""
        keyed = self.ctx.keyed
        if not keyed.has_timers:
            return None
        due = keyed.timers.processing.next_time()
        return None if due is None else due + 1

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> None:
        """An event-time timer is due."""
        raise NotImplementedError

    def on_processing_timer(self, time: EventTime, key: Any, namespace: Any) -> None:
        """A processing-time timer is due."""
        raise NotImplementedError

    def flush_timers(self) -> None:  # noqa: B027 - optional hook
        """Called after a round of timers: emit what they gathered, as one batch."""

    def prepare_barrier(self, epoch: Epoch) -> None:  # noqa: B027 - optional hook
        """A barrier is about to go out; records may still be emitted in front of it."""

    def committables(self, epoch: Epoch) -> list[Any]:
        """What a sink prepared for ``epoch``; asked for right after ``prepare_barrier``."""
        return []

    def on_snapshot_complete(self, epoch: Epoch) -> None:  # noqa: B027 - optional hook
        """Snapshot ``epoch`` was published. Best effort: may be missed."""

    def room(self) -> int | None:
        """How many more records may be given now, ``None`` for any number; at 0 the task is backpressured."""
        return None

    def is_drained(self) -> bool:
        """Whether nothing is under way that will emit by itself; ``finish`` waits for it."""
        return True

    def forget_keys(self) -> None:
        """BATCH mode, behind a MAX watermark: all keys so far are complete, and event time begins anew.

        Whoever keeps anything by key or by time outside of ``ctx.keyed`` forgets it here as well.
        """
        self.ctx.keyed.forget()

    def finish(self) -> None:  # noqa: B027 - optional hook
        """The input has ended (a MAX watermark came before): emit whatever is left."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release resources."""

    def current_record(self) -> Any:
        """The record being processed, for error messages; raises ``LookupError`` if unknown."""
        raise LookupError
