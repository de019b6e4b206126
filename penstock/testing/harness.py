"""A function or a piece of a program under your hands: records, watermarks and time in, results out.

::

    with Harness(Alert(), keyed_by=lambda reading: reading[0]) as harness:
        harness.push(Record(("boiler", 99), 10))
        harness.watermark(70)
        assert harness.take() == [("boiler", "hot for a minute")]
        assert harness.timers() == []

Nothing moves by itself: event time advances by :meth:`Harness.watermark`, the clock by
:meth:`Harness.advance`.  ``verify`` tries all ways to run an input; the harness runs one, step by step,
and lets you look inside.  There is one subtask of each step, no thread and no Spark.

A piece of a program is written with the ordinary stream classes.  Each of its steps becomes a
:class:`~penstock.testing.operator_run.OperatorRun`; what one emits goes to the next by a plain call, with
the keys that the link asks for.  Partitioning other than by key means nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.core.metrics import LATE_COUNTER
from penstock.core.signals import EndOfInput
from penstock.datastream.data_stream import DataStream
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.exchange.partition import Hash, Partitioning, attach_keys
from penstock.graph.nodes import Link, Node, NodeId, NodeKind
from penstock.operators.chain import FanOut, typed_output
from penstock.operators.functions import Function
from penstock.operators.operator import Operator, Output
from penstock.operators.timer_service import TimeDomain
from penstock.state.backend import EVENT_TIMERS, PROCESSING_TIMERS, EntryShape, FrozenTable
from penstock.state.keyed import KeyedState
from penstock.testing.items import ProcessingTimeTo, Record, WatermarkTo, atoms_of, operator_for
from penstock.testing.operator_run import Collector, OperatorRun, OperatorRunSnapshot, run_clock

Build = Callable[[DataStream], DataStream]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the piece."""

    name: str
    trial: OperatorRun


class _Entry:
    """A step seen as the output of the one before it."""

    def __init__(self, trial: OperatorRun, partitioning: Partitioning | None) -> None:
        self._trial = trial
        self._partitioning = partitioning

    def emit(self, batch: Batch) -> None:
        if isinstance(self._partitioning, Hash):
            batch = attach_keys(batch, self._partitioning)
        self._trial.process(batch)

    def side(self, tag: str, batch: Batch) -> None:
        raise AssertionError("side outputs are linked by tag")

    def watermark(self, time: EventTime) -> None:
        self._trial.watermark(time)

    def idle(self, is_idle: bool) -> None:
        for operator in self._trial.operators:
            operator.on_idle(is_idle)


class _Tap(FanOut):
    """The output of the step whose results are read: side outputs are kept whoever else takes them."""

    __slots__ = ("_collector",)

    def __init__(self, consumers: list[tuple[str | None, Output]], collector: Collector) -> None:
        super().__init__([*consumers, (None, collector)])
        self._collector = collector

    def side(self, tag: str, batch: Batch) -> None:
        super().side(tag, batch)
        self._collector.side(tag, batch)


def stages_of(build: Build, collector: Collector, clock: ManualClock) -> tuple[list[Stage], Output]:
    """The steps of the piece that ``build`` writes, first to last, and the way in."""
    env = StreamExecutionEnvironment()
    stream: DataStream[Any] = env.from_collection([])
    start = stream._links[0].source
    built = build(stream)
    if not isinstance(built, DataStream):
        raise ConfigError(
            f"the pipeline given to Harness returned {type(built).__name__}; it must return the stream whose "
            "records you want to read, without a sink"
        )
    end = _only(built._links, "the stream that the pipeline returns")
    nodes = env.graph.nodes
    outputs: dict[NodeId, list[tuple[str | None, Output]]] = {node.id: [] for node in nodes}
    if end.tag is not None:
        outputs[end.source].append((end.tag, collector))
    stages: list[Stage] = []
    for node in reversed(nodes):
        if node.id == start:
            continue
        link = _checked(node)
        consumers = outputs[node.id]
        is_read = node.id == end.source and end.tag is None
        plain = _Tap(consumers, collector) if is_read else FanOut(consumers)
        out = typed_output(plain, node.output_type if node.casts else None, node.side_types)
        trial = OperatorRun(_maker(node), out=out, clock=clock)
        stages.append(Stage(node.uid or node.name, trial))
        outputs[link.source].append((link.tag, _Entry(trial, link.partitioning)))
    if not stages:
        raise ConfigError("the pipeline given to Harness has no steps")
    return stages[::-1], FanOut(outputs[start])


