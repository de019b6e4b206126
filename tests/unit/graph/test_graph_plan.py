"""Plans: what shares a task, what identifies a step, what cannot be run, and what people see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.errors import GraphError
from penstock.exchange.partition import Broadcast, Forward, Hash, Partitioning, Rebalance
from penstock.graph.explain import plan_json, plan_text
from penstock.graph.identity import missing_uids
from penstock.graph.nodes import Chaining, GraphBuilder, Link, NodeId, NodeKind
from penstock.graph.plan import Plan, PlanOptions, compile_plan
from penstock.operators.operator import Operator


class Program:
    """A little fluent face for tests."""

    def __init__(self) -> None:
        self.builder = GraphBuilder()

    def source(self, name: str = "source", **properties: Any) -> NodeId:
        return self.builder.add(NodeKind.SOURCE, name, Operator, **properties)

    def step(
        self, name: str, *inputs: NodeId | Link, kind: NodeKind = NodeKind.OPERATOR, **properties: Any
    ) -> NodeId:
        links = tuple(item if isinstance(item, Link) else Link(item) for item in inputs)
        return self.builder.add(kind, name, Operator, links=links, **properties)

    def sink(self, *inputs: NodeId | Link, name: str = "sink", **properties: Any) -> NodeId:
        return self.step(name, *inputs, kind=NodeKind.SINK, **properties)

    def plan(self, parallelism: int = 2, **options: Any) -> Plan:
        return compile_plan(self.builder.nodes, "job", PlanOptions(parallelism, **options))


def chains(plan: Plan) -> list[str]:
    return [vertex.name for vertex in plan.vertices]


def strategies(plan: Plan) -> list[str]:
    return [edge.partitioning.strategy for edge in plan.edges]


def ids(plan: Plan) -> dict[str, str]:
    return {planned.node.name: planned.operator_id for _, planned in plan.operators()}


def line(**of_b: Any) -> Program:
    """source -> a -> b -> c -> sink, with properties for b."""
    program = Program()
    a = program.step("a", program.source())
    b = program.step("b", a, **of_b)
    program.sink(program.step("c", b))
    return program


def test_forward_steps_of_one_parallelism_share_a_task() -> None:
    plan = line().plan()
    assert chains(plan) == ["source -> a -> b -> c -> sink"] and plan.edges == ()
    assert plan.slots == 2 and len(plan.subtasks()) == 2


@pytest.mark.parametrize(
    ("properties", "expected", "ways"),
    [
        ({"chaining": Chaining.HEAD}, ["source -> a", "b -> c -> sink"], ["FORWARD"]),
        ({"chaining": Chaining.NEVER}, ["source -> a", "b", "c -> sink"], ["FORWARD", "FORWARD"]),
        ({"parallelism": 3}, ["source -> a", "b", "c -> sink"], ["REBALANCE", "REBALANCE"]),
        ({"max_parallelism": 64}, ["source -> a", "b -> c -> sink"], ["FORWARD"]),
        ({"slot_group": "other"}, ["source -> a", "b -> c -> sink"], ["FORWARD"]),
    ],
    ids=["head", "never", "parallelism", "max parallelism", "slot group"],
)
def test_what_breaks_a_chain(properties: dict[str, Any], expected: list[str], ways: list[str]) -> None:
    plan = line(**properties).plan()
    assert chains(plan) == expected and strategies(plan) == ways


def test_chaining_can_be_switched_off() -> None:
    plan = line().plan(chaining=False)
    assert chains(plan) == ["source", "a", "b", "c", "sink"] and set(strategies(plan)) == {"FORWARD"}


@pytest.mark.parametrize("partitioning", [Rebalance(), Broadcast(), Hash(None, ("k",))])
def test_other_ways_than_forward_leave_the_task(partitioning: Partitioning) -> None:
    program = Program()
    program.sink(Link(program.source(), partitioning=partitioning))
    plan = program.plan()
    assert chains(plan) == ["source", "sink"] and strategies(plan) == [partitioning.strategy]
    same = Program()
    same.sink(Link(same.source(), partitioning=Forward()))
    assert chains(same.plan()) == ["source -> sink"]


def test_two_inputs_and_unions_start_a_task() -> None:
    program = Program()
    left, right = program.source("left"), program.source("right")
    joined = program.step("join", Link(left), Link(right, input_index=1))
    program.sink(joined)
    plan = program.plan()
    assert chains(plan) == ["left", "right", "join -> sink"]
    assert [edge.input_index for edge in plan.edges] == [0, 1]
    twice = Program()
    one = twice.source()
    twice.sink(one, one)
    plan = twice.plan()
    assert chains(plan) == ["source", "sink"] and len(plan.edges) == 2


def test_side_outputs_stay_in_the_tree() -> None:
    program = Program()
    split = program.step("split", program.source())
    late = program.step("late", Link(split, tag="late"))
    program.sink(split, name="main sink")
    program.sink(late, name="late sink")
    program.sink(Link(split, tag="late", partitioning=Rebalance()), name="far sink")
    plan = program.plan()
    assert chains(plan) == ["source -> split -> late -> main sink -> late sink", "far sink"]
    planned = next(p for _, p in plan.operators() if p.node.name == "split")
    assert {tag for tag, _ in planned.chained} == {"late", None} and [tag for tag, _ in planned.edges] == [
        "late"
    ]


def test_streams_that_end_nowhere_run_but_not_sources_alone() -> None:
    program = line()
    program.step("unread", program.source("other"))
    program.source("alone")
    assert chains(program.plan()) == ["source -> a -> b -> c -> sink", "other -> unread"]


def test_people_are_told_which_steps_nobody_reads() -> None:
    program = line()
    a = program.step("a", program.source("other"))
    program.step("branch", a)
    program.step("side", Link(a, tag="tag"))
    told = plan_text(program.plan()).splitlines()
    start = told.index("  nobody reads the results of these; they run for what else they do:")
    assert [row.strip() for row in told[start + 1 :]] == ["step 'branch'", "step 'side'"]
    assert "nobody reads" not in plan_text(line().plan())


def test_edges_are_numbered_as_they_lie_in_the_plan() -> None:
    plan = line().plan(chaining=False)
    assert [edge.id for edge in plan.edges] == list(range(4))
    assert [plan.vertex(edge.target).name for edge in plan.edges] == ["a", "b", "c", "sink"]


# --- errors -------------------------------------------------------------------------------------


def test_programs_that_cannot_be_run() -> None:
    with pytest.raises(GraphError, match="nothing to run"):
        Program().plan()
    only = Program()
    only.source()
    with pytest.raises(GraphError, match="nothing to run"):
        only.plan()
    with pytest.raises(GraphError, match="'b' has parallelism 200, above its max parallelism 128"):
        line(parallelism=200, max_parallelism=128).plan()
    with pytest.raises(GraphError, match="max parallelism 4"):
        line().plan(8, max_parallelism=4)
    forward = Program()
    forward.sink(Link(forward.source(parallelism=3), partitioning=Forward()))
    with pytest.raises(GraphError, match="3 and 2"):
        forward.plan()


def test_one_uid_for_two_steps_is_an_error_that_names_both() -> None:
    program = Program()
    program.sink(program.step("map", program.source(uid="same"), uid="same"))
    with pytest.raises(GraphError, match="'source' and 'map' have the same uid 'same'"):
        program.plan()
    hashed = Program()
    hashed.sink(hashed.source(uid_hash="f" * 32), uid_hash="f" * 32)
    with pytest.raises(GraphError, match="f" * 32):
        hashed.plan()


def test_streams_of_another_environment_are_refused() -> None:
    with pytest.raises(GraphError, match="another environment"):
        GraphBuilder().get(NodeId(1))


# --- identity -----------------------------------------------------------------------------------


def program_with(uids: bool, extra: bool) -> Plan:
    program = Program()

    def uid(name: str) -> dict[str, Any]:
        return {"uid": name} if uids else {}

    node = program.source(**uid("src"))
    if extra:
        node = program.step("extra", node, **uid("new"))
    node = program.step("count", node, stateful=True, **uid("count"))
    program.sink(node, **uid("out"))
    return program.plan()


def test_a_uid_survives_changes_of_the_program_and_a_position_does_not() -> None:
    assert ids(program_with(True, False))["count"] == ids(program_with(True, True))["count"]
    assert ids(program_with(False, False))["count"] != ids(program_with(False, True))["count"]
    assert ids(program_with(False, False)) == ids(program_with(False, False))


def test_identities_never_change() -> None:
    """They are how a snapshot finds its way back: pinned."""
    assert ids(program_with(True, False)) == PINNED_UIDS
    assert ids(program_with(False, False)) == PINNED_AUTO


def test_names_parallelism_and_unread_steps_do_not_touch_identity() -> None:
    plain = ids(line().plan())
    assert ids(line(parallelism=5, description="x").plan()) == plain
    program = Program()
    program.step("unread", program.source("other"))
    source = program.source()
    program.step("also unread", source)
    program.sink(program.step("c", program.step("b", program.step("a", source))))
    found = ids(program.plan())
    assert len(set(found.values())) == len(found) == len(plain) + 3
    assert {name: found[name] for name in plain} == plain


def test_a_given_hash_is_taken_as_it_is_and_similar_ones_do_not_collide() -> None:
    program = Program()
    first, second = "0" * 31 + "1", "0" * 31 + "2"
    program.sink(Link(program.source(uid_hash=first), partitioning=Rebalance()), uid_hash=second)
    plan = program.plan()
    assert ids(plan) == {"source": first, "sink": second}
    assert len({vertex.id for vertex in plan.vertices}) == 2


def test_stateful_steps_without_a_uid_are_named() -> None:
    program = Program()
    program.sink(program.step("count", program.source(), stateful=True))
    assert missing_uids(program.builder.nodes) == ["count"]


# --- what people see ----------------------------------------------------------------------------


def test_the_plan_as_json() -> None:
    program = Program()
    left, right = program.source("left"), program.source("right", parallelism=1)
    keyed = Link(left, partitioning=Hash(None, ("k",)))
    joined = program.step("join", keyed, Link(right, input_index=1), description="a join")
    program.sink(joined, name="print")
    nodes = json.loads(plan_json(program.plan()))["nodes"]
    assert [(n["id"], n["type"], n["pact"], n["contents"], n["parallelism"]) for n in nodes] == [
        (1, "left", "Data Source", "left", 2),
        (2, "right", "Data Source", "right", 1),
        (3, "join", "Operator", "a join", 2),
        (4, "print", "Data Sink", "print", 2),
    ]
    assert "predecessors" not in nodes[0]
    assert nodes[2]["predecessors"] == [
        {"id": 1, "ship_strategy": "HASH", "side": "first"},
        {"id": 2, "ship_strategy": "REBALANCE", "side": "second"},
    ]
    assert nodes[3]["predecessors"] == [{"id": 3, "ship_strategy": "FORWARD", "side": "first"}]


def test_the_plan_in_words() -> None:
    program = Program()
    program.sink(Link(program.source(), partitioning=Rebalance()))
    text = plan_text(program.plan())
    assert "2 tasks, 2 slots" in text and "REBALANCE -> sink" in text and "(max parallelism 128)" in text


PINNED_UIDS = {
    "source": "2c0649c02a3858ba5b3747192ed1e684",
    "count": "def1941df6767c50f16f03fd67f79575",
    "sink": "921ea27b98b18e1b20c9c18924e1ca82",
}
PINNED_AUTO = {
    "source": "5b5b449109fc71c61870bb1bbc9e42e5",
    "count": "d9c1b8552eae5bb83642024b9ceb9fe8",
    "sink": "2f2bb578a31c0993bc52665b176bbd5d",
}
