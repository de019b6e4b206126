"""One run of an operator by hand: batches, watermarks and clock in, results out, snapshots in between.

:class:`OperatorRun` holds the instances of one operator, one per subtask, and can replace them by new ones
that are restored from real state files, at another parallelism if asked.  Routing, cutting and dealing
follow the engine: key groups for keyed state, ``redistribute`` for operator state.  What an instance
knows only by heart does not survive; that is the point.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.copying import copied_batch
from penstock.core.ids import MAX_TIME, MIN_TIME, Epoch, EventTime, OperatorId, SubtaskIndex, VertexId
from penstock.core.keygroups import hash_values, key_group_range, key_groups, owner
from penstock.core.metrics import MetricGroup
from penstock.core.pickling import dumps
from penstock.graph.nodes import Node, NodeId, NodeKind
from penstock.graph.plan import PlannedOperator, PlanSettings, Vertex
from penstock.operators.operator import Operator, OperatorRuntime, Output
from penstock.snapshot.state_assignment import redistribute
from penstock.state.backend import FrozenTable
from penstock.state.chunks import FrozenChunks
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore
from penstock.task.chain import ChainSetup, build_chain

KEY_GROUPS = 128
_NAME = "verify"
"""Of the job, its task and its only step."""


@dataclass(frozen=True, slots=True)
class Result:
    """One record that an operator emitted. ``side`` is the tag of a side output, or ``None``."""

    value: Any
    time: int
    side: str | None
    item: int
    """Which input item made it come out."""


class Collector:
    """An output that keeps copies, as the next operator would have seen them."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.item = 0

    def emit(self, batch: Batch) -> None:
        self._keep(batch, None)

    def side(self, tag: str, batch: Batch) -> None:
        self._keep(batch, tag)

    def _keep(self, batch: Batch, side: str | None) -> None:
        for value, time in zip(batch.to_rows(), batch.time_list(), strict=True):
            self.results.append(Result(copy.deepcopy(value), time, side, self.item))

    def watermark(self, time: EventTime) -> None:
        pass

    def idle(self, is_idle: bool) -> None:
        pass


@dataclass(frozen=True, slots=True)
class OperatorRunSnapshot:
    """What a snapshot of a trial holds: one state file and one pickle of operator state per subtask."""

    files: tuple[bytes, ...]
    lists: tuple[bytes, ...]
    watermark: EventTime


