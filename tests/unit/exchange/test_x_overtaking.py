"""Barriers that overtake: every interleaving of small scripts, and the rules one by one.

The law: what the task was given before its snapshot, and what the snapshot recorded, are together exactly
what each channel brought ahead of its barrier, in order; and everything is served once, in order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import SnapshotError, TransportError
from penstock.core.ids import ChannelId, EdgeId, Epoch, SubtaskIndex
from penstock.core.signals import END_OF_INPUT, Barrier, CancelBarrier, Element, SnapshotKind
from penstock.exchange.barrier_alignment import ExactlyOnce
from penstock.exchange.channel import InputChannel, LocalSender
from penstock.exchange.channel_state import Overtaken, decode, encode
from penstock.exchange.events import BarrierReady, Data, InputEnded, OvertakenComplete, SnapshotsCancelled
from penstock.exchange.gate import InputGate, Overtaking

END = "END"
POLL = "poll"
TIMEOUT = 100


class Rig:
    """A gate, what its task has seen, and what was recorded for each snapshot."""

    def __init__(
        self,
        channels: int,
        switch_after_ms: int | None = None,
        allowed: bool = True,
        recovered: tuple[tuple[int, str], ...] = (),
        now: int = 1_000_000,
    ) -> None:
        self.clock = ManualClock(now)
        self.channels = [
            InputChannel(ChannelId(EdgeId(0), SubtaskIndex(n), SubtaskIndex(0))) for n in range(channels)
        ]
        self.senders = [LocalSender(channel, 1 << 20) for channel in self.channels]
        self.gate = InputGate(
            [(channel, 0) for channel in self.channels],
            ExactlyOnce(channels),
            self.clock,
            Overtaking(allowed, switch_after_ms),
            [(number, Batch.of_rows([row])) for number, row in recovered],
        )
        self.seen: list[Any] = []
        self.overtaken: dict[int, Overtaken] = {}
        self.complete: dict[int, dict[int, list[str]]] = {}
        """Records of each whole unaligned snapshot, by channel."""

    def send(self, channel: int, item: Any) -> None:
        self.senders[channel].send(self.element(item))

    def element(self, item: Any) -> Element:
        """A text is a record, n an unaligned barrier, n.5 an aligned one, -n cancels n."""
        if item == END:
            return END_OF_INPUT
        if isinstance(item, str):
            return Batch.of_rows([item])
        if item < 0:
            return CancelBarrier(Epoch(-item))
        return Barrier(Epoch(int(item)), triggered_ms=1_000_000, unaligned=isinstance(item, int))

    def step(self, most: int = 1 << 30) -> bool:
        """What one event brings; false if there is none."""
        event = self.gate.poll(most)
        if isinstance(event, Data):
            self.seen += event.batch.to_rows()
        elif isinstance(event, BarrierReady):
            self.seen.append(int(event.barrier.epoch))
            if event.overtaken is not None:
                self.seen[-1] = (int(event.barrier.epoch), "overtook")
                event.overtaken.seal()
                self.overtaken[event.barrier.epoch] = event.overtaken
                if event.overtaken.complete:
                    self.on_complete(event.barrier.epoch)
        elif isinstance(event, OvertakenComplete):
            self.on_complete(event.epoch)
        elif isinstance(event, SnapshotsCancelled):
            self.seen += [-epoch for epoch in event.epochs]
        elif isinstance(event, InputEnded) and event.all_ended:
            self.seen.append(END)
        return event is not None

    def on_complete(self, epoch: int) -> None:
        kept = self.overtaken[epoch].channels()
        self.complete[epoch] = {
            int(channel.sender): [
                row for batch in decode(b"".join(encode(entries))) for row in batch.to_rows()
            ]
            for channel, entries in kept
        }

    def run(self, *items: Any) -> list[Any]:
        """Send (channel, element) pairs, poll where it says so, then poll to the end; what was seen."""
        start = len(self.seen)
        for item in items:
            if item == POLL:
                self.step()
            else:
                self.send(*item)
        while self.step():
            pass
        return self.seen[start:]


def interleavings(*scripts: tuple[Any, ...]) -> Iterator[list[Any]]:
    """All orders in which the scripts' items can come, each script in its own order."""
    if not any(scripts):
        yield []
        return
    for number, script in enumerate(scripts):
        if script:
            rest = [*scripts[:number], script[1:], *scripts[number + 1 :]]
            for tail in interleavings(*rest):
                yield [script[0], *tail]


