"""A piece of a program as a row of trials: what :class:`~penstock.testing.harness.Harness` runs.

The piece is written with the ordinary stream classes.  Each of its steps becomes a
:class:`~penstock.testing.operator_run.Trial`; what one emits goes to the next by a plain call, with the keys
that the link asks for.  There is one subtask of each, so partitioning other than by key means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.core.ids import EventTime
from penstock.datastream.data_stream import DataStream
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.exchange.partition import Hash, Partitioning, attach_keys, check_keys
from penstock.graph.nodes import Link, Node, NodeId, NodeKind
from penstock.operators.chain import FanOut
from penstock.operators.operator import Operator, Output
from penstock.operators.typed import typed_output
from penstock.testing.operator_run import Collector, Trial

Build = Callable[[DataStream], DataStream]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the piece."""

    name: str
    trial: Trial


class _Entry:
    """A step seen as the output of the one before it."""

    def __init__(self, trial: Trial, partitioning: Partitioning | None) -> None:
        self._trial = trial
        self._partitioning = partitioning

    def emit(self, batch: Batch) -> None:
        if isinstance(self._partitioning, Hash):
            batch = attach_keys(batch, self._partitioning)
            check_keys(batch)
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
        trial = Trial(_maker(node), out=out, clock=clock)
        stages.append(Stage(node.uid or node.name, trial))
        outputs[link.source].append((link.tag, _Entry(trial, link.partitioning)))
    if not stages:
        raise ConfigError("the pipeline given to Harness has no steps")
    return stages[::-1], FanOut(outputs[start])


def single_stage(
    make: Callable[[], Operator], collector: Collector, clock: ManualClock
) -> tuple[list[Stage], Output]:
    """The same for one operator, whose input brings its keys."""
    trial = Trial(make, out=collector, clock=clock)
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