class OperatorRun:
    """The instances of one operator. ``make`` gives a new one that has seen nothing yet.

    ``out`` is where results go; by default they are kept in ``results``.
    """

    def __init__(
        self,
        make: Callable[[], Operator],
        parallelism: int = 1,
        *,
        out: Output | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self._make = make
        self._clock = ManualClock() if clock is None else clock
        self._collector = Collector()
        self._out: Output = self._collector if out is None else out
        self._watermark = MIN_TIME
        self._epoch = 0
        nothing = [OperatorStateStore() for _ in range(parallelism)]
        self._operators = self._open([heap_state() for _ in range(parallelism)], nothing)

    @property
    def results(self) -> list[Result]:
        """What came out so far."""
        return self._collector.results

    @property
    def operators(self) -> list[Operator]:
        """The instances, by subtask."""
        return self._operators

    def at(self, item: int) -> None:
        """Results from here on are due to input item number ``item``."""
        self._collector.item = item

    def process(self, batch: Batch) -> None:
        """Give each subtask its records, to do with as it likes: the test may give them to another run."""
        batch = copied_batch(batch)
        if len(self._operators) == 1:
            self._operators[0].process(batch)
            return
        owners = owners_of(batch.key_list(), len(self._operators))
        for number, operator in enumerate(self._operators):
            mine = np.flatnonzero(owners == number)
            if len(mine):
                operator.process(batch.take(mine))

    def watermark(self, time: int) -> None:
        """Event time advances; one that does not advance is left out, as in the engine."""
        if time > self._watermark:
            self._watermark = EventTime(time)
            for operator in self._operators:
                operator.on_watermark(self._watermark)

    def clock_to(self, now_ms: int) -> None:
        """The clock advances, and everything due on the way is fired at its time."""
        run_clock(self._clock, [self], now_ms)

    def next_due(self) -> int | None:
        """The earliest time at which an instance wants the clock's attention."""
        due = [operator.next_processing_time() for operator in self._operators]
        return min((time for time in due if time is not None), default=None)

    def on_clock(self) -> None:
        """Fire what is due now."""
        for operator in self._operators:
            operator.on_processing_time(self._clock.now_ms())

    def finish(self) -> None:
        """The input has ended."""
        self.watermark(MAX_TIME)
        self._drain()
        for operator in self._operators:
            operator.finish()

    def _drain(self) -> None:
        """Let time pass until nothing is under way in asynchronous steps."""
        for operator in self._operators:
            while not operator.is_drained() and (due := operator.next_processing_time()) is not None:
                run_clock(self._clock, [self], max(due, self._clock.now_ms()))

    def close(self) -> None:
        """Close all instances."""
        for operator in self._operators:
            operator.close()

    def snapshot(self) -> OperatorRunSnapshot:
        """Do what a barrier makes the instances do, and write their state."""
        self._epoch += 1
        files, lists = [], []
        for operator in self._operators:
            operator.prepare_barrier(Epoch(self._epoch))
            files.append(write_keyed(operator.ctx.keyed))
            lists.append(_write_lists(operator.ctx.operator_state))
        return OperatorRunSnapshot(tuple(files), tuple(lists), self._watermark)

    def load(self, snapshot: OperatorRunSnapshot, parallelism: int, *, told: bool = True) -> None:
        """Drop the instances and go on with new ones restored from ``snapshot``.

        If ``told``, the new ones are told the watermark of then at once: the sources would repeat it.  Else
        event time starts over.
        """
        self.close()
        shares = redistribute([pickle.loads(data) for data in snapshot.lists], parallelism)
        stores = [
            OperatorStateStore(
                {name: ListSnapshot(ListMode(mode), items) for name, (mode, items) in s.items()}
            )
            for s in shares
        ]
        files = list(snapshot.files)
        self._operators = self._open([_read_keyed(files, n, parallelism) for n in range(parallelism)], stores)
        self._watermark = snapshot.watermark if told else MIN_TIME
        if self._watermark > MIN_TIME:
            for operator in self._operators:
                operator.on_watermark(self._watermark)

    def restore(self, parallelism: int, *, told: bool = True) -> None:
        """Take a snapshot, drop the instances, and go on with new ones restored from it."""
        self.load(self.snapshot(), parallelism, told=told)

    def _open(self, keyed: list[KeyedState], stores: list[OperatorStateStore]) -> list[Operator]:
        parts = list(zip(keyed, stores, strict=True))
        return [self._open_one(SubtaskIndex(number), len(parts), part) for number, part in enumerate(parts)]

    def _open_one(
        self, index: SubtaskIndex, parallelism: int, state: tuple[KeyedState, OperatorStateStore]
    ) -> Operator:
        node = Node(NodeId(1), NodeKind.OPERATOR, _NAME, self._make)
        planned = PlannedOperator(node, OperatorId(_NAME), (), ())
        setup = ChainSetup(
            job_name=_NAME,
            vertex=Vertex(VertexId(_NAME), _NAME, (planned,), parallelism, KEY_GROUPS, 0),
            index=index,
            settings=PlanSettings(),
            clock=self._clock,
            metrics=MetricGroup(),
            runtime=lambda planned: OperatorRuntime(),
            state=lambda planned: state,
            restored_epoch=Epoch(self._epoch) if self._epoch else None,
            output=lambda operator, out: self._out,
            on_failure=lambda step, subtask, secret: _as_it_is,
        )
        return build_chain(setup, {})[0][1].operator


def _as_it_is(error: Exception, operator: Operator) -> Exception:
    raise error


def run_clock(clock: ManualClock, trials: list[OperatorRun], now_ms: int) -> None:
    """Move the clock of several trials to ``now_ms``; everything due on the way is fired at its time."""
    while True:
        due = [time for trial in trials if (time := trial.next_due()) is not None]
        if not due or min(due) > now_ms:
            break
        clock.advance(max(0, min(due) - clock.now_ms()))
        for trial in trials:
            trial.on_clock()
    clock.advance(max(0, now_ms - clock.now_ms()))


def owners_of(keys: list[Any], parallelism: int) -> Any:
    """The subtask of each key, as an array."""
    return owner(key_groups(hash_values(keys), KEY_GROUPS), parallelism, KEY_GROUPS)


def write_keyed(keyed: KeyedState) -> bytes:
    """A state file of everything in ``keyed``."""
    frozen = keyed.freeze()
    data = write_frozen(frozen)
    for part in frozen:
        part.release()
    return data


def _read_keyed(files: list[bytes], subtask: int, parallelism: int) -> KeyedState:
    keyed = heap_state()
    first, last = key_group_range(SubtaskIndex(subtask), parallelism, KEY_GROUPS)
    for data in files:
        restore_keyed(keyed, data, first, last)
    return keyed


def restore_keyed(keyed: KeyedState, data: bytes, first: int = 0, last: int = KEY_GROUPS - 1) -> None:
    """Put the entries of a state file that belong to the key groups ``first`` to ``last`` into ``keyed``."""
    keyed.restore(StateBlocks(data, first, last))


def write_frozen(frozen: list[FrozenTable | FrozenChunks]) -> bytes:
    """A state file, as the snapshot writer makes it. Whoever froze releases."""
    return b"".join(block for block, _ in write_blocks(frozen, KEY_GROUPS))


def _write_lists(store: OperatorStateStore) -> bytes:
    return dumps({name: (state.mode.value, state.items) for name, state in store.snapshot().items()})