def single_stage(
    make: Callable[[], Operator], collector: Collector, clock: ManualClock
) -> tuple[list[Stage], Output]:
    """The same for one operator, whose input brings its keys."""
    trial = OperatorRun(make, out=collector, clock=clock)
    return [Stage(type(trial.operators[0]).__name__, trial)], _Entry(trial, None)


def _maker(node: Node) -> Callable[[], Operator]:
    """Each call gives an operator as an executor would get it: a copy that has seen nothing."""
    pristine = cloudpickle.dumps(node.factory)

    def make() -> Operator:
        operator: Operator = cloudpickle.loads(pristine)()
        return operator

    return make


def _checked(node: Node) -> Link:
    if node.kind is not NodeKind.OPERATOR:
        raise ConfigError(
            f"the pipeline given to Harness contains {node.name!r}; leave sources and sinks out: it is fed "
            "by push() and read by take()"
        )
    return _only(node.links, f"step {node.name!r}")


def _only(links: tuple[Link, ...], what: str) -> Link:
    if len(links) != 1:
        raise ConfigError(f"{what} has {len(links)} inputs; Harness runs steps with one input only")
    return links[0]


_DOMAINS = {EVENT_TIMERS: TimeDomain.EVENT_TIME, PROCESSING_TIMERS: TimeDomain.PROCESSING_TIME}


@dataclass(frozen=True, slots=True)
class PendingTimer:
    """A timer that has not fired. ``namespace`` is the window it belongs to, if any."""

    time: int
    key: Any
    domain: TimeDomain = TimeDomain.EVENT_TIME
    namespace: Any = None


@dataclass(frozen=True, slots=True)
class HarnessSnapshot:
    """What :meth:`Harness.snapshot` gives: state files and timers, nothing that an object knows by heart."""

    steps: tuple[OperatorRunSnapshot, ...]
    watermark: EventTime


