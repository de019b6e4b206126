"""What snapshots call the ways between steps: the same whatever steps form a chain."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, ChannelHandle
from penstock.core.ids import SubtaskIndex
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.graph.identity import of_uid
from penstock.graph.overtaking import Crossing, crossings, takers
from penstock.graph.plan import Plan, PlanOptions, compile_plan

SIDE = OutputTag("side")


def plan_of(parallelism: int) -> Plan:
    """``pinned`` has parallelism 2, ``last`` and the sink 1; the others that of the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = env.from_collection([1]).uid("source")
    free = source.map(str).uid("free")
    pinned = free.map(str).uid("pinned").set_parallelism(2)
    keyed = pinned.key_by(str).map(str).uid("keyed")
    both = keyed.union(keyed, free.get_side_output(SIDE)).map(str).uid("both")
    last = both.map(str).uid("last").set_parallelism(1)
    last.print().uid("sink").set_parallelism(1)
    return compile_plan(env.graph.nodes, "job", PlanOptions(parallelism))


def handle(edge: str, receiver: int = 0) -> ChannelHandle:
    return ChannelHandle(edge, SubtaskIndex(0), SubtaskIndex(receiver), Blob.of(b""))


def named(plan: Plan, edge: str) -> Crossing:
    return crossings(plan, [handle(edge)])[edge]


def older_name(plan: Plan, edge: Any) -> str:
    alike = [e for e in plan.edges[: edge.id] if (e.source, e.target) == (edge.source, edge.target)]
    return f"{edge.source}>{edge.target}/{edge.input_index}.{len(alike)}"


def test_names_are_told_apart() -> None:
    for parallelism in (1, 2, 3):
        names = [edge.name for edge in plan_of(parallelism).edges]
        assert len(set(names)) == len(names)
        assert sum("#side>" in name for name in names) == 1
        assert sum(name.endswith("/0.1") for name in names) == 1, "a union of a stream with itself"


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_every_exchange_is_found_again_at_any_parallelism(before: int, after: int) -> None:
    old, new = plan_of(before), plan_of(after)
    assert old.edges
    for edge in old.edges:
        found = named(new, edge.name)
        assert found.target.operator_id == old.vertex(edge.target).head.operator_id
        assert found.target in found.vertex.operators
        assert (found.edge is None) == (found.target is not found.vertex.head)


def test_records_of_a_way_within_a_chain_are_dealt_by_number() -> None:
    plan = plan_of(3)
    last = next(e for e in plan.edges if plan.vertex(e.target).head.operator_id == of_uid("last"))
    found = named(plan_of(1), last.name)
    assert found.edge is None and takers(found, handle(last.name, 2)) == [0]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_older_names_are_read_while_chains_stay(parallelism: int) -> None:
    plan = plan_of(parallelism)
    assert plan.edges
    for edge in plan.edges:
        assert named(plan, older_name(plan, edge)).edge == edge


def test_older_names_are_read_after_chains_have_changed_if_there_is_one_way_in() -> None:
    old, new = plan_of(3), plan_of(2)
    keyed = next(edge for edge in old.edges if ".0" in edge.name and edge.partitioning.strategy == "HASH")
    found = named(new, older_name(old, keyed))
    assert found.target.operator_id == old.vertex(keyed.target).head.operator_id


@pytest.mark.parametrize("name", ["gone>away/0.0", "0123456789ab>{target}/0.0", "{source}>{target}/7.0"])
def test_what_the_program_lacks_is_refused(name: str) -> None:
    plan = plan_of(2)
    edge = plan.edges[0]
    with pytest.raises(SnapshotError, match="take a savepoint"):
        named(plan, name.format(source=edge.source, target=edge.target))
