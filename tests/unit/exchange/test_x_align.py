"""Alignment as sequences of elements through the input gate."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import ChannelId, EdgeId, Epoch, SubtaskIndex
from penstock.core.signals import END_OF_INPUT, Barrier, CancelBarrier, Element
from penstock.exchange.barrier_alignment import Aligner, AtLeastOnce, ExactlyOnce
from penstock.exchange.channel import InputChannel, LocalSender
from penstock.exchange.events import BarrierReady, Data, InputEnded, SnapshotsCancelled
from penstock.exchange.gate import InputGate


class Rig:
    """A gate with its channels; ``feed`` writes, ``out`` reads what the task would see."""

    def __init__(self, channels: int, aligner: type[Aligner] = ExactlyOnce) -> None:
        self.clock = ManualClock()
        self.channels = [
            InputChannel(ChannelId(EdgeId(0), SubtaskIndex(n), SubtaskIndex(0))) for n in range(channels)
        ]
        self.senders = [LocalSender(channel, 1 << 20) for channel in self.channels]
        self.gate = InputGate([(channel, 0) for channel in self.channels], aligner(channels), self.clock)

    def feed(self, *items: tuple[int, Any]) -> list[Any]:
        """Each item is (channel, element): a text is a record, a number a barrier, -n cancels n."""
        seen = []
        for channel, item in items:
            self.senders[channel].send(element_of(item))
            seen += self.out()
        return seen

    def out(self) -> list[Any]:
        seen: list[Any] = []
        while (event := self.gate.poll()) is not None:
            if isinstance(event, Data):
                seen.append(event.batch.to_rows()[0])
            elif isinstance(event, BarrierReady):
                seen.append(event.barrier.epoch)
            elif isinstance(event, SnapshotsCancelled):
                seen += [-epoch for epoch in event.epochs]
            elif isinstance(event, InputEnded) and event.all_ended:
                seen.append("END")
        return seen


END = object()


def element_of(item: Any) -> Element:
    if item is END:
        return END_OF_INPUT
    if isinstance(item, str):
        return Batch.of_rows([item])
    return Barrier(Epoch(item)) if item > 0 else CancelBarrier(Epoch(-item))


# --- exactly once -------------------------------------------------------------------------------


def test_a_single_channel_needs_no_alignment() -> None:
    rig = Rig(1)
    assert rig.feed((0, "a"), (0, 1), (0, "b"), (0, 2), (0, 3), (0, "c"), (0, END)) == [
        "a",
        1,
        "b",
        2,
        3,
        "c",
        "END",
    ]


def test_a_channel_is_held_from_its_barrier_on() -> None:
    rig = Rig(3)
    assert rig.feed((0, "a"), (1, "b"), (2, 1), (2, "held"), (1, 1), (1, "held too")) == ["a", "b"]
    assert rig.feed((0, "c"), (0, 1)) == ["c", 1, "held too", "held"]
    assert rig.feed((2, "d"), (1, "e")) == ["d", "e"]


def test_one_alignment_after_the_other_with_barriers_queued_behind() -> None:
    rig = Rig(2)
    assert rig.feed((0, 1), (0, "x1"), (0, 2), (0, "x2"), (0, 3)) == []
    assert rig.feed((1, "y0"), (1, 1)) == ["y0", 1, "x1"]
    assert rig.feed((1, "y1"), (1, 2)) == ["y1", 2, "x2"]
    assert rig.feed((1, 3)) == [3]


def test_a_newer_barrier_gives_the_older_alignment_up() -> None:
    rig = Rig(3)
    assert rig.feed((0, 1), (0, "x"), (1, 1), (1, "y")) == []
    assert rig.feed((2, 2)) == [-1, "x", "y"]
    assert rig.feed((2, "held"), (0, 2), (1, 2)) == [2, "held"]


def test_a_newer_barrier_behind_a_held_channel_leaves_the_older_alignment_alone() -> None:
    """Several snapshots in flight: only an open channel that brings the newer one has lost the older."""
    rig = Rig(3)
    assert rig.feed((0, 1), (0, 2), (0, "x"), (1, 1), (1, 2)) == []
    assert rig.feed((2, "y"), (2, 1), (2, "z")) == ["y", 1, "z"]
    assert rig.feed((2, 2)) == [2, "x"]
    lost = Rig(3)
    assert lost.feed((0, 1), (0, 2), (0, "x")) == []
    assert lost.feed((1, 2)) == [-1], "channel 0 is let go, and held again by its own barrier 2"
    assert lost.feed((2, 1), (2, 2)) == [2, "x"]


def test_late_barriers_are_swallowed_and_do_not_hold() -> None:
    rig = Rig(3)
    assert rig.feed((0, 1), (1, 2)) == [-1]
    assert rig.feed((2, 1), (2, "goes through")) == ["goes through"]
    assert rig.feed((0, 2), (2, 2), (0, 1), (0, "z")) == [2, "z"]


def test_the_end_of_a_channel_counts_as_its_barrier() -> None:
    rig = Rig(3)
    assert rig.feed((0, 1), (1, 1), (0, "x")) == []
    assert rig.feed((2, "last"), (2, END)) == ["last", 1, "x"]
    assert rig.feed((0, 2), (1, 2)) == [2]
    assert rig.feed((0, END), (1, 3), (1, END)) == [3, "END"]


def test_a_channel_that_ended_before_is_not_waited_for() -> None:
    rig = Rig(2)
    assert rig.feed((0, END), (1, 1), (1, "a"), (1, 2)) == [1, "a", 2]


def test_the_end_behind_a_barrier_waits_with_it() -> None:
    rig = Rig(2)
    assert rig.feed((0, 1), (0, END)) == []
    assert rig.feed((1, 1), (1, END)) == [1, "END"]


def test_a_cancellation_during_alignment_releases() -> None:
    rig = Rig(3)
    assert rig.feed((0, 1), (0, "x"), (1, 1)) == []
    assert rig.feed((2, -1)) == [-1, "x"]
    assert rig.feed((2, "y"), (2, 1), (2, "z")) == ["y", "z"]
    assert rig.feed((0, 2), (1, 2), (2, 2)) == [2]


def test_a_cancellation_before_the_barriers() -> None:
    rig = Rig(2)
    assert rig.feed((0, -1), (0, "a")) == [-1, "a"]
    assert rig.feed((1, -1)) == []
    assert rig.feed((1, 1), (1, "b"), (0, 2), (1, 2)) == ["b", 2]


def test_a_cancellation_after_completion_changes_nothing() -> None:
    rig = Rig(2)
    assert rig.feed((0, 1), (1, 1), (0, -1), (1, -1), (0, "a")) == [1, "a"]
    single = Rig(1)
    assert single.feed((0, 1), (0, -1), (0, -2), (0, 2), (0, 3)) == [1, -2, 3]


def test_an_old_cancellation_does_not_disturb_a_newer_alignment() -> None:
    rig = Rig(3)
    assert rig.feed((0, 5), (1, -3), (1, "a")) == ["a"]
    assert rig.feed((1, 5), (2, 5)) == [5]


def test_giving_up_a_newer_snapshot_leaves_the_older_alignment_alone() -> None:
    rig = Rig(2)
    assert rig.feed((0, 1), (0, 2), (0, "x")) == []
    rig.gate.cancel(Epoch(2))
    assert rig.out() == [-2]
    assert rig.feed((1, "y"), (1, 1)) == ["y", 1, "x"]
    assert rig.feed((1, 2), (1, "z")) == ["z"]
    assert rig.feed((1, 3), (0, 3)) == [3]


def test_the_coordinators_cancellation_releases_and_is_passed_on_once() -> None:
    rig = Rig(2)
    assert rig.feed((0, 1), (0, "x")) == []
    rig.gate.cancel(Epoch(1))
    rig.gate.cancel(Epoch(1))
    assert rig.out() == [-1, "x"]
    assert rig.feed((1, 1), (1, "y")) == ["y"]


def test_the_time_of_an_alignment_is_measured() -> None:
    rig = Rig(2)
    rig.feed((0, 1))
    rig.clock.advance(40)
    rig.senders[1].send(Barrier(Epoch(1)))
    event = rig.gate.poll()
    assert isinstance(event, BarrierReady) and event.alignment_ms == pytest.approx(40)


# --- at least once ------------------------------------------------------------------------------


def test_at_least_once_holds_nothing() -> None:
    rig = Rig(3, AtLeastOnce)
    assert rig.feed((0, 1), (0, "a"), (1, 1), (1, "b"), (0, 2), (0, "c")) == ["a", "b", "c"]
    assert rig.feed((2, 1), (2, "d"), (1, 2), (2, 2)) == [1, "d", 2]


def test_at_least_once_gives_up_what_a_newer_one_overtook() -> None:
    rig = Rig(2, AtLeastOnce)
    assert rig.feed((0, 1), (0, 2), (1, 2), (1, 1), (1, "a")) == [-1, 2, "a"]


def test_at_least_once_counts_the_end_of_a_channel() -> None:
    rig = Rig(2, AtLeastOnce)
    assert rig.feed((0, 1), (1, END), (0, 2)) == [1, 2]
    rig = Rig(2, AtLeastOnce)
    assert rig.feed((0, 1), (0, 2), (1, END)) == [-1, 2]


def test_at_least_once_cancellations() -> None:
    rig = Rig(2, AtLeastOnce)
    assert rig.feed((0, 1), (0, 2), (0, -2), (1, -2)) == [-2]
    assert rig.feed((1, 1), (1, 2), (0, 2), (1, "a")) == [1, "a"]
    assert rig.feed((0, 3), (1, -3), (1, 3), (0, 4), (1, 4)) == [-3, 4]


def test_at_least_once_tracks_fifty_snapshots() -> None:
    rig = Rig(2, AtLeastOnce)
    assert rig.feed(*((0, epoch) for epoch in range(1, 51))) == []
    assert rig.feed((0, 51)) == [-1]
    assert rig.feed((0, 52)) == [-2]
    assert rig.feed((1, 1), (1, 2), (1, 3), (1, 52)) == [3, *(-epoch for epoch in range(4, 52)), 52]


# --- at random ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_exactly_once_cuts_every_channel_at_its_barrier(seed: int) -> None:
    """Records before a channel's barrier n come out before the cut n, those behind it after."""
    rng = random.Random(seed)
    count, epochs = rng.randint(1, 5), rng.randint(1, 6)
    plans: list[list[Any]] = []
    for channel in range(count):
        plan: list[Any] = []
        last = rng.randint(1, epochs) if rng.random() < 0.3 else epochs
        for epoch in range(1, last + 1):
            plan += [f"{channel}:{epoch}:{n}" for n in range(rng.randint(0, 4))]
            plan.append(epoch)
        plans.append([*plan, *(f"{channel}:{last + 1}:{n}" for n in range(rng.randint(0, 3))), END])
    rig = Rig(count)
    seen: list[Any] = []
    sent = [0] * count
    while any(at < len(plan) for at, plan in zip(sent, plans, strict=True)):
        channel = rng.choice([n for n in range(count) if sent[n] < len(plans[n])])
        rig.senders[channel].send(element_of(plans[channel][sent[channel]]))
        sent[channel] += 1
        if rng.random() < 0.5:
            seen += rig.out()
    seen += rig.out()
    assert seen[-1] == "END"
    cuts = [item for item in seen if isinstance(item, int)]
    assert cuts == list(range(1, max(max(e for e in plan if isinstance(e, int)) for plan in plans) + 1))
    passed = 0
    arrived: list[str] = []
    for item in seen[:-1]:
        if isinstance(item, int):
            passed = item
        else:
            arrived.append(item)
            channel, epoch, _ = map(int, item.split(":"))
            assert epoch > passed, "came out behind a cut it belongs before"
            ended = max(e for e in plans[channel] if isinstance(e, int))
            assert epoch == passed + 1 or epoch > ended, "came out before a cut it belongs behind"
    for channel, plan in enumerate(plans):
        assert [r for r in arrived if r.startswith(f"{channel}:")] == [r for r in plan if isinstance(r, str)]
