"""Sorted runs in a file, for a merge that cannot hold all that is open in memory.

A run is written once, in blocks, and read once, block by block.  The blocks of all runs come back in the
order of their first records, as pieces do.  The file has no name: it is gone with the task, however that
ends.  What was read is not reclaimed before.  Where it cannot be made or has no room, the task fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.batch.pieces import Piece, Spot, body_of, piece_of
from penstock.core.errors import ConfigError
from penstock.storage.work_place import default_base, scratch_file


class _Block(NamedTuple):
    first: Spot
    input_index: int
    offset: int
    size: int


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{default_base()} cannot hold the records that wait to be sorted in BATCH mode "
            f"({error.strerror or error}); make room there, or name a larger directory with spark.local.dir"
        ) from error


class Spill:
    """Runs that wait; false when there is nothing in it."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        with _explained():
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
        with _explained():
            self._file.seek(self._end)
            blocks = deque(
                self._write_block(run.slice(start, min(start + rows, len(run))))
                for start in range(0, len(run), rows)
            )
            self._file.flush()
        self._written += 1
        heappush(self._runs, (blocks[0].first, self._written, blocks))

    def _write_block(self, block: Piece) -> _Block:
        body = body_of(block.parts, block.times, block.batch, block.places)
        self._file.write(body)
        start = self._end
        self._end += len(body)
        return _Block(block.first, block.input_index, start, len(body))

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
