"""A slot whose tasks are stepped one by one, with channels that hold little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import cloudpickle
from task_rig import FEED, Collect, Feed, Rig

from penstock.connectors.source import Split
from penstock.core.documents import dump
from penstock.core.ids import Generation
from penstock.core.messages import AssignSplits, Deploy, TaskFailed
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.exchange.partition import Hash, Rebalance
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan
from penstock.operators.operator import Operator
from penstock.operators.source_operator import SourceOperator
from penstock.task.task import Task

LIMIT = 64 << 10
"""Bytes that a channel may hold."""


def line(
    steps: list[Callable[[], Operator]],
    key: Callable[[Any], Any] | None,
    strategy: Any,
    chained: bool,
    sink: Callable[[], Operator],
    **settings: Any,
) -> Plan:
    """source => steps, chained => sink: three tasks, or two if there are no steps or ``chained``."""
    builder = GraphBuilder()
    make = partial(SourceOperator, Feed(), strategy)
    last = builder.add(NodeKind.SOURCE, "source", make, uid="source", source=Feed())
    link: Any = Link(last, partitioning=Rebalance() if key is None else Hash(key, ()))
    link = Link(last) if chained else link
    for number, step in enumerate(steps):
        keyed = key is not None and number == 0
        uid = f"step{number}"
        last = builder.add(NodeKind.OPERATOR, uid, step, uid=uid, keyed=keyed, links=(link,))
        link = Link(last)
    link = Link(last, partitioning=Rebalance())
    builder.add(NodeKind.SINK, "collect", sink, uid="collect", links=(link,))
    known = PlanSettings(checkpointing=True, channel_bytes=LIMIT, auto_watermark_interval_ms=10)
    return compile_plan(builder.nodes, "job", PlanOptions(1, buffer_timeout_ms=0), replace(known, **settings))


class Line(Rig):
    """The plan in one slot; the collector works only when it is told to."""

    def __init__(
        self,
        *steps: Callable[[], Operator],
        key: Callable[[Any], Any] | None = None,
        strategy: Any = None,
        chained: bool = False,
        sink: Callable[[], Operator] = Collect,
        **settings: Any,
    ) -> None:
        super().__init__()
        strategy = strategy or WatermarkStrategy.no_watermarks()
        self.plan = line(list(steps), key, strategy, chained, sink, **settings)
        self.slot.handle(Deploy(Generation(1), cloudpickle.dumps(self.plan), dump({}), None, None, {}, 0))
        assert self.slot.tasks, self.reports
        self.tasks: list[Task] = list(self.slot.tasks)
        self.slot.handle(AssignSplits(self.tasks[0].subtask, (Split("s"),), True))

    def give(self, *rows: Any) -> None:
        FEED["s"] += rows

    def work(self, rounds: int = 200, advance_ms: int = 20) -> None:
        """All tasks but the collector take turns."""
        for _ in range(rounds):
            self.clock.advance(advance_ms)
            for task in self.tasks[:-1]:
                task.step()

    def run(self, rounds: int = 2000) -> None:
        """All tasks take turns until nothing moves any more."""
        quiet = 0
        for _ in range(rounds):
            self.clock.advance(20)
            quiet = 0 if self.slot.step() else quiet + 1
            failed = self.of(TaskFailed)
            if failed:
                raise failed[0].error
            if quiet > 20:
                return

    def queued_text(self) -> int:
        """Characters that wait before the collector."""
        gate: Any = self.tasks[-1]._gate
        found = 0
        for channel in gate._channels:
            for element in channel:
                found += sum(map(len, element.to_rows())) if hasattr(element, "to_rows") else 0
        return found
