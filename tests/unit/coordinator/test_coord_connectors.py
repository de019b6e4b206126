"""The driver's side of sources and sinks."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from coord_rig import Numbers, permit

from penstock.connectors.sink import CommitOutcome, Committer, Sink
from penstock.connectors.source import Split, SplitEnumerator
from penstock.coordinator.connectors import JobConnectors
from penstock.coordinator.events import Commit, Discover
from penstock.core.handles import Committable
from penstock.core.ids import Epoch, Generation, SubtaskIndex
from penstock.exchange.partition import Rebalance
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import PlanOptions, compile_plan
from penstock.operators.operator import Operator


class Stubborn(Committer):
    """Commits, and does not want to be closed."""

    closed = 0

    def commit(self, committables: list[Any]) -> list[CommitOutcome]:
        return [CommitOutcome.COMMITTED] * len(committables)

    def close(self) -> None:
        Stubborn.closed += 1
        raise OSError("the connection is gone")


class StubbornSink(Sink):
    """A sink with such a committer."""

    def create_writer(self, *arguments: Any, **more: Any) -> Any:
        raise AssertionError("nothing is written here")

    def create_committer(self) -> Committer:
        return Stubborn()


class PlainSink(Sink):
    """What a sink is whose guarantee was lowered."""

    def create_writer(self, *arguments: Any, **more: Any) -> Any:
        raise AssertionError("nothing is written here")


def test_outputs_that_nobody_commits_any_more_are_not_dropped_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = GraphBuilder()
    source = builder.add(NodeKind.SOURCE, "source", Operator, uid="source", source=Numbers())
    links = (Link(source, partitioning=Rebalance()),)
    builder.add(NodeKind.SINK, "out", Operator, uid="out", links=links, sink=PlainSink())
    plan = compile_plan(builder.nodes, "test", PlanOptions(1))
    [sink] = [planned.operator_id for _, planned in plan.operators() if planned.node.sink is not None]
    items = tuple(Committable(sink, Epoch(1), SubtaskIndex(i), pickle.dumps("x")) for i in range(2))
    with caplog.at_level(logging.ERROR, "penstock"):
        outcomes = JobConnectors(plan).commit(Commit(permit(1), items)).outcomes
    assert outcomes == (CommitOutcome.DROPPED,) * 2
    assert "2 prepared outputs" in caplog.text and "with the sink as it was" in caplog.text


def test_a_committer_that_cannot_be_closed_does_not_keep_the_job_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = GraphBuilder()
    source = builder.add(NodeKind.SOURCE, "source", Operator, uid="source", source=Numbers())
    for uid in ("one", "two"):
        links = (Link(source, partitioning=Rebalance()),)
        builder.add(NodeKind.SINK, uid, Operator, uid=uid, links=links, sink=StubbornSink())
    plan = compile_plan(builder.nodes, "test", PlanOptions(1))
    ends = JobConnectors(plan)
    sinks = [planned.operator_id for _, planned in plan.operators() if planned.node.sink is not None]
    items = tuple(Committable(sink, Epoch(1), SubtaskIndex(0), pickle.dumps("x")) for sink in sinks)
    assert len(ends.commit(Commit(permit(1), items)).outcomes) == 2
    Stubborn.closed = 0
    with caplog.at_level(logging.WARNING, "penstock"):
        ends.close()
    assert Stubborn.closed == 2
    assert sum("the connection is gone" in line for line in caplog.messages) == 2


class Forgetful(SplitEnumerator):
    """Finds the same splits whenever it is asked, and remembers nothing."""

    def discover(self) -> list[Split]:
        return [Split("a"), Split("b")]


class ForgetfulSource(Numbers):
    discovery_interval_ms = 10

    def create_enumerator(self, parallelism: int) -> Any:
        return Forgetful()


def forgetful_ends() -> tuple[JobConnectors, Any]:
    builder = GraphBuilder()
    source = builder.add(NodeKind.SOURCE, "source", Operator, uid="source", source=ForgetfulSource())
    links = (Link(source, partitioning=Rebalance()),)
    builder.add(NodeKind.SINK, "out", Operator, uid="out", links=links, sink=PlainSink())
    plan = compile_plan(builder.nodes, "test", PlanOptions(1))
    [found] = [planned.operator_id for _, planned in plan.operators() if planned.node.source is not None]
    return JobConnectors(plan), found


def test_splits_of_an_enumerator_that_remembers_nothing_are_assigned_once() -> None:
    ends, source = forgetful_ends()
    first = ends.discover(Discover(Generation(1), source, None, restore=True))
    again = ends.discover(Discover(Generation(1), source, None, restore=False))
    assert [split.id for split in first.splits] == ["a", "b"] and again.splits == ()
    other, source = forgetful_ends()
    restored = other.discover(Discover(Generation(2), source, again.state, restore=True))
    assert restored.splits == (), "neither after a restore"
    assert other.discover(Discover(Generation(2), source, None, restore=False)).splits == ()


def test_an_older_snapshot_of_an_enumerator_that_remembers_nothing_leaves_it_to_the_readers() -> None:
    ends, source = forgetful_ends()
    found = ends.discover(Discover(Generation(1), source, pickle.dumps(None), restore=True))
    assert [split.id for split in found.splits] == ["a", "b"]


def test_an_attempt_without_a_snapshot_gets_the_first_splits_again() -> None:
    ends, source = forgetful_ends()
    first = ends.discover(Discover(Generation(1), source, None, restore=True))
    ends.discover(Discover(Generation(1), source, None, restore=False))
    again = ends.discover(Discover(Generation(2), source, None, restore=True))
    assert again.splits == first.splits
    assert ends.discover(Discover(Generation(2), source, None, restore=False)).splits == ()
