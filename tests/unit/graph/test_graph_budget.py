"""One budget for all channels of a slot."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.sizing import SEGMENT_BYTES
from penstock.exchange.partition import Forward, Hash, Partitioning, Rebalance, Rescale, channel_targets
from penstock.graph.budget import NetworkBudget
from penstock.graph.explain import plan_text
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan
from penstock.operators.stateless import MapOperator


def plan(parallelism: int, *exchanges: Partitioning, **settings: Any) -> Plan:
    builder = GraphBuilder()
    last = builder.add(NodeKind.SOURCE, "source", lambda: MapOperator(str), uid="source")
    for n, exchange in enumerate(exchanges):
        link = Link(last, partitioning=exchange)
        kind = NodeKind.SINK if n == len(exchanges) - 1 else NodeKind.OPERATOR
        last = builder.add(kind, f"s{n}", lambda: MapOperator(str), uid=f"s{n}", links=(link,))
    return compile_plan(
        builder.nodes, "job", PlanOptions(parallelism, chaining=False), PlanSettings(**settings)
    )


def worst(made: Plan, slot: int) -> int:
    """All that may lie in a slot: at the receiving ends, and at the sending ends of what leaves it."""
    budget, total = NetworkBudget(made), 0
    for edge in made.edges:
        senders, receivers = made.vertex(edge.source).parallelism, made.vertex(edge.target).parallelism
        for sender in range(senders):
            for receiver in channel_targets(edge.partitioning, sender, senders, receivers):
                if slot in (sender, receiver):
                    total += budget.limit(sender, receiver)
    return total


@pytest.mark.parametrize("parallelism", [1, 2, 7, 32])
def test_all_channels_of_a_slot_stay_within_its_budget(parallelism: int) -> None:
    mb = 1 << 20
    made = plan(
        parallelism, Hash(str), Rebalance(), Hash(str), Rescale(), network_bytes=64 * mb, channel_bytes=8 * mb
    )
    for slot in range(parallelism):
        assert worst(made, slot) <= 64 * mb
    assert NetworkBudget(made).limit(0, 0) >= 64 * mb // 260


def test_few_channels_get_what_a_channel_may_have_at_most() -> None:
    assert NetworkBudget(plan(2, Hash(str))).limit(0, 1) == 8 << 20
    assert NetworkBudget(plan(2, Hash(str), channel_bytes=1000)).limit(0, 1) == 1000


def test_a_share_is_never_too_small_to_go_on_with() -> None:
    assert NetworkBudget(plan(32, Hash(str), network_bytes=1)).limit(0, 1) == SEGMENT_BYTES
    assert NetworkBudget(plan(2, Hash(str), channel_bytes=0)).limit(0, 1) == 1, (
        "nothing would stop it for ever"
    )


def test_both_ends_agree_on_the_bound() -> None:
    made = plan(5, Hash(str), Forward(), Rebalance(), network_bytes=10 << 20)
    budget = NetworkBudget(made)
    assert len({budget.limit(a, b) for a in range(5) for b in range(5)}) == 1
    assert all(budget.limit(a, b) == budget.limit(b, a) for a in range(5) for b in range(5))


def test_explain_says_how_much_may_be_in_flight() -> None:
    text = plan_text(plan(32, Hash(str), Hash(str)))
    assert "up to 126 channels a slot, each of 2080 kB: 255 MB in flight at most" in text
