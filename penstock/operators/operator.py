"""The operator contract.

An operator is one step of the program at run time, on one subtask.  Operators of a chain call each
other directly through :class:`Output`.  Everything happens on the task's thread; nothing may block.

Call order: ``open`` once, with state already restored; then any mix of ``process``,
``on_watermark``, ``on_processing_time``; around each snapshot ``prepare_barrier`` (may still emit)
and then the engine freezes the operator's state; at the end of input ``finish`` (flush everything:
nothing may stay buffered) and ``close``.  On failure or cancellation only ``close`` is called.

Outputs are bounded, and an operator that can make much of little (of a record, a timer, a watermark) does it
step by step through :meth:`Operator.work`: where the outputs are full it is suspended, and goes on when there
is room.  Until then it gets no records, no watermark and no barrier (``docs/design/022-memory-budget.md``).

State lives in ``ctx.keyed`` (per key), ``ctx.timers`` and ``ctx.operator_state`` (per subtask), and
nowhere else.  The classic mistake is an instance attribute that a snapshot does not see.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.copying import Copier, copied, itself
from penstock.core.ids import Epoch, EventTime, OperatorId
from penstock.core.messages import Remark, WatermarkReport
from penstock.core.metrics import MetricGroup
from penstock.state.backend import Timer
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore
from penstock.state.timers import Timers

_TIMERS_PER_STEP = 16
"""How many timers fire before the outputs are looked at, whatever they emit."""


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


@dataclass(frozen=True, slots=True)
class OperatorRuntime:
    """How the job is run, as far as an operator acts on it, and its ways to the driver.

    Made by ``task/build.py`` for a stream and by ``batch/vertex.py`` for BATCH mode, with what the job's
    settings say of it (``runtime_of`` in ``task/chain.py``).  The defaults are for an operator that is run
    by hand, in a test.
    """

    checkpointing: bool = False
    """Whether periodic snapshots are on; if not, the only commit is at the end of input. From the job's
    settings; never in BATCH mode."""
    auto_watermark_interval_ms: int = 200
    """How often periodic watermarks are emitted, 0 for never. From the job's settings; 0 in BATCH mode."""
    batch: bool = False
    """Whether the job runs in BATCH mode: aggregates give their last result only. From the job's settings."""
    object_reuse: bool = False
    """Whether steps and state share records that can change. From the job's settings."""
    in_order: bool = False
    """Whether results must come in the order of their records, because a task that runs again must give the
    same again. Set in BATCH mode where records are distributed in turn at the vertex or behind it."""
    generation: int = 0
    """Number of the job's attempt; later ones have greater ones. Set by the slot, or by the BATCH run."""
    attempt_id: int = 0
    """Tells attempts of a task with the same generation apart. Set in BATCH mode, where Spark may run a task
    again or twice at a time."""
    to_driver: Callable[[Any], None] = lambda payload: None
    """Sends a small object to the driver side of the operator's source or sink. Set by slot and BATCH run;
    by hand, where there is no driver, it is dropped."""
    report_watermark: Callable[[WatermarkReport], None] | None = None
    """Tells the coordinator where event time is. Set by the slot; ``None`` where it does not listen."""
    report_remark: Callable[[Remark], None] | None = None
    """Tells the user of something odd in the records. Set by slot and BATCH run; ``None`` by hand."""


_BY_HAND = OperatorRuntime()


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
    runtime: OperatorRuntime = _BY_HAND
    wake: Callable[[], None] | None = None
    """Called from another thread: has the task's thread look again at ``next_processing_time``.

    ``None`` where time is virtual: there, asynchronous work is done on the task's own thread.
    """
    blocked_ms: Callable[[], int] = lambda: 0
    """How long the task has been backpressured in all; set by the task."""
    blocked: Callable[[], bool] = lambda: False
    """Whether the task's outputs are full now; set by the task."""
    emitted_bytes: Callable[[], int] = lambda: 0
    """How many bytes have left the task in all; set by the task."""
    piece_bytes: int = 1 << 20
    """How much should be emitted at a time: several such pieces fit into the task's outputs."""

    def __post_init__(self) -> None:
        self.keyed.clock = self.clock
        self.keyed.own = self.own
        self.operator_state.own = self.own

    @property
    def own(self) -> Copier:
        """What makes a value one that nobody else holds: a copy, unless records are shared on purpose."""
        return itself if self.runtime.object_reuse else copied

    def remark(self, kind: str, text: str) -> None:
        """Tell the user of something odd in the records; callers do so once each."""
        if self.runtime.report_remark is not None:
            self.runtime.report_remark(Remark(self.info.operator_name, kind, text))

    @property
    def timers(self) -> Timers:
        """Timers of this operator."""
        return self.keyed.timers


class Operator(ABC):
    """Base of all operators: passes watermarks on and fires timers."""

    ctx: OperatorContext
    suspended: Iterator[None] | None = None
    """The rest of what it was doing when the outputs were full."""

    def work(self, steps: Iterator[None]) -> None:
        """Take one step after the other; when the outputs are full, leave the rest to :meth:`resume`."""
        for _ in steps:
            if self.ctx.blocked():
                self.suspended = steps
                return

    def resume(self) -> None:
        """Go on with what was suspended."""
        steps, self.suspended = self.suspended, None
        if steps is not None:
            self.work(steps)

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
            keyed.timers.watermark = time
            self.work(self._advance(time))
        else:
            self.ctx.out.watermark(time)

    def _advance(self, time: EventTime) -> Iterator[None]:
        yield from self._fire_all(self.ctx.timers.event.due(time), self.on_event_timer)
        self.ctx.out.watermark(time)

    def _fire_all(self, due: Iterable[Timer], fire: Callable[..., Iterator[None] | None]) -> Iterator[None]:
        for fired, (time, key, namespace) in enumerate(due, 1):
            rest = fire(time, key, namespace)
            if rest is not None:
                yield from rest
            if self.has_enough():
                self.flush_timers()
                yield
            elif not fired % _TIMERS_PER_STEP:
                yield
        self.flush_timers()

    def on_idle(self, is_idle: bool) -> None:
        """The input has gone idle, or is active again."""
        self.ctx.out.idle(is_idle)

    def on_processing_time(self, now_ms: int) -> None:
        """The clock reached ``next_processing_time``: fire due timers."""
        keyed = self.ctx.keyed
        if keyed.has_timers:
            self.work(self._fire_all(keyed.timers.processing.due(now_ms - 1), self.on_processing_timer))

    def next_processing_time(self) -> int | None:
        """When ``on_processing_time`` must be called next, if at all."""
        keyed = self.ctx.keyed
        if not keyed.has_timers:
            return None
        due = keyed.timers.processing.next_time()
        return None if due is None else due + 1

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None] | None:
        """An event-time timer is due. What it returns, if anything, is the rest of its work, step by step."""
        raise NotImplementedError

    def on_processing_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None] | None:
        """A processing-time timer is due; the same."""
        raise NotImplementedError

    def has_enough(self) -> bool:
        """Whether timers have gathered so much that it should be emitted before the next one fires."""
        return False

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
        """Whether nothing is pending that will emit by itself; ``finish`` waits for it."""
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