def on(channel: int, *items: Any) -> tuple[Any, ...]:
    return tuple((channel, item) for item in items)


def check_law(rig: Rig, scripts: list[tuple[Any, ...]], epoch: int, told: object) -> None:
    """The cut of ``epoch`` is where the barriers are."""
    mark = next(i for i, item in enumerate(rig.seen) if item in (epoch, (epoch, "overtook")))
    before = [row for row in rig.seen[:mark] if isinstance(row, str)]
    kept = rig.complete.get(epoch, {})
    for channel, script in enumerate(scripts):
        items = [item for _, item in script]
        stop = next((i for i, item in enumerate(items) if item in (epoch, epoch + 0.5, END)), len(items))
        ahead = [item for item in items[:stop] if isinstance(item, str)]
        mine = [row for row in before if row[0] == str(channel)]
        assert mine + kept.get(channel, []) == ahead, told
        everything = [item for item in items if isinstance(item, str) and item != END]
        assert [row for row in rig.seen if isinstance(row, str) and row[0] == str(channel)] == everything, (
            told
        )


SCRIPTS = {
    "two channels": [on(0, "0a", "0b", 1, "0c"), on(1, "1a", 1, "1b")],
    "three channels": [on(0, "0a", 1), on(1, 1, "1a"), on(2, "2a", 1)],
    "the end counts": [on(0, "0a", 1, "0b", END), on(1, "1a", "1b", END)],
    "the end behind": [on(0, "0a", 1, "0b", END), on(1, "1a", 1, END)],
    "one aligned": [on(0, "0a", 1.5, "0b"), on(1, "1a", "1b", 1, "1c")],
    "two snapshots": [on(0, "0a", 1, "0b", 2), on(1, "1a", 1, "1b", 2)],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_interleaving_is_cut_at_the_barriers(name: str) -> None:
    scripts = SCRIPTS[name]
    polls = (POLL,) * 2
    count = 0
    for order in interleavings(*scripts, polls):
        rig = Rig(len(scripts))
        rig.run(*order)
        epochs = {int(item) for script in scripts for _, item in script if not isinstance(item, str)}
        for epoch in sorted(epochs):
            done = any(item in (epoch, (epoch, "overtook")) for item in rig.seen)
            if -epoch in rig.seen:
                assert epoch < max(epochs), order
                continue
            assert done, order
            check_law(rig, scripts, epoch, order)
        count += 1
    assert count >= 100


def test_every_moment_of_the_switch() -> None:
    """Aligned barriers, and the time is up at any moment: after it, or before the first of them came."""
    scripts = [on(0, "0a", 1.5, "0b"), on(1, "1a", 1.5, "1c")]
    switched = 0
    for order in interleavings(*scripts, ("time",), (POLL,) * 2):
        rig = Rig(2, switch_after_ms=TIMEOUT)
        for item in order:
            if item == "time":
                rig.clock.advance(TIMEOUT)
                rig.gate.on_time(rig.clock.now_ms())
            elif item == POLL:
                rig.step()
            else:
                rig.send(*item)
        rig.gate.on_time(rig.clock.now_ms())
        rig.run()
        check_law(rig, scripts, 1, order)
        switched += 1 in rig.overtaken
    assert switched > 100


def test_every_interleaving_with_records_of_a_restored_snapshot() -> None:
    """They come before all others; whatever of them still waits is part of the next snapshot."""
    scripts = [on(0, "0a", 1, "0b"), on(1, "1a", 1)]
    orders = list(interleavings(*scripts, (POLL,) * 3))
    assert len(orders) > 100
    for order in orders:
        rig = Rig(2, recovered=((0, "0x"), (0, "0y")))
        rig.run(*order)
        with_old = [on(0, "0x", "0y", "0a", 1, "0b"), scripts[1]]
        check_law(rig, with_old, 1, order)
        rows = [row for row in rig.seen if isinstance(row, str)]
        assert rows[:2] == ["0x", "0y"]


def test_the_snapshot_comes_before_anything_that_is_queued() -> None:
    rig = Rig(2)
    assert rig.run((0, "0a"), (0, "0b"), (1, "1a"), (1, 1)) == [(1, "overtook"), "0a", "1a", "0b"]
    assert rig.complete == {}, "the barrier of channel 0 is missing"
    assert rig.run((0, "0c"), (1, "1b"), (0, 1), (0, "0d")) == ["0c", "1b", "0d"]
    assert rig.complete == {1: {0: ["0a", "0b", "0c"], 1: ["1a"]}}


def test_a_cut_batch_is_kept_from_where_it_was_cut() -> None:
    rig = Rig(1)
    rig.channels[0].put(Batch.of_rows(["0a", "0b", "0c", "0d"]), 256)
    rig.step(most=3)
    assert rig.seen == ["0a", "0b", "0c"] and rig.channels[0].queued_bytes == 256
    assert rig.run((0, 1)) == [(1, "overtook"), "0d"]
    assert rig.complete == {1: {0: ["0d"]}} and rig.channels[0].queued_bytes == 0


def test_rows_are_kept_as_they_were() -> None:
    """The task may change an object as soon as it has it."""
    rig = Rig(1)
    row = ["as it was"]
    rig.channels[0].put(Batch.of_rows([row]), 64)
    rig.send(0, 1)
    rig.step()
    row[0] = "changed"
    rig.on_complete(1)
    assert rig.complete[1] == {0: [["as it was"]]}


def test_rows_that_cannot_be_encoded_are_told_to_the_writer() -> None:
    rig = Rig(1)
    rig.channels[0].put(Batch.of_rows([iter(())]), 64)
    rig.channels[0].put(Batch.of_rows([(row for row in ())]), 64)
    rig.senders[0].send(Barrier(Epoch(1), unaligned=True))
    event = rig.gate.poll()
    assert isinstance(event, BarrierReady) and event.overtaken is not None
    event.overtaken.seal()
    with pytest.raises(Exception, match="generator"):
        event.overtaken.channels()


def test_a_forced_aligned_gate_waits_for_all_barriers() -> None:
    rig = Rig(2, allowed=False)
    assert rig.run((0, "0a"), (0, 1), (0, "0b"), (1, "1a")) == ["0a", "1a"]
    assert rig.run((1, 1)) == [1, "0b"]


def test_a_savepoint_never_switches() -> None:
    rig = Rig(2, switch_after_ms=TIMEOUT)
    rig.senders[0].send(Barrier(Epoch(1), SnapshotKind.SAVEPOINT, 1_000_000))
    assert rig.gate.next_deadline_ms() is None


def test_the_time_counts_from_the_trigger_whatever_the_clocks_say() -> None:
    rig = Rig(2, switch_after_ms=TIMEOUT)
    rig.clock.advance(70)
    rig.send(0, 1.5)
    assert rig.gate.next_deadline_ms() == 1_000_100
    behind = Rig(2, switch_after_ms=TIMEOUT, now=999_500)
    behind.send(0, 1.5)
    assert behind.gate.next_deadline_ms() == 999_500 + TIMEOUT, "our clock is behind the driver's"


def test_held_channels_are_let_go_at_the_switch() -> None:
    rig = Rig(2, switch_after_ms=TIMEOUT)
    assert rig.run((0, "0a"), (0, 1.5), (0, "0b"), (1, "1a")) == ["0a", "1a"]
    rig.clock.advance(TIMEOUT)
    rig.gate.on_time(rig.clock.now_ms())
    assert rig.run() == [(1, "overtook"), "0b"]
    assert rig.run((1, "1b"), (1, 1.5), (1, "1c")) == ["1b", "1c"]
    assert rig.complete == {1: {1: ["1b"]}}
    assert rig.gate.next_deadline_ms() is None


def test_giving_up_ends_the_recording() -> None:
    rig = Rig(2)
    assert rig.run((0, 1), (1, "1a")) == [(1, "overtook"), "1a"]
    rig.gate.cancel(Epoch(1))
    rig.gate.cancel(Epoch(1))
    assert rig.run((1, "1b"), (1, 1), (1, "1c")) == [-1, "1b", "1c"]
    assert rig.run((1, 2), (0, 2)) == [(2, "overtook")]
    assert rig.complete == {2: {}}
    other = Rig(2)
    assert other.run((0, 1), (1, -1), (1, "1a")) == [(1, "overtook"), -1, "1a"]


def test_a_newer_barrier_gives_the_recording_up() -> None:
    rig = Rig(2)
    assert rig.run((0, 1), (0, 2)) == [(1, "overtook"), -1, (2, "overtook")]
    assert rig.run((1, "1a"), (1, 1), (1, 2)) == ["1a"]
    assert rig.complete == {2: {1: ["1a"]}}
    late = Rig(2)
    assert late.run((0, 1), (1, 2.5), (1, "1a")) == [(1, "overtook"), -1], "channel 1 skips snapshot 1"
    assert late.run((0, 2.5)) == [2, "1a"]


def test_an_aligned_savepoint_behind_leaves_the_recording_alone() -> None:
    rig = Rig(2)
    assert rig.run((0, 1), (0, 2.5), (0, "0b"), (1, "1a")) == [(1, "overtook"), "1a"]
    assert rig.run((1, 1), (1, "1b"), (1, 2.5)) == ["1b", 2, "0b"]
    assert rig.complete == {1: {1: ["1a"]}}


def test_older_snapshots_that_are_overtaken_are_given_up() -> None:
    rig = Rig(2)
    assert rig.run((0, 1.5), (0, "0a")) == []
    assert rig.run((1, 2), (1, "1a")) == [-1, (2, "overtook"), "0a", "1a"]
    queued = Rig(1)
    assert queued.run((0, "0a"), (0, 1.5), (0, 2)) == [-1, (2, "overtook"), "0a"]


def test_a_trigger_is_enough_where_no_barrier_can_come() -> None:
    """All senders have finished; what they sent last is queued and would keep the snapshot waiting."""
    rig = Rig(2)
    rig.send(0, "0a")
    rig.send(0, END)
    rig.gate.expect(Barrier(Epoch(1), unaligned=True))
    assert not rig.overtaken
    assert rig.run((1, "1a"), (1, END)) == [(1, "overtook"), "0a", "1a", END]
    assert rig.complete == {1: {0: ["0a"], 1: ["1a"]}}


def test_a_savepoint_behind_it_does_not_make_the_gate_forget_the_checkpoint_it_expects() -> None:
    rig = Rig(2)
    rig.send(0, "0a")
    rig.send(0, END)
    rig.gate.expect(Barrier(Epoch(1), unaligned=True))
    rig.gate.expect(Barrier(Epoch(2), SnapshotKind.SAVEPOINT))
    assert rig.run((1, "1a"), (1, END)) == [(1, "overtook"), "0a", "1a", END]
    assert rig.complete == {1: {0: ["0a"], 1: ["1a"]}}


def test_the_time_of_a_recording_is_measured() -> None:
    rig = Rig(2)
    rig.send(0, 1)
    assert isinstance(rig.gate.poll_snapshot(), BarrierReady)
    rig.clock.advance(40)
    rig.send(1, 1)
    event = rig.gate.poll_snapshot()
    assert isinstance(event, OvertakenComplete) and event.alignment_ms == pytest.approx(40)


def test_recording_is_bounded_when_a_barrier_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.exchange.channel_state.MAX_LATER_BYTES", 2_000)
    rig = Rig(2)
    rig.run((1, "queued at the cut"), (0, 1))
    for number in range(100):
        rig.run((1, f"{number:0100d}"))
    kept = rig.overtaken[1]
    assert sum(map(len, kept._entries.values())) == 0, "nothing is held once it is too much"
    assert len(rig.seen) == 102, "the task was given everything all the same"
    with pytest.raises(SnapshotError, match="ahead of a barrier"):
        kept.channels()
    rig.overtaken.clear()
    rig.run((1, -1), (1, "queued"), (0, 2), (1, "ahead"), (1, 2))
    assert rig.complete[2][1] == ["queued", "ahead"], "the next one is not touched by it"


def test_stored_columns_that_point_elsewhere_are_refused() -> None:
    """Whoever can change a snapshot could have this process read its memory, or end it."""
    offsets = pa.py_buffer(struct.pack("<4i", 0, 1 << 30, 2, 3))
    texts = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"abc"))
    stored = b"".join(encode([Batch(columns=pa.record_batch([texts], ["text"]))]))
    with pytest.raises((SnapshotError, TransportError), match="offset"):
        decode(stored)
