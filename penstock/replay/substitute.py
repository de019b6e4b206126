"""Runs a program's jobs with other sources and sinks than it has.

The program itself is not changed: it is the launcher that gets the job's nodes and replaces those at the
ends.  Steps, uids, state and splits stay the same, so snapshots of the real job fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.common.job_client import JobHandle
from penstock.connectors.builtin.discard import DiscardingSink
from penstock.connectors.combinators.hybrid import HybridSource
from penstock.connectors.sink import CommitOutcome, Committer, Sink
from penstock.connectors.source import Source
from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.errors import GraphError
from penstock.datastream.job import Launcher
from penstock.event_time.watermark_generators import NoWatermarks
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.bounded import runs_in_batch
from penstock.graph.nodes import JobSpec, Node
from penstock.operators.sink_operator import SinkOperator
from penstock.operators.source_operator import SourceOperator
from penstock.operators.timestamps import AssignTimestampsOperator

NewSource = Callable[[str, Source, WatermarkStrategy], Source]
"""From a step's name, its source and its watermarks to what is read instead."""
NewSink = Callable[[str], Sink]
"""From a step's name to what is written to instead."""


def part_by_part(source: Source, change: Callable[[Source], Source]) -> Source:
    """``source`` changed; of one that reads several in turn, each, so that each has its own end."""
    return source.with_each(change) if isinstance(source, HybridSource) else change(source)


def refuse_stamped_later(nodes: Sequence[Node], source: Node, held: bool = False) -> None:
    """A piece is cut out by the event times that records have when they are read: refuse others.

    A source that makes watermarks has them; a later step that gives other times, to results, is no matter.
    ``held``: the source holds event time back for a while, so watermarks must not be made later either.
    """
    assert isinstance(source.factory, partial)
    if not isinstance(source.factory.args[1].create_generator(), NoWatermarks):
        return
    behind = {source.id}
    for node in nodes:
        if not any(link.source in behind for link in node.links):
            continue
        behind.add(node.id)
        if not (isinstance(node.factory, partial) and node.factory.func is AssignTimestampsOperator):
            continue
        if held or node.factory.args[0].extractor is not None:
            raise GraphError(
                f"records of {source.uid or source.name!r} get their event times only behind it, in step "
                f"{node.name!r}, so they cannot be cut by time where they are read; give the "
                "WatermarkStrategy to from_source, in place of assign_timestamps_and_watermarks"
            )


class SubstitutingLauncher:
    """Runs jobs through ``inner`` after replacing their ends."""

    def __init__(
        self,
        inner: Callable[[JobSpec | None], Launcher],
        new_source: NewSource,
        new_sink: NewSink | None = None,
    ) -> None:
        self._inner = inner
        self._new_source = new_source
        self._new_sink = new_sink
        self.change: Callable[[JobSpec], JobSpec] = lambda spec: spec
        """What else is done to a job; it has its new ends already."""
        self.specs: list[JobSpec] = []
        """The jobs as the program described them."""

    def default_parallelism(self) -> int:
        """As the launcher that really runs the job says."""
        return self._inner(None).default_parallelism()

    def launch(self, spec: JobSpec) -> JobHandle:
        """Start the changed job."""
        self.specs.append(spec)
        config = spec.configuration
        if not runs_in_batch(config.get(options.RUNTIME_MODE), spec.nodes):
            # Its new sources may all end, which must not make a BATCH job of it: that knows no snapshots.
            config = Configuration(config).set_string(options.RUNTIME_MODE.key, "STREAMING")
        elif config.get(options.RECOVERY_PATH):
            raise GraphError(
                f"job {spec.name!r} runs in BATCH mode, which knows no snapshots, so it cannot begin at one; "
                "begin elsewhere, or set execution.runtime-mode to STREAMING"
            )
        nodes = tuple(self._replaced(node) for node in spec.nodes)
        # By its own name people must find the real job, which may be running.
        aside = self._new_sink is not None
        name = f"{spec.name}-aside" if aside else spec.name
        changed = self.change(replace(spec, name=name, nodes=nodes, configuration=config, is_aside=aside))
        return self._inner(changed).launch(changed)

    def _replaced(self, node: Node) -> Node:
        name = node.uid or node.name
        if node.source is not None:
            assert isinstance(node.factory, partial)
            strategy = node.factory.args[1]
            source = self._new_source(name, node.source, strategy)
            return replace(node, source=source, factory=partial(SourceOperator, source, strategy))
        if node.sink is not None and self._new_sink is not None:
            if node.sink.feeds_program:
                raise GraphError(
                    f"the program goes on with what step {name!r} gives back, as to_dataframe does: it would "
                    "get nothing here, and might write that where its results belong. Such a program cannot "
                    "be run aside; write the stream to a sink instead"
                )
            sink = self._new_sink(name)
            return replace(node, sink=sink, factory=partial(SinkOperator, sink))
        return node


class Nowhere(DiscardingSink):
    """Takes the place of a real sink, and leaves alone what a snapshot holds for that one."""

    def create_committer(self) -> Committer:
        return _NotOurs()


class _NotOurs(Committer):
    """The real job commits what it has prepared."""

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        return [CommitOutcome.ALREADY_COMMITTED] * len(committables)
