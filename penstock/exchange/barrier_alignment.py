"""Barrier alignment: when a task may take its part of a snapshot.

Two policies with one interface.  :class:`ExactlyOnce` holds each channel from its barrier until the
barriers of all channels are there.  :class:`AtLeastOnce` holds nothing and only counts.

Rules common to both: the end of a channel counts as its barrier; a barrier of a newer epoch gives up
the older one that is still incomplete (exactly once); epochs at or below the last completed or given
up are stale and swallowed.  Giving up an epoch does not touch an older one that is still under way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from penstock.core.ids import Epoch
from penstock.core.signals import Barrier


@dataclass(frozen=True, slots=True)
class Alignment:
    """What a barrier, a cancellation or an end of channel led to."""

    complete: Barrier | None = None
    """All barriers are there: snapshot now, before any other element."""
    aborted: tuple[Epoch, ...] = ()
    """Epochs given up at this moment; they go on downstream as cancelled."""
    block: int | None = None
    """Channel to hold."""
    release: bool = False
    """Let all held channels go."""


NOTHING = Alignment()


class Aligner(ABC):
    """Collects barriers of the open channels of one task."""

    def __init__(self, channels: int) -> None:
        self._open = set(range(channels))
        self._done: Epoch = Epoch(0)
        self._cancelled: set[Epoch] = set()
        """Given up, while an older one may still be under way."""

    def is_stale(self, epoch: Epoch) -> bool:
        """Whether the snapshot is completed or given up: its barriers mean nothing any more."""
        return epoch <= self._done or epoch in self._cancelled

    def _finish(self, epoch: Epoch) -> None:
        """Everything up to ``epoch`` is completed or given up."""
        self._done = epoch
        self._cancelled = {other for other in self._cancelled if other > epoch}

    @abstractmethod
    def on_barrier(self, channel: int, barrier: Barrier) -> Alignment:
        """``barrier`` has arrived on ``channel``."""

    @abstractmethod
    def on_end(self, channel: int) -> Alignment:
        """``channel`` has ended."""

    @abstractmethod
    def on_cancel(self, epoch: Epoch) -> Alignment:
        """Snapshot ``epoch`` was given up, here or upstream."""

    @property
    def aligning(self) -> Epoch | None:
        """The epoch that channels are held for, if any."""
        return None

    def overtake(self, epoch: Epoch) -> None:
        """Snapshot ``epoch`` is taken without waiting: it and all before it are no longer aligned for."""
        self._finish(epoch)


@dataclass(slots=True)
class _Pending:
    barrier: Barrier
    missing: set[int] = field(default_factory=set)


class ExactlyOnce(Aligner):
    """Holds channels; one alignment at a time."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self._pending: _Pending | None = None

    @property
    def aligning(self) -> Epoch | None:
        return None if self._pending is None else self._pending.barrier.epoch

    def overtake(self, epoch: Epoch) -> None:
        super().overtake(epoch)
        self._pending = None

    def on_barrier(self, channel: int, barrier: Barrier) -> Alignment:
        if self.is_stale(barrier.epoch):
            return NOTHING
        aborted: tuple[Epoch, ...] = ()
        pending = self._pending
        if pending is not None and barrier.epoch < pending.barrier.epoch:
            return NOTHING
        if pending is None or barrier.epoch > pending.barrier.epoch:
            if pending is not None:
                aborted = (pending.barrier.epoch,)
                self._finish(pending.barrier.epoch)
            pending = self._pending = _Pending(barrier, set(self._open))
        pending.missing.discard(channel)
        if pending.missing:
            return Alignment(aborted=aborted, block=channel, release=bool(aborted))
        return self._complete(aborted)

    def on_end(self, channel: int) -> Alignment:
        self._open.discard(channel)
        if self._pending is None:
            return NOTHING
        self._pending.missing.discard(channel)
        return NOTHING if self._pending.missing else self._complete(())

    def on_cancel(self, epoch: Epoch) -> Alignment:
        if self.is_stale(epoch):
            return NOTHING
        current = self.aligning
        if current is not None and current > epoch:
            return NOTHING
        if current != epoch:
            self._cancelled.add(epoch)
            return Alignment(aborted=(epoch,))
        self._finish(epoch)
        self._pending = None
        return Alignment(aborted=(epoch,), release=True)

    def _complete(self, aborted: tuple[Epoch, ...]) -> Alignment:
        assert self._pending is not None
        barrier = self._pending.barrier
        self._pending = None
        self._finish(barrier.epoch)
        return Alignment(complete=barrier, aborted=aborted, release=True)


class AtLeastOnce(Aligner):
    """Counts barriers; several epochs may be incomplete at once."""

    TRACKED = 50
    """Older incomplete epochs beyond this many are given up."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self._pending: dict[Epoch, _Pending] = {}

    def on_barrier(self, channel: int, barrier: Barrier) -> Alignment:
        if self.is_stale(barrier.epoch):
            return NOTHING
        pending = self._pending.get(barrier.epoch)
        if pending is None:
            pending = self._pending[barrier.epoch] = _Pending(barrier, set(self._open))
        pending.missing.discard(channel)
        if not pending.missing:
            return self._complete(barrier.epoch)
        if len(self._pending) > self.TRACKED:
            oldest = min(self._pending)
            return self.on_cancel(oldest)
        return NOTHING

    def on_end(self, channel: int) -> Alignment:
        self._open.discard(channel)
        for pending in self._pending.values():
            pending.missing.discard(channel)
        finished = [epoch for epoch, pending in self._pending.items() if not pending.missing]
        return self._complete(max(finished)) if finished else NOTHING

    def on_cancel(self, epoch: Epoch) -> Alignment:
        if self.is_stale(epoch):
            return NOTHING
        self._pending.pop(epoch, None)
        self._cancelled.add(epoch)
        return Alignment(aborted=(epoch,))

    def _complete(self, epoch: Epoch) -> Alignment:
        barrier = self._pending[epoch].barrier
        older = tuple(sorted(other for other in self._pending if other < epoch))
        for other in (*older, epoch):
            del self._pending[other]
        self._finish(epoch)
        return Alignment(complete=barrier, aborted=older)
