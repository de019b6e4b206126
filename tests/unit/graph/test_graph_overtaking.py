"""Where barriers may overtake, and how the plan says so."""

from __future__ import annotations

import pytest

from penstock.common import Configuration, Duration
from penstock.datastream import StreamExecutionEnvironment
from penstock.exchange.partition import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.graph.explain import plan_text
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.overtaking import may_overtake
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan
from penstock.operators.operator import Operator


def plan_of(*inputs: Partitioning, unaligned: bool = True) -> Plan:
    builder = GraphBuilder()
    sources = [
        builder.add(NodeKind.SOURCE, f"source {n}", Operator, uid=f"source {n}") for n in range(len(inputs))
    ]
    links = tuple(Link(source, partitioning=way) for source, way in zip(sources, inputs, strict=True))
    builder.add(NodeKind.SINK, "sink", Operator, uid="sink", links=links)
    return compile_plan(
        builder.nodes, "job", PlanOptions(2, chaining=False), PlanSettings(unaligned=unaligned)
    )


@pytest.mark.parametrize("way", [Hash(str, ()), Rebalance(), Shuffle(), Global()])
def test_exchanges_that_can_deal_records_anew(way: Partitioning) -> None:
    plan = plan_of(way)
    assert may_overtake(plan, plan.edges[0].target)
    assert "aligned" not in plan_text(plan)
    off = plan_of(way, unaligned=False)
    assert not may_overtake(off, off.edges[0].target) and "aligned" not in plan_text(off)


@pytest.mark.parametrize("way", [Forward(), Rescale(), Broadcast(), Custom(lambda key, count: 0, str)])
def test_exchanges_that_cannot_hold_back_the_whole_task(way: Partitioning) -> None:
    plan = plan_of(way, Hash(str, ()))
    assert not may_overtake(plan, plan.edges[0].target)
    text = plan_text(plan)
    assert f"{way.strategy} -> sink   (barriers stay aligned: {way.strategy.lower()} is always" in text
    assert "HASH -> sink   (barriers stay aligned: another input of this task is always aligned)" in text
    assert "aligned" not in plan_text(plan_of(way, Hash(str, ()), unaligned=False))


def test_the_settings_as_pyflink_has_them() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    config = env.get_checkpoint_config()
    assert not env.is_unaligned_checkpoints_enabled() and not env.is_force_unaligned_checkpoints()
    config.enable_unaligned_checkpoints().set_aligned_checkpoint_timeout(Duration.of_seconds(3))
    assert env.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(3000)
    config.set_alignment_timeout(250)
    assert config.get_alignment_timeout().to_milliseconds() == 250
    config.disable_unaligned_checkpoints().set_force_unaligned_checkpoints()
    assert not config.is_unaligned_checkpoints_enabled() and config.is_force_unaligned_checkpoints()
