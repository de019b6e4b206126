"""Dealing records by room: who works faster gets more, and a slow receiver does not slow the others.

While no receiver has more than a little waiting for it, records are dealt in turn, so small inputs and light
load are spread evenly.  Once one has, each batch is poured where it will be done soonest: what waits for a
receiver, divided by how fast it has been, is brought to the same level for all.

How fast is seen from credits alone, never from a clock: while the fastest took so many bytes, how many did
the others take?  One that ran dry may be faster than it could show, and is believed to be a little faster.
How much may wait grows from little with what was taken, up to the channel's bound, so that before anything
is known not much lies where it will stay long.  Design note 046.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from penstock.core.batch import Batch
from penstock.core.sizing import SEGMENT_BYTES
from penstock.exchange.channel import Sender, piece_bytes
from penstock.exchange.partition import Routed, Router

_SLOWEST = 1 / 64
"""Nobody counts as slower than this share of the fastest."""
_RISE = 1.25
"""How many times faster than before somebody is believed to be at most."""
_FIRST_REACH = 2 * SEGMENT_BYTES
"""What may wait for the fastest in the beginning."""
_ROUNDING = 1e-6
"""What sums of fractions may be off by."""


class Gathering(Protocol):
    """What is gathered for one receiver: an output's buffer."""

    sender: Sender
    size: int
    enough_rows: int
    enough_bytes: int


class _Lane:
    """The way to one receiver."""

    __slots__ = ("_lately", "_mark", "_most_rows", "buffer", "cap", "speed", "target")

    def __init__(self, target: int, buffer: Gathering) -> None:
        self.target = target
        self.buffer = buffer
        self._most_rows = buffer.enough_rows
        self.speed = 1.0
        """As a share of the fastest."""
        self.cap = 0
        """Bytes that may be on their way."""
        self._lately = float(_FIRST_REACH)
        self._mark = 0

    def level(self) -> int:
        """Bytes that wait for the receiver, here and there."""
        return self.buffer.size + self.buffer.sender.in_flight

    def took(self) -> int:
        """Bytes that the receiver has taken since the measuring began."""
        return self.buffer.sender.taken_bytes - self._mark

    def remember(self) -> float:
        """Begin to measure anew; what was taken of late, where older counts less."""
        self._lately = self._lately / 2 + self.took()
        self._mark = self.buffer.sender.taken_bytes
        return self._lately

    def learn(self, most: float, reach: int) -> None:
        """The fastest took ``most`` of late and may have ``reach`` waiting."""
        shown = self._lately / most
        if not self.level():
            shown = max(shown, _RISE * self.speed)
        self.speed = min(1.0, max(_SLOWEST, shown))
        self.cap = max(int(self.speed * reach), min(reach, SEGMENT_BYTES))
        self.buffer.enough_bytes = piece_bytes(self.cap)
        self.buffer.enough_rows = max(1, int(self.speed * self._most_rows))


class Dealing:
    """Deals the batches of one output over the receivers that they may go to."""

    def __init__(self, in_turn: Router, buffers: Mapping[int, Gathering], limit: int) -> None:
        self._in_turn = in_turn
        self._limit = limit
        self._reach = min(limit, _FIRST_REACH)
        self._little = min(limit // 2, SEGMENT_BYTES)
        self._lanes = [_Lane(target, buffer) for target, buffer in buffers.items()]
        self._turn = 0
        self._learn()

    def writable(self) -> bool:
        """Whether anybody has room."""
        return any([lane.buffer.sender.in_flight < lane.cap for lane in self._lanes])

    def route(self, batch: Batch) -> Routed:
        """Pairs of receiver and its share of the batch."""
        if max([lane.took() for lane in self._lanes]) >= self._reach:
            self._reach = min(self._limit, 2 * self._reach)
            self._learn()
        levels = [lane.level() for lane in self._lanes]
        each = max(1.0, batch.about_bytes() / len(batch))
        if max(levels) + each * len(batch) / len(levels) <= self._little:
            return self._in_turn.route(batch)
        return self._poured(batch, levels, each)

    def _learn(self) -> None:
        most = max([lane.remember() for lane in self._lanes])
        for lane in self._lanes:
            lane.learn(most, self._reach)

    def _poured(self, batch: Batch, levels: list[int], each: float) -> Routed:
        """Shares that bring all receivers to the same level, of those that are not above it."""
        lanes, count, rows = self._lanes, len(self._lanes), len(batch)
        heights = [level / lane.speed for level, lane in zip(levels, lanes, strict=True)]
        lowest = sorted(range(count), key=lambda n: (heights[n], (n - self._turn) % count))
        self._turn = (self._turn + rows) % count
        volume, width, rank = each * rows, 0.0, 0
        for rank, n in enumerate(lowest, 1):
            volume, width = volume + levels[n], width + lanes[n].speed
            if rank == count or volume <= width * heights[lowest[rank]]:
                break
        shares: list[tuple[int, Batch]] = []
        start, filled = 0, 0.0
        for n in lowest[:rank]:
            filled += (volume / width * lanes[n].speed - levels[n]) / each
            stop = rows if n == lowest[rank - 1] else min(rows, math.ceil(filled - _ROUNDING))
            if stop > start:
                shares.append((lanes[n].target, batch.slice(start, stop)))
                start = stop
        return shares
