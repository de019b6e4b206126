"""A subtask's part of a snapshot: the ladder.

1. ``prepare``   operators may still emit; sinks flush and hand out committables
2. ``forward``   the barrier goes out on all outputs
3. ``freeze``    state is frozen, without copying; records flow on from here
4. ``write``     files are written in the background
5. ``ack``       handles go to the coordinator, frozen layers are released

Rungs 1 to 3 run on the task's thread in one go, so no record slips in between.  A failure on rung 4
declines the snapshot; a failure on rungs 1 to 3 fails the task.

Committables are handed on with every acknowledgement until a snapshot that holds them is published: a
snapshot that is given up must not take prepared output with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from penstock.core.handles import (
    Blob,
    Committable,
    KeyedHandle,
    OperatorSnapshot,
    SubtaskSnapshot,
)
from penstock.core.ids import Epoch, OperatorId, Subtask
from penstock.core.messages import SnapshotAck, SnapshotDeclined
from penstock.core.pickling import dumps
from penstock.operators.chain import OperatorInput
from penstock.state.chunks import FrozenChunks
from penstock.state.files import write_blocks
from penstock.state.operator_state import ListSnapshot
from penstock.state.table import Frozen
from penstock.task.environment import TaskEnvironment


@dataclass(frozen=True, slots=True)
class FrozenOperator:
    """Rung 3's result for one operator."""

    operator_id: OperatorId
    keyed: list[Frozen | FrozenChunks]
    lists: dict[str, ListSnapshot]