class Harness:
    """Runs ``subject``, one call at a time.

    ``subject`` is what :func:`~penstock.testing.verify` takes (a function object, or a callable without
    parameters that makes one), with ``keyed_by`` for keyed ones; or a function from a ``DataStream`` to
    a ``DataStream``, which may select keys, open windows and chain any steps that have one input.  It is
    pickled first, as on the way to an executor: the object you gave is not the one that runs.
    """

    def __init__(
        self, subject: Any, *, keyed_by: Callable[[Any], Any] | None = None, start_ms: int = 0
    ) -> None:
        self._keyed_by = keyed_by
        self._clock = ManualClock(start_ms)
        self._collector = Collector()
        self._watermark: EventTime = MIN_TIME
        self._stages: list[Stage]
        if _is_pipeline(subject):
            if keyed_by is not None:
                raise ConfigError("a pipeline selects its keys itself; leave keyed_by= out and write key_by")
            self._stages, self._entry = stages_of(subject, self._collector, self._clock)
        else:
            self._stages, self._entry = single_stage(self._maker(subject), self._collector, self._clock)

    def _maker(self, subject: Any) -> Callable[[], Operator]:
        pristine, keyed = cloudpickle.dumps(subject), self._keyed_by is not None
        return lambda: operator_for(cloudpickle.loads(pristine), keyed)

    # --- in ---------------------------------------------------------------------------------

    def push(self, *items: Any) -> None:
        """Feed items in order, each record by itself.

        Plain values, ``Record(value, time)``, batches; also ``WatermarkTo``, ``ProcessingTimeTo`` and
        ``EndOfInput()``, so that an input written for ``verify`` can be pushed as it is.
        """
        for item in items:
            if isinstance(item, WatermarkTo):
                self.watermark(item.time)
            elif isinstance(item, ProcessingTimeTo):
                self.advance(item.ms - self.now_ms)
            elif isinstance(item, EndOfInput):
                self.finish()
            elif isinstance(item, Batch) and self._keyed_by is None:
                self._entry.emit(item)
            else:
                for atom in atoms_of(item, self._keyed_by):
                    self._entry.emit(atom)

    def watermark(self, time: int) -> None:
        """Event time advances to ``time``; timers up to it fire. One that does not advance is ignored."""
        if time > self._watermark:
            self._watermark = EventTime(time)
            self._entry.watermark(self._watermark)

    def advance(self, ms: int) -> None:
        """The clock advances by ``ms``; timers fire on the way, each at its time."""
        run_clock(self._clock, [stage.trial for stage in self._stages], self.now_ms + ms)

    def finish(self) -> None:
        """The input ends: a last watermark, and every step emits what it still has."""
        self.watermark(MAX_TIME)
        for stage in self._stages:
            stage.trial.finish()

    # --- out --------------------------------------------------------------------------------

    def take(self, side: Any = None) -> list[Any]:
        """The results since the last call; ``side`` is a tag, or its name, for a side output."""
        return [record.value for record in self.take_records(side)]

    def take_records(self, side: Any = None) -> list[Record]:
        """The same with event times (``MIN_TIME`` if a record has none)."""
        tag = getattr(side, "tag_id", side)
        results = self._collector.results
        taken = [Record(result.value, result.time) for result in results if result.side == tag]
        results[:] = [result for result in results if result.side != tag]
        return taken

    @property
    def late_dropped(self) -> int:
        """Late records that windows dropped because no side output takes them."""
        return sum(
            operator.ctx.metrics.counter(LATE_COUNTER).count
            for stage in self._stages
            for operator in stage.trial.operators
        )

    # --- inside -----------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The clock."""
        return self._clock.now_ms()

    @property
    def current_watermark(self) -> int:
        """Event time so far; ``MIN_TIME`` before the first watermark."""
        return self._watermark

    def state(self, key: Any, step: str | None = None) -> dict[str, Any]:
        """What is stored for ``key``, by the name of the state; by window and value for window state.

        ``step`` is the uid or name of a step, needed only if two steps use the same name.  Contents of
        windows are under ``_window/contents``, but for records kept as columns.  Look, do not change.
        """
        found: dict[str, Any] = {}
        owners: dict[str, str] = {}
        for stage in self._stages:
            if step is not None and stage.name != step:
                continue
            for name, value in _stored(stage, key).items():
                if name in found:
                    raise ConfigError(
                        f"both {owners[name]!r} and {stage.name!r} have a state {name!r}; say which step: "
                        f"state(key, step={stage.name!r})"
                    )
                found[name], owners[name] = value, stage.name
        return found

    def timers(self, key: Any = None) -> list[PendingTimer]:
        """The timers that wait, of all keys or of one, earliest first."""
        found = [
            PendingTimer(entry[0], entry[1], _DOMAINS[part.name], entry[2])
            for stage in self._stages
            for part, entry, _ in _entries(stage)
            if part.name in _DOMAINS and key in (None, entry[1])
        ]
        return sorted(found, key=lambda timer: timer.time)

    def snapshot(self) -> HarnessSnapshot:
        """A snapshot as at a barrier; it may be restored again and again."""
        return HarnessSnapshot(tuple(stage.trial.snapshot() for stage in self._stages), self._watermark)

    def restore(self, snapshot: HarnessSnapshot | None = None) -> None:
        """Crash, and go on from ``snapshot``, or from one taken now, with new objects.

        Event time is what it was at the snapshot, the clock goes on, and results not yet taken stay.
        """
        back_to = self.snapshot() if snapshot is None else snapshot
        for stage, step in zip(reversed(self._stages), reversed(back_to.steps), strict=True):
            stage.trial.load(step, 1)
        self._watermark = back_to.watermark

    def close(self) -> None:
        """Close the functions."""
        for stage in self._stages:
            stage.trial.close()

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _is_pipeline(subject: Any) -> bool:
    if isinstance(subject, Function | Operator | type) or not callable(subject):
        return False
    try:
        inspect.signature(subject).bind(None)
    except TypeError:
        return False
    return True


def _entries(stage: Stage) -> list[tuple[FrozenTable, Any, Any]]:
    found: list[tuple[FrozenTable, Any, Any]] = []
    for operator in stage.trial.operators:
        keyed: KeyedState = operator.ctx.keyed
        frozen = keyed.freeze()
        for part in frozen:
            if isinstance(part, FrozenTable):
                found += [(part, entry, value) for entry, value in part.items()]
        for part in frozen:
            part.release()
    return found


def _stored(stage: Stage, key: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, entry, value in _entries(stage):
        if part.shape.key_of(entry) != key or part.name in _DOMAINS:
            continue
        if part.shape is EntryShape.NAMESPACED:
            found.setdefault(part.name, {})[entry[1]] = value
        else:
            found[part.name] = value
    return found
