"""What an unaligned barrier overtook on its way into a task, and its bytes in a snapshot.

Only records are kept.  Watermarks and idleness are no part of a snapshot (``docs/design/009-unaligned.md``).

Bytes of one channel: the frames it has on the wire (``frames.py``, ``codec.py``), one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.core.batch import Batch
from penstock.core.errors import CorruptSnapshotError, SnapshotError, TransportError
from penstock.core.ids import ChannelId, EdgeId, SubtaskIndex
from penstock.core.signals import Barrier
from penstock.core.unpickling import loads_stored
from penstock.exchange.codec import ChannelDecoder, ChannelEncoder
from penstock.exchange.frames import HEADER, Buffer, Frame, FrameKind

_NOWHERE = ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(0))

Entry = Batch | bytes
"""A batch of columns, or frames of rows that are encoded already."""

MAX_LATER_BYTES = 256 << 20
"""What may be recorded behind the cut, of all channels of a task.  What was queued then is bounded by the
channels' credit; what comes later is bounded by nothing if a barrier is held up while records flow."""


class Overtaken:
    """The records that one barrier overtook, by channel; grows until the last barrier is there.

    Columns never change, so they are kept as they are and encoded by whoever writes them.  Rows are Python
    objects that the user's code may change once it gets them: they are encoded before that, in
    :meth:`seal` for what was queued, and at once for what arrives later.
    """

    def __init__(self, barrier: Barrier, missing: Iterable[int]) -> None:
        self.barrier = barrier
        self.missing = set(missing)
        """Channels whose barrier has not come yet."""
        self.error: Exception | None = None
        """Why not everything was recorded; the snapshot is then declined."""
        self._entries: dict[ChannelId, list[Entry]] = {}
        self._sealed = False
        self._later_bytes = 0

    @property
    def complete(self) -> bool:
        """Whether all barriers are there."""
        return not self.missing

    def add(self, channel: ChannelId, batch: Batch) -> None:
        """Keep a batch that the barrier has overtaken."""
        if self.error is not None:
            return
        entry = self._frozen(batch) if self._sealed else batch
        self._entries.setdefault(channel, []).append(entry)
        if self._sealed:
            self._later_bytes += entry.nbytes() if isinstance(entry, Batch) else len(entry)
            if self._later_bytes > MAX_LATER_BYTES:
                self._fail(_too_much())

    def seal(self) -> None:
        """Encode all rows. Call it before the task is given any of them."""
        self._sealed = True
        for entries in self._entries.values():
            entries[:] = [self._frozen(entry) if isinstance(entry, Batch) else entry for entry in entries]

    def _frozen(self, batch: Batch) -> Entry:
        if batch.is_columnar or self.error is not None:
            return batch
        try:
            return b"".join(encode([batch]))
        except Exception as error:
            self._fail(error)
            return batch

    def _fail(self, error: Exception) -> None:
        """Nothing that was recorded will be used: let it go."""
        self.error = error
        self._entries = {}

    def channels(self) -> list[tuple[ChannelId, list[Entry]]]:
        """What was overtaken, in order of channels; raises what went wrong while it was recorded."""
        if self.error is not None:
            raise self.error
        return sorted(self._entries.items())


class _Frames:
    """Gathers frames as bytes. Stands where a socket would."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def queue(self, kind: FrameKind, a: int, b: int, c: int, d: int, *payload: Buffer) -> int:
        """Add a frame; its payload's size."""
        body = b"".join(payload)
        self._parts += (HEADER.pack(len(body), kind, a, b, c, d), body)
        return len(body)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _too_much() -> SnapshotError:
    return SnapshotError(
        f"more than {MAX_LATER_BYTES >> 20} MB of records came in ahead of a barrier that is held up in an "
        "earlier step, and an unaligned checkpoint keeps them in memory; find out why that step is slow (its "
        "inputs may be of a kind that stays aligned), or lower execution.checkpointing.timeout"
    )


def encode(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The bytes of one channel."""
    frames = _Frames()
    encoder = ChannelEncoder(_NOWHERE, frames)
    for entry in entries:
        if isinstance(entry, Batch):
            encoder.encode(entry)
            yield frames.take()
        else:
            yield entry


def decode(data: bytes) -> list[Batch]:
    """The batches of one channel, in order."""
    decoder = ChannelDecoder(loads_stored)
    batches: list[Batch] = []
    at = 0
    while at < len(data):
        try:
            element, at = _next(decoder, data, at)
        except (TransportError, ValueError) as error:
            raise CorruptSnapshotError(
                f"records in flight cannot be read from a snapshot: {error}"
            ) from error
        if element is not None:
            batches.append(element)
    return batches


def _next(decoder: ChannelDecoder, data: bytes, at: int) -> tuple[Batch | None, int]:
    start = at + HEADER.size
    if start > len(data):
        raise ValueError("the bytes end inside a frame")
    size, kind, a, b, c, d = HEADER.unpack_from(data, at)
    if start + size > len(data):
        raise ValueError("the bytes end inside a frame")
    element = decoder.decode(Frame(FrameKind(kind), a, b, c, d, data[start : start + size]))
    if element is not None and not isinstance(element, Batch):
        raise ValueError("a signal stands among the records")
    return element, start + size