class SnapshotLadder:
    """Takes snapshots of one subtask's operators."""

    def __init__(
        self,
        subtask: Subtask,
        operators: list[tuple[OperatorId, OperatorInput]],
        key_groups: tuple[int, int],
        max_parallelism: int,
        environment: TaskEnvironment,
    ) -> None:
        self._subtask = subtask
        self._operators = operators
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._env = environment
        self._aborted: set[Epoch] = set()
        self._writing: set[Epoch] = set()
        self._prepared: list[Committable] = []

    def take(self, epoch: Epoch, forward: Callable[[], None], finished: bool, alignment_ms: float) -> None:
        """Climb rungs 1 to 3 now and start rung 4."""
        started = self._env.clock.monotonic()
        committables = self._prepare(epoch)
        forward()
        frozen = self._freeze()
        sync_ms = (self._env.clock.monotonic() - started) * 1000
        self._writing.add(epoch)
        written_from = self._env.clock.monotonic()

        def done(result: SubtaskSnapshot | None, error: Exception | None) -> None:
            self._writing.discard(epoch)
            for operator in frozen:
                for part in operator.keyed:
                    part.release()
            if epoch not in self._aborted:
                async_ms = (self._env.clock.monotonic() - written_from) * 1000
                self._ack(epoch, result, error, committables, sync_ms, async_ms, alignment_ms)

        self._env.background.submit(lambda: self._write(epoch, frozen, finished), done)

    def abort(self, epoch: Epoch) -> None:
        """The coordinator gave the snapshot up: its result will not be reported.

        The frozen layers stay until the writer is through with them.
        """
        self._aborted = {other for other in self._aborted if other in self._writing}
        if epoch in self._writing:
            self._aborted.add(epoch)

    def completed(self, epoch: Epoch) -> None:
        """The snapshot was published, and with it everything prepared up to then."""
        self._prepared = [item for item in self._prepared if item.epoch > epoch]

    def _prepare(self, epoch: Epoch) -> tuple[Committable, ...]:
        for operator_id, step in self._operators:
            step.run(partial(step.operator.prepare_barrier, epoch))
            for committable in step.operator.committables(epoch):
                payload = dumps(committable)
                self._prepared.append(Committable(operator_id, epoch, self._subtask.index, payload))
        return tuple(self._prepared)

    def _freeze(self) -> list[FrozenOperator]:
        return [
            FrozenOperator(operator_id, ctx.keyed.freeze(), ctx.operator_state.snapshot())
            for operator_id, ctx in ((name, step.operator.ctx) for name, step in self._operators)
        ]

    def _write(self, epoch: Epoch, frozen: list[FrozenOperator], finished: bool) -> SubtaskSnapshot:
        """Rung 4, on the background thread: everything of this subtask into one file, or inline."""
        path = f"chk-{epoch}/{self._subtask.vertex}-{self._subtask.index}-{self._env.generation}.state"
        writer = _SegmentWriter(path, self._env)
        segments: list[tuple[OperatorId, _Segment, bool, _Segment | None]] = []
        chunks = self._segments(frozen, writer, segments)
        in_file = writer.run(chunks)
        operators = []
        for operator_id, keyed, pickled, lists in segments:
            handles: tuple[KeyedHandle, ...] = ()
            if keyed.length:
                handles = (KeyedHandle(writer.blob(keyed, in_file), self._key_groups, pickled),)
            blob = None if lists is None else writer.blob(lists, in_file)
            if handles or blob is not None:
                operators.append(OperatorSnapshot(operator_id, handles, blob))
        return SubtaskSnapshot(self._subtask, tuple(operators), finished)

    def _segments(
        self,
        frozen: list[FrozenOperator],
        writer: _SegmentWriter,
        segments: list[tuple[OperatorId, _Segment, bool, _Segment | None]],
    ) -> Iterator[bytes]:
        """All bytes in order, noting on the way where each operator's segments lie."""
        for operator in frozen:
            keyed = writer.begin()
            pickled = False
            for block, opaque in write_blocks(operator.keyed, self._max_parallelism):
                pickled = pickled or opaque
                yield keyed.add(block)
            writer.end(keyed)
            lists = None
            if operator.lists:
                plain = {name: (state.mode.value, state.items) for name, state in operator.lists.items()}
                lists = writer.begin()
                yield lists.add(dumps(plain))
                writer.end(lists)
            segments.append((operator.operator_id, keyed, pickled, lists))

    def _ack(
        self,
        epoch: Epoch,
        snapshot: SubtaskSnapshot | None,
        error: Exception | None,
        committables: tuple[Committable, ...],
        sync_ms: float,
        async_ms: float,
        alignment_ms: float,
    ) -> None:
        if snapshot is None:
            reason = f"writing state failed: {error}"
            self._env.report(SnapshotDeclined(epoch, self._subtask, reason))
            return
        size = sum(
            sum(handle.blob.length for handle in operator.keyed)
            + (operator.lists.length if operator.lists else 0)
            for operator in snapshot.operators
        )
        self._env.report(SnapshotAck(epoch, snapshot, committables, sync_ms, async_ms, alignment_ms, size))


class _Segment:
    """A range of the subtask's file, with its own checksum."""

    __slots__ = ("_hash", "checksum", "length", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.length = 0
        self.checksum = ""
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, data: bytes) -> bytes:
        self._hash.update(data)
        self.length += len(data)
        return data

    def close(self) -> None:
        self.checksum = self._hash.hexdigest()


class _SegmentWriter:
    """Gathers segments; small totals stay in memory, larger ones stream into a file."""

    def __init__(self, path: str, environment: TaskEnvironment) -> None:
        self._path = path
        self._env = environment
        self._offset = 0
        self._small = b""

    def begin(self) -> _Segment:
        return _Segment(self._offset)

    def end(self, segment: _Segment) -> None:
        segment.close()
        self._offset += segment.length

    def run(self, chunks: Iterator[bytes]) -> bool:
        """Consume all chunks; true if they went to a file."""
        held: list[bytes] = []
        size = 0
        for chunk in chunks:
            held.append(chunk)
            size += len(chunk)
            if size > self._env.storage.inline_limit:
                self._env.storage.write_file(self._path, _then(held, chunks))
                return True
        self._small = b"".join(held)
        return False

    def blob(self, segment: _Segment, in_file: bool) -> Blob:
        if in_file:
            return Blob(segment.length, segment.checksum, self._path, segment.offset)
        data = self._small[segment.offset : segment.offset + segment.length]
        return Blob(segment.length, segment.checksum, inline=data)


def _then(first: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from first
    yield from rest
