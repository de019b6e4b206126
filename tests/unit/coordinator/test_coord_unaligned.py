"""The coordinator with unaligned checkpoints: what it triggers and when, how it deals records in flight."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coord_rig import Rig, of, plan_of, restored, triggers

from penstock.coordinator.events import (
    CancelRequested,
    Commit,
    RequestKind,
    SavepointWritten,
    Send,
    SendAll,
    SnapshotRequest,
    SnapshotRequested,
)
from penstock.coordinator.restore import _records_in_flight
from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, ChannelHandle
from penstock.core.ids import EdgeId, Epoch, Generation, SlotId, SubtaskIndex
from penstock.core.job import JobStatus
from penstock.core.messages import Deploy, TriggerSnapshot
from penstock.core.signals import SnapshotKind
from penstock.exchange.partition import Hash
from penstock.graph.overtaking import Crossing, may_overtake, takers, why_aligned
from penstock.graph.plan import Plan
from penstock.snapshot.manifest import Manifest, OperatorEntry


def triggered(rig: Rig) -> list[TriggerSnapshot]:
    return [item.message for item in of(rig.all, SendAll) if isinstance(item.message, TriggerSnapshot)]


def handle(plan: Plan, receiver: int, edge: str | None = None) -> ChannelHandle:
    name = plan.edge_name(EdgeId(0)) if edge is None else edge
    return ChannelHandle(name, SubtaskIndex(0), SubtaskIndex(receiver), Blob.of(b"records"))


def manifest(*channels: ChannelHandle) -> Manifest:
    return Manifest(
        "id", "job", Epoch(1), Generation(1), SnapshotKind.CHECKPOINT, 0, (), {}, (), "1", channels=channels
    )


@pytest.mark.parametrize(("timeout", "overtakes"), [(0, True), (500, False)])
def test_checkpoints_overtake_from_the_start_unless_they_are_tried_aligned(
    timeout: int, overtakes: bool
) -> None:
    rig = Rig(interval_ms=100, unaligned=True, aligned_timeout_ms=timeout).run()
    rig.tick(100)
    assert [message.unaligned for message in triggered(rig)] == [overtakes]


def test_savepoints_are_aligned_and_nothing_overtakes_them() -> None:
    rig = Rig(interval_ms=100, unaligned=True).run()
    rig.give(SnapshotRequested(SnapshotRequest("one", RequestKind.SAVEPOINT, "file:///savepoints/one")))
    rig.give(SnapshotRequested(SnapshotRequest("two", RequestKind.CHECKPOINT)))
    (savepoint,) = triggered(rig)
    assert savepoint.kind is SnapshotKind.SAVEPOINT and not savepoint.unaligned
    assert triggers(rig.tick(500)) == [], "neither a periodic checkpoint nor one that was asked for"
    rig.ack_all(1)
    rig.give(SavepointWritten(Epoch(1)))
    assert triggers(rig.all) == [1, 2] and triggered(rig)[1].unaligned


def test_a_cancelled_job_commits_all_that_is_published() -> None:
    """A second commit waited behind the first when the job was cancelled, and nobody ever began it."""
    rig = Rig(interval_ms=100, max_concurrent=2).run()
    rig.tick(100)
    rig.ack_all(1, b"first")
    (first,) = of(rig.published(1), Commit)
    rig.tick(100)
    rig.ack_all(2, b"second")
    assert not of(rig.published(2), Commit), "one at a time"
    rig.give(CancelRequested())
    rig.gang_gone()
    assert rig.end is None
    (second,) = of(rig.committed(first), Commit)
    assert [item.payload for item in second.committables] == [b"second"]
    rig.committed(second)
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED


def test_each_slot_is_sent_what_it_must_look_at() -> None:
    rig = Rig()
    mine = {SlotId(1): (handle(rig.plan, 1),)}
    rig.run(replace(restored(rig, 1), channels=mine))
    sent = {item.slot: item.message for item in of(rig.all, Send) if isinstance(item.message, Deploy)}
    assert {slot: message.channels for slot, message in sent.items()} == {SlotId(0): (), **mine}


def test_records_of_an_exchange_without_keys_are_dealt_by_number() -> None:
    plan = plan_of(2)
    old = [handle(plan, receiver) for receiver in range(5)]
    dealt = _records_in_flight(plan, manifest(*old))
    assert dealt == {SlotId(0): (old[0], old[2], old[4]), SlotId(1): (old[1], old[3])}


def test_records_in_flight_of_an_older_format_may_be_anybodys() -> None:
    """Keys of some kinds have another hash today, so whoever has the key now must find the record."""
    plan = plan_of(2)
    keyed = replace(plan, edges=tuple(replace(edge, partitioning=Hash()) for edge in plan.edges))
    record = handle(keyed, 0)
    vertex = keyed.vertex(keyed.edges[0].target)
    entry = OperatorEntry(vertex.head.operator_id, None, "x", vertex.id, 2, vertex.max_parallelism)
    today = replace(manifest(record), operators=(entry,))
    assert set(_records_in_flight(keyed, today)) == {SlotId(0)}
    assert set(_records_in_flight(keyed, replace(today, format_version=2))) == {SlotId(0), SlotId(1)}


def test_records_of_an_exchange_that_is_gone_are_refused() -> None:
    plan = plan_of(2)
    with pytest.raises(SnapshotError, match=r"gone>sink/0\.0.*take a savepoint"):
        _records_in_flight(plan, manifest(handle(plan, 0), handle(plan, 0, "gone>sink/0.0")))


def test_keyed_records_go_to_those_whose_keys_they_may_be() -> None:
    plan = plan_of(4)
    edge = replace(plan.edges[0], partitioning=Hash(str, ()))
    vertex = plan.vertex(edge.target)
    crossing = Crossing(vertex, vertex.head, edge)

    def of_old(receiver: int, parallelism: int) -> list[int]:
        return takers(crossing, handle(plan, receiver), (parallelism, vertex.max_parallelism))

    assert [of_old(receiver, 4) for receiver in range(4)] == [[0], [1], [2], [3]]
    assert [of_old(receiver, 2) for receiver in range(2)] == [[0, 1], [2, 3]]
    assert [of_old(receiver, 3) for receiver in range(3)] == [[0, 1], [1, 2], [2, 3]]
    assert takers(crossing, handle(plan, 0), (2, 64)) == [0, 1, 2, 3], "other key groups: anybody's"
    assert takers(crossing, handle(plan, 0)) == [0, 1, 2, 3]


def test_what_stays_aligned_is_only_said_when_it_is_news() -> None:
    plan = plan_of(2)
    assert not may_overtake(plan, plan.edges[0].target) and why_aligned(plan, plan.edges[0]) is None
