"""Planted bugs of unaligned checkpoints: each must be found within a number of seeds."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

import penstock.task.build
from penstock.core.signals import Barrier
from penstock.exchange.channel import ALL
from penstock.exchange.channel_state import Overtaken
from penstock.exchange.dealing import Dealing
from penstock.exchange.events import Data
from penstock.exchange.gate import InputGate
from penstock.exchange.outputs import OutputEdge


def forget_queued_output(patch: Patch) -> None:
    """The barrier goes out ahead of what is buffered for its channel, and nobody writes that down."""
    original = OutputEdge.broadcast

    def broadcast(self: OutputEdge, signal: Any) -> None:
        if not isinstance(signal, Barrier):
            original(self, signal)
            return
        for buffer in self._buffers.values():
            buffer.sender.send(signal)

    patch.setattr(OutputEdge, "broadcast", broadcast)


def forget_queued_input(patch: Patch) -> None:
    """Only what arrives behind the first barrier is recorded, not what was queued."""
    original = InputGate._record_queued

    def record(self: InputGate, overtaken: Overtaken, number: int) -> Any:
        class Deaf(Overtaken):
            def add(self, channel: Any, batch: Any) -> None:
                pass

        deaf = Deaf(overtaken.barrier, overtaken.missing)
        found = original(self, deaf, number)
        overtaken.missing = deaf.missing
        if number in overtaken.missing:
            channel = self._channels[number]
            channel.tap = lambda batch: overtaken.add(channel.id, batch)
        return found

    patch.setattr(InputGate, "_record_queued", record)


def forget_what_arrives(patch: Patch) -> None:
    """Only what was queued is recorded, not what still arrives ahead of a barrier."""
    original = InputGate._record_queued

    def record(self: InputGate, overtaken: Overtaken, number: int) -> Any:
        found = original(self, overtaken, number)
        self._channels[number].tap = None
        return found

    patch.setattr(InputGate, "_record_queued", record)


def record_behind_the_barrier(patch: Patch) -> None:
    """A channel goes on being recorded when its barrier has come."""
    original = InputGate._on_barrier_in

    def on_barrier_in(self: InputGate, number: int) -> None:
        tap = self._channels[number].tap
        original(self, number)
        if self._recording is not None:
            self._channels[number].tap = tap

    patch.setattr(InputGate, "_on_barrier_in", on_barrier_in)


def replay_after_new_data(patch: Patch) -> None:
    """What a restored snapshot recorded is served when there is nothing else."""
    original = InputGate.poll

    def poll(self: InputGate, most: int = ALL) -> Any:
        waiting, self._recovered = self._recovered, deque()
        try:
            event = original(self, most)
        finally:
            self._recovered = waiting
        if event is None and waiting:
            number, batch = waiting.popleft()
            return Data(batch, self._input_of[number])
        return event

    patch.setattr(InputGate, "poll", poll)


def no_rerouting(patch: Patch) -> None:
    """At another parallelism records go to the receiver with the old number, not to their key's."""
    original = penstock.task.build.recovered

    def by_number(plan: Any, vertex: Any, index: Any, channels: Any, handles: Any, storage: Any) -> Any:
        for handle in handles:
            if handle.receiver % vertex.parallelism == index:
                yield from original(plan, vertex, index, channels, [handle], storage)

    patch.setattr(penstock.task.build, "recovered", by_number)


def pour_over(patch: Patch) -> None:
    """Where records are dealt by room to several, the last of them is left out."""
    original = Dealing._poured

    def poured(self: Dealing, batch: Any, *how: Any) -> Any:
        shares = list(original(self, batch, *how))
        return shares[:-1] or shares

    patch.setattr(Dealing, "_poured", poured)


MUTATIONS: dict[str, Planted] = {
    "forget queued output": Planted(forget_queued_output, "unaligned_chain", 3),
    "forget queued input": Planted(forget_queued_input, "unaligned_chain", 8),
    "forget what arrives": Planted(forget_what_arrives, "unaligned_inputs", 9),
    "record behind the barrier": Planted(record_behind_the_barrier, "unaligned_timeout", 8),
    "replay after new data": Planted(replay_after_new_data, "unaligned_chain", 16),
    "pour over": Planted(pour_over, "unaligned_limping"),
    "no rerouting of records in flight": Planted(no_rerouting, "unaligned_window", 91),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
