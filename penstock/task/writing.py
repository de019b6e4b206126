"""Phase 4 of a snapshot: a subtask's frozen state as one file, or inline in the acknowledgement.

Files of a backend that outlive one snapshot are stored beside it, once (``state/backend.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from penstock.core.documents import dump
from penstock.core.errors import naming
from penstock.core.handles import (
    Blob,
    ChannelHandle,
    KeyedHandle,
    KeyedPiece,
    NativeHandle,
    OperatorSnapshot,
    SubtaskSnapshot,
)
from penstock.core.ids import ChannelId, EdgeId, OperatorId, Subtask
from penstock.core.key_kinds import Kind
from penstock.core.pickling import stored
from penstock.core.signals import Barrier
from penstock.exchange.channel_state import Overtaken, encode
from penstock.state.backend import FrozenFiles, FrozenPart
from penstock.state.files import write_blocks
from penstock.state.operator_state import ListSnapshot
from penstock.task.environment import StateStorage, TaskEnvironment


@dataclass(frozen=True, slots=True)
class FrozenOperator:
    """Phase 3's result for one operator."""

    operator_id: OperatorId
    step: str
    keyed: list[FrozenPart]
    lists: dict[str, ListSnapshot]
    key_kinds: tuple[Kind, ...] = ()


@dataclass(slots=True)
class _NativeFiles:
    """Where a backend's files went."""

    frozen: FrozenFiles
    shared: dict[str, Blob]
    written: int
    segments: dict[str, _Segment] = field(default_factory=dict)


@dataclass(slots=True)
class _OperatorSegments:
    """Where one operator's state lies in the file being written."""

    operator_id: OperatorId
    blocks: _Segment
    key_kinds: tuple[Kind, ...]
    pickled: bool = False
    lists: _Segment | None = None
    native: list[_NativeFiles] = field(default_factory=list)


class StateWriter:
    """Writes what one subtask has frozen. Called on the background thread."""

    def __init__(
        self,
        subtask: Subtask,
        key_groups: tuple[int, int],
        max_parallelism: int,
        environment: TaskEnvironment,
        edge_name: Callable[[EdgeId], str],
    ) -> None:
        self._subtask = subtask
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._env = environment
        self._edge_name = edge_name

    def write(
        self,
        barrier: Barrier,
        frozen: list[FrozenOperator],
        finished: bool,
        overtaken: Overtaken | None = None,
    ) -> SubtaskSnapshot:
        """Phase 4, on the background thread: everything of this subtask into one file, or inline."""
        name = f"{self._subtask.vertex}-{self._subtask.index}-{self._env.generation}.state"
        if barrier.location is None:
            writer = _SegmentWriter(f"chk-{barrier.epoch}/{name}", self._env.storage)
        else:
            writer = _SegmentWriter(name, self._env.open_storage(barrier.location))
        segments: list[_OperatorSegments] = []
        channels: list[tuple[ChannelId, _Segment]] = []
        records = self._channel_segments(overtaken, writer, channels)
        in_file = writer.run(chain(self._segments(frozen, writer, segments), records))
        operators = [self._operator_snapshot(found, writer, in_file) for found in segments]
        in_flight = tuple(
            ChannelHandle(self._edge_name(channel.edge), channel.sender, channel.receiver, blob)
            for channel, blob in ((channel, writer.blob(segment, in_file)) for channel, segment in channels)
        )
        kept = tuple(
            operator
            for operator in operators
            if operator.keyed or operator.lists is not None or operator.key_kinds
        )
        written = writer.length + sum(native.written for found in segments for native in found.native)
        snapshot = SubtaskSnapshot(self._subtask, kept, finished, in_flight, written)
        if self._env.backup is not None and barrier.location is None:
            self._env.backup.taken(barrier.epoch, snapshot)
        return snapshot

    def _operator_snapshot(
        self, found: _OperatorSegments, writer: _SegmentWriter, in_file: bool
    ) -> OperatorSnapshot:
        handles: list[KeyedPiece] = []
        for native in found.native:
            small = {name: writer.blob(segment, in_file) for name, segment in native.segments.items()}
            files = tuple(sorted({**native.shared, **small}.items()))
            frozen = native.frozen
            handles.append(NativeHandle(frozen.backend, files, self._key_groups, frozen.pickled))
        if found.blocks.length:
            blob = writer.blob(found.blocks, in_file)
            handles.append(KeyedHandle(blob, self._key_groups, found.pickled))
        lists = None if found.lists is None else writer.blob(found.lists, in_file)
        return OperatorSnapshot(found.operator_id, tuple(handles), lists, found.key_kinds)

    def _channel_segments(
        self,
        overtaken: Overtaken | None,
        writer: _SegmentWriter,
        segments: list[tuple[ChannelId, _Segment]],
    ) -> Iterator[bytes]:
        """The same for what the barrier overtook on the way in."""
        for channel, entries in () if overtaken is None else overtaken.channels():
            segment = writer.begin()
            for block in encode(entries):
                yield segment.add(block)
            writer.end(segment)
            segments.append((channel, segment))

    def _segments(
        self,
        frozen: list[FrozenOperator],
        writer: _SegmentWriter,
        segments: list[_OperatorSegments],
    ) -> Iterator[bytes]:
        """All bytes in order, noting on the way where each operator's segments lie."""
        for operator in frozen:
            yield from self._operator_segments(operator, writer, segments)

    def _operator_segments(
        self, operator: FrozenOperator, writer: _SegmentWriter, segments: list[_OperatorSegments]
    ) -> Iterator[bytes]:
        with naming(f"step {operator.step!r}"):
            found = _OperatorSegments(operator.operator_id, writer.begin(), operator.key_kinds)
            in_blocks = [part for part in operator.keyed if not isinstance(part, FrozenFiles)]
            for block, opaque in write_blocks(in_blocks, self._max_parallelism, self._key_groups):
                found.pickled = found.pickled or opaque
                yield found.blocks.add(block)
            writer.end(found.blocks)
            for part in operator.keyed:
                if isinstance(part, FrozenFiles):
                    native = _NativeFiles(part, *part.upload(self._env.storage))
                    found.native.append(native)
                    yield from _small_segments(native, writer)
            if operator.lists:
                plain = {name: (state.mode.value, state.items) for name, state in operator.lists.items()}
                found.lists = writer.begin()
                yield found.lists.add(stored(plain, f"operator state {', '.join(map(repr, plain))}", dump))
                writer.end(found.lists)
            segments.append(found)


def _small_segments(native: _NativeFiles, writer: _SegmentWriter) -> Iterator[bytes]:
    for name, data in sorted(native.frozen.small_files().items()):
        segment = native.segments[name] = writer.begin()
        yield segment.add(data)
        writer.end(segment)


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

    def __init__(self, path: str, storage: StateStorage) -> None:
        self._path = path
        self._storage = storage
        self._offset = 0
        self._small = b""

    @property
    def length(self) -> int:
        """Bytes of all segments so far."""
        return self._offset

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
            if size > self._storage.inline_limit:
                self._storage.write_file(self._path, _then(held, chunks))
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
