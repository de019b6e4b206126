"""Sorted runs in a file, for a merge that cannot hold all that is open in memory.

A run is written once, in blocks, and read once, block by block.  The blocks of all runs come back in the
order of their first records, as pieces do.  The file has no name: it is gone with the task, however that
ends.  What was read is not reclaimed before.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.batch.pieces import Piece, Spot, body_of, piece_of
from penstock.storage.work_place import scratch_file


class _Block(NamedTuple):
    first: Spot
    input_index: int
    offset: int
    size: int


class Spill:
    """Runs that wait; false when there is nothing in it."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._file = scratch_file()
        self._end = 0
        self._runs: list[tuple[Spot, int, deque[_Block]]] = []
        """A heap, by the first record of the next block; the number is different for each run."""
        self._written = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def first(self) -> Spot:
        """Where the first of all records stands."""
        return self._runs[0][0]

    def write(self, run: Piece) -> None:
        """One more run."""
        rows = max(1, self._block_bytes // run.row_bytes)
        blocks: deque[_Block] = deque()
        self._file.seek(self._end)
        for start in range(0, len(run), rows):
            block = run.slice(start, min(start + rows, len(run)))
            body = body_of(block.parts, block.times, block.batch, block.places)
            self._file.write(body)
            blocks.append(_Block(block.first, run.input_index, self._end, len(body)))
            self._end += len(body)
        self._written += 1
        heappush(self._runs, (blocks[0].first, self._written, blocks))

    def pop(self) -> Piece:
        """The block with the first of all records."""
        _, number, blocks = heappop(self._runs)
        block = blocks.popleft()
        if blocks:
            heappush(self._runs, (blocks[0].first, number, blocks))
        self._file.seek(block.offset)
        return piece_of(self._file.read(block.size), block.input_index, 0)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
